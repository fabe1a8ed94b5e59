## Grouped-query attention: several heads of queries share a head of keys and values, [batch, heads, length, size]. What
## is left of earlier positions, if anything, comes before the keys and values of this step.

include "std/sdpa.pat"             # sdpa(q, k, v, scale, mask)

## Each head of keys so many times in a row, as exporters spell it: one axis more, expanded, merged with the heads.
pattern repeated(k: [B, H, L, D]) = Reshape(Expand(Unsqueeze(k, [2]), _) as wide, _) as y
  if wide.shape == [B, H, y.shape[1] // H, L, D] and y.shape == [B, y.shape[1], L, D]
## The axis may also come from a reshape: the results' shapes tell.
rule axis_after_heads: Reshape(k: [B, H, L, D], _) as y => Unsqueeze(k, [2]) if y.shape == [B, H, 1, L, D]

pattern gqa(q, k, v, scale, mask?) = sdpa(q, repeated(k), repeated(v), scale, mask)

## The keys and values so far are results too: the next step reads them.
pattern gqa_past(q, k, v, past_k, past_v, scale, mask?) = (gqa(q, keys, values, scale, mask), keys, values)
  where keys = Concat(past_k, k, axis=2);
        values = Concat(past_v, v, axis=2)

## The operator shares heads by itself, in rows of as many. A mask may leave a row without any key only where NaNs are
## guarded against, see `fuse_sdpa_masked`.
rule fuse_gqa reassociates: sdpa(q, repeated(k), repeated(v), scale, none) => Attention(q, k, v, scale=scale)
  if scale > 0
rule fuse_gqa_guarded reassociates: sdpa_guarded(q, repeated(k), repeated(v), scale, mask)
  => Attention(q, k, v, mask, scale=scale)
  if scale > 0

test "heads repeated":
  Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]) is repeated
