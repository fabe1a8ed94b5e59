## An operand with attributes of its own stands on either side of a commutative operator.
pattern shifted(x) = Add(Softmax(x, axis=0), const _)
pattern nested(x) = Mul(Add(const _, Softmax(x, axis=0)), LeakyRelu(x, alpha=0.5))
test "left": Add(Softmax(x: float32[2, 3], axis=0), const c: float32[3]) is shifted
test "right": Add(const c: float32[3], Softmax(x: float32[2, 3], axis=0)) is shifted
test "another axis": Add(const c: float32[3], Softmax(x: float32[2, 3], axis=1)) is not shifted
test "nested, exchanged":
  Mul(LeakyRelu(x: float32[2, 3], alpha=0.5), Add(Softmax(x, axis=0), const c: float32[3])) is nested
test "nested, another slope":
  Mul(LeakyRelu(x: float32[2, 3], alpha=0.4), Add(Softmax(x, axis=0), const c: float32[3])) is not nested
