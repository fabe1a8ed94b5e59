## Quantised convolutions as quantisers write them: dequantise, compute in float, quantise again. What an integer kernel
## needs to know is in scales and zero points; what it multiplies by is `factor`, one number or one per channel.

include "std/activations.pat"      # activation(v)

let q8 = {int8, uint8}
let whole = {int4, uint4, int8, uint8, int16, uint16}
let biases = {int32, float32}
let per_tensor(s) = s.numel == 1

pattern dequantised(v, scale, zero?) = DequantizeLinear(v, const scale, const zero?, block_size=0)
pattern requantised(v, scale, zero?) = QuantizeLinear(v, const scale, const zero?, block_size=0)

## Weights with one scale, or one per output channel, which is axis 0 of the weights; their zero points are zero.
pattern conv_weights(w: q8[K, ...], scale) = dequantised(const w, scale, zero) as d
  if (per_tensor(scale) or scale.shape == [K] and d.axis == 0) and all(zero == 0)

## The bias is not there, float32, or int32 that counts steps of both scales.
pattern qdq_conv(x: q8[...], w, b?: biases[_], factor, zero_in, zero_out) =
    requantised(activation?(conv), ys, yz) as y
  where conv = Conv(dequantised(x, xs, xz), conv_weights(w, ws), dequantised?(const b, bs, bz)?)
  if y.dtype == x.dtype and per_tensor(xs) and per_tensor(ys) and close(bs, xs * ws) and all(bz == 0)
  with factor = xs * ws / ys, zero_in = default(xz, 0), zero_out = default(yz, 0)

## What an activation cuts off, the quantiser cuts off as well, where its range starts there. A quarter of a step is
## within what rounding forgives.
rule relu_in_quantiser: QuantizeLinear(Relu(x), const s, const z?) as q => QuantizeLinear(x, s, z, like q)
  if all(default(z, 0) == lowest(q.dtype))
rule clip_in_quantiser: QuantizeLinear(Clip(x, const low?, const high?), const s, const z?) as q
  => QuantizeLinear(x, s, z, like q)
  if q.dtype in whole and all(low <= s * (lowest(q.dtype) - default(z, 0) + 0.25))
     and all(high >= s * (highest(q.dtype) - default(z, 0) - 0.25))

test "a value": DequantizeLinear(x: int8[8], const s: float32[] = 0.5, const z: int8[] = 3) is dequantised
test "a value without a zero point": DequantizeLinear(x: uint8[8], const s: float32[] = 0.5) is dequantised
test "a result": QuantizeLinear(x: float32[8], const s: float32[] = 0.5, const z: int8[] = 3) is requantised
test "weights, one scale": DequantizeLinear(const w: int8[8, 4, 3, 3], const s: float32[] = 0.5) is conv_weights
test "weights, a scale per output channel":
  DequantizeLinear(const w: int8[8, 4, 3, 3], const s: float32[8] = 0.5, const z: int8[8] = 0, axis=0) is conv_weights
test "no bias": QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25)
test "a raw bias, scales per channel":
  QuantizeLinear(Conv(dx, dw, const b: float32[8]), const ys: float32[] = 0.75, const yz: uint8[] = 3) is qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0)
test "a dequantised bias and an activation":
  QuantizeLinear(Relu(Conv(dx, dw, db)), const ys: float32[] = 0.75, const yz: uint8[] = 3) is qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[8] = 0.125, const bz: int32[8] = 0, axis=0)

test "a value whose scale is computed": DequantizeLinear(x: int8[8], s: float32[]) is not dequantised
test "a value in blocks":
  DequantizeLinear(x: int8[8, 4], const s: float32[2, 4], axis=0, block_size=4) is not dequantised
test "a result in blocks":
  QuantizeLinear(x: float32[8, 4], const s: float32[2, 4], axis=0, block_size=4) is not requantised
test "weights, a scale per input channel":
  DequantizeLinear(const w: int8[8, 8, 3, 3], const s: float32[8] = 0.5, axis=1) is not conv_weights
test "weights with zero points":
  DequantizeLinear(const w: int8[8, 4, 3, 3], const s: float32[] = 0.5, const z: int8[] = 1) is not conv_weights
test "scales of input channels, as many as output channels":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5);
        dw = DequantizeLinear(const w: int8[8, 8, 3, 3], const ws: float32[8] = 0.25, axis=1)
test "values with a scale per channel":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[4] = 0.5, axis=1);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25)
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
        db = DequantizeLinear(const b: int32[8], const bs: float32[8] = 0.25, axis=0)
test "a bias with a zero point":
  QuantizeLinear(Conv(dx, dw, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[8] = 0.125, const bz: int32[8] = 1, axis=0)
test "a bias of eight bits":
  QuantizeLinear(Conv(dx, dw, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0);
        db = DequantizeLinear(const b: int8[8], const bs: float32[8] = 0.125, axis=0)
test "exp between": QuantizeLinear(Exp(Conv(dx, dw)), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not qdq_conv
  where dx = DequantizeLinear(x: uint8[1, 4, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 128);
        dw = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[8] = 0.25, const wz: int8[8] = 0, axis=0)

test "relu in the quantiser":
  QuantizeLinear(Relu(x: float32[8]), const s: float32[] = 0.5, const z: uint8[] = 0) => QuantizeLinear(x, s, z)
test "relu in the quantiser, no zero point":
  QuantizeLinear(Relu(x: float32[8]), const s: float32[] = 0.5) => QuantizeLinear(x, s)
test "relu in the signed quantiser, per channel":
  QuantizeLinear(Relu(x: float32[2, 8]), const s: float32[2] = 0.5, const z: int8[2] = -128, axis=0)
  => QuantizeLinear(x, s, z, axis=0)
test "relu6 in the quantiser":
  QuantizeLinear(Clip(x: float32[8], 0, 6), const s: float32[] = 0.023529412, const z: uint8[] = 0)
  => QuantizeLinear(x, s, z)
test "one bound in the quantiser":
  QuantizeLinear(Clip(x: float32[8], -1), const s: float32[] = 0.0078125, const z: int8[] = 0)
  => QuantizeLinear(x, s, z)
test "relu before a zero point in the middle":
  place QuantizeLinear(Relu(x: float32[8]), const s: float32[] = 0.5, const z: uint8[] = 128)
  => QuantizeLinear(Relu(x), s, z) on host
test "relu6 before a wider range":
  place QuantizeLinear(Clip(x: float32[8], 0, 6), const s: float32[] = 0.05, const z: uint8[] = 0)
  => QuantizeLinear(Clip(x, 0, 6), s, z) on host
test "a bound above what the range starts with":
  place QuantizeLinear(Clip(x: float32[8], 0, 6), const s: float32[] = 0.01, const z: uint8[] = 10)
  => QuantizeLinear(Clip(x, 0, 6), s, z) on host
test "floats of eight bits, which may overflow":
  place QuantizeLinear(Clip(x: float32[8], -500, 500), const s: float32[] = 1, const z: float8_e4m3fn[] = 0, saturate=0)
  => QuantizeLinear(Clip(x, -500, 500), s, z, saturate=0) on host
