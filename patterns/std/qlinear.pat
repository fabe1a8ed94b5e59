## Quantised operators by their meaning: decode, compute, encode. What targets can do with decoded values holds for
## them, too. Those of ONNX sum whole numbers, so that their results are the same but for rounding.

let scalar(s) = s.shape == []

operator com.microsoft::QLinearAdd(a, sa, za, b, sb, zb, sy, zy) =
  QuantizeLinear(Add(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)), sy, zy)
operator com.microsoft::QLinearGlobalAveragePool(x, sx, zx, sy, zy, channels_last=0?) =
  QuantizeLinear(GlobalAveragePool(DequantizeLinear(x, sx, zx)), sy, zy)
operator com.microsoft::QLinearSigmoid(x, sx, zx, sy, zy) =
  QuantizeLinear(Sigmoid(DequantizeLinear(x, sx, zx)), sy, zy)
operator com.microsoft::QLinearLeakyRelu(x, sx, zx, sy, zy) =
  QuantizeLinear(LeakyRelu(DequantizeLinear(x, sx, zx), alpha=alpha?), sy, zy)
## The bias counts steps of both scales.
operator com.microsoft::QGemm(a, sa, za, b, sb, zb, c, sy, zy) =
  QuantizeLinear(Gemm(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb), DequantizeLinear(c, Mul(sa, sb)),
                      alpha=alpha?, transA=transA?, transB=transB?), sy, zy)

## The product of two scales is one scale.
rule multiply_scales: Mul(const s, const t) => s * t if scalar(s) and scalar(t)

rule decode_conv reassociates: QLinearConv(x, const xs, const xz, const w, const ws, const wz, const ys, const yz) as c
  => QuantizeLinear(Conv(DequantizeLinear(x, xs, xz), DequantizeLinear(w, ws, wz, axis=0), like c), ys, yz)
rule decode_conv_bias reassociates:
  QLinearConv(x, const xs, const xz, const w, const ws, const wz, const ys, const yz, const b) as c
  => QuantizeLinear(Conv(DequantizeLinear(x, xs, xz), DequantizeLinear(w, ws, wz, axis=0),
                         DequantizeLinear(b, xs * ws, full(ws.shape, 0), axis=0), like c), ys, yz)
rule decode_matmul reassociates: QLinearMatMul(a, const sa, const za, b, const sb, const zb, const ys, const yz)
  => QuantizeLinear(MatMul(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)), ys, yz)
  if sa.numel == 1 and (sb.numel == 1 or b.rank == 2)

test "a sum":
  com.microsoft::QLinearAdd(a: uint8[8], const s: float32[] = 0.5, const z: uint8[] = 3, b: uint8[8], s, z, s, z)
  => QuantizeLinear(Add(DequantizeLinear(a, s, z), DequantizeLinear(b, s, z)), s, z)
test "an average":
  com.microsoft::QLinearGlobalAveragePool(a: uint8[1, 2, 4, 4], const s: float32[] = 0.5, const z: uint8[] = 3, s, z)
  => QuantizeLinear(GlobalAveragePool(DequantizeLinear(a, s, z)), s, z)
test "an average of the last channels is another":
  place com.microsoft::QLinearGlobalAveragePool(a: uint8[1, 2, 4, 4], const s: float32[] = 0.5, const z: uint8[] = 3,
                                                s, z, channels_last=1)
  => com.microsoft::QLinearGlobalAveragePool(a, s, z, s, z, channels_last=1) on host
test "a sigmoid":
  com.microsoft::QLinearSigmoid(a: uint8[8], const s: float32[] = 0.5, const z: uint8[] = 3, s, z)
  => QuantizeLinear(Sigmoid(DequantizeLinear(a, s, z)), s, z)
test "a leaky relu":
  com.microsoft::QLinearLeakyRelu(a: uint8[8], const s: float32[] = 0.5, const z: uint8[] = 3, s, z, alpha=0.1)
  => QuantizeLinear(LeakyRelu(DequantizeLinear(a, s, z), alpha=0.1), s, z)
test "a product of matrices":
  com.microsoft::QGemm(a: uint8[2, 8], const s: float32[] = 0.5, const z: uint8[] = 3, const w: int8[4, 8],
                       const ws: float32[] = 0.25, const wz: int8[] = 0, const b: int32[4], s, z, transB=1)
  => QuantizeLinear(Gemm(DequantizeLinear(a, s, z), DequantizeLinear(w, ws, wz), DequantizeLinear(b, Mul(s, ws)),
                         transB=1),
                    s, z)

