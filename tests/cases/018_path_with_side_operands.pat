## The operands beside a path are no part of it.
pattern path(x, w, *others) = Reshape(chain(conv, {Add, Mul, Relu}, most=3, others=others), _)
  where conv = Conv(x, const w)
test "a bias on the way":
  Reshape(Relu(Add(Conv(x: float32[1, 2, 4, 4], const w: float32[3, 2, 1, 1]), const b: float32[1, 3, 1, 1])), [1, 48])
  is path
test "a value on the way, exchanged":
  Reshape(Mul(v: float32[1, 3, 4, 4], Relu(Conv(x: float32[1, 2, 4, 4], const w: float32[3, 2, 1, 1]))), [1, 48])
  is path
test "nothing on the way": Reshape(Conv(x: float32[1, 2, 4, 4], const w: float32[3, 2, 1, 1]), [1, 48]) is not path
test "another operator on the way":
  Reshape(Relu(Softmax(Conv(x: float32[1, 2, 4, 4], const w: float32[3, 2, 1, 1]))), [1, 48]) is not path
test "four on the way":
  Reshape(Relu(Relu(Relu(Relu(Conv(x: float32[1, 2, 4, 4], const w: float32[3, 2, 1, 1]))))), [1, 48]) is not path
