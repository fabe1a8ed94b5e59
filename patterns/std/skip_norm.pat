## A residual sum and the normalisation of it, as two results of one computation: what follows reads both.

include "std/layer_norm.pat"       # layer_normalised(x, gain, bias, epsilon)

## The sum may have a bias of its own, of the linear layer before it, which is added to one of the two or to both.
pattern biased_sum(x, skip, own?) =
    Add(Add?(x, const own?), skip)                            # (x + own) + skip, or without own
  | Add(Add(x, skip), const own)                              # (x + skip) + own

pattern skip_norm(x: T[B, S, C], skip: T[B, S, C], own?: T[C], gain, bias?, epsilon) = (norm, total)
  where total = biased_sum(x, skip, own);
        norm = layer_normalised(total, gain, bias, epsilon)

## Root mean square, without a mean that is taken off: x / sqrt(mean(x ^ 2) + epsilon) * gain.
pattern rms_spelled(x: normalised[..., C], gain, epsilon) =
    (Mul(Mul(x, inverse_root(v)) | Div(x, Sqrt(v)), const gain)
     if eps.numel == 1 and eps.rank <= x.rank and gain.shape == [C]
     with epsilon = item(eps))
  where v = Add(last_mean(squared(x)), const eps)
pattern rms_normalised(x, gain, epsilon) =
    rms_spelled(x, gain, epsilon)
  | RMSNormalization(x, gain, axis=-1, epsilon=epsilon)
pattern skip_rms_norm(x: T[B, S, C], skip: T[B, S, C], gain, epsilon) = (rms_normalised(total, gain, epsilon), total)
  where total = Add(x, skip)

rule fuse_rms_norm reassociates: rms_spelled(x, gain, epsilon)
  => RMSNormalization(x, gain, axis=-1, epsilon=epsilon, stash_type=1)

test "a sum of two": Add(x: float32[2, 4, 8], y: float32[2, 4, 8]) is biased_sum
test "a bias on one of them": Add(y: float32[2, 4, 8], Add(const b: float32[8], x: float32[2, 4, 8])) is biased_sum
test "a bias on both": Add(Add(y: float32[2, 4, 8], x: float32[2, 4, 8]), const b: float32[8]) is biased_sum
test "both results": (LayerNormalization(t, const g: float32[8], const b: float32[8]), t) is skip_norm
  where t = Add(x: float32[2, 4, 8], y: float32[2, 4, 8])
test "both results, a bias on the first, no bias on the norm":
  (LayerNormalization(t, const g: float32[8], epsilon=1e-12), t) is skip_norm
  where t = Add(Add(x: float32[2, 4, 8], const o: float32[8]), y: float32[2, 4, 8])
test "both results, the norm in pieces": (layer_norm(t, const g: float32[8], const e: float32[] = 1e-5), t) is skip_norm
  where t = Add(x: float32[2, 4, 8], y: float32[2, 4, 8])
test "the root mean square": Mul(Mul(x: float32[2, 4, 8], Reciprocal(Sqrt(Add(ReduceMean(Pow(x, 2), [-1]), 1e-6)))),
                                 const g: float32[8]) is rms_spelled
test "the root mean square, by division, the gain first":
  Mul(const g: float32[8], Div(x: float32[2, 4, 8], Sqrt(Add(ReduceMean(Mul(x, x), [-1]), 1e-6)))) is rms_normalised
test "its operator": RMSNormalization(x: float32[2, 4, 8], const g: float32[8]) is rms_normalised
test "its operator and the sum": (RMSNormalization(t, const g: float32[8]), t) is skip_rms_norm
  where t = Add(x: float32[2, 4, 8], y: float32[2, 4, 8])

test "a product": Mul(x: float32[2, 4, 8], y: float32[2, 4, 8]) is not biased_sum
test "the norm alone":
  LayerNormalization(Add(x: float32[2, 4, 8], y: float32[2, 4, 8]), const g: float32[8]) is not skip_norm
test "the norm and another sum":
  (LayerNormalization(Add(x: float32[2, 4, 8], y: float32[2, 4, 8]), const g: float32[8]), Add(x, x)) is not skip_norm
test "the norm and only a part of the sum": (LayerNormalization(Add(t, const o: float32[8]), const g: float32[8]), t)
  is not skip_norm where t = Add(x: float32[2, 4, 8], y: float32[2, 4, 8])
test "a skip that is broadcast": (LayerNormalization(t, const g: float32[8]), t) is not skip_norm
  where t = Add(x: float32[2, 4, 8], y: float32[1, 4, 8])
test "two dimensions": (LayerNormalization(t, const g: float32[8]), t) is not skip_norm
  where t = Add(x: float32[4, 8], y: float32[4, 8])
test "the norm of another axis": (LayerNormalization(t, const g: float32[4, 8], axis=1), t) is not skip_norm
  where t = Add(x: float32[2, 4, 8], y: float32[2, 4, 8])
test "an absolute value": Mul(Div(x: float32[2, 8], Sqrt(Add(ReduceMean(Abs(x), [-1]), 1e-6))), const g: float32[8])
  is not rms_spelled
test "the mean square of the rows": Mul(Div(x: float32[2, 8], Sqrt(Add(ReduceMean(Mul(x, x), [0]), 1e-6))),
                                        const g: float32[8]) is not rms_normalised
test "an epsilon per row of the mean square":
  Mul(Div(x: float32[2, 8], Sqrt(Add(ReduceMean(Mul(x, x), [-1]), const e: float32[2, 1] = 1e-6))), const g: float32[8])
  is not rms_spelled
test "the mean square and one gain": Mul(Div(x: float32[2, 8], Sqrt(Add(ReduceMean(Mul(x, x), [-1]), 1e-6))),
                                         const g: float32[1]) is not rms_spelled
test "an epsilon of another rank":
  Mul(Div(x: float32[8], Sqrt(Add(ReduceMean(Mul(x, x), [-1]), const e: float32[1, 1] = 1e-6))), const g: float32[8])
  is not rms_spelled
test "the root mean square of another sum": (RMSNormalization(Add(t, x), const g: float32[8]), t) is not skip_rms_norm
  where t = Add(x: float32[2, 4, 8], y: float32[2, 4, 8])

test "the root mean square becomes the operator":
  Mul(Div(x: float32[2, 8], Sqrt(Add(ReduceMean(Mul(x, x), [-1]), 0.001))), const g: float32[8])
  => RMSNormalization(x, g, axis=-1, epsilon=0.001, stash_type=1)
