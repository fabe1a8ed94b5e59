## A value that is read twice is compared at both places, however alike the operands look.
pattern gated(x) = Mul(r, Clip(r, _, _)) where r = Relu(x)
test "the clipped value has a sum in between":
  Mul(Relu(x: float32[4]), Clip(Add(Relu(x), const c: float32[4] = 1), 0, 6)) is not gated
test "the same value": Mul(Relu(x: float32[4]), Clip(Relu(x), 0, 6)) is gated
test "the same value, exchanged": Mul(Clip(Relu(x: float32[4]), 0, 6), Relu(x)) is gated
test "another input": Mul(Relu(x: float32[4]), Clip(Relu(y: float32[4]), 0, 6)) is not gated
test "the input itself": Mul(Relu(x: float32[4]), Clip(x, 0, 6)) is not gated
test "another operator": Mul(Abs(x: float32[4]), Clip(Relu(x), 0, 6)) is not gated
