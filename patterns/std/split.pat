## Two parts of one value along an axis, that together are all of it: one Split, or two Slices, which become one.

## The first part starts at 0, the second at its end, counted from either side; together they have the size of all.
pattern sliced_in_two(x, axis) =
    (Slice(x, [0], _, const at, [1] | none) as low,           # a stride of one is written or not
     Slice(x, const from, _, at, [1] | none) as high)
  if item(from) in {low.shape[item(at)], low.shape[item(at)] - x.shape[item(at)]}
     and low.shape[item(at)] + high.shape[item(at)] == x.shape[item(at)]
  with axis = item(at) % x.rank
pattern split_in_two(x, axis) = (low, high)
  where low, high = Split(x, _, axis=a)                       # there may be more than these two
  if low.shape[a] + high.shape[a] == x.shape[a]
  with axis = a

pattern in_two(x, axis) = sliced_in_two(x, axis) | split_in_two(x, axis)

rule slices_into_split: (low, high) => Split(x, [low.shape[axis], high.shape[axis]], axis=axis)
  where low, high = sliced_in_two(x, axis)

test "two slices": (Slice(x: float32[2, 9], [0], [3], [1], [1]), Slice(x, [3], [9], [1], [1])) is sliced_in_two
test "two slices, from and to the end": (Slice(x: float32[2, 9], [0], [-6], [-1]), Slice(x, [-6], [9999], [-1]))
  is sliced_in_two
test "two slices of rows": (Slice(x: float32[4, 9], [0], [1], [0]), Slice(x, [1], [4], [0])) is in_two
test "one split": (a, b) is split_in_two where a, b = Split(x: float32[2, 9], [3, 6], axis=1)
test "one split into equal parts": (a, b) is in_two where a, b = Split(x: float32[2, 8], num_outputs=2, axis=-1)

test "two slices become one split": (Slice(x: float32[2, 9], [0], [3], [1]), Slice(x, [3], [9], [1])) => (a, b)
  where a, b = Split(x, [3, 6], axis=1)
test "counted from the end": (Slice(x: int64[7, 2], [0], [-2], [-2], [1]), Slice(x, [-2], [9999], [-2])) => (a, b)
  where a, b = Split(x, [5, 2], axis=0)
test "both readers take the split": place Add(Neg(Slice(x: float32[64, 64], [0], [32], [0])), Slice(x, [32], [64], [0]))
  => Add(Neg(a), b) on host
  where a, b = Split(x, [32, 32], axis=0)

test "slices that overlap": (Slice(x: float32[2, 9], [0], [4], [1]), Slice(x, [3], [9], [1])) is not sliced_in_two
test "slices that leave a gap": (Slice(x: float32[2, 9], [0], [3], [1]), Slice(x, [4], [9], [1])) is not sliced_in_two
test "slices of as many that overlap": (Slice(x: float32[2, 9], [0], [3], [1]), Slice(x, [2], [8], [1]))
  is not sliced_in_two
test "slices that leave the end": (Slice(x: float32[2, 9], [0], [3], [1]), Slice(x, [3], [8], [1])) is not in_two
test "slices of two axes": (Slice(x: float32[2, 9], [0], [3], [1]), Slice(x, [1], [2], [0])) is not sliced_in_two
test "slices of two axes at once":
  (Slice(x: float32[4, 4], [0, 0], [2, 2], [0, 1]), Slice(x, [2, 2], [4, 4], [0, 1])) is not sliced_in_two
test "every second element": (Slice(x: float32[2, 8], [0], [8], [1], [2]), Slice(x, [4], [8], [1], [1]))
  is not sliced_in_two
test "slices of two values": (Slice(x: float32[2, 9], [0], [3], [1]), Slice(y: float32[2, 9], [3], [9], [1]))
  is not in_two
test "two parts of three": (a, b) is not split_in_two
  where a, b, c = Split(x: float32[2, 9], num_outputs=3, axis=1)
test "a start before the first element":
  (Slice(x: float32[9], [0], [3], [0]), Slice(x, [-15], [6], [0])) is not sliced_in_two
test "one slice is no split": place Slice(x: float32[64, 64], [0], [32], [0]) => Slice(x, [0], [32], [0]) on host
test "slices that overlap stay": place Add(Slice(x: float32[64, 64], [0], [40], [0]), Slice(x, [24], [64], [0]))
  => Add(Slice(x, [0], [40], [0]), Slice(x, [24], [64], [0])) on host
test "halves of every second row stay":
  place Add(Slice(x: float32[64, 64], [0], [64], [0], [2]), Slice(x, [32], [64], [0]))
  => Add(Slice(x, [0], [64], [0], [2]), Slice(x, [32], [64], [0])) on host
