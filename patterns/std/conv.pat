## Convolutions and matrix products with what rides along: bias as an input or as a constant that is added, padding,
## residual sums.

## A constant with one element per output channel of a convolution, or one for all: [K, 1, 1] or [1, K, 1, 1].
let per_channel(c, y) = c.numel in {1, y.shape[1]} and c.rank <= y.rank and broadcasts(c.shape, [1, y.shape[1], 1, 1])

## 2-D convolution with a bias or none, whichever way the bias is spelled.
pattern conv2d(x, w, b?) = Conv(x: [_, _, _, _], const w, const b?)
pattern conv2d_added_bias(x, w, c) = Add(conv, const c)
  where conv = Conv(x: [_, _, _, _], const w)
  if per_channel(c, conv)

## A matrix product with constant weights, with a bias per column or none.
pattern linear(x, w, b?) = Add?(MatMul(x, const w: [_, N]), const b?)
  if b.shape == [N]

## A bias that is added to a convolution without one becomes its third input.
rule bias_into_conv reassociates: Add(conv, const c) => Conv(x, w, expand(reshape(c, [c.numel]), [K]), like conv)
  where conv = Conv(x: [_, _, _, _], const w: [K, _, _, _])
  if per_channel(c, conv)

## Zeros around the image are the convolution's own padding, in one dimension, two or three. The result does not change:
## a zero adds nothing. The pads of a Pad start with those of images and channels, which must be zero.
rule pad_into_conv: Conv(Pad(x, const p, 0 | none, none, mode="constant"), const w, const b?) as conv
  => Conv(x, w, b, like conv,
          pads=concat([[p[d + 2] + conv.pads[d] for d in iota(x.rank - 2)],
                       [p[x.rank + d + 2] + conv.pads[x.rank - 2 + d] for d in iota(x.rank - 2)]]))
  if all(p >= 0) and p[0] == p[1] == p[x.rank] == p[x.rank + 1] == 0
## Some axes only are padded, in any order: a dimension that is not listed gets nothing.
let listed(p, axes, rank, d, at) = sum([if axes[i] % rank == d + 2 then p[i + at] else 0 for i in iota(axes.numel)])
rule pad_axes_into_conv: Conv(Pad(x, const p, 0 | none, const axes, mode="constant"), const w, const b?) as conv
  => Conv(x, w, b, like conv,
          pads=concat([[listed(p, axes, x.rank, d, 0) + conv.pads[d] for d in iota(x.rank - 2)],
                       [listed(p, axes, x.rank, d, axes.numel) + conv.pads[x.rank - 2 + d] for d in iota(x.rank - 2)]]))
  if all(p >= 0) and all(axes % x.rank >= 2)

## A sum of two is an addition, which more targets know.
rule sum_of_two: Sum(a, b) => Add(a, b)

test "no bias": Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3]) is conv2d
test "a bias": Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3], const b: float32[8]) is conv2d
test "an added bias": Add(const b: float32[1, 8, 1, 1], Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3]))
  is conv2d_added_bias
test "a matrix product": MatMul(x: float32[2, 16, 8], const w: float32[8, 4]) is linear
test "a matrix product and its bias, the bias first":
  Add(const b: float32[4], MatMul(x: float32[2, 16, 8], const w: float32[8, 4])) is linear

test "weights that are computed": Conv(x: float32[1, 4, 8, 8], w: float32[8, 4, 3, 3]) is not conv2d
test "one dimension": Conv(x: float32[1, 4, 8], const w: float32[8, 4, 3]) is not conv2d
test "an addend per pixel":
  Add(Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3]), const b: float32[1, 8, 6, 6])
  is not conv2d_added_bias
test "an addend per column": Add(Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3]), const b: float32[6])
  is not conv2d_added_bias
test "a product of two activations": MatMul(x: float32[2, 16, 8], y: float32[8, 4]) is not linear
test "an addend per row":
  Add(MatMul(x: float32[16, 8], const w: float32[8, 4]), const b: float32[16, 1]) is not linear

test "an added bias becomes an input":
  Add(Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3]), const b: float32[8, 1, 1] = 0.5)
  => Conv(x, w, full([8], 0.5))
test "one number for all channels":
  Add(Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3]), const b: float32[] = 0.5)
  => Conv(x, w, full([8], 0.5))
test "an addend per pixel stays":
  place Add(Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 3, 3]), const b: float32[1, 8, 6, 6])
  => Add(Conv(x, w), b) on host
test "an addend per column as long as the channels are many stays":
  place Add(Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 1, 1]), const b: float32[8])
  => Add(Conv(x, w), b) on host
