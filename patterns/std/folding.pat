## Constants after linear operators go into their weights and biases, and the spellings of a Gemm. No target includes
## them: `-p std/folding.pat` adds them to a run.

include "std/conv.pat"             # per_channel(c, y)
include "std/gemm.pat"

## A constant with one element per column, or one for all.
let per_column(c, y) = c.numel in {1, y.shape[-1]} and c.rank <= y.rank and broadcasts(c.shape, [y.shape[-1]])
let laid(c, n) = expand(reshape(c, [c.numel]), [n])

rule factor_into_conv reassociates: Mul(conv, const c) => Conv(x, w * reshape(laid(c, K), [-1, 1, 1, 1]), like conv)
  where conv = Conv(x: [_, _, _, _], const w: [K, _, _, _])
  if per_channel(c, conv)
rule factor_into_biased_conv reassociates: Mul(conv, const c)
  => Conv(x, w * reshape(laid(c, K), [-1, 1, 1, 1]), b * laid(c, K), like conv)
  where conv = Conv(x: [_, _, _, _], const w: [K, _, _, _], const b)
  if per_channel(c, conv)
rule second_bias_into_conv reassociates: Add(conv, const c) => Conv(x, w, b + laid(c, K), like conv)
  where conv = Conv(x: [_, _, _, _], const w: [K, _, _, _], const b)
  if per_channel(c, conv)

rule factor_into_columns reassociates: Mul(MatMul(x, const w: [_, N]) as y, const c) => MatMul(x, w * laid(c, N))
  if per_column(c, y)
## The weights of a Gemm as they stand. beta scales what was added before, not what is added after it.
rule factor_into_gemm reassociates: Mul(Gemm(a, const b, const d?) as g: [_, N], const c)
  => Gemm(a, b * (if g.transB == 1 then reshape(laid(c, N), [-1, 1]) else laid(c, N)), default(d, 0) * laid(c, N), like g)
  if per_column(c, g)
rule bias_into_gemm reassociates: Add(Gemm(a, b) as g, c) as y => Gemm(a, b, c, like g, beta=1)
  if y.shape == g.shape
rule second_bias_into_gemm reassociates: Add(Gemm(a, b, const c) as g, const d) as y
  => Gemm(a, b, c * g.beta + d, like g, beta=1)
  if y.shape == g.shape

## A Gemm without scales is a product and a sum; constant weights are turned round beforehand.
rule gemm_is_product reassociates: Gemm(a, b, alpha=1, transA=0, transB=0) => MatMul(a, b)
rule gemm_is_sum reassociates: Gemm(a, b, c, alpha=1, beta=1, transA=0, transB=0) => Add(MatMul(a, b), c)
rule turn_weights: Gemm(a, const b, c?, transB=1) as g => Gemm(a, transpose(b), c, like g, transB=0)

test "a factor into a convolution": Mul(Conv(x: float32[1, 2, 8, 8], const w: float32[3, 2, 1, 1] = 2), const c: float32[3, 1, 1] = 3)
  => Conv(x, full([3, 2, 1, 1], 6))
test "one factor into a convolution in groups": Mul(Conv(x: float32[1, 2, 8, 8], const w: float32[4, 1, 3, 3] = 2, group=2), 3)
  => Conv(x, full([4, 1, 3, 3], 6), group=2)
test "a factor into a convolution and its bias":
  Mul(Conv(x: float32[1, 2, 8, 8], const w: float32[3, 2, 1, 1] = 2, const b: float32[3] = 5), const c: float32[3, 1, 1] = 3)
  => Conv(x, full([3, 2, 1, 1], 6), full([3], 15))
test "a factor per pixel":
  Mul(Conv(x: float32[1, 2, 8, 8], const w: float32[3, 2, 1, 1]), const c: float32[8, 8]) is not factor_into_conv
