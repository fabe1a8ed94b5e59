## Both orders match, and the names mean the same: alpha goes with the product.
rule to_gemm reassociates: Add(Mul(MatMul(a, b), const p), Mul(c, const q))
  => Gemm(a, b, c, alpha=item(p), beta=item(q))
  if a.rank == 2 and b.rank == 2 and p.numel == 1 and q.numel == 1 and is_const(c)
test "product first":
  Add(Mul(MatMul(a: float32[2, 3], b: float32[3, 4]), 2.0), Mul(const c: float32[4], 3.0))
  => Gemm(a, b, c, alpha=2.0, beta=3.0)
test "product last":
  Add(Mul(const c: float32[4], 3.0), Mul(MatMul(a: float32[2, 3], b: float32[3, 4]), 2.0))
  => Gemm(a, b, c, alpha=2.0, beta=3.0)
test "factors first":
  Add(Mul(3.0, const c: float32[4]), Mul(2.0, MatMul(a: float32[2, 3], b: float32[3, 4])))
  => Gemm(a, b, c, alpha=2.0, beta=3.0)
test "the factors are not exchanged":
  place Add(Mul(MatMul(a: float32[2, 3], b: float32[3, 4]), s: float32[2, 4]), Mul(const c: float32[4], 3.0))
  => Add(Mul(MatMul(a, b), s), Mul(c, 3.0)) on host
