## Only an addend with one element per channel is a bias, whatever the groups.
include "std/conv.pat"
test "a full-size addend": Add(Conv(x: float32[1, 4, 2, 2], const w: float32[4, 1, 1, 1], group=4), const c: float32[1, 4, 2, 2])
  is not bias_into_conv
test "one per channel": Add(Conv(x: float32[1, 4, 2, 2], const w: float32[4, 1, 1, 1], group=4), const c: float32[1, 4, 1, 1] = 2)
  => Conv(x, w, full([4], 2), group=4)
test "one per channel, first": Add(const c: float32[4, 1, 1] = 2, Conv(x: float32[1, 4, 2, 2], const w: float32[4, 1, 1, 1], group=4))
  => Conv(x, w, full([4], 2), group=4)
test "one for all": Add(Conv(x: float32[1, 4, 2, 2], const w: float32[4, 4, 1, 1]), const c: float32[] = 2)
  => Conv(x, w, full([4], 2))
test "one per column, as many as channels": Add(Conv(x: float32[1, 4, 4, 4], const w: float32[4, 4, 1, 1]), const c: float32[4])
  is not bias_into_conv
test "one per row, as many as channels": Add(Conv(x: float32[1, 4, 4, 4], const w: float32[4, 4, 1, 1]), const c: float32[4, 1])
  is not bias_into_conv
test "one per image": Add(Conv(x: float32[4, 4, 2, 2], const w: float32[4, 4, 1, 1]), const c: float32[4, 1, 1, 1])
  is not bias_into_conv
test "an addend that adds a dimension": Add(Conv(x: float32[1, 4, 2, 2], const w: float32[4, 4, 1, 1]), const c: float32[1, 1, 4, 1, 1])
  is not bias_into_conv