test "a factor per pixel and a bias":
  Mul(Conv(x: float32[1, 2, 8, 8], const w: float32[3, 2, 1, 1], const b: float32[3]), const c: float32[8, 8])
  is not factor_into_biased_conv
test "a second bias":
  Add(Conv(x: float32[1, 2, 8, 8], const w: float32[3, 2, 1, 1], const b: float32[3] = 5), const c: float32[1, 3, 1, 1] = 3)
  => Conv(x, w, full([3], 8))
test "a second bias per pixel":
  Add(Conv(x: float32[1, 2, 8, 8], const w: float32[3, 2, 1, 1], const b: float32[3]), const c: float32[8, 8])
  is not second_bias_into_conv
test "factors into columns": Mul(MatMul(x: float32[2, 4, 8], const w: float32[8, 3] = 2), const c: float32[3] = 3)
  => MatMul(x, full([8, 3], 6))
test "factors of rows": Mul(MatMul(x: float32[4, 8], const w: float32[8, 3]), const c: float32[4, 1]) is not factor_into_columns
test "a product of two values stays": place Mul(MatMul(x: float32[4, 8], y: float32[8, 3]), const c: float32[3])
  => Mul(MatMul(x, y), c) on host
test "factors into a Gemm":
  Mul(Gemm(x: float32[4, 8], const w: float32[8, 3] = 2, const d: float32[3] = 5, beta=0.5), const c: float32[3] = 3)
  => Gemm(x, full([8, 3], 6), full([3], 15), beta=0.5)
test "factors into a Gemm of turned weights":
  Mul(Gemm(x: float32[4, 8], const w: float32[3, 8] = 2, const d: float32[1, 3] = 5, transB=1), const c: float32[3] = 3)
  => Gemm(x, full([3, 8], 6), full([1, 3], 15), transB=1)
test "factors of rows of a Gemm":
  Mul(Gemm(x: float32[4, 8], const w: float32[8, 3], const d: float32[3]), const c: float32[4, 1])
  is not factor_into_gemm
test "an addend of a Gemm": Add(Gemm(a: float32[4, 8], b: float32[3, 8], alpha=2.0, transB=1), c: float32[3])
  => Gemm(a, b, c, alpha=2.0, transB=1)
test "an addend that makes it larger": Add(Gemm(a: float32[1, 8], b: float32[8, 3]), c: float32[4, 3]) is not bias_into_gemm
test "a second addend": Add(Gemm(a: float32[4, 8], b: float32[8, 3], const c: float32[3] = 4, beta=0.5), const d: float32[4, 1] = 5)
  => Gemm(a, b, full([4, 3], 7))
test "a second addend that makes it larger":
  Add(Gemm(a: float32[1, 8], b: float32[8, 3], const c: float32[3]), const d: float32[4, 3]) is not second_bias_into_gemm
test "a sum of values stays": place Add(x: float32[4], y: float32[4]) => Add(x, y) on host
test "a Gemm is a product": Gemm(a: float32[4, 8], b: float32[8, 3]) => MatMul(a, b)
test "a scaled Gemm is none": Gemm(a: float32[4, 8], b: float32[8, 3], alpha=0.5) is not gemm_is_product
test "a Gemm is a product and a sum": Gemm(a: float32[4, 8], b: float32[8, 3], c: float32[3]) => Add(MatMul(a, b), c)
test "a Gemm of half the addend is none": Gemm(a: float32[4, 8], b: float32[8, 3], c: float32[3], beta=0.5) is not gemm_is_sum
test "a scaled Gemm stays":
  place Gemm(a: float32[4, 8], b: float32[8, 3], c: float32[3], beta=0.5) => Gemm(a, b, c, beta=0.5) on host
test "weights turned round": Gemm(a: float32[4, 8], const b: float32[3, 8] = 2, c: float32[3], transB=1)
  => Gemm(a, full([8, 3], 2), c)
test "weights that are computed are not": Gemm(a: float32[4, 8], b: float32[3, 8], transB=1) is not turn_weights