test "a pad is the convolution's own":
  Conv(Pad(x: float32[1, 4, 8, 8], [0, 0, 0, 1, 0, 0, 1, 2], 0), const w: float32[8, 4, 3, 3], pads=[1, 1, 1, 1])
  => Conv(x, w, pads=[1, 2, 2, 3])
test "a pad of a signal is the convolution's own":
  Conv(Pad(x: float32[1, 4, 8], [0, 0, 2, 0, 0, 1]), const w: float32[8, 4, 3], const b: float32[8], pads=[1, 0])
  => Conv(x, w, b, pads=[3, 1])
test "a pad of a volume is the convolution's own":
  Conv(Pad(x: float32[1, 2, 4, 5, 6], [0, 0, 1, 2, 3, 0, 0, 4, 5, 6], 0), const w: float32[8, 2, 3, 3, 3])
  => Conv(x, w, pads=[1, 2, 3, 4, 5, 6])
test "a pad of listed axes is the convolution's own":
  Conv(Pad(x: float32[1, 4, 8, 8], [1, 2, 3, 4], 0, [-1, 2]), const w: float32[8, 4, 3, 3], pads=[1, 1, 1, 1])
  => Conv(x, w, pads=[3, 2, 5, 4])
test "a pad of columns is the convolution's own":
  Conv(Pad(x: float32[1, 4, 8, 8], [1, 2], 0, [3]), const w: float32[8, 4, 3, 3]) => Conv(x, w, pads=[0, 1, 0, 2])
test "listed channels stay":
  place Conv(Pad(Reshape(x: float32[512], s: int64[4]), [0, 1], 0, [1]), const w: float32[8, 4, 3, 3])
  => Conv(Pad(Reshape(x, s), [0, 1], 0, [1]), w) on host
test "a listed border that is cut off stays":
  place Conv(Pad(x: float32[1, 4, 8, 8], [0, -1], 0, [3]), const w: float32[8, 4, 3, 3], pads=[1, 1, 1, 1])
  => Conv(Pad(x, [0, -1], 0, [3]), w, pads=[1, 1, 1, 1]) on host
test "a listed pad with ones stays":
  place Conv(Pad(x: float32[1, 4, 8, 8], [1, 1], 1, [3]), const w: float32[8, 4, 3, 3])
  => Conv(Pad(x, [1, 1], 1, [3]), w) on host
test "a pad with ones stays":
  place Conv(Pad(x: float32[1, 4, 8, 8], [0, 0, 1, 1, 0, 0, 1, 1], 1), const w: float32[8, 4, 3, 3])
  => Conv(Pad(x, [0, 0, 1, 1, 0, 0, 1, 1], 1), w) on host
test "a border that is cut off stays":
  place Conv(Pad(x: float32[1, 4, 8, 8], [0, 0, -1, -1, 0, 0, -1, -1], 0), const w: float32[8, 4, 3, 3],
             pads=[1, 1, 1, 1])
  => Conv(Pad(x, [0, 0, -1, -1, 0, 0, -1, -1], 0), w, pads=[1, 1, 1, 1]) on host
test "images that a pad adds stay":
  place Conv(Pad(Reshape(x: float32[512], s: int64[4]), [1, 0, 0, 0, 0, 0, 0, 0], 0), const w: float32[8, 4, 3, 3])
  => Conv(Pad(Reshape(x, s), [1, 0, 0, 0, 0, 0, 0, 0], 0), w) on host
test "a pad before one that follows from the size: both count":
  Conv(Pad(x: float32[1, 4, 7, 7], [0, 0, 0, 0, 0, 0, 1, 1], 0), const w: float32[8, 4, 3, 3], strides=[2, 2],
       auto_pad="SAME_UPPER")
  => Conv(x, w, strides=[2, 2], pads=[0, 0, 2, 2])
test "channels that a pad adds stay":
  place Conv(Pad(x: float32[1, 3, 8, 8], [0, 0, 0, 0, 0, 1, 0, 0], 0), const w: float32[8, 4, 3, 3])
  => Conv(Pad(x, [0, 0, 0, 0, 0, 1, 0, 0], 0), w) on host
test "a reflected border stays":
  place Conv(Pad(x: float32[1, 4, 8, 8], [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"), const w: float32[8, 4, 3, 3])
  => Conv(Pad(x, [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"), w) on host
test "two addends": Sum(a: float32[1, 8], b: float32[1, 8]) => Add(a, b)
test "three addends stay":
  place Sum(a: float32[1, 8], b: float32[1, 8], c: float32[1, 8]) => Sum(a, b, c) on host
