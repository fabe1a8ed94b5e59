## Rules that change the order of operators, so that composites see shapes that exporters have pulled apart. No target
## includes them: `-p std/reorder.pat` adds them to a run. Each ends, whatever the order in which they are used.

## What works element by element gives the same before and after a move of elements.
rule move_first for OP in {Relu, Sigmoid, Tanh}:
  OP(Transpose(x, perm=p)) <=> Transpose(OP(x), perm=p)
rule reshape_first for OP in {Relu, Sigmoid, Tanh}:
  OP(Reshape(x, s)) => Reshape(OP(x), s)
rule join_sums: Transpose(Add(x, y), perm=p) => Add(Transpose(x, perm=p), Transpose(y, perm=p))
  if x.rank == y.rank

## A product of matrices turned round.
rule turn_product: Transpose(MatMul(x: [_, _], y: [_, _]), perm=[1, 0])
  => MatMul(Transpose(y, perm=[1, 0]), Transpose(x, perm=[1, 0]))

## Signs.
rule two_signs: Neg(Neg(x)) => x
rule add_of_negative: Add(x, Neg(y)) => Sub(x, y)
rule sub_of_negative: Sub(x, Neg(y)) => Add(x, y)

## Constants meet: a rounding apart, sums and products of three are the same in any order.
rule sum_of_constants reassociates: Add(Add(x, const a), const b) => Add(x, a + b)
rule product_of_constants reassociates: Mul(Mul(x, const a), const b) => Mul(x, a * b)

## A factor for all elements goes into the weights.
rule factor_into_weights reassociates: Mul(product, const c) => MatMul(x, w * c)
  where product = MatMul(x, const w)
  if c.numel == 1 and c.rank <= product.rank
rule factor_past_product reassociates: MatMul(Mul(x, const c), const w) => MatMul(x, w * c)
  if c.numel == 1 and c.rank <= x.rank

test "a transpose comes last": Relu(Transpose(x: float32[2, 3], perm=[1, 0])) => Transpose(Relu(x), perm=[1, 0])
test "a transpose comes after a sigmoid":
  Sigmoid(Transpose(x: float32[2, 3], perm=[1, 0])) => Transpose(Sigmoid(x), perm=[1, 0])
test "a transpose comes after a tanh":
  Tanh(Transpose(x: float32[2, 3], perm=[1, 0])) => Transpose(Tanh(x), perm=[1, 0])
test "a transpose comes first": Transpose(Tanh(x: float32[2, 3]), perm=[1, 0]) => Tanh(Transpose(x, perm=[1, 0]))
test "a softmax is not moved":
  place Softmax(Transpose(x: float32[2, 3], perm=[1, 0]), axis=1)
  => Softmax(Transpose(x, perm=[1, 0]), axis=1) on host
test "nothing to move": place Tanh(Sigmoid(Relu(x: float32[8]))) => Tanh(Sigmoid(Relu(x))) on host
test "a reshape comes after relu": Relu(Reshape(x: float32[2, 6], [3, 4])) => Reshape(Relu(x), [3, 4])
test "a reshape comes after tanh": Tanh(Reshape(x: float32[2, 6], [3, 4])) => Reshape(Tanh(x), [3, 4])
test "a reshape comes last": Sigmoid(Reshape(x: float32[2, 6], [3, 4])) => Reshape(Sigmoid(x), [3, 4])
test "a sum of two transposes":
  Transpose(Add(x: float32[2, 3], y: float32[2, 3]), perm=[1, 0])
  => Add(Transpose(x, perm=[1, 0]), Transpose(y, perm=[1, 0]))
test "a sum that broadcasts is not taken apart":
  place Transpose(Add(x: float32[2, 3], y: float32[3]), perm=[1, 0])
  => Transpose(Add(x, y), perm=[1, 0]) on host
test "a product turned round":
  Transpose(MatMul(x: float32[2, 3], y: float32[3, 4]), perm=[1, 0])
  => MatMul(Transpose(y, perm=[1, 0]), Transpose(x, perm=[1, 0]))
test "two signs": Neg(Neg(x: float32[8])) => x
test "one sign stays": place Neg(x: float32[8]) => Neg(x) on host
test "plus a negative": Add(x: float32[8], Neg(y: float32[8])) => Sub(x, y)
test "minus a negative": Sub(x: float32[8], Neg(y: float32[8])) => Add(x, y)
test "a difference stays": place Sub(x: float32[8], y: float32[8]) => Sub(x, y) on host
test "two constants are one": Add(Add(x: float32[8], const a: float32[8] = 1), const b: float32[1] = 2) => Add(x, full([8], 3))
test "two factors are one": Mul(Mul(x: float32[8], const a: float32[8] = 2), const b: float32[1] = 3) => Mul(x, full([8], 6))
test "a factor after": Mul(MatMul(x: float32[2, 3], const w: float32[3, 4] = 2), const c: float32[] = 3)
  => MatMul(x, full([3, 4], 6))
test "a factor per column stays outside":
  place Mul(MatMul(x: float32[2, 3], const w: float32[3, 4]), const c: float32[4]) => Mul(MatMul(x, w), c) on host
test "a factor before": MatMul(Mul(x: float32[2, 3], const c: float32[1] = 3), const w: float32[3, 4] = 2)
  => MatMul(x, full([3, 4], 6))
test "a factor per column of the left stays there":
  place MatMul(Mul(x: float32[2, 3], const c: float32[3]), const w: float32[3, 3])
  => MatMul(Mul(x, c), w) on host
