## Layer normalisation over the last axis, as the operator and taken apart: (x - mean) / sqrt(variance + epsilon),
## times gain, plus bias.

## The dtypes for which the operator's own arithmetic (float32 inside) is no less exact than the pieces.
let normalised = {float16, float32}

pattern last_mean(v) = ReduceMean(v, [-1], keepdims=1)
pattern squared(v) = Mul(v, v) | Pow(v, 2)
pattern inverse_root(v) = Reciprocal(Sqrt(v)) | Div(1, Sqrt(v)) | Pow(v, -0.5)
## An axis that is dropped and put back.
rule keep_mean_axis: Unsqueeze(ReduceMean(v, const axes, keepdims=0), axes) => ReduceMean(v, axes, keepdims=1)

## Without gain and bias. The deviation is one value with several readers, also where an exporter writes it twice.
pattern standardised(x: normalised[...], eps) =
    Div(d, Sqrt(v))
  | Div(d, Pow(v, 0.5))
  | Mul(d, inverse_root(v))
  where d = Sub(x, last_mean(x));
        v = Add(last_mean(squared(d)), const eps)
  if eps.numel == 1 and eps.rank <= x.rank

pattern layer_norm(x, gain, eps) = Mul(standardised(x, eps), const gain)
  if gain.shape == [x.shape[-1]]
pattern layer_norm_biased(x, gain, bias, eps) = Add(layer_norm(x, gain, eps), const bias)
  if bias.shape == gain.shape

## The factor of every element is worked out first: (x - mean) * k + bias, or x * k + (bias - mean * k). The variance is
## the mean square of the deviation, or what the mean square of x has beyond the square of the mean.
pattern layer_norm_by_factor(x: normalised[..., C], gain, bias, eps) =
    Add(Mul(Sub(x, m), k), const bias)
  | Add(Mul(x, k), Sub(const bias, Mul(m, k)))
  where m = last_mean(x);
        v = last_mean(squared(Sub(x, m))) | Sub(last_mean(squared(x)), squared(m));
        k = Mul(inverse_root(Add(v, const eps)), const gain)
  if eps.numel == 1 and eps.rank <= x.rank and gain.shape == [C] and bias.shape == [C]

## Any of the spellings, or the operator.
pattern layer_norm_spelled(x, gain, bias?, epsilon) =
    (Add?(layer_norm(x, gain, eps), const bias?) if bias.shape == gain.shape with epsilon = item(eps))
  | (layer_norm_by_factor(x, gain, bias, eps) with epsilon = item(eps))
pattern layer_normalised(x, gain, bias?, epsilon) =
    layer_norm_spelled(x, gain, bias, epsilon)
  | LayerNormalization(x, gain, bias?, axis=-1, epsilon=epsilon)

## The operator computes the same; its epsilon is an attribute.
rule fuse_layer_norm reassociates: layer_norm_spelled(x, gain, bias, epsilon)
  => LayerNormalization(x, gain, bias, axis=-1, epsilon=epsilon, stash_type=1)
rule fuse_standardised reassociates: standardised(x: [..., C], eps)
  => LayerNormalization(x, full([C], 1), axis=-1, epsilon=item(eps), stash_type=1)
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

# Each exporter's spelling, and the near miss beside it.
test "a mean that keeps its axis": ReduceMean(x: float32[2, 3, 8], [2], keepdims=1) is last_mean
test "a mean that loses its axis": ReduceMean(x: float32[2, 3, 8], [2], keepdims=0) is not last_mean
test "a square": Pow(x: float32[8], 2) is squared
test "a product of two": Mul(x: float32[8], y: float32[8]) is not squared
test "a reciprocal of a root": Reciprocal(Sqrt(x: float32[8])) is inverse_root
test "one by a root": Div(1, Sqrt(x: float32[8])) is inverse_root
test "a power of minus a half": Pow(x: float32[8], -0.5) is inverse_root
test "two by a root": Div(2, Sqrt(x: float32[8])) is not inverse_root
test "the difference written twice":
  Div(Sub(x: float32[2, 8], m), Sqrt(Add(ReduceMean(Pow(Sub(x, m), 2), [-1], keepdims=1), 1e-5))) is standardised
  where m = ReduceMean(x, [-1], keepdims=1)
test "the mean written twice":
  Div(Sub(x: float32[2, 8], ReduceMean(x, [-1])),
      Sqrt(Add(ReduceMean(Pow(Sub(x, ReduceMean(x, [-1])), 2), [-1]), 1e-5))) is standardised
test "the difference to another mean":
  Div(Sub(x: float32[2, 8], m), Sqrt(Add(ReduceMean(Pow(Sub(x, m), 2), [-1]), 1e-5))) is not standardised
  where m = ReduceMean(y: float32[2, 8], [-1])
