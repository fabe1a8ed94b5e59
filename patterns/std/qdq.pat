## Values as codes: whole numbers of eight or sixteen bits, a scale and a zero point. What of a quantised graph needs no
## arithmetic is done on the codes, and what quantisers do anyway is left to them. All of it is exact.

let q8 = {int8, uint8}
let whole = {int8, uint8, int16, uint16}
let per_tensor(s) = s.numel == 1
## One scale for all, of which 2^16 steps neither overflow nor vanish, in floats that tell so many steps apart.
let ordinary(s) = s.dtype == float32 and item(s) >= 1e-30 and item(s) <= 1e+30

## The value that codes stand for, and the codes of a value; the zero point is written.
pattern decoded(x, scale, zero) = DequantizeLinear(x, const scale, const zero, block_size=0)
pattern encoded(v, scale, zero) = QuantizeLinear(v, const scale, const zero, block_size=0)

## What integer kernels read and write: codes of eight bits with one scale; weights with one or with one per output
## channel, which are rows (convolutions, Gemm with transB) or columns, their zero points zero; biases that count steps
## of both scales. Before the result is encoded, it may be cut off.
pattern rectified(v) = Relu(v) | (Clip(v, const low, const high) if all(low < high))
pattern codes_in(x: q8[...], scale, zero) = decoded(x, scale, zero) if per_tensor(scale)
pattern codes_out(v, scale, zero) = encoded(v, scale, zero) if per_tensor(scale)
pattern row_weights(w: q8[K, ...], scale) = decoded(const w, scale, zero) as d
  if (per_tensor(scale) or scale.shape == [K] and d.axis == 0) and all(zero == 0)
pattern column_weights(w: q8[_, K], scale) = decoded(const w, scale, zero) as d
  if (per_tensor(scale) or scale.shape == [K] and d.axis == 1) and all(zero == 0)
pattern bias_steps(b: int32[_], scale) = decoded(const b, scale, zero) if all(zero == 0)

## A zero point that is left out is zero; written, one form is enough for all that follows.
rule write_zero: DequantizeLinear(x, const s, none) as d => DequantizeLinear(x, s, full(s.shape, 0), like d)
rule write_zero_of_codes: QuantizeLinear(v, const s, none) as q
  => QuantizeLinear(v, s, full(s.shape, 0, uint8), like q)
  if q.dtype == uint8

## What only moves values between decoding and encoding moves their codes. (Decoding and encoding alone could be left
## out as well; but then the codes could be had from themselves, and such circles cost the search its proofs.)
rule transpose_codes: encoded(Transpose(decoded(x, s, z)) as v, s, z) => Transpose(x, like v)
  if x.dtype in whole and ordinary(s)
rule reshape_codes: encoded(Reshape(decoded(x, s, z), _) as v, s, z) => Reshape(x, v.shape)
  if x.dtype in whole and ordinary(s)
rule pool_codes: encoded(MaxPool(decoded(x, s, z)) as v, s, z) => MaxPool(x, like v)
  if ordinary(s)

## Zero has a code.
rule zero_decoded: decoded(encoded(const c, s, z), s, z) => c
  if all(c == 0) and z.dtype in whole and ordinary(s)

## What an activation cuts off, the quantiser cuts off as well, where its range starts there. A quarter of a step is
## within what rounding forgives. Compared in half precision, a bound could be a whole step off.
rule relu_in_quantiser: QuantizeLinear(Relu(x), const s, const z) as q => QuantizeLinear(x, s, z, like q)
  if all(z == lowest(q.dtype))
rule clip_in_quantiser: QuantizeLinear(Clip(x, const low?, const high?), const s, const z) as q
  => QuantizeLinear(x, s, z, like q)
  if q.dtype in whole and all(low - s * (lowest(q.dtype) - z + 0.25) <= 0)
     and all(high - s * (highest(q.dtype) - z - 0.25) >= 0)

