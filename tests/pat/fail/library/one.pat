pattern shared(x) = Relu(Relu(x))
pattern unshared(x) = Relu(x)
