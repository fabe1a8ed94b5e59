## No more inputs than written, and no fewer.
pattern two(x, w) = Conv(x, w)
pattern three(x, w, b) = Conv(x, w, b)
pattern pair(a, b) = Max(a, b)
pattern at_least_one(a, *rest) = Max(a, *rest)
test "a bias": Conv(x: float32[1, 2, 4, 4], w: float32[2, 2, 1, 1], b: float32[2]) is not two
test "no bias": Conv(x: float32[1, 2, 4, 4], w: float32[2, 2, 1, 1]) is two
test "a bias is asked for": Conv(x: float32[1, 2, 4, 4], w: float32[2, 2, 1, 1]) is not three
test "a bias is there": Conv(x: float32[1, 2, 4, 4], w: float32[2, 2, 1, 1], b: float32[2]) is three
test "three of two": Max(a: float32[4], b: float32[4], c: float32[4]) is not pair
test "one of two": Max(a: float32[4]) is not pair
test "three of any": Max(a: float32[4], b: float32[4], c: float32[4]) is at_least_one
test "one of any": Max(a: float32[4]) is at_least_one
