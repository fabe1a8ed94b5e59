## Scaled-dot-product attention as exporters take it apart, from q, k and v of [batch, heads, length, size] to the
## operator Attention: the scale in any of three places, a mask or none, rows that see no key as zeros or not.

include "std/attention.pat"        # scaled_scores(q, kt, scale)

## The scale is an attribute in single precision, so not in double.
let attended = {float16, bfloat16, float32}

## Keys as columns.
pattern key_columns(k: [B, H, L, D]) =
    Transpose(k, perm=[0, 1, 3, 2])                           # one permutation
  | (Reshape(Transpose(Reshape(k, _) as flat, perm=[0, 2, 1]), _) as columns      # batch and heads as one axis
     if flat.shape == [B * H, L, D] and columns.shape == [B, H, D, L])

pattern scores(q, kt, scale) =
    scaled_scores(q, kt, scale)                               # a scale in any place
  | (MatMul(q, kt) with scale = 1)                            # none, or one that is not a constant number

## `mask` is added, or it is true where a key may be seen. It says so of every key: the operator takes a shorter one to
## block the keys that it does not reach.
pattern hidden(s, mask?) = seen as y
  where seen = Add?(s, mask?)                                 # minus infinity, or a very low number; or no mask
             | Where(mask, s, -inf)                           # true keeps the score
  if mask.rank >= 2 and mask.shape[-1] == s.shape[-1] and y.shape == s.shape

pattern sdpa_plain(q: attended[B, H, _, D], k: [B, H, L, D], v: [B, H, L, _], scale, mask?) =
    MatMul(Softmax(hidden(scores(q, key_columns(k), scale), mask), axis=-1), v)
pattern sdpa_guarded(q: attended[B, H, _, D], k: [B, H, L, D], v: [B, H, L, _], scale, mask?) =
    MatMul(Where(IsNaN(p), 0, p), v)
  where p = Softmax(hidden(scores(q, key_columns(k), scale), mask), axis=-1)
pattern sdpa(q, k, v, scale, mask?) = sdpa_plain(q, k, v, scale, mask) | sdpa_guarded(q, k, v, scale, mask)

## Keys that are transposed from [batch, length, heads, size] in one step: their columns, of keys like the values.
rule columns_of_keys: Transpose(x, perm=[0, 2, 3, 1]) => Transpose(Transpose(x, perm=[0, 2, 1, 3]), perm=[0, 1, 3, 2])
## A mask of the keys that may not be seen.
rule blocked_to_seen: Where(blocked, -inf, s) => Where(Not(blocked), s, -inf)

## The operator takes the root of its scale, and gives zeros for a row that sees no key.
rule fuse_sdpa reassociates: sdpa(q, k, v, scale, none) => Attention(q, k, v, scale=scale) if scale > 0
rule fuse_sdpa_guarded reassociates: sdpa_guarded(q, k, v, scale, mask) => Attention(q, k, v, mask, scale=scale)
  if scale > 0
## Here such a row is NaN.
rule fuse_sdpa_masked approximates: sdpa_plain(q, k, v, scale, mask) => Attention(q, k, v, mask, scale=scale)
  if present(mask) and scale > 0

test "columns by one permutation": Transpose(k: float32[2, 4, 16, 8], perm=[0, 1, 3, 2]) is key_columns
test "columns, batch and heads as one axis":
  Reshape(Transpose(Reshape(k: float32[2, 4, 16, 8], [-1, 16, 8]), perm=[0, 2, 1]), [2, 4, 8, 16]) is key_columns
test "no scale": MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]) is scores
test "a scale": Div(MatMul(q: float32[1, 4, 16, 8], kt: float32[1, 4, 8, 16]), 2.828427) is scores
test "an added mask": Add(m: float32[1, 1, 1, 16], s: float32[1, 4, 16, 16]) is hidden
test "a mask of what may be seen":
  Where(m: bool[16, 16], s: float32[1, 4, 16, 16], const low: float32[] = -inf) is hidden
test "scaled scores, an added mask":
  MatMul(Softmax(Add(Mul(MatMul(q, Transpose(k, perm=[0, 1, 3, 2])), 0.353553), m: float32[1, 1, 16, 16]), axis=-1), v)
  is sdpa where q = Identity(a: float32[1, 4, 16, 8]); k = Identity(b: float32[1, 4, 16, 8]);
                v = Identity(c: float32[1, 4, 16, 8])
