## No guard speaks of ranks here: a result of another shape is never merged.
rule to_gemm reassociates: Add(MatMul(a, b), c) => Gemm(a, b, c)
test "a row": Add(MatMul(a: float32[2, 4], b: float32[4, 3]), c: float32[3]) => Gemm(a, b, c)
test "the whole": Add(c: float32[2, 3], MatMul(a: float32[2, 4], b: float32[4, 3])) => Gemm(a, b, c)
test "three more dimensions":
  place Add(MatMul(a: float32[2, 4], b: float32[4, 3]), c: float32[1, 1, 1, 2, 3]) => Add(MatMul(a, b), c) on host
test "one more dimension":
  place Add(MatMul(a: float32[2, 4], b: float32[4, 3]), c: float32[1, 2, 3]) => Add(MatMul(a, b), c) on host
test "a bias that enlarges":
  place Add(MatMul(a: float32[1, 4], b: float32[4, 3]), c: float32[2, 3]) => Add(MatMul(a, b), c) on host
test "a batch": place Add(MatMul(a: float32[5, 2, 4], b: float32[4, 3]), c: float32[3]) => Add(MatMul(a, b), c) on host
