## Quantised convolutions as quantisers write them: dequantise, compute in float, quantise again. What an integer kernel
## needs to know is in scales and zero points; what it multiplies by is `factor`, one number or one per channel.

include "std/qdq.pat"

let biases = {int32, float32}

## The bias is not there, float32, or int32 that counts steps of both scales.
pattern qdq_conv(x, w, b?: biases[_], factor, zero_in, zero_out) = codes_out(rectified?(conv), ys, zero_out) as y
  where conv = Conv(codes_in(x, xs, zero_in), row_weights(w, ws), decoded?(const b, bs, bz)?)
  if y.dtype == x.dtype and close(bs, xs * ws) and all(bz == 0)
  with factor = xs * ws / ys

test "no bias": QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a raw bias, scales per channel":
  QuantizeLinear(Conv(dx, dw, const b: float32[8]), const ys: float32[] = 0.75, const yz: uint8[] = 3) is qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0)
test "a dequantised bias and an activation":
  QuantizeLinear(Relu(Conv(dx, dw, db)), const ys: float32[] = 0.75, const yz: uint8[] = 3) is qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[8] = 0.125, const bz: int32[8] = 0, axis=0)

test "scales of input channels, as many as output channels":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 8, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=1)
test "values with a scale per channel":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[4] = 0.5, const xz: uint8[4] = 128, axis=1);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a result with a scale per channel":
  QuantizeLinear(Conv(dx, dw), const ys: float32[8] = 0.75, const yz: uint8[8] = 3, axis=1) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0)
test "another dtype out than in":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: int8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0)
test "a bias that counts other steps":
  QuantizeLinear(Conv(dx, dw, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[8] = 0.25, const bz: int32[8] = 0, axis=0)
test "a bias with a zero point":
  QuantizeLinear(Conv(dx, dw, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[8] = 0.125, const bz: int32[8] = 1, axis=0)
test "a bias of eight bits":
  QuantizeLinear(Conv(dx, dw, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0);
        db = DequantizeLinear(const b: int8[8], const bs: float32[8] = 0.125, const bz: int8[8] = 0, axis=0)
test "exp between": QuantizeLinear(Exp(Conv(dx, dw)), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0)
