## Softmax between quantisers. Its results lie between 0 and 1, and integer kernels know one quantisation of them for
## each dtype: steps of 1 / 256 from the least number.

include "std/qdq.pat"

pattern qdq_softmax(x, scale) = encoded(Softmax(codes_in(x, scale, _), axis=-1), s, z) as y
  if item(s) == 1 / 256 and y.dtype == x.dtype and all(z == (if y.dtype == uint8 then 0 else -128))

test "unsigned":
  QuantizeLinear(Softmax(d, axis=-1), const s: float32[] = 0.00390625, const z: uint8[] = 0) is qdq_softmax
  where d = DequantizeLinear(x: uint8[2, 8], const xs: float32[] = 0.1, const xz: uint8[] = 7)
test "signed":
  QuantizeLinear(Softmax(d, axis=1), const s: float32[] = 0.00390625, const z: int8[] = -128) is qdq_softmax
  where d = DequantizeLinear(x: int8[2, 8], const xs: float32[] = 0.1, const xz: int8[] = 7)

test "steps of 1 / 255":
  QuantizeLinear(Softmax(d, axis=-1), const s: float32[] = 0.003921569, const z: uint8[] = 0) is not qdq_softmax
  where d = DequantizeLinear(x: uint8[2, 8], const xs: float32[] = 0.1, const xz: uint8[] = 7)
test "signed from zero":
  QuantizeLinear(Softmax(d, axis=-1), const s: float32[] = 0.00390625, const z: int8[] = 0) is not qdq_softmax
  where d = DequantizeLinear(x: int8[2, 8], const xs: float32[] = 0.1, const xz: int8[] = 7)
test "unsigned from 128":
  QuantizeLinear(Softmax(d, axis=-1), const s: float32[] = 0.00390625, const z: uint8[] = 128) is not qdq_softmax
  where d = DequantizeLinear(x: uint8[2, 8], const xs: float32[] = 0.1, const xz: uint8[] = 7)
test "unsigned from signed":
  QuantizeLinear(Softmax(d, axis=-1), const s: float32[] = 0.00390625, const z: uint8[] = 0) is not qdq_softmax
  where d = DequantizeLinear(x: int8[2, 8], const xs: float32[] = 0.1, const xz: int8[] = 7)
test "a scale per column of values":
  QuantizeLinear(Softmax(d, axis=-1), const s: float32[] = 0.00390625, const z: uint8[] = 0) is not qdq_softmax
  where d = DequantizeLinear(x: uint8[2, 8], const xs: float32[8] = 0.1, const xz: uint8[8] = 7, axis=1)
test "softmax of columns":
  QuantizeLinear(Softmax(d, axis=0), const s: float32[] = 0.00390625, const z: uint8[] = 0) is not qdq_softmax
  where d = DequantizeLinear(x: uint8[2, 8], const xs: float32[] = 0.1, const xz: uint8[] = 7)
