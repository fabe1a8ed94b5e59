## A rule that would merge values of different type or shape does not hold there.
rule no_squeeze: Squeeze(x, _) => x
rule no_cast: Cast(x) => x
rule no_expand: Expand(x, _) => x
test "a dimension less": place Squeeze(x: float32[4, 1], [1]) => Squeeze(x, [1]) on host
test "another dtype": place Cast(x: float32[4], to=10) => Cast(x, to=10) on host
test "the same dtype": Relu(Cast(x: float32[4], to=1)) => Relu(x)
test "larger": place Expand(x: float32[1, 4], [3, 4]) => Expand(x, [3, 4]) on host
test "the same size": Relu(Expand(x: float32[3, 4], [3, 4])) => Relu(x)
