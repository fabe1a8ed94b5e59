#! 2:1: unknown declaration `tets`
tets "a": Relu(x: float32[1]) is p
pattern p(x) = Relu(x)