test "divided queries, no mask":
  MatMul(Softmax(MatMul(Div(q: float32[2, 4, 16, 8], 2.828427), Transpose(k: float32[2, 4, 9, 8], perm=[0, 1, 3, 2]))),
         v: float32[2, 4, 9, 5]) is sdpa_plain
test "scaled keys, a mask of what may be seen, rows of nothing":
  MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), v: float32[2, 4, 9, 5]) is sdpa_guarded
  where s = MatMul(q: float32[2, 4, 16, 8], Mul(key_columns(k: float32[2, 4, 9, 8]), 0.35355339));
        p = Softmax(Where(m: bool[16, 9], s, const low: float32[] = -inf), axis=-1)
test "both by the root, rows of nothing, the keys as some exporters turn them":
  MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), v: float32[2, 4, 16, 8]) is sdpa
  where kt = Reshape(Transpose(Reshape(k: float32[2, 4, 16, 8], [-1, 16, 8]), perm=[0, 2, 1]), [2, 4, 8, 16]);
        s = MatMul(Mul(q: float32[2, 4, 16, 8], 0.59460355), Mul(kt, 0.59460355));
        p = Softmax(Add(s, m: float32[2, 1, 1, 16]), axis=-1)

test "the heads moved as well": Transpose(k: float32[2, 4, 16, 8], perm=[1, 0, 3, 2]) is not key_columns
test "a reshape that mixes heads and keys":
  Reshape(Transpose(Reshape(k: float32[2, 4, 16, 8], [16, 8, 8]), perm=[0, 2, 1]), [2, 4, 8, 16]) is not key_columns
test "a reshape that mixes heads and batch":
  Reshape(Transpose(Reshape(k: float32[2, 4, 16, 8], [8, 16, 8]), perm=[0, 2, 1]), [4, 2, 8, 16]) is not key_columns
test "scores by Einsum": Einsum(q: float32[1, 4, 16, 8], k: float32[1, 4, 16, 8], equation="bhid,bhjd->bhij")
  is not scores
test "a low number where a key may not be seen":
  Where(m: bool[16, 16], s: float32[1, 4, 16, 16], const low: float32[] = -10000) is not hidden
test "a mask that is a row": Add(s: float32[1, 4, 16, 16], m: float32[16]) is not hidden
test "one number for all keys of a row": Add(s: float32[1, 4, 16, 16], m: float32[16, 1]) is not hidden
test "double precision":
  MatMul(Softmax(MatMul(q: float64[2, 4, 16, 8], Transpose(k: float64[2, 4, 9, 8], perm=[0, 1, 3, 2]))),
         v: float64[2, 4, 9, 5]) is not sdpa
test "a mask with an axis more": Add(s: float32[1, 4, 16, 16], m: float32[3, 1, 1, 1, 16]) is not hidden
test "other keys than values":
  MatMul(Softmax(MatMul(q: float32[2, 4, 16, 8], Transpose(k: float32[1, 4, 9, 8], perm=[0, 1, 3, 2]))),
         v: float32[2, 4, 9, 5]) is not sdpa
test "softmax over the queries":
  MatMul(Softmax(MatMul(q: float32[2, 4, 9, 8], Transpose(k: float32[2, 4, 9, 8], perm=[0, 1, 3, 2])), axis=-2),
         v: float32[2, 4, 9, 5]) is not sdpa
test "keys that were not turned":
  MatMul(Softmax(MatMul(q: float32[2, 4, 8, 8], k: float32[2, 4, 8, 8])), v: float32[2, 4, 8, 5]) is not sdpa_plain
test "nothing guarded":
  MatMul(Softmax(MatMul(q: float32[2, 4, 16, 8], key_columns(k: float32[2, 4, 9, 8]))), v: float32[2, 4, 9, 5])
  is not sdpa_guarded
test "another row than the one that is asked":
  MatMul(Where(IsNaN(s), const zero: float32[] = 0, Softmax(s, axis=-1)), v: float32[2, 4, 9, 5]) is not sdpa_guarded
  where s = MatMul(q: float32[2, 4, 16, 8], key_columns(k: float32[2, 4, 9, 8]))