test "a value": DequantizeLinear(x: int8[8], const s: float32[] = 0.5, const z: int8[] = 3) is decoded
test "codes": QuantizeLinear(v: float32[8], const s: float32[] = 0.5, const z: int8[] = 3) is encoded
test "a value whose scale is computed": DequantizeLinear(x: int8[8], s: float32[], const z: int8[] = 3) is not decoded
test "a value in blocks":
  DequantizeLinear(x: int8[8, 4], const s: float32[2, 4], const z: int8[2, 4], axis=0, block_size=4) is not decoded
test "codes in blocks":
  QuantizeLinear(v: float32[8, 4], const s: float32[2, 4], const z: int8[2, 4], axis=0, block_size=4) is not encoded

test "relu": Relu(v: float32[8]) is rectified
test "relu6": Clip(v: float32[8], 0, 6) is rectified
test "one bound": Clip(v: float32[8], 0) is not rectified
test "bounds that leave one value": Clip(v: float32[8], 6, 6) is not rectified
test "a function": Tanh(v: float32[8]) is not rectified

test "codes in": DequantizeLinear(x: uint8[8], const s: float32[] = 0.5, const z: uint8[] = 3) is codes_in
test "codes in of sixteen bits": DequantizeLinear(x: int16[8], const s: float32[] = 0.5, const z: int16[] = 3)
  is not codes_in
test "codes in, a scale per channel":
  DequantizeLinear(x: uint8[2, 8], const s: float32[2] = 0.5, const z: uint8[2] = 3, axis=0) is not codes_in
test "codes out": QuantizeLinear(v: float32[8], const s: float32[] = 0.5, const z: uint8[] = 3) is codes_out
test "codes out, a scale in a list":
  QuantizeLinear(Relu(v: float32[8]), const s: float32[1] = 0.5, const z: uint8[1] = 3) is codes_out
test "codes out, a scale per channel":
  QuantizeLinear(v: float32[2, 8], const s: float32[2] = 0.5, const z: uint8[2] = 3, axis=0) is not codes_out
test "weights, one scale":
  DequantizeLinear(const w: int8[8, 4, 3, 3], const s: float32[] = 0.5, const z: int8[] = 0) is row_weights
test "weights, a scale per row":
  DequantizeLinear(const w: int8[8, 4, 3, 3], const s: float32[8] = 0.5, const z: int8[8] = 0, axis=0) is row_weights
test "weights, a scale per input channel":
  DequantizeLinear(const w: int8[8, 8, 3, 3], const s: float32[8] = 0.5, const z: int8[8] = 0, axis=1)
  is not row_weights
test "weights with zero points":
  DequantizeLinear(const w: int8[8, 4, 3, 3], const s: float32[] = 0.5, const z: int8[] = 1) is not row_weights
test "columns, one scale": DequantizeLinear(const w: int8[4, 8], const s: float32[] = 0.5, const z: int8[] = 0)
  is column_weights
test "columns, a scale each":
  DequantizeLinear(const w: int8[4, 8], const s: float32[8] = 0.5, const z: int8[8] = 0, axis=-1) is column_weights
test "rows, a scale each":
  DequantizeLinear(const w: int8[8, 8], const s: float32[8] = 0.5, const z: int8[8] = 0, axis=0) is not column_weights
test "columns with zero points":
  DequantizeLinear(const w: int8[4, 8], const s: float32[] = 0.5, const z: int8[] = 1) is not column_weights
test "a bias": DequantizeLinear(const b: int32[8], const s: float32[8] = 0.5, const z: int32[8] = 0, axis=0)
  is bias_steps
test "a bias with a zero point":
  DequantizeLinear(const b: int32[8], const s: float32[8] = 0.5, const z: int32[8] = 1, axis=0) is not bias_steps
test "a bias of eight bits": DequantizeLinear(const b: int8[8], const s: float32[] = 0.5, const z: int8[] = 0)
  is not bias_steps

test "no zero point": DequantizeLinear(x: uint8[8], const s: float32[] = 0.5)
  => DequantizeLinear(x, s, 0)
test "no zero points of channels": DequantizeLinear(x: int8[2, 8], const s: float32[2] = 0.5, axis=0)
  => DequantizeLinear(x, s, full([2], 0), axis=0)
