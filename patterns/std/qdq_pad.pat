## Borders around quantised images.

include "std/qdq.pat"

## Zeros around an image are the convolution's own padding, although its weights are decoded; encoded in between or not:
## zero has a code, and decoded values keep theirs (but for infinities, which codes that are floats can hold).
let around(p, rank) = all(p >= 0) and p[0] == p[1] == p[rank] == p[rank + 1] == 0
let widened(p, pads, rank) = concat([[p[i + 2] + pads[i] for i in iota(rank - 2)],
                                     [p[rank + i + 2] + pads[rank - 2 + i] for i in iota(rank - 2)]])
pattern bordered(v, p) = Pad(v, const p, 0 | none, none, mode="constant")
rule pad_into_qdq_conv: Conv(bordered(v, p), decoded(_, _, _) as w, b?) as conv
  => Conv(v, w, b, like conv, pads=widened(p, conv.pads, v.rank))
  if around(p, v.rank)
rule encoded_pad_into_conv: Conv(e, decoded(_, _, _) as w, b?) as conv
  => Conv(v, w, b, like conv, pads=widened(p, conv.pads, v.rank))
  where v = decoded(x, s, z); e = decoded(encoded(bordered(v, p), s, z), s, z)
  if around(p, v.rank) and x.dtype in whole and ordinary(s)

test "a border is the convolution's own":
  Conv(Pad(x: float32[1, 4, 8, 8], [0, 0, 1, 2, 0, 0, 3, 4], 0), d, b: float32[8], pads=[1, 1, 1, 1])
  => Conv(x, d, b, pads=[2, 3, 4, 5])
  where d = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a border of a signal is the convolution's own":
  Conv(Pad(x: float32[1, 4, 8], [0, 0, 1, 0, 0, 3]), d) => Conv(x, d, pads=[1, 3])
  where d = DequantizeLinear(const w: int8[8, 4, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a border that is cut off stays":
  place Conv(Pad(x: float32[1, 4, 8, 8], [0, 0, -1, -1, 0, 0, -1, -1], 0), d, pads=[1, 1, 1, 1])
  => Conv(Pad(x, [0, 0, -1, -1, 0, 0, -1, -1], 0), d, pads=[1, 1, 1, 1]) on host
  where d = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "channels that a border adds stay":
  place Conv(Pad(x: float32[1, 3, 8, 8], [0, 0, 0, 0, 0, 1, 0, 0], 0), d)
  => Conv(Pad(x, [0, 0, 0, 0, 0, 1, 0, 0], 0), d) on host
  where d = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "images that a border adds stay":
  place Conv(Pad(Reshape(x: float32[256], s: int64[4]), [1, 0, 0, 0, 0, 0, 0, 0], 0), d)
  => Conv(Pad(Reshape(x, s), [1, 0, 0, 0, 0, 0, 0, 0], 0), d) on host
  where d = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a border of ones stays":
  place Conv(Pad(x: float32[1, 4, 8, 8], [0, 0, 1, 1, 0, 0, 1, 1], 1), d)
  => Conv(Pad(x, [0, 0, 1, 1, 0, 0, 1, 1], 1), d) on host
  where d = DequantizeLinear(const w: int8[8, 4, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)

test "a border": Pad(v: float32[1, 4, 8, 8], [0, 0, 1, 2, 0, 0, 3, 4], 0) is bordered
test "a border of nothing said": Pad(v: float32[1, 4, 8, 8], [0, 0, 1, 2, 0, 0, 3, 4]) is bordered
test "a border of ones": Pad(v: float32[1, 4, 8, 8], [0, 0, 1, 2, 0, 0, 3, 4], 1) is not bordered
test "a reflected border": Pad(v: float32[1, 4, 8, 8], [0, 0, 1, 2, 0, 0, 3, 4], mode="reflect") is not bordered
test "a border of listed axes": Pad(v: float32[1, 4, 8, 8], [1, 2], 0, [3]) is not bordered

test "an encoded border is the convolution's own":
  Conv(e, w, b: float32[8], pads=[1, 1, 1, 1]) => Conv(v, w, b, pads=[2, 3, 4, 5])
  where v = DequantizeLinear(x: uint8[1, 4, 8, 8], const s: float32[] = 0.3, const z: uint8[] = 7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 1, 2, 0, 0, 3, 4], 0), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "an encoded border of no width": Conv(e, w, strides=[2, 2]) => Conv(v, w, strides=[2, 2])
  where v = DequantizeLinear(x: int8[1, 4, 8, 8], const s: float32[] = 0.3, const z: int8[] = -7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 0, 0, 0, 0, 0, 0], 0), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "an encoded border that is cut off stays": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: uint8[1, 4, 8, 8], const s: float32[] = 0.3, const z: uint8[] = 7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, -1, 0, 0, 0, 0, 0], 0), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "an encoded border of ones stays": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: uint8[1, 4, 8, 8], const s: float32[] = 0.3, const z: uint8[] = 7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 1, 2, 0, 0, 3, 4], 1), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "an encoded border of floats stays": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: float8_e5m2[1, 4, 8, 8], const s: float32[] = 0.5, const z: float8_e5m2[] = 0);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 1, 2, 0, 0, 3, 4], 0), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "an encoded border with a scale per channel stays": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: uint8[1, 4, 8, 8], const s: float32[4] = 0.3, const z: uint8[4] = 7, axis=1);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 1, 2, 0, 0, 3, 4], 0), s, z, axis=1), s, z, axis=1);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "an encoded border of steps that vanish stays": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: uint8[1, 4, 8, 8], const s: float32[] = 1e-45, const z: uint8[] = 7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 1, 2, 0, 0, 3, 4], 0), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "an encoded border of steps that overflow stays": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: uint8[1, 4, 8, 8], const s: float32[] = 3e+38, const z: uint8[] = 7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 1, 2, 0, 0, 3, 4], 0), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "encoded with another scale": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: uint8[1, 4, 8, 8], const s: float32[] = 0.3, const z: uint8[] = 7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 1, 2, 0, 0, 3, 4], 0), const t: float32[] = 0.2, z), t, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
test "channels around encoded ones stay": Conv(e, w) is not encoded_pad_into_conv
  where v = DequantizeLinear(x: uint8[1, 3, 8, 8], const s: float32[] = 0.3, const z: uint8[] = 7);
        e = DequantizeLinear(QuantizeLinear(Pad(v, [0, 0, 0, 0, 0, 1, 0, 0], 0), s, z), s, z);
        w = DequantizeLinear(const k: int8[8, 4, 3, 3], const ks: float32[] = 0.25, const kz: int8[] = 0)
