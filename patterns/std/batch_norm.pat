## Batch normalisation after a linear operator goes into its weights: with k = gain / sqrt(variance + epsilon), the
## weights are scaled by k per output channel and the bias becomes (bias - mean) * k + shift. Inference only.

rule bn_into_conv reassociates:
  BatchNormalization(conv, const g, const b, const m, const v, epsilon=e, training_mode=0)
  => Conv(x, w * reshape(k, [-1, 1, 1, 1]), (default(b0, 0) - m) * k + b, like conv)
  where conv = Conv(x, const w: [_, _, _, _], const b0?)
  with k = g / sqrt(v + e)

## A transposed convolution holds its output channels in the second dimension of the weights, so one group only.
rule bn_into_conv_transpose reassociates:
  BatchNormalization(conv, const g, const b, const m, const v, epsilon=e, training_mode=0)
  => ConvTranspose(x, w * reshape(k, [1, -1, 1, 1]), (default(b0, 0) - m) * k + b, like conv)
  where conv = ConvTranspose(x, const w: [_, _, _, _], const b0?, group=1)
  with k = g / sqrt(v + e)

## The columns of the product are the channels. beta scales the old bias only, so the new one stands for itself.
rule bn_into_gemm reassociates:
  BatchNormalization(gemm, const g, const b, const m, const v, epsilon=e, training_mode=0)
  => Gemm(x, w * (if gemm.transB == 1 then reshape(k, [-1, 1]) else k),
          (default(b0, 0) * gemm.beta - m) * k + b, like gemm, beta=1)
  where gemm = Gemm(x, const w, const b0?)
  with k = g / sqrt(v + e)

test "into a convolution without bias":
  BatchNormalization(Conv(x: float32[1, 2, 4, 4], const w: float32[3, 2, 1, 1] = 1),
                     const g: float32[3] = 3, const b: float32[3] = 0.5, const m: float32[3] = 1,
                     const v: float32[3] = 4,
                     epsilon=0)
  => Conv(x, full([3, 2, 1, 1], 1.5), full([3], -1))
test "into a grouped convolution with a bias":
  BatchNormalization(Conv(x: float32[1, 4, 4, 4], const w: float32[4, 1, 3, 3] = 2, const c: float32[4] = 3, group=4),
                     const g: float32[4] = 1, const b: float32[4] = 0, const m: float32[4] = 1, const v: float32[4] = 4,
                     epsilon=0)
  => Conv(x, full([4, 1, 3, 3], 1), full([4], 1), group=4)
test "a convolution whose weights are computed keeps it":
  place BatchNormalization(Conv(x: float32[1, 2, 4, 4], w: float32[3, 2, 1, 1]),
                           const g: float32[3] = 3, const b: float32[3], const m: float32[3], const v: float32[3] = 4)
  => BatchNormalization(Conv(x, w), g, b, m, v) on host
test "into a transposed convolution":
  BatchNormalization(ConvTranspose(x: float32[1, 2, 4, 4], const w: float32[2, 3, 2, 2] = 1),
                     const g: float32[3] = 3, const b: float32[3] = 0.5, const m: float32[3] = 1,
                     const v: float32[3] = 4,
                     epsilon=0)
  => ConvTranspose(x, full([2, 3, 2, 2], 1.5), full([3], -1))
test "a transposed convolution in groups keeps it":
  place BatchNormalization(ConvTranspose(x: float32[1, 2, 4, 4], const w: float32[2, 3, 2, 2], group=2),
                           const g: float32[6], const b: float32[6], const m: float32[6], const v: float32[6] = 4)
  => BatchNormalization(ConvTranspose(x, w, group=2), g, b, m, v) on host
test "into a product, its beta too":
  BatchNormalization(Gemm(x: float32[2, 4], const w: float32[4, 3] = 1, const c: float32[3] = 2, beta=0.5),
                     const g: float32[3] = 3, const b: float32[3] = 0.5, const m: float32[3] = 3,
                     const v: float32[3] = 4,
                     epsilon=0)
  => Gemm(x, full([4, 3], 1.5), full([3], -2.5))
test "into a product of transposed weights":
  BatchNormalization(Gemm(x: float32[2, 4], const w: float32[3, 4] = 1, transB=1),
                     const g: float32[3] = 3, const b: float32[3] = 0.5, const m: float32[3] = 1,
                     const v: float32[3] = 4,
                     epsilon=0)
  => Gemm(x, full([3, 4], 1.5), full([3], -1), transB=1)
test "a product of two activations keeps it":
  place BatchNormalization(Gemm(x: float32[2, 4], w: float32[4, 3]),
                           const g: float32[3], const b: float32[3], const m: float32[3], const v: float32[3] = 4)
  => BatchNormalization(Gemm(x, w), g, b, m, v) on host
