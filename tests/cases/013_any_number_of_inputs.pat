## A list binds the remaining inputs in their order.
pattern turned(*xs) = Transpose(Concat(*xs))
rule last_is_kept: Identity(Concat(a, *xs, axis=k)) => Concat(a, *xs, axis=k)
test "one": Transpose(Concat(a: float32[2, 3], axis=0)) is turned
test "two": Transpose(Concat(a: float32[2, 3], b: float32[2, 3], axis=0)) is turned
test "five": Transpose(Concat(a: float32[2, 3], b: float32[2, 3], c: float32[2, 3], a, d: float32[1, 3], axis=0)) is turned
test "something else": Transpose(Sum(a: float32[2, 3], b: float32[2, 3])) is not turned
test "in order":
  Identity(Concat(a: float32[2], b: float32[2], c: float32[2], b, axis=0)) => Concat(a, b, c, b, axis=0)
test "first only": Identity(Concat(a: float32[2], axis=0)) => Concat(a, axis=0)
