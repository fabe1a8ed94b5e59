## Softmax attention on split heads as exporters spell it: softmax(q @ k^T * scale + mask) @ v, the keys already
## transposed.

## The scale is taken of the scores, of the queries, of the keys or, as its root, of both; `scale` is what it amounts
## to.
pattern scaled_scores(q, kt, scale) =
    (Mul(MatMul(q, kt), const c) if c.numel == 1 with scale = item(c))
  | (Div(MatMul(q, kt), const c) if c.numel == 1 with scale = 1 / item(c))
  | (MatMul(Mul(q, const c), kt) if c.numel == 1 with scale = item(c))
  | (MatMul(Div(q, const c), kt) if c.numel == 1 with scale = 1 / item(c))
  | (MatMul(q, Mul(kt, const c)) if c.numel == 1 with scale = item(c))
  | (MatMul(q, Div(kt, const c)) if c.numel == 1 with scale = 1 / item(c))
  | (MatMul(Mul(q, const c), Mul(kt, const d)) if c.numel * d.numel == 1 with scale = item(c) * item(d))
  | (MatMul(Div(q, const c), Div(kt, const d)) if c.numel * d.numel == 1 with scale = 1 / (item(c) * item(d)))

## A mask is added to the scores: zeros, and minus infinity where a key must not be seen.
pattern masked(scores, mask?) = Add?(scores, mask?)

## Softmax over the keys; some exporters turn rows without any visible key from NaN to zero.
pattern safe_softmax(s) = Where(IsNaN(p), 0, p) | p
  where p = Softmax(s, axis=-1)

pattern attention(q, kt, v, scale, mask?) = MatMul(safe_softmax(masked(scaled_scores(q, kt, scale), mask)), v)

test "scores, scaled by a product":
  Mul(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), const c: float32[] = 0.35355339) is scaled_scores
test "scores, divided":
  Div(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), const c: float32[] = 2.828427) is scaled_scores
test "scaled queries": MatMul(Div(q: float32[1, 4, 16, 8], const c: float32[] = 2.828427), kt: float32[1, 4, 8, 16])
  is scaled_scores
test "scaled keys": MatMul(q: float32[1, 4, 16, 8], Mul(const c: float32[] = 0.35355339, kt: float32[1, 4, 8, 16]))
  is scaled_scores
test "divided keys": MatMul(q: float32[1, 4, 16, 8], Div(kt: float32[1, 4, 8, 16], const c: float32[1] = 2.828427))
  is scaled_scores
test "both divided by the root of the root":
  MatMul(Div(q: float32[1, 4, 16, 8], const c: float32[] = 1.6817928), Div(kt: float32[1, 4, 8, 16], c))
  is scaled_scores
test "both scaled by the root":
  MatMul(Mul(q: float32[1, 4, 16, 8], const c: float32[] = 0.5), Mul(kt: float32[1, 4, 8, 16], c)) is scaled_scores
test "a mask": Add(s: float32[1, 4, 16, 16], m: float32[1, 1, 16, 16]) is masked
test "rows of nothing": Where(IsNaN(p), const z: float32[1] = 0, p) is safe_softmax
  where p = Softmax(s: float32[1, 4, 16, 16], axis=-1)
test "a plain softmax": Softmax(s: float32[1, 4, 16, 16], axis=3) is safe_softmax
test "attention without a mask":
  MatMul(Softmax(Mul(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), const c: float32[] = 0.5), axis=-1),
         v: float32[1, 4, 16, 8]) is attention
test "attention as scaled_dot_product_attention exports it":
  MatMul(Where(IsNaN(p), const z: float32[1] = 0, p), v: float32[1, 4, 16, 8]) is attention
  where s = MatMul(Mul(q: float32[1, 4, 16, 8], const c: float32[] = 0.5), Mul(kt: float32[1, 4, 8, 16], c));
        p = Softmax(Add(s, m: float32[1, 1, 16, 16]), axis=-1)

test "a scale per head": Mul(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), const c: float32[4, 1, 1])
  is not scaled_scores
test "a divisor per head": Div(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), const c: float32[4, 1, 1])
  is not scaled_scores
test "queries scaled per head":
  MatMul(Mul(q: float32[1, 4, 16, 8], const c: float32[4, 1, 1]), kt: float32[1, 4, 8, 16]) is not scaled_scores
test "queries divided per head":
  MatMul(Div(q: float32[1, 4, 16, 8], const c: float32[4, 1, 1]), kt: float32[1, 4, 8, 16]) is not scaled_scores
test "both scaled per head":
  MatMul(Mul(q: float32[1, 4, 16, 8], const c: float32[4, 1, 1]), Mul(kt: float32[1, 4, 8, 16], c)) is not scaled_scores
test "keys scaled per head":
  MatMul(q: float32[1, 4, 16, 8], Mul(kt: float32[1, 4, 8, 16], const c: float32[4, 1, 1])) is not scaled_scores
test "keys divided per head":
  MatMul(q: float32[1, 4, 16, 8], Div(kt: float32[1, 4, 8, 16], const c: float32[4, 1, 1])) is not scaled_scores
test "both divided per head":
  MatMul(Div(q: float32[1, 4, 16, 8], const c: float32[4, 1, 1]), Div(kt: float32[1, 4, 8, 16], c))
  is not scaled_scores
test "a scale that is computed": Mul(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), c: float32[])
  is not scaled_scores
test "a mask that is subtracted": Sub(s: float32[1, 4, 16, 16], m: float32[1, 1, 16, 16]) is not masked
test "softmax over the queries": Softmax(s: float32[1, 4, 16, 16], axis=2) is not safe_softmax
test "rows of ones": Where(IsNaN(p), const z: float32[1] = 1, p) is not safe_softmax
  where p = Softmax(s: float32[1, 4, 16, 16], axis=-1)
test "sigmoid attention":
  MatMul(Sigmoid(Mul(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), const c: float32[] = 0.5)),
         v: float32[1, 4, 16, 8]) is not attention
