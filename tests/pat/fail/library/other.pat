pattern shared(x) = Abs(Abs(x))
pattern unshared(x) = Relu(x)
