## Matrix products whose left side is quantised as the model runs: the smallest and the largest value give scale and
## zero point, whole numbers are multiplied, and the sums are scaled with both steps.

include "std/qdq.pat"

## Weights of eight bits, their zero points zero, with one scale or one per column; a bias per column or none.
pattern dynamic_linear(a, zero, step, w: q8[_, K], b?: float32[K]) = Add?(Mul(Cast(sum), factor) as y, const b?)
  where sum = MatMulInteger(a, const w, zero, const wz?); factor = Mul(step, const ws)
  if (per_tensor(ws) or ws.shape == [K]) and all(wz == 0) and y.dtype == float32

test "a product": Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)) is dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[], const wz: int8[] = 0)
test "a scale and a zero point per column, and a bias":
  Add(Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[4] = 0.5)), const b: float32[4]) is dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[], const wz: int8[4] = 0)
test "no zero points of the weights": Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)) is dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[])

test "weights around another zero":
  Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)) is not dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[], const wz: int8[] = 3)
test "weights that are computed": Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)) is not dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], w: int8[8, 4], z: uint8[], const wz: int8[] = 0)
test "a scale per row": Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[2, 1] = 0.5)) is not dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[], const wz: int8[] = 0)
test "in half precision": Mul(Cast(m, to=10), Mul(s: float16[], const ws: float16[] = 0.5)) is not dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[], const wz: int8[] = 0)
test "a bias per row": Add(Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)), const b: float32[2, 1])
  is not dynamic_linear
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[], const wz: int8[] = 0)