test "scales are multiplied": Mul(const s: float32[] = 0.5, const t: float32[] = 3) => 1.5
test "a scale that is computed": Mul(s: float32[], const t: float32[] = 3) is not multiply_scales

test "a convolution":
  QLinearConv(x: uint8[1, 4, 8, 8], const s: float32[] = 0.5, const z: uint8[] = 3, const w: int8[2, 4, 3, 3],
              const ws: float32[2] = 0.25, const wz: int8[2] = 0, s, z, pads=[1, 1, 1, 1])
  => QuantizeLinear(Conv(DequantizeLinear(x, s, z), DequantizeLinear(w, ws, wz, axis=0), pads=[1, 1, 1, 1]), s, z)
test "a convolution and its bias":
  QLinearConv(x: uint8[1, 4, 8, 8], const s: float32[] = 0.5, const z: uint8[] = 3, const w: int8[2, 4, 3, 3],
              const ws: float32[2] = 0.25, const wz: int8[2] = 0, s, z, const b: int32[2])
  => QuantizeLinear(Conv(DequantizeLinear(x, s, z), DequantizeLinear(w, ws, wz, axis=0),
                         DequantizeLinear(b, full([2], 0.125), full([2], 0), axis=0)), s, z)
test "a product of two matrices":
  QLinearMatMul(a: uint8[2, 8], const s: float32[] = 0.5, const z: uint8[] = 3, const w: int8[8, 4],
                const ws: float32[] = 0.25, const wz: int8[] = 0, s, z)
  => QuantizeLinear(MatMul(DequantizeLinear(a, s, z), DequantizeLinear(w, ws, wz)), s, z)
test "a value and a scale": place Mul(x: float32[], const t: float32[] = 3) => Mul(x, t) on host
test "scales of several elements": Mul(const s: float32[2] = 0.5, const t: float32[] = 3) is not multiply_scales
test "several elements and a scale": Mul(const s: float32[] = 0.5, const t: float32[2] = 3) is not multiply_scales
test "a scale in a list": Mul(const s: float32[1] = 0.5, const t: float32[] = 3) is not multiply_scales
test "a scale and one in a list": Mul(const s: float32[] = 0.5, const t: float32[1] = 3) is not multiply_scales
test "a convolution whose zero point is computed":
  QLinearConv(x: uint8[1, 4, 8, 8], const s: float32[] = 0.5, z: uint8[], const w: int8[2, 4, 3, 3],
              const ws: float32[2] = 0.25, const wz: int8[2] = 0, s, z) is not decode_conv
test "a convolution whose bias is computed":
  QLinearConv(x: uint8[1, 4, 8, 8], const s: float32[] = 0.5, const z: uint8[] = 3, const w: int8[2, 4, 3, 3],
              const ws: float32[2] = 0.25, const wz: int8[2] = 0, s, z, b: int32[2]) is not decode_conv_bias
test "a scale per row of the left matrix":
  QLinearMatMul(a: uint8[2, 8], const sa: float32[2] = 0.5, const za: uint8[2] = 3, const w: int8[8, 4],
                const s: float32[] = 0.25, const z: int8[] = 0, s, const zy: uint8[] = 0) is not decode_matmul
test "a scale per column of the right matrix":
  QLinearMatMul(a: uint8[2, 8], const s: float32[] = 0.5, const za: uint8[] = 3, const w: int8[8, 4],
                const sb: float32[4] = 0.25, const z: int8[4] = 0, s, const zy: uint8[] = 0)
  => QuantizeLinear(MatMul(DequantizeLinear(a, s, za), DequantizeLinear(w, sb, z, axis=1)), s, zy)
test "a scale per column of several right matrices":
  QLinearMatMul(a: uint8[2, 8, 8], const s: float32[] = 0.5, const za: uint8[] = 3, const w: int8[2, 8, 8],
                const sb: float32[8] = 0.25, const z: int8[8] = 0, s, const zy: uint8[] = 0) is not decode_matmul
test "a convolution with a computed zero point stays":
  place QLinearConv(x: uint8[1, 4, 8, 8], const s: float32[] = 0.5, z: uint8[], const w: int8[2, 4, 3, 3],
                    const ws: float32[2] = 0.25, const wz: int8[2] = 0, s, z)
  => QLinearConv(x, s, z, w, ws, wz, s, z) on host
test "a product with a scale per row stays":
  place QLinearMatMul(a: uint8[2, 8], const sa: float32[2] = 0.5, const za: uint8[2] = 3, const w: int8[8, 4],
                      const s: float32[] = 0.25, const z: int8[] = 0, s, const zy: uint8[] = 0)
  => QLinearMatMul(a, sa, za, w, s, z, s, zy) on host