test "without a mask":
  MatMul(Softmax(Div(MatMul(q: float32[2, 4, 16, 8], Transpose(k: float32[2, 4, 9, 8], perm=[0, 1, 3, 2])), 2.5)),
         v: float32[2, 4, 9, 5]) => Attention(q, k, v, scale=0.4)
test "the keys turned in one step":
  MatMul(Softmax(MatMul(q: float32[2, 4, 16, 8], Transpose(k: float32[2, 9, 4, 8], perm=[0, 2, 3, 1]))),
         v: float32[2, 4, 9, 5]) => Attention(q, Transpose(k, perm=[0, 2, 1, 3]), v, scale=1)
test "with a mask, rows of nothing":
  MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), v: float32[2, 4, 9, 5])
  => Attention(q, k, v, m, scale=0.5)
  where s = MatMul(q: float32[2, 4, 16, 8], Transpose(k: float32[2, 4, 9, 8], perm=[0, 1, 3, 2]));
        p = Softmax(Add(Mul(s, 0.5), m: float32[16, 9]), axis=-1)
test "keys turned with batch and heads as one axis, both scaled":
  MatMul(Softmax(MatMul(Mul(q: float32[2, 4, 16, 8], 0.5), Mul(kt, 0.5))), v: float32[2, 4, 9, 5])
  => Attention(q, k, v, scale=0.25)
  where kt = Reshape(Transpose(Reshape(k: float32[2, 4, 9, 8], [-1, 9, 8]), perm=[0, 2, 1]), [2, 4, 8, 9])
test "what may be seen, rows of nothing":
  MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), v: float32[2, 4, 9, 5]) => Attention(q, k, v, m, scale=2)
  where s = MatMul(q: float32[2, 4, 16, 8], Div(Transpose(k: float32[2, 4, 9, 8], perm=[0, 1, 3, 2]), 0.5));
        p = Softmax(Where(m: bool[16, 9], s, const low: float32[] = -inf), axis=-1)
test "keys that are blocked, rows of nothing":
  MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), v: float32[2, 4, 9, 5])
  => Attention(q, k, v, Not(m), scale=1)
  where s = MatMul(q: float32[2, 4, 16, 8], Transpose(k: float32[2, 4, 9, 8], perm=[0, 1, 3, 2]));
        p = Softmax(Where(m: bool[16, 9], const low: float32[] = -inf, s), axis=-1)
test "with a mask":
  MatMul(Softmax(Add(Mul(MatMul(q: float32[2, 4, 16, 8], Transpose(k: float32[2, 4, 9, 8], perm=[0, 1, 3, 2])), 0.5),
                     m: float32[16, 9])), v: float32[2, 4, 9, 5]) => Attention(q, k, v, m, scale=0.5)

test "keys that move otherwise stay": place Transpose(k: float32[2, 9, 4, 8], perm=[0, 3, 1, 2])
  => Transpose(k, perm=[0, 3, 1, 2]) on host
test "what is blocked but not quite stays":
  place Where(m: bool[16, 9], const low: float32[] = -10000, s: float32[16, 9]) => Where(m, low, s) on host
test "no mask is no approximation":
  MatMul(Softmax(MatMul(q: float32[2, 4, 16, 8], key_columns(k: float32[2, 4, 9, 8]))), v: float32[2, 4, 9, 5])
  is not fuse_sdpa_masked
test "scores that are turned around":
  MatMul(Softmax(Mul(MatMul(q: float32[2, 4, 16, 8], key_columns(k: float32[2, 4, 9, 8])), -0.5)),
         v: float32[2, 4, 9, 5]) is not fuse_sdpa
test "scores that are turned around, rows of nothing":
  MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), v: float32[2, 4, 9, 5]) is not fuse_sdpa_guarded
  where p = Softmax(Div(MatMul(q: float32[2, 4, 16, 8], key_columns(k: float32[2, 4, 9, 8])), -2), axis=-1)
test "scores that are turned around, a mask":
  MatMul(Softmax(Add(Mul(MatMul(q: float32[2, 4, 16, 8], key_columns(k: float32[2, 4, 9, 8])), 0), m: float32[16, 9])),
         v: float32[2, 4, 9, 5]) is not fuse_sdpa_masked