test "codes without a zero point":
  (QuantizeLinear(v: float32[8], const s: float32[] = 0.5), Add(a: uint8[], const z: uint8[] = 0))
  => (QuantizeLinear(v, s, z), Add(a, z))
test "codes of another type without a zero point":
  QuantizeLinear(v: float32[8], const s: float32[] = 0.5, output_dtype=5) is not write_zero_of_codes
test "a zero point that is written":
  place DequantizeLinear(x: uint8[8], const s: float32[] = 0.5, const z: uint8[] = 3)
  => DequantizeLinear(x, s, z) on host

test "transposed codes": QuantizeLinear(Transpose(d, perm=[1, 0]), s, z) => Transpose(x, perm=[1, 0])
  where d = DequantizeLinear(x: uint8[2, 3], const s: float32[] = 0.3, const z: uint8[] = 7)
test "transposed codes, floats of eight bits":
  place QuantizeLinear(Transpose(d, perm=[1, 0]), s, z) => QuantizeLinear(Transpose(d, perm=[1, 0]), s, z) on host
  where d = DequantizeLinear(x: float8_e4m3fn[2, 3], const s: float32[] = 0.3, const z: float8_e4m3fn[] = 0)
test "transposed codes, a scale per channel":
  place QuantizeLinear(Transpose(d, perm=[1, 0]), s, z, axis=1)
  => QuantizeLinear(Transpose(d, perm=[1, 0]), s, z, axis=1) on host
  where d = DequantizeLinear(x: uint8[3, 3], const s: float32[3] = 0.3, const z: uint8[3] = 7, axis=1)
test "transposed codes, steps that vanish":
  place QuantizeLinear(Transpose(d, perm=[1, 0]), s, z) => QuantizeLinear(Transpose(d, perm=[1, 0]), s, z) on host
  where d = DequantizeLinear(x: uint8[2, 3], const s: float32[] = 1e-45, const z: uint8[] = 7)
test "transposed codes, steps that overflow":
  place QuantizeLinear(Transpose(d, perm=[1, 0]), s, z) => QuantizeLinear(Transpose(d, perm=[1, 0]), s, z) on host
  where d = DequantizeLinear(x: uint8[2, 3], const s: float32[] = 3e+38, const z: uint8[] = 7)

test "reshaped codes": QuantizeLinear(Reshape(d, [3, 2]), s, z) => Reshape(x, [3, 2])
  where d = DequantizeLinear(x: uint8[2, 3], const s: float32[] = 0.3, const z: uint8[] = 7)
test "reshaped codes, floats of eight bits":
  place QuantizeLinear(Reshape(d, [3, 2]), s, z) => QuantizeLinear(Reshape(d, [3, 2]), s, z) on host
  where d = DequantizeLinear(x: float8_e4m3fn[2, 3], const s: float32[] = 0.3, const z: float8_e4m3fn[] = 0)
test "reshaped codes, a scale per channel":
  place QuantizeLinear(Reshape(d, [3, 2]), s, z, axis=1) => QuantizeLinear(Reshape(d, [3, 2]), s, z, axis=1) on host
  where d = DequantizeLinear(x: uint8[3, 2], const s: float32[2] = 0.3, const z: uint8[2] = 7, axis=1)
test "reshaped codes, steps that vanish":
  place QuantizeLinear(Reshape(d, [3, 2]), s, z) => QuantizeLinear(Reshape(d, [3, 2]), s, z) on host
  where d = DequantizeLinear(x: uint8[2, 3], const s: float32[] = 1e-45, const z: uint8[] = 7)
test "reshaped codes, steps that overflow":
  place QuantizeLinear(Reshape(d, [3, 2]), s, z) => QuantizeLinear(Reshape(d, [3, 2]), s, z) on host
  where d = DequantizeLinear(x: uint8[2, 3], const s: float32[] = 3e+38, const z: uint8[] = 7)

test "pooled codes": QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z) => MaxPool(x, kernel_shape=[2, 2])
  where d = DequantizeLinear(x: uint8[1, 2, 4, 4], const s: float32[] = 0.3, const z: uint8[] = 7)
