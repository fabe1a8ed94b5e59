## Products of two matrices with a scaled addend, as Gemm: alpha * a @ b + beta * c.

## A product by itself, or one that a number scales; attributes hold numbers in single precision.
pattern scaled_product(a: [_, K], b: [K, _], alpha) =
    (Mul(MatMul(a, b), const k) if k.numel == 1 and k.rank <= 2 and k.dtype != float64
     with alpha = item(k))
  | (MatMul(a, b) with alpha = 1)

## The addend is laid over the product; where it is, or may be, the larger, the result would not be the product's.
rule gemm_from_matmul reassociates: Add(scaled_product(a, b, alpha) as p, c) as y
  => Gemm(a, b, c, alpha=alpha, beta=1) if y.shape == p.shape
rule scale_into_gemm reassociates: Gemm(a, b, Mul(c, const k)) as g => Gemm(a, b, c, like g, beta=g.beta * item(k))
  if k.dtype != float64

## A transposed operand, by a permutation that does exchange the two.
rule transposed_left: Gemm(Transpose(a, perm=[1, 0]), b, c?) as g => Gemm(a, b, c, like g, transA=1 - g.transA)
rule transposed_right: Gemm(a, Transpose(b, perm=[1, 0]), c?) as g => Gemm(a, b, c, like g, transB=1 - g.transB)

test "a product": MatMul(a: float32[2, 4], b: float32[4, 3]) is scaled_product
test "a scaled product": Mul(0.5, MatMul(a: float32[2, 4], b: float32[4, 3])) is scaled_product
test "a product of stacks": MatMul(a: float32[2, 2, 4], b: float32[4, 3]) is not scaled_product
test "a scale per column": Mul(MatMul(a: float32[2, 4], b: float32[4, 3]), const k: float32[3]) is not scaled_product
test "a scale in double precision":
  Mul(MatMul(a: float64[2, 4], b: float64[4, 3]), const k: float64[] = 0.1) is not scaled_product
test "a scale with an axis more":
  Mul(MatMul(a: float32[2, 4], b: float32[4, 3]), const k: float32[1, 1, 1] = 2) is not scaled_product

test "an addend of more rows": Add(MatMul(a: float32[1, 4], b: float32[4, 3]), c: float32[2, 3]) is not gemm_from_matmul
test "an addend of other rows": Add(MatMul(a: float32[N, 4], b: float32[4, 3]), c: float32[M, 3]) is not gemm_from_matmul
test "an addend of as many rows": Add(MatMul(a: float32[N, 4], b: float32[4, 3]), c: float32[N, 1]) is gemm_from_matmul
test "a product and an addend":
  Add(MatMul(a: float32[2, 4], b: float32[4, 3]), c: float32[3]) => Gemm(a, b, c, alpha=1, beta=1)
test "both scaled, in one order":
  Add(Mul(MatMul(a: float32[2, 4], b: float32[4, 3]), 0.5), Mul(c: float32[2, 1], 2))
  => Gemm(a, b, c, alpha=0.5, beta=2)
test "both scaled, in the other":
  Add(Mul(c: float32[2, 1], 2), Mul(0.5, MatMul(a: float32[2, 4], b: float32[4, 3])))
  => Gemm(a, b, c, alpha=0.5, beta=2)
test "an addend scaled per column":
  place Gemm(a: float32[2, 4], b: float32[4, 3], Mul(c: float32[3], const k: float32[3]))
  => Gemm(a, b, Mul(c, k)) on host
test "an addend scaled in double precision":
  place Gemm(a: float64[2, 4], b: float64[4, 3], Mul(c: float64[3], const k: float64[] = 0.1))
  => Gemm(a, b, Mul(c, k)) on host
test "an addend of higher rank stays":
  place Add(MatMul(a: float32[2, 4], b: float32[4, 3]), c: float32[1, 1, 1, 2, 3]) => Add(MatMul(a, b), c) on host
test "a product that is laid over the addend stays":
  place Add(MatMul(a: float32[1, 4], b: float32[4, 3]), c: float32[2, 3]) => Add(MatMul(a, b), c) on host
test "a transposed left operand":
  Gemm(Transpose(a: float32[4, 2], perm=[1, 0]), b: float32[4, 3], c: float32[3], beta=2)
  => Gemm(a, b, c, transA=1, beta=2)
test "a left operand transposed twice": Gemm(Transpose(a: float32[2, 4], perm=[1, 0]), b: float32[4, 3], transA=1)
  => Gemm(a, b)
test "a transposed right operand": Gemm(a: float32[2, 4], Transpose(b: float32[3, 4], perm=[1, 0]), c: float32[3])
  => Gemm(a, b, c, transB=1)
test "a permutation that changes nothing":
  place Gemm(Transpose(a: float32[2, 2], perm=[0, 1]), b: float32[2, 2], c: float32[2])
  => Gemm(Transpose(a, perm=[0, 1]), b, c) on host
test "neither does this one":
  place Gemm(a: float32[2, 2], Transpose(b: float32[2, 2], perm=[0, 1]), c: float32[2])
  => Gemm(a, Transpose(b, perm=[0, 1]), c) on host
