#! 3:1: expected `)`, found `pattern`
pattern p(x) = Relu(Sigmoid(x)
pattern q(x) = Relu(x)
test "q": Relu(x: float32[1]) is q
test "p": Relu(x: float32[1]) is p
