#! 4:33: `y` is neither a parameter nor constant: the kernel could not be given it
#! 5:18: parameter `unused` is not used
target t on host {
  composite c(x) = Add(Relu(x), y)
  composite d(x, unused) = Relu(x)
}
