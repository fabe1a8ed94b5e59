## Normalisation after a product scales what beta and alpha have scaled already.
include "std/batch_norm.pat"
test "beta": BatchNormalization(Gemm(x: float32[2, 4], const w: float32[4, 3] = 1, const c: float32[3] = 2, beta=2),
    const g: float32[3] = 3, const b: float32[3] = 0.5, const m: float32[3] = 1, const v: float32[3] = 4, epsilon=0)
  => Gemm(x, full([4, 3], 1.5), full([3], 5), beta=1)
test "alpha": BatchNormalization(Gemm(x: float32[2, 4], const w: float32[4, 3] = 1, const c: float32[3] = 2, alpha=0.5),
    const g: float32[3] = 3, const b: float32[3] = 0.5, const m: float32[3] = 1, const v: float32[3] = 4, epsilon=0)
  => Gemm(x, full([4, 3], 1.5), full([3], 2), alpha=0.5)
test "beta of nothing": BatchNormalization(Gemm(x: float32[2, 4], const w: float32[4, 3] = 1, const c: float32[3] = 2, beta=0),
    const g: float32[3] = 3, const b: float32[3] = 0.5, const m: float32[3] = 1, const v: float32[3] = 4, epsilon=0)
  => Gemm(x, full([4, 3], 1.5), full([3], -1), beta=1)
