## Layer normalisation over the last axis, as the operator and taken apart: (x - mean) / sqrt(variance + epsilon),
## times gain, plus bias.

## The dtypes for which the operator's own arithmetic (float32 inside) is no less exact than the pieces.
let normalised = {float16, float32}

## Without gain and bias. The deviation is one value with three readers.
pattern standardised(x: normalised[...], eps) = Div(d, sd) | Mul(d, Reciprocal(sd))
  where d  = Sub(x, ReduceMean(x, [-1], keepdims=1));
        sd = Sqrt(Add(ReduceMean(Mul(d, d) | Pow(d, 2), [-1], keepdims=1), const eps))
  if eps.numel == 1 and eps.rank <= x.rank

pattern layer_norm(x, gain, eps) = Mul(standardised(x, eps), const gain)
  if gain.shape == [x.shape[-1]]
pattern layer_norm_biased(x, gain, bias, eps) = Add(layer_norm(x, gain, eps), const bias)
  if bias.shape == gain.shape

## The operator computes the same; its epsilon is an attribute.
rule fuse_layer_norm reassociates: layer_norm(x, gain, eps)
  => LayerNormalization(x, gain, axis=-1, epsilon=item(eps), stash_type=1)
## A bias that is added to a normalisation without one.
rule bias_into_layer_norm reassociates: Add(norm, const bias) => LayerNormalization(x, gain, bias, like norm)
  where norm = LayerNormalization(x, const gain)
  if bias.shape == gain.shape

test "by division":
  Div(d, Sqrt(Add(ReduceMean(Mul(d, d), [-1], keepdims=1), 1e-5))) is standardised
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1], keepdims=1))
test "by a reciprocal, the square as a power":
  Mul(d, Reciprocal(Sqrt(Add(ReduceMean(Pow(d, 2), [-1], keepdims=1), 1e-5)))) is standardised
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1], keepdims=1))
test "with gain": Mul(const g: float32[8], standardised(x: float32[2, 8], const e: float32[] = 1e-5)) is layer_norm
test "with gain and bias":
  Add(const b: float32[8], Mul(standardised(x: float32[2, 8], const e: float32[] = 1e-5), const g: float32[8]))
  is layer_norm_biased

test "no mean, no norm": Mul(Div(x: float32[2, 8], const s: float32[8] = 1), const g: float32[8] = 1) is not layer_norm
test "a mean over another axis":
  Div(d, Sqrt(Add(ReduceMean(Mul(d, d), [0], keepdims=1), 1e-5))) is not standardised
  where d = Sub(x: float32[2, 8], ReduceMean(x, [0], keepdims=1))
test "a cube is no variance":
  Div(d, Sqrt(Add(ReduceMean(Pow(d, 3), [-1], keepdims=1), 1e-5))) is not standardised
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1], keepdims=1))
test "an epsilon per row":
  standardised(x: float32[2, 8], const e: float32[2, 1] = 1e-5) is not standardised
test "an epsilon that adds a dimension": standardised(x: float32[8], const e: float32[1, 1] = 1e-5) is not standardised
test "double precision": standardised(x: float64[2, 8], const e: float64[] = 1e-5) is not standardised
test "a gain that is computed":
  Mul(standardised(x: float32[2, 8], const e: float32[] = 1e-5), g: float32[8]) is not layer_norm
test "a gain of one element":
  layer_norm(x: float32[2, 8], const g: float32[1], const e: float32[] = 1e-5) is not layer_norm
test "a bias that is computed":
  Add(layer_norm(x: float32[2, 8], const g: float32[8], const e: float32[] = 1e-5), b: float32[8])
  is not layer_norm_biased
test "a bias per row":
  layer_norm_biased(x: float32[2, 8], const g: float32[8], const b: float32[2, 1], const e: float32[] = 1e-5)
  is not layer_norm_biased

test "it becomes the operator":
  layer_norm(x: float32[2, 8], const g: float32[8], const e: float32[] = 0.001)
  => LayerNormalization(x, g, axis=-1, epsilon=0.001, stash_type=1)
test "with its bias, in two steps":
  layer_norm_biased(x: float32[2, 8], const g: float32[8], const b: float32[8], const e: float32[] = 0.001)
  => LayerNormalization(x, g, b, axis=-1, epsilon=0.001, stash_type=1)
test "a bias after the operator":
  Add(LayerNormalization(x: float32[2, 8], const g: float32[8], axis=-1), const b: float32[8])
  => LayerNormalization(x, g, b, axis=-1)
test "a matrix after the operator stays":
  place Add(LayerNormalization(x: float32[2, 8], const g: float32[8], axis=-1), const b: float32[2, 8])
  => Add(LayerNormalization(x, g, axis=-1), b) on host
