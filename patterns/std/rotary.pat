## Rotary position embedding of [batch, heads, length, size] as exporters take it apart: x * cos + turned(x) * sin, the
## features paired half a row apart. Whole rows or their first part; cosines and sines shared by queries and keys.

include "std/split.pat"            # in_two(x, axis)

## The second half, negated, before the first.
pattern half_turned(x: [..., D]) = Concat(Neg(high), low, axis=-1)
  where low, high = in_two(x, at)
  if low.shape == high.shape and at == x.rank - 1
pattern rotary(x, cos, sin) = Add(Mul(x, cos), Mul(half_turned(x), sin))

## One angle per pair, [batch, length, size / 2], laid out for both halves and all heads.
pattern for_both(half) = Unsqueeze(Concat(half, half, axis=-1), [1])
pattern rotary_halves(x: [B, _, S, _], cos: [B, S, H], sin: [B, S, H]) = rotary(x, for_both(cos), for_both(sin))

## Queries and keys turned by the same angles, which are looked up once in one cache of each.
pattern rotary_shared(q, k, cos_cache: [_, _], sin_cache: [_, _], positions) =
    (rotary_halves(q, cos, sin), rotary_halves(k, cos, sin))
  where cos = Gather(cos_cache, positions, axis=0);
        sin = Gather(sin_cache, positions, axis=0)

## Only the first features are turned, the others pass.
pattern rotary_partial(x: [_, _, _, _], cos, sin) = Concat(rotary_halves(first, cos, sin), others, axis=-1)
  where first, others = in_two(x, at)
  if at == 3

rule fuse_rotary reassociates: rotary_halves(x, cos, sin) => RotaryEmbedding(x, cos, sin)
rule fuse_rotary_partial reassociates: rotary_partial(x, cos, sin)
  => RotaryEmbedding(x, cos, sin, rotary_embedding_dim=2 * cos.shape[-1])
  if cos.shape[-1] > 0   # to turn 0 features is RotaryEmbedding's word for all of them
