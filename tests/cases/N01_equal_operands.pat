## One name is one value; two names may be the same value.
pattern square(a) = Mul(a, a)
pattern product(a, b) = Mul(a, b)
test "two values": Mul(x: float32[4], y: float32[4]) is not square
test "one value": Mul(x: float32[4], x) is square
test "one value for two names": Mul(x: float32[4], x) is product
test "equal computations": Mul(Relu(x: float32[4]), Relu(x)) is square
test "equal constants": Mul(Relu(x: float32[4]), [1, 2, 3, 4]) is product
test "alike, of another input": Mul(Relu(x: float32[4]), Relu(y: float32[4])) is not square
