## The permutation counts, not the operator's name.
rule transposed: Gemm(Transpose(a, perm=[1, 0]), b, c) as g => Gemm(a, b, c, like g, transA=1 - g.transA)
test "identity, square":
  place Gemm(Transpose(a: float32[2, 2], perm=[0, 1]), b: float32[2, 2], c: float32[2])
  => Gemm(Transpose(a, perm=[0, 1]), b, c) on host
test "exchanged": Gemm(Transpose(a: float32[2, 2], perm=[1, 0]), b: float32[2, 2], c: float32[2]) => Gemm(a, b, c, transA=1)
test "exchanged by default": Gemm(Transpose(a: float32[2, 2]), b: float32[2, 2], c: float32[2]) => Gemm(a, b, c, transA=1)
test "transposed already":
  Gemm(Transpose(a: float32[2, 3], perm=[1, 0]), b: float32[3, 4], c: float32[4], transA=1, alpha=0.5)
  => Gemm(a, b, c, alpha=0.5)