test "by a power":
  Div(d, Pow(Add(ReduceMean(Pow(d, 2), [-1]), 1e-5), 0.5)) is standardised
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1]))
test "one by a root, times it":
  Mul(Div(1, Sqrt(Add(ReduceMean(Mul(d, d), [-1]), 1e-5))), d) is standardised
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1]))
test "the epsilon after the root":
  Div(d, Add(Sqrt(ReduceMean(Mul(d, d), [-1])), 1e-5)) is not standardised
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1]))
test "the factor first, of the deviation":
  Add(Mul(Sub(x: float32[2, 8], m), Mul(Reciprocal(Sqrt(Add(v, 1e-6))), const g: float32[8])), const b: float32[8])
  is layer_norm_by_factor
  where m = ReduceMean(x, [-1]); v = ReduceMean(Mul(d, d), [-1]); d = Sub(x, m)
test "the factor first, of the moments":
  Add(Mul(Sub(x: float32[2, 8], m), Mul(Pow(Add(v, 1e-6), -0.5), const g: float32[8])), const b: float32[8])
  is layer_norm_by_factor
  where m = ReduceMean(x, [-1]); v = Sub(ReduceMean(Mul(x, x), [-1]), Mul(m, m))
test "the mean in the bias":
  Add(Mul(x: float32[2, 8], k), Sub(const b: float32[8], Mul(m, k))) is layer_norm_spelled
  where m = ReduceMean(x, [-1]); d = Sub(x, m); v = ReduceMean(Mul(d, d), [-1]);
        k = Mul(Reciprocal(Sqrt(Add(v, 1e-6))), const g: float32[8])
test "the mean in the bias, twice over":
  Add(Mul(x: float32[2, 8], k), Sub(const b: float32[8], Mul(Add(m, m), k))) is not layer_norm_by_factor
  where m = ReduceMean(x, [-1]); d = Sub(x, m); v = ReduceMean(Mul(d, d), [-1]);
        k = Mul(Reciprocal(Sqrt(Add(v, 1e-6))), const g: float32[8])
test "the factor first, an epsilon per row": layer_norm_by_factor(x: float32[2, 8], const g: float32[8],
  const b: float32[8], const e: float32[2, 1] = 1e-6) is not layer_norm_by_factor
test "the factor first, an epsilon of another rank": layer_norm_by_factor(x: float32[8], const g: float32[8],
  const b: float32[8], const e: float32[1, 1] = 1e-6) is not layer_norm_by_factor
test "the factor first, a gain of one element": layer_norm_by_factor(x: float32[2, 8], const g: float32[1],
  const b: float32[8], const e: float32[] = 1e-6) is not layer_norm_by_factor
test "the factor first, a bias of one element": layer_norm_by_factor(x: float32[2, 8], const g: float32[8],
  const b: float32[1], const e: float32[] = 1e-6) is not layer_norm_by_factor
test "a spelling without bias": layer_norm(x: float32[2, 8], const g: float32[8], const e: float32[] = 1e-5)
  is layer_norm_spelled
test "a bias per row is none of its own":
  layer_norm_biased(x: float32[2, 8], const g: float32[8], const b: float32[2, 1], const e: float32[] = 1e-5)
  is not layer_norm_spelled
test "the operator": LayerNormalization(x: float32[2, 8], const g: float32[8], const b: float32[8]) is layer_normalised
test "the operator is no spelling": LayerNormalization(x: float32[2, 8], const g: float32[8]) is not layer_norm_spelled
test "the operator over two axes": LayerNormalization(x: float32[2, 8], const g: float32[2, 8], axis=0)
  is not layer_normalised
test "without gain":
  Div(d, Sqrt(Add(ReduceMean(Mul(d, d), [-1], keepdims=1), 0.001)))
  => LayerNormalization(x, full([8], 1), axis=-1, epsilon=0.001, stash_type=1)
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1], keepdims=1))
test "the factor becomes the operator":
  layer_norm_by_factor(x: float32[2, 8], const g: float32[8], const b: float32[8], const e: float32[] = 0.001)
  => LayerNormalization(x, g, b, axis=-1, epsilon=0.001, stash_type=1)
test "means without their axis":
  Div(d, Sqrt(Add(Unsqueeze(ReduceMean(Mul(d, d), [2], keepdims=0), [2]), 0.001)))
  => LayerNormalization(x, full([8], 1), axis=-1, epsilon=0.001, stash_type=1)
  where d = Sub(x: float32[2, 3, 8], Unsqueeze(ReduceMean(x, [2], keepdims=0), [2]))
test "a mean whose axis comes back elsewhere":
  place Unsqueeze(ReduceMean(x: float32[2, 3, 8], [2], keepdims=0), [0])
  => Unsqueeze(ReduceMean(x, [2], keepdims=0), [0]) on host
