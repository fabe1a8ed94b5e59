## Two parts of one value along an axis, that together are all of it: one Split, or two Slices.

## The sizes tell: the first part starts at 0 and ends where the second starts, which goes on to the end.
pattern sliced_in_two(x, axis) =
    (Slice(x, [0], _, const at, [1] | none) as low,           # a stride of one is written or not
     Slice(x, const from, _, at, [1] | none) as high)
  if item(from) % x.shape[item(at)] == low.shape[item(at)]
     and low.shape[item(at)] + high.shape[item(at)] == x.shape[item(at)]
  with axis = item(at) % x.rank
pattern split_in_two(x, axis) = (low, high)
  where low, high = Split(x, _, axis=a)                       # there may be more than these two
  if low.shape[a] + high.shape[a] == x.shape[a]
  with axis = a

pattern in_two(x, axis) = sliced_in_two(x, axis) | split_in_two(x, axis)

test "two slices": (Slice(x: float32[2, 9], [0], [3], [1], [1]), Slice(x, [3], [9], [1], [1])) is sliced_in_two
test "two slices, from and to the end": (Slice(x: float32[2, 9], [0], [-6], [-1]), Slice(x, [-6], [9999], [-1]))
  is sliced_in_two
test "two slices of rows": (Slice(x: float32[4, 9], [0], [1], [0]), Slice(x, [1], [4], [0])) is in_two
test "one split": (a, b) is split_in_two where a, b = Split(x: float32[2, 9], [3, 6], axis=1)
test "one split into equal parts": (a, b) is in_two where a, b = Split(x: float32[2, 8], num_outputs=2, axis=-1)

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
