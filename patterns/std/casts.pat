## Casts: chains of them, and casts past what only moves elements. All of it is exact. No target includes them:
## `-p std/casts.pat` adds them to a run.

include "std/algebra.pat"          # a cast to the own type

## Every value of dtype `d` is one of dtype `m`.
let in_bytes(d, m) =
    d == bool
    or d == int8 and m in {int16, int32, int64, float16, bfloat16, float32, float64}
    or d == uint8 and m in {int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64}
let in_words(d, m) =
    d == int16 and m in {int32, int64, float32, float64}
    or d == uint16 and m in {int32, uint32, int64, uint64, float32, float64}
    or d == int32 and m in {int64, float64}
    or d == uint32 and m in {int64, uint64, float64}
let in_floats(d, m) = d in {float16, bfloat16} and m in {float32, float64} or d == float32 and m == float64
let holds(m, d) = d == m or in_bytes(d, m) or in_words(d, m) or in_floats(d, m)
let floating(d) = d in {float16, bfloat16, float32, float64}
let counted(d) = d in {int8, uint8, int16, uint16, int32, uint32, int64, uint64}

## What leaves the range of an integer wraps round from an integer and means nothing from a float, so a float between
## two integers needs the last one to hold the first; a float that becomes an integer keeps its way there.
rule merge_casts: Cast(Cast(x) as m) as y => Cast(x, like y)
  if holds(m.dtype, x.dtype)
     and (floating(y.dtype) or y.dtype == bool or holds(y.dtype, x.dtype) or counted(x.dtype) and counted(m.dtype))

## A cast before what moves elements, or after it.
rule cast_past_transpose: Cast(Transpose(x, perm=p), to=t, saturate=s) <=> Transpose(Cast(x, to=t, saturate=s), perm=p)
rule cast_past_reshape: Cast(Reshape(x, shape), to=t, saturate=s) <=> Reshape(Cast(x, to=t, saturate=s), shape)
rule cast_past_concat: Cast(Concat(x, y, axis=a), to=t, saturate=s)
  <=> Concat(Cast(x, to=t, saturate=s), Cast(y, to=t, saturate=s), axis=a)
## A cut first leaves less to cast.
rule cast_after_slice: Slice(Cast(x, to=t, saturate=s), b, e, axes?, step?)
  => Cast(Slice(x, b, e, axes, step), to=t, saturate=s)

test "to bytes through floats and back": Cast(Cast(x: int8[2, 8], to=1), to=3) => x
test "to half precision through double": Cast(Cast(x: float16[8], to=11), to=1) => Cast(x, to=1)
test "to bits through words": Cast(Cast(x: uint8[8], to=6), to=9) => Cast(x, to=9)
test "words to bytes through long words": Cast(Cast(x: int32[8], to=7), to=3) => Cast(x, to=3)
test "halves through words lose what follows the point": Cast(Cast(x: float16[8], to=6), to=1) is not merge_casts
test "words through single precision are rounded": Cast(Cast(x: int32[8], to=1), to=11) is not merge_casts
test "half precision does not hold the other half": Cast(Cast(x: bfloat16[8], to=10), to=1) is not merge_casts
test "a sign does not come through": Cast(Cast(x: int8[8], to=2), to=6) is not merge_casts
test "bytes through floats to bytes without sign wrap elsewhere": Cast(Cast(x: int8[8], to=1), to=2) is not merge_casts
test "floats to integers keep their way": Cast(Cast(x: float16[8], to=1), to=6) is not merge_casts
test "words through bits stay": place Cast(Cast(x: int32[8], to=9), to=1) => Cast(Cast(x, to=9), to=1) on host

test "a cast after a transpose": Transpose(Cast(x: float32[2, 3], to=10), perm=[1, 0])
  => Cast(Transpose(x, perm=[1, 0]), to=10)
test "a cast before a transpose": Cast(Transpose(x: float32[2, 3], perm=[1, 0]), to=10)
  => Transpose(Cast(x, to=10), perm=[1, 0])
test "a cast after a reshape": Reshape(Cast(x: float32[2, 6], to=10), [3, 4]) => Cast(Reshape(x, [3, 4]), to=10)
test "casts with a reshape between": Cast(Reshape(Cast(x: float16[2, 6], to=1), [3, 4]), to=10) => Reshape(x, [3, 4])
test "a cast after a cut": Slice(Cast(x: float32[2, 6], to=10), [1], [3], [1]) => Cast(Slice(x, [1], [3], [1]), to=10)
test "a cast after every second element": Slice(Cast(x: float32[2, 6], to=10), [0], [6], [1], [2])
  => Cast(Slice(x, [0], [6], [1], [2]), to=10)
test "a cast of a join": Concat(Cast(x: float32[2, 6], to=10), Cast(y: float32[1, 6], to=10), axis=0)
  => Cast(Concat(x, y, axis=0), to=10)
test "a join of casts": Cast(Concat(x: float32[2, 6], y: float32[1, 6], axis=0), to=10)
  => Concat(Cast(x, to=10), Cast(y, to=10), axis=0)
test "a join of two dtypes": Concat(Cast(x: float32[2, 6], to=10), Cast(y: float64[2, 6], to=10), axis=0)
  is not cast_past_concat
test "a transpose stays": place Transpose(x: float32[2, 3], perm=[1, 0]) => Transpose(x, perm=[1, 0]) on host
test "a reshape stays": place Reshape(x: float32[2, 6], [6, 2]) => Reshape(x, [6, 2]) on host
test "a cut stays": place Slice(x: float32[64, 9], [3], [8], [1], [1]) => Slice(x, [3], [8], [1], [1]) on host
