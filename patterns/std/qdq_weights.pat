## Matrix products whose weights alone are quantised, with one scale per block of rows and column.

let narrow = {int4, uint4, int8, uint8}

## [K, N], in blocks along the rows; or [N, K], in blocks along the columns, and transposed afterwards.
pattern block_weights(w, scale, zero?, block) =
    (DequantizeLinear(const w: narrow[_, _], const scale, const zero?, axis=0, block_size=size)
     with block = size)
  | (Transpose(DequantizeLinear(const w: narrow[_, _], const scale, const zero?, axis=1, block_size=size), perm=[1, 0])
     with block = size)

## A whole number of blocks, of a size that kernels have.
pattern block_matmul(x, w, scale, zero?, bias?, block) =
    Add?(MatMul(x, block_weights(w, scale, zero, size)) as y, const bias?)
  if size in {16, 32, 64, 128, 256} and x.shape[-1] % size == 0 and bias.shape == [y.shape[-1]]
  with block = size

test "blocks of rows":
  DequantizeLinear(const w: uint4[64, 8] = 3, const s: float32[2, 8] = 0.5, const z: uint4[2, 8] = 8, axis=0,
                   block_size=32) is block_weights
test "blocks of columns, turned":
  Transpose(DequantizeLinear(const w: int4[8, 64] = 3, const s: float32[8, 2] = 0.5, axis=1, block_size=32),
            perm=[1, 0]) is block_weights
test "a product": MatMul(x: float32[1, 5, 64], dw) is block_matmul
  where dw = DequantizeLinear(const w: int4[64, 8] = 3, const s: float32[4, 8] = 0.5, axis=0, block_size=16)
test "a product in half precision, zero points and a bias":
  Add(MatMul(x: float16[1, 5, 64], Transpose(dw, perm=[1, 0])), const b: float16[8]) is block_matmul
  where dw = DequantizeLinear(const w: uint4[8, 64] = 3, const s: float16[8, 2] = 0.5, const z: uint4[8, 2] = 8,
                              axis=1, block_size=32)

test "one scale per column":
  DequantizeLinear(const w: int8[64, 8], const s: float32[8] = 0.5, axis=1) is not block_weights
test "blocks along the columns, not turned":
  DequantizeLinear(const w: int4[8, 64] = 3, const s: float32[8, 2] = 0.5, axis=1, block_size=32) is not block_weights
test "values in blocks": DequantizeLinear(w: int8[64, 8], const s: float32[2, 8] = 0.5, axis=0, block_size=32)
  is not block_weights
test "weights of sixteen bits":
  DequantizeLinear(const w: int16[64, 8] = 1, const s: float32[2, 8] = 0.5, axis=0, block_size=32) is not block_weights
test "weights without blocks":
  MatMul(x: float32[1, 5, 64], DequantizeLinear(const w: int8[64, 8], const s: float32[] = 0.5)) is not block_matmul
test "blocks of 20": MatMul(x: float32[1, 5, 60], dw) is not block_matmul
  where dw = DequantizeLinear(const w: int4[60, 8] = 3, const s: float32[3, 8] = 0.5, axis=0, block_size=20)
test "a block that is not full": MatMul(x: float32[1, 5, 72], dw) is not block_matmul
  where dw = DequantizeLinear(const w: int4[72, 8] = 3, const s: float32[3, 8] = 0.5, axis=0, block_size=32)
test "a bias per row": Add(MatMul(x: float32[5, 64], dw), const b: float32[5, 1]) is not block_matmul
  where dw = DequantizeLinear(const w: int4[64, 8] = 3, const s: float32[2, 8] = 0.5, axis=0, block_size=32)
test "the weights on the left": MatMul(dw, x: float32[8, 5]) is not block_matmul
  where dw = DequantizeLinear(const w: int4[64, 8] = 3, const s: float32[2, 8] = 0.5, axis=0, block_size=32)