test "six heads of queries, two of keys":
  MatMul(Softmax(Add(Mul(s, 0.35), m: float32[5, 9])), repeated_v) is gqa
  where s = MatMul(q: float32[2, 6, 5, 8], Transpose(repeated_k, perm=[0, 1, 3, 2]));
        repeated_k = Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]);
        repeated_v = Reshape(Expand(Unsqueeze(v: float32[2, 2, 9, 4], [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])
test "one head of keys, no mask, scaled queries":
  MatMul(Softmax(MatMul(Div(q: float32[2, 6, 5, 8], 2.8), Transpose(repeated_k, perm=[0, 1, 3, 2]))), repeated_v) is gqa
  where repeated_k = Reshape(Expand(Unsqueeze(k: float32[2, 1, 9, 8], [2]), [2, 1, 6, 9, 8]), [2, 6, 9, 8]);
        repeated_v = Reshape(Expand(Unsqueeze(v: float32[2, 1, 9, 4], [2]), [2, 1, 6, 9, 4]), [2, 6, 9, 4])
test "with a past, one position after another":
  (MatMul(Softmax(Mul(MatMul(q: float32[2, 6, 1, 8], Transpose(repeated_k, perm=[0, 1, 3, 2])), 0.35)), repeated_v),
   ks, vs)
  is gqa_past
  where ks = Concat(pk: float32[2, 2, 8, 8], k: float32[2, 2, 1, 8], axis=2);
        vs = Concat(pv: float32[2, 2, 8, 4], v: float32[2, 2, 1, 4], axis=2);
        repeated_k = Reshape(Expand(Unsqueeze(ks, [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]);
        repeated_v = Reshape(Expand(Unsqueeze(vs, [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])

test "heads one after another and again":
  Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [1]), [2, 3, 2, 9, 8]), [2, 6, 9, 8]) is not repeated
test "heads and keys mixed":
  Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 8, 9]) is not repeated
test "an axis elsewhere, by a reshape":
  place Reshape(k: float32[2, 2, 9, 8], [2, 1, 2, 9, 8]) => Reshape(k, [2, 1, 2, 9, 8]) on host
test "an axis somewhere, by a reshape to a shape that is computed":
  Reshape(k: float32[2, 2, 9, 8], s: int64[5]) is not axis_after_heads
test "batches merged with heads":
  Reshape(Expand(Unsqueeze(k: float32[3, 2, 9, 8], [2]), [3, 2, 1, 9, 8]), [2, 3, 9, 8]) is not repeated
test "keys repeated that are more than once in a row":
  Reshape(Expand(Unsqueeze(k: float32[1, 2, 9, 8], [2]), [3, 2, 1, 9, 8]), [1, 6, 9, 8]) is not repeated
test "values of as many heads as queries":
  MatMul(Softmax(MatMul(q: float32[2, 6, 5, 8], Transpose(repeated_k, perm=[0, 1, 3, 2]))), v: float32[2, 6, 9, 4])
  is not gqa
  where repeated_k = Reshape(Expand(Unsqueeze(k: float32[2, 1, 9, 8], [2]), [2, 1, 6, 9, 8]), [2, 6, 9, 8])
test "a past along the heads":
  (MatMul(Softmax(Mul(MatMul(q: float32[2, 6, 1, 8], Transpose(repeated_k, perm=[0, 1, 3, 2])), 0.35)), repeated_v),
   ks, vs)
  is not gqa_past
  where ks = Concat(pk: float32[2, 1, 9, 8], k: float32[2, 1, 9, 8], axis=1);
        vs = Concat(pv: float32[2, 1, 9, 4], v: float32[2, 1, 9, 4], axis=1);
        repeated_k = Reshape(Expand(Unsqueeze(ks, [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]);
        repeated_v = Reshape(Expand(Unsqueeze(vs, [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])

test "heads repeated, the axis by a reshape":
  Reshape(Expand(Reshape(k: float32[2, 2, 9, 8], [2, 2, 1, 9, 8]), [1, 1, 3, 1, 1]), [2, -1, 9, 8])
  => Reshape(Expand(Unsqueeze(k, [2]), [1, 1, 3, 1, 1]), [2, -1, 9, 8])
test "the operator shares heads": MatMul(Softmax(Mul(MatMul(q: float32[2, 6, 5, 8], kt), 0.5)), repeated_v)
  => Attention(q, k, v, scale=0.5)
  where kt = Transpose(Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]),
                       perm=[0, 1, 3, 2]);
        repeated_v = Reshape(Expand(Unsqueeze(v: float32[2, 2, 9, 4], [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])
test "and a mask, where rows of nothing are zeros": MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), repeated_v)
  => Attention(q, k, v, m, scale=1)
  where p = Softmax(Add(MatMul(q: float32[2, 6, 5, 8], kt), m: float32[5, 9]), axis=-1);
        kt = Transpose(Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]),
                       perm=[0, 1, 3, 2]);
        repeated_v = Reshape(Expand(Unsqueeze(v: float32[2, 2, 9, 4], [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])
test "a mask that may leave a row without a key":
  MatMul(Softmax(Add(MatMul(q: float32[2, 6, 5, 8], kt), m: float32[5, 9]), axis=-1), repeated_v)
  is not fuse_gqa_guarded
  where kt = Transpose(Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]),
                       perm=[0, 1, 3, 2]);
        repeated_v = Reshape(Expand(Unsqueeze(v: float32[2, 2, 9, 4], [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])
test "shared heads whose scores are turned around": MatMul(Softmax(Mul(MatMul(q: float32[2, 6, 5, 8], kt), -0.5)), wide_v)
  is not fuse_gqa
  where kt = Transpose(Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]),
                       perm=[0, 1, 3, 2]);
        wide_v = Reshape(Expand(Unsqueeze(v: float32[2, 2, 9, 4], [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])
test "shared heads, a mask, a scale of nothing":
  MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), wide_v) is not fuse_gqa_guarded
  where kt = Transpose(Reshape(Expand(Unsqueeze(k: float32[2, 2, 9, 8], [2]), [2, 2, 3, 9, 8]), [2, 6, 9, 8]),
                       perm=[0, 1, 3, 2]);
        p = Softmax(Add(Mul(MatMul(q: float32[2, 6, 5, 8], kt), 0), m: float32[5, 9]), axis=-1);
        wide_v = Reshape(Expand(Unsqueeze(v: float32[2, 2, 9, 4], [2]), [2, 2, 3, 9, 4]), [2, 6, 9, 4])