test "pooled codes, in sixteen bits, which pooling does not know":
  place QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z)
  => QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z) on host
  where d = DequantizeLinear(x: int16[1, 2, 4, 4], const s: float32[] = 0.3, const z: int16[] = 7)
test "pooled codes, a scale per channel":
  place QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z, axis=1)
  => QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z, axis=1) on host
  where d = DequantizeLinear(x: uint8[1, 2, 4, 4], const s: float32[2] = 0.3, const z: uint8[2] = 7, axis=1)
test "pooled codes, steps in half precision":
  place QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z) => QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z) on host
  where d = DequantizeLinear(x: uint8[1, 2, 4, 4], const s: float16[] = 0.3, const z: uint8[] = 7)
test "pooled codes, steps that vanish":
  place QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z)
  => QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z) on host
  where d = DequantizeLinear(x: uint8[1, 2, 4, 4], const s: float32[] = 1e-45, const z: uint8[] = 7)
test "pooled codes, steps that overflow":
  place QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z)
  => QuantizeLinear(MaxPool(d, kernel_shape=[2, 2]), s, z) on host
  where d = DequantizeLinear(x: uint8[1, 2, 4, 4], const s: float32[] = 3e+38, const z: uint8[] = 7)

test "zero has a code": Add(x: float32[8], d) => Add(x, c)
  where d = DequantizeLinear(QuantizeLinear(const c: float32[] = 0, const s: float32[] = 1, const z: uint8[] = 7), s, z)
test "one may have none":
  place Add(x: float32[8], d) => Add(x, d) on host
  where d = DequantizeLinear(QuantizeLinear(const c: float32[] = 1, const s: float32[] = 1, const z: uint8[] = 7), s, z)
test "zero in floats of eight bits":
  place Add(x: float32[8], d) => Add(x, d) on host
  where d = DequantizeLinear(QuantizeLinear(const c: float32[] = 0,
                                            const s: float32[] = 1, const z: float8_e4m3fn[] = 0), s, z)
test "zeros with a scale per channel":
  place Add(x: float32[8, 2], d) => Add(x, d) on host
  where d = DequantizeLinear(QuantizeLinear(const c: float32[2] = 0,
                                            const s: float32[2] = 1, const z: uint8[2] = 7, axis=0), s, z, axis=0)
test "zero of steps that vanish":
  place Add(x: float32[8], d) => Add(x, d) on host
  where d = DequantizeLinear(QuantizeLinear(const c: float32[] = 0,
                                            const s: float32[] = 1e-45, const z: uint8[] = 7), s, z)
test "zero of steps that overflow":
  place Add(x: float32[8], d) => Add(x, d) on host
  where d = DequantizeLinear(QuantizeLinear(const c: float32[] = 0,
                                            const s: float32[] = 3e+38, const z: uint8[] = 7), s, z)

test "relu in the quantiser":
  QuantizeLinear(Relu(x: float32[8]), const s: float32[] = 0.5, const z: uint8[] = 0) => QuantizeLinear(x, s, z)
test "relu in the quantiser, no zero point":
  (QuantizeLinear(Relu(x: float32[8]), const s: float32[] = 0.5), Add(a: uint8[], const z: uint8[] = 0))
  => (QuantizeLinear(x, s, z), Add(a, z))
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
test "a bound that half precision takes for the start of the range":
  place QuantizeLinear(Clip(x: float16[8], -8192), const s: float16[] = 0.25, const z: int16[] = 1)
  => QuantizeLinear(Clip(x, -8192), s, z) on host
test "a bound that half precision takes for the end of the range":
  place QuantizeLinear(Clip(x: float16[8], -60000, 8192), const s: float16[] = 0.25, const z: int16[] = -2)
  => QuantizeLinear(Clip(x, -60000, 8192), s, z) on host
test "relu6 in the quantiser in half precision":
  QuantizeLinear(Clip(x: float16[8], 0, 6), const s: float16[] = 0.0235, const z: uint8[] = 0) => QuantizeLinear(x, s, z)
test "the other bound in the quantiser":
  QuantizeLinear(Clip(x: float32[8], none, 1), const s: float32[] = 0.0078125, const z: int8[] = 0)
  => QuantizeLinear(x, s, z)