## A cache whose rows hold each angle twice.
let first_half(c) = transpose(transpose(c, [1, 0])[0:c.shape[1] // 2], [1, 0])
let second_half(c) = transpose(transpose(c, [1, 0])[c.shape[1] // 2:], [1, 0])
pattern looked_up(x: [B, _, S, D], c: [_, D], s: [_, D], p: [B, S]) =
    rotary(x, Unsqueeze(Gather(const c, p, axis=0), [1]), Unsqueeze(Gather(const s, p, axis=0), [1]))
rule fuse_rotary_cache reassociates: looked_up(x, c, s, p)
  => RotaryEmbedding(x, Gather(first_half(c), p, axis=0), Gather(first_half(s), p, axis=0))
  if all(first_half(c) == second_half(c)) and all(first_half(s) == second_half(s))
## The angle of each pair is laid out before its cosine is taken, or after.
rule cos_of_both: Cos(Concat(f, f, axis=a)) => Concat(Cos(f), Cos(f), axis=a)
rule sin_of_both: Sin(Concat(f, f, axis=a)) => Concat(Sin(f), Sin(f), axis=a)

test "turned, by a split": Concat(Neg(b), a, axis=-1) is half_turned
  where a, b = Split(x: float32[2, 4, 6, 8], num_outputs=2, axis=3)
test "turned, by slices":
  Concat(Neg(Slice(x: float32[2, 4, 6, 8], [4], [9999], [3], [1])), Slice(x, [0], [4], [3], [1]), axis=-1)
  is half_turned
test "angles of both halves": Unsqueeze(Concat(c: float32[2, 6, 4], c, axis=-1), [1]) is for_both
test "a rotation": Add(Mul(x: float32[2, 4, 6, 8], c: float32[6, 8]), Mul(Concat(Neg(b), a, axis=-1), s: float32[6, 8]))
  is rotary where a, b = Split(x, num_outputs=2, axis=3)
test "a rotation, the sine first":
  Add(Mul(s: float32[6, 8], Concat(Neg(b), a, axis=3)), Mul(c: float32[6, 8], x: float32[2, 4, 6, 8])) is rotary
  where a, b = Split(x, [4, 4], axis=-1)
test "one angle per pair":
  Add(Mul(x: float32[2, 4, 6, 8], for_both(c: float32[2, 6, 4])), Mul(t, for_both(s: float32[2, 6, 4])))
  is rotary_halves where t = Concat(Neg(b), a, axis=-1); a, b = Split(x, num_outputs=2, axis=3)
test "queries and fewer keys, one cache":
  (Add(Mul(q: float32[2, 4, 6, 8], c), Mul(Concat(Neg(q2), q1, axis=-1), s)),
   Add(Mul(k: float32[2, 1, 6, 8], c), Mul(Concat(Neg(k2), k1, axis=-1), s))) is rotary_shared
  where c = for_both(Gather(cc: float32[64, 4], p: int64[2, 6])); s = for_both(Gather(sc: float32[64, 4], p));
        q1, q2 = Split(q, num_outputs=2, axis=3); k1, k2 = Split(k, num_outputs=2, axis=3)
test "the first features, by slices":
  Concat(Add(Mul(r, for_both(c: float32[2, 6, 2])), Mul(Concat(Neg(b), a, axis=-1), for_both(s: float32[2, 6, 2]))),
         Slice(x, [4], [9999], [3], [1]), axis=3) is rotary_partial
  where r = Slice(x: float32[2, 4, 6, 8], [0], [4], [3], [1]); a, b = Split(r, num_outputs=2, axis=3)
test "a quarter of the features, by a split":
  Concat(Add(Mul(r, for_both(c: float32[2, 6, 2])), Mul(Concat(Neg(b), a, axis=-1), for_both(s: float32[2, 6, 2]))),
         others, axis=-1) is rotary_partial
  where r, others = Split(x: float32[2, 4, 6, 16], [4, 12], axis=-1); a, b = Split(r, num_outputs=2, axis=3)
test "rows that hold each angle twice":
  Add(Mul(x: float32[2, 4, 6, 8], Unsqueeze(Gather(const c: float32[64, 8] = 1, p: int64[2, 6]), [1])),
      Mul(Concat(Neg(b), a, axis=-1), Unsqueeze(Gather(const s: float32[64, 8] = 0, p), [1]))) is looked_up
  where a, b = Split(x, num_outputs=2, axis=3)

test "turned the other way": Concat(b, Neg(a), axis=-1) is not half_turned
  where a, b = Split(x: float32[2, 4, 6, 8], num_outputs=2, axis=3)
test "a third turned": Concat(Neg(b), a, axis=-1) is not half_turned
  where a, b = Split(x: float32[2, 4, 6, 9], [6, 3], axis=3)
test "turned along the positions": Concat(Neg(b), a, axis=3) is not half_turned
  where a, b = Split(x: float32[2, 4, 6, 8], num_outputs=2, axis=2)
test "angles of two": Unsqueeze(Concat(c: float32[2, 6, 4], d: float32[2, 6, 4], axis=-1), [1]) is not for_both
test "the turned row of another":
  Add(Mul(y: float32[2, 4, 6, 8], c: float32[6, 8]), Mul(Concat(Neg(b), a, axis=-1), s: float32[6, 8])) is not rotary
  where a, b = Split(x: float32[2, 4, 6, 8], num_outputs=2, axis=3)
test "the angles of one for a batch":
  Add(Mul(x: float32[2, 4, 6, 8], for_both(c: float32[1, 6, 4])), Mul(t, for_both(s: float32[1, 6, 4])))
  is not rotary_halves where t = Concat(Neg(b), a, axis=-1); a, b = Split(x, num_outputs=2, axis=3)
test "keys turned by other angles":
  (Add(Mul(q: float32[2, 4, 6, 8], c), Mul(Concat(Neg(q2), q1, axis=-1), s)),
   Add(Mul(k: float32[2, 1, 6, 8], c), Mul(Concat(Neg(k2), k1, axis=-1), for_both(Gather(sc, o: int64[2, 6])))))
  is not rotary_shared
  where c = for_both(Gather(cc: float32[64, 4], p: int64[2, 6])); s = for_both(Gather(sc: float32[64, 4], p));
        q1, q2 = Split(q, num_outputs=2, axis=3); k1, k2 = Split(k, num_outputs=2, axis=3)
test "the last features":
  Concat(others,
         Add(Mul(r, for_both(c: float32[2, 6, 2])), Mul(Concat(Neg(b), a, axis=-1), for_both(s: float32[2, 6, 2]))),
         axis=-1) is not rotary_partial
  where others, r = Split(x: float32[2, 4, 6, 8], [4, 4], axis=-1); a, b = Split(r, num_outputs=2, axis=3)
test "other features than those that were left":
  Concat(Add(Mul(r, for_both(c: float32[2, 6, 2])), Mul(Concat(Neg(b), a, axis=-1), for_both(s: float32[2, 6, 2]))),
         Slice(x, [6], [9999], [3], [1]), axis=3) is not rotary_partial
  where r = Slice(x: float32[2, 4, 6, 12], [0], [4], [3], [1]); a, b = Split(r, num_outputs=2, axis=3)
test "no features turned":
  Concat(Add(Mul(r, for_both(c: float32[2, 6, 0])), Mul(Concat(Neg(b), a, axis=-1), for_both(s: float32[2, 6, 0]))),
         others, axis=-1) is not fuse_rotary_partial
  where r, others = Split(x: float32[2, 4, 6, 8], [0, 8], axis=-1); a, b = Split(r, num_outputs=2, axis=3)
test "some positions turned":
  Concat(Add(Mul(r, for_both(c: float32[2, 4, 4])), Mul(Concat(Neg(b), a, axis=-1), for_both(s: float32[2, 4, 4]))),
         others, axis=3) is not rotary_partial
  where r, others = Split(x: float32[2, 4, 8, 8], num_outputs=2, axis=2); a, b = Split(r, num_outputs=2, axis=3)
test "rows that were looked up elsewhere":
  Add(Mul(x: float32[2, 4, 6, 8], Unsqueeze(Gather(const c: float32[64, 8] = 1, p: int64[2, 6]), [1])),
      Mul(Concat(Neg(b), a, axis=-1), Unsqueeze(Gather(const s: float32[64, 8] = 0, o: int64[2, 6]), [1])))
  is not looked_up where a, b = Split(x, num_outputs=2, axis=3)

test "it becomes the operator":
  Add(Mul(x: float32[2, 4, 6, 8], for_both(c: float32[2, 6, 4])), Mul(t, for_both(s: float32[2, 6, 4])))
  => RotaryEmbedding(x, c, s) where t = Concat(Neg(b), a, axis=-1); a, b = Split(x, num_outputs=2, axis=3)
test "the angles laid out before the cosine":
  Add(Mul(x: float32[2, 4, 6, 8], Unsqueeze(Cos(Concat(f: float32[2, 6, 4], f, axis=-1)), [1])),
      Mul(Concat(Neg(b), a, axis=-1), Unsqueeze(Sin(Concat(f, f, axis=-1)), [1])))
  => RotaryEmbedding(x, Cos(f), Sin(f)) where a, b = Split(x, num_outputs=2, axis=3)
test "in part":
  Concat(Add(Mul(r, for_both(c: float32[2, 6, 2])), Mul(Concat(Neg(b), a, axis=-1), for_both(s: float32[2, 6, 2]))),
         others, axis=-1) => RotaryEmbedding(x, c, s, rotary_embedding_dim=4)
  where r, others = Split(x: float32[2, 4, 6, 16], [4, 12], axis=-1); a, b = Split(r, num_outputs=2, axis=3)
test "half of each row of the cache is enough":
  Add(Mul(x: float32[2, 4, 6, 4], Unsqueeze(Gather(const c: float32[2, 4] = [[0.5, 2, 0.5, 2], [3, 4, 3, 4]], p), [1])),
      Mul(Concat(Neg(b), a, axis=-1),
          Unsqueeze(Gather(const s: float32[2, 4] = [[0.5, 0, 0.5, 0], [3, 0, 3, 0]], p: int64[2, 6]), [1])))
  => RotaryEmbedding(x, Gather(half_c, p), Gather(half_s, p))
  where a, b = Split(x, num_outputs=2, axis=3);
        half_c = const hc: float32[2, 2] = [[0.5, 2], [3, 4]]; half_s = const hs: float32[2, 2] = [[0.5, 0], [3, 0]]
test "rows whose cosines differ":
  Add(Mul(x: float32[2, 4, 6, 4], Unsqueeze(Gather(const c: float32[1, 4] = [[1, 2, 1, 3]], p: int64[2, 6]), [1])),
      Mul(Concat(Neg(b), a, axis=-1), Unsqueeze(Gather(const s: float32[1, 4] = 1, p), [1]))) is not fuse_rotary_cache
  where a, b = Split(x, num_outputs=2, axis=3)
test "rows whose sines differ":
  Add(Mul(x: float32[2, 4, 6, 4], Unsqueeze(Gather(const c: float32[1, 4] = 1, p: int64[2, 6]), [1])),
      Mul(Concat(Neg(b), a, axis=-1), Unsqueeze(Gather(const s: float32[1, 4] = [[1, 2, 1, 3]], p), [1])))
  is not fuse_rotary_cache where a, b = Split(x, num_outputs=2, axis=3)
test "the cosine of two angles stays":
  place Cos(Concat(f: float32[2, 6, 4], g: float32[2, 6, 4], axis=-1)) => Cos(Concat(f, g, axis=-1)) on host
test "the sine of two angles stays":
  place Sin(Concat(f: float32[2, 6, 4], g: float32[2, 6, 4], axis=-1)) => Sin(Concat(f, g, axis=-1)) on host
