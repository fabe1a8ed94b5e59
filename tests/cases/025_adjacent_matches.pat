## Matches that overlap do not leave one another behind.
rule once: Relu(Relu(x)) => Relu(x)
rule undo: Neg(Neg(x)) => x
test "three": place Relu(Relu(Relu(x: float32[4]))) => Relu(x) on host
test "seven": place Relu(Relu(Relu(Relu(Relu(Relu(Relu(x: float32[4]))))))) => Relu(x) on host
test "five signs": place Neg(Neg(Neg(Neg(Neg(x: float32[4]))))) => Neg(x) on host
test "four signs": place Abs(Neg(Neg(Neg(Neg(x: float32[4]))))) => Abs(x) on host
test "both rules": place Relu(Neg(Neg(Relu(x: float32[4])))) => Relu(x) on host
