## Slices, splits and concatenations: cuts of joins, joins of cuts, and what may move past either. All of it is exact. No
## target includes them: `-p std/slices.pat` adds them to a run. A join of many parts is taken apart from its first part
## on, so that a match has one part to look at, and it ends, whatever the order in which the rules are used.

include "std/algebra.pat"          # a slice of everything, a join of one part

## The place of a bound: counted from the end where it is negative, and never outside.
let placed(s, size) = min(max(if s < 0 then s + size else s, 0), size)

## One axis is cut, without gaps; `low` is the first element that is kept.
pattern cut(x, axis, low) = Slice(x, const s, _, const axes, const step?)
  if axes.numel == 1 and all(step == 1)
  with axis = item(axes) % x.rank, low = placed(item(s), x.shape[item(axes)])

rule merge_cuts: cut(cut(x, a, i), b, j) as y => Slice(x, [i + j], [i + j + y.shape[a]], [a], [1]) if a == b
rule merge_cuts_of_two_axes: cut(cut(x, a, i), b, j) as y
  => Slice(x, [i, j], [i + y.shape[a], j + y.shape[b]], [a, b], [1, 1])
  if a != b

## A cut that lies in the first part, and one that starts after it.
rule cut_of_first: cut(Concat(x, *rest, axis=a), b, i) as y => Slice(x, [i], [i + y.shape[b]], [b], [1])
  if len(rest) >= 1 and a == b and i + y.shape[b] <= x.shape[b]
rule cut_after_first: cut(Concat(x, *rest, axis=a), b, i) as y
  => Slice(Concat(*rest, axis=a), [i - x.shape[a]], [i - x.shape[a] + y.shape[a]], [a], [1])
  if len(rest) >= 1 and a == b and i >= x.shape[a]
## A cut along another axis goes through all parts.
rule cut_each_part: cut(Concat(x, *rest, axis=a), b, i) as y
  => Concat(Slice(x, [i], [i + y.shape[b]], [b], [1]),
            Slice(Concat(*rest, axis=a), [i], [i + y.shape[b]], [b], [1]), axis=a)
  if len(rest) >= 1 and a != b

## A join of joins is one. The outer one has two parts: of many, nested joins would have as many forms as there are pairs
## of lengths.
rule join_in_first: Concat(Concat(*xs, axis=a), y, axis=b) => Concat(*xs, y, axis=a) if a == b
rule join_in_second: Concat(w, Concat(*xs, axis=a), axis=b) => Concat(w, *xs, axis=a) if a == b

## Cuts of one value that follow each other are one cut.
rule join_cuts: Concat(cut(x, a, i) as u, cut(x, b, j) as v, *rest, axis=c)
  => Concat(Slice(x, [i], [j + v.shape[c]], [c], [1]), *rest, axis=c)
  if a == b == c and j == i + u.shape[c]
rule join_later_cuts: Concat(w, cut(x, a, i) as u, cut(x, b, j) as v, *rest, axis=c)
  => Concat(w, Slice(x, [i], [j + v.shape[c]], [c], [1]), *rest, axis=c)
  if a == b == c and j == i + u.shape[c]

## Splits and joins undo each other.
rule join_of_two: Concat(p, q) as y => x
  where p, q = Split(x, _)
  if y.shape == x.shape
rule join_of_three: Concat(p, q, r) as y => x
  where p, q, r = Split(x, _)
  if y.shape == x.shape
rule split_of_two: (p, q) => (x, y)
  where p, q = Split(Concat(x, y), _)
  if p.shape == x.shape and q.shape == y.shape
rule split_of_three: (p, q, r) => (x, y, z)
  where p, q, r = Split(Concat(x, y, z), _)
  if p.shape == x.shape and q.shape == y.shape and r.shape == z.shape

## What works element by element does less after a cut, and may end in the kernels that compute the parts of a join.
rule cut_before for OP in {Relu, Sigmoid, Tanh}: cut(OP(x), a, i) as y
  => OP(Slice(x, [i], [i + y.shape[a]], [a], [1]))
rule cut_before_transpose: cut(Transpose(x, perm=p), a, i) as y
  => Transpose(Slice(x, [i], [i + y.shape[a]], [p[a]], [1]), perm=p)
rule each_part for OP in {Relu, Sigmoid, Tanh}: OP(Concat(x, y, *rest, axis=a))
  => Concat(OP(x), OP(Concat(y, *rest, axis=a)), axis=a)
rule both_parts for OP in {Relu, Sigmoid, Tanh}: Concat(OP(x), OP(y), axis=a) => OP(Concat(x, y, axis=a))
rule turn_parts: Transpose(Concat(x, y, axis=a), perm=p)
  => Concat(Transpose(x, perm=p), Transpose(y, perm=p), axis=sum([if p[k] == a then k else 0 for k in iota(x.rank)]))
rule turn_both: Concat(Transpose(x, perm=p), Transpose(y, perm=q), axis=a) => Transpose(Concat(x, y, axis=p[a]), perm=p)
  if p == q

test "a cut": Slice(x: float32[2, 9], [1], [3], [1], [1]) is cut
test "a cut, its step left out": Slice(x: float32[2, 9], [1], [3], [-1]) is cut
test "every second element is no cut": Slice(x: float32[2, 9], [1], [9], [1], [2]) is not cut
test "two axes at once are no cut": Slice(x: float32[4, 9], [1, 1], [3, 3], [0, 1], [1, 1]) is not cut

test "a cut of a cut": Slice(Slice(x: float32[2, 9], [2], [8], [1]), [1], [-2], [-1]) => Slice(x, [3], [6], [1], [1])
test "a cut that is placed inside": Slice(Slice(x: float32[9], [-99], [7], [0]), [-3], [99], [0])
  => Slice(x, [4], [7], [0], [1])
test "cuts of two axes are not of one": Slice(Slice(x: float32[4, 9], [0], [2], [0]), [3], [7], [1]) is not merge_cuts
test "cuts of two axes": Slice(Slice(x: float32[4, 9], [-2], [9], [0]), [3], [7], [1])
  => Slice(x, [2, 3], [4, 7], [0, 1], [1, 1])
test "cuts of one axis are not of two": Slice(Slice(x: float32[9], [2], [8], [0]), [1], [3], [0])
  is not merge_cuts_of_two_axes
test "a cut stays": place Slice(x: float32[64, 9], [3], [8], [1], [1]) => Slice(x, [3], [8], [1], [1]) on host

test "a cut of the first part": Slice(Concat(x: float32[4, 2], y: float32[3, 2], axis=0), [1], [3], [0])
  => Slice(x, [1], [3], [0], [1])
test "the first part": Slice(Concat(x: float32[4, 2], y: float32[3, 2], axis=0), [0], [4], [0]) => x
test "a cut of the only part": Slice(Concat(x: float32[4, 2], axis=0), [1], [2], [0]) is not cut_of_first
test "a cut of both parts is none of the first":
  Slice(Concat(x: float32[4, 2], y: float32[3, 2], axis=0), [1], [5], [0]) is not cut_of_first
test "a cut of the other axis is none of the first":
  Slice(Concat(x: float32[N, 2], y: float32[M, 2], axis=0), [0], [1], [1]) is not cut_of_first
test "a cut of the last part":
  Slice(Concat(x: float32[4, 2], y: float32[3, 2], z: float32[5, 2], axis=0), [-4], [-1], [0])
  => Slice(z, [1], [4], [0], [1])
test "the part in the middle":
  Slice(Concat(x: float32[4, 2], y: float32[3, 2], z: float32[5, 2], axis=0), [4], [7], [0]) => y
test "a cut that starts in the first part is not after it":
  Slice(Concat(x: float32[4, 2], y: float32[3, 2], axis=0), [3], [6], [0]) is not cut_after_first
test "a cut of the other axis is not after the first part":
  Slice(Concat(x: float32[1, 8], y: float32[3, 8], axis=0), [4], [6], [1]) is not cut_after_first
test "nothing is after the only part": Slice(Concat(x: float32[4, 2], axis=0), [4], [9], [0]) is not cut_after_first
test "a cut through three parts":
  Slice(Concat(x: float32[4, 2], y: float32[3, 2], z: float32[5, 2], axis=0), [1], [2], [1])
  => Concat(Slice(x, [1], [2], [1], [1]), Slice(y, [1], [2], [1], [1]), Slice(z, [1], [2], [1], [1]), axis=0)
test "a cut along the join is through one": Slice(Concat(x: float32[4, 2], y: float32[3, 2], axis=0), [1], [2], [0])
  is not cut_each_part
test "one part is cut alone": Slice(Concat(x: float32[4, 2], axis=0), [1], [2], [1]) is not cut_each_part

test "a join first": Concat(Concat(x: float32[2, 3], y: float32[2, 4], axis=1), z: float32[2, 1], axis=1)
  => Concat(x, y, z, axis=1)
test "a join second": Concat(z: float32[2, 1], Concat(x: float32[2, 3], y: float32[2, 4], axis=-1), axis=1)
  => Concat(z, x, y, axis=1)
test "a join along another axis first": Concat(Concat(x: float32[2, 3], y: float32[2, 3], axis=0), z: float32[4, 1], axis=1)
  is not join_in_first
test "a join along another axis second":
  Concat(z: float32[4, 1], Concat(x: float32[2, 3], y: float32[2, 3], axis=0), axis=1) is not join_in_second
test "a join stays": place Concat(x: float32[2, 8], y: float32[2, 8], axis=1) => Concat(x, y, axis=1) on host

test "cuts that follow each other":
  Concat(Slice(x: float32[2, 9], [1], [3], [1]), Slice(x, [3], [8], [1]), y: float32[2, 1], axis=1)
  => Concat(Slice(x, [1], [8], [1], [1]), y, axis=1)
test "cuts that are everything": Concat(Slice(x: float32[2, 9], [0], [3], [1]), Slice(x, [3], [9], [1]), axis=1) => x
test "three cuts that are everything":
  Concat(Slice(x: float32[9], [0], [3], [0]), Slice(x, [3], [5], [0]), Slice(x, [-4], [9], [0]), axis=0) => x
test "cuts with a gap": Concat(Slice(x: float32[2, 9], [1], [3], [1]), Slice(x, [4], [8], [1]), axis=1) is not join_cuts
test "cuts of rows side by side, one of them of everything":
  Concat(Slice(x: float32[2, 9], [0], [2], [0]), Slice(x, [9], [9], [1]), axis=1) is not join_cuts
test "later cuts that follow each other":
  Concat(y: float32[2, 1], Slice(x: float32[2, 9], [1], [3], [1]), Slice(x, [3], [8], [1]), axis=1)
  => Concat(y, Slice(x, [1], [8], [1], [1]), axis=1)
test "later cuts with a gap":
  Concat(y: float32[2, 1], Slice(x: float32[2, 9], [1], [3], [1]), Slice(x, [4], [8], [1]), axis=1)
  is not join_later_cuts
test "later cuts, one of them of everything":
  Concat(y: float32[2, 1], Slice(x: float32[2, 9], [0], [2], [0]), Slice(x, [9], [9], [1]), axis=1)
  is not join_later_cuts

test "two parts joined": Concat(p, q, axis=1) => x where p, q = Split(x: float32[2, 9], [4, 5], axis=-1)
test "two parts of three": Concat(p, q, axis=1) is not join_of_two
  where p, q, r = Split(x: float32[2, 9], num_outputs=3, axis=1)
test "two parts exchanged": Concat(q, p, axis=1) is not join_of_two
  where p, q = Split(x: float32[2, 8], num_outputs=2, axis=1)
test "two parts joined along another axis": Concat(p, q, axis=0) is not join_of_two
  where p, q = Split(x: float32[2, 8], num_outputs=2, axis=1)
test "three parts joined": Concat(p, q, r, axis=0) => x where p, q, r = Split(x: float32[9, 2], [4, 2, 3], axis=0)
test "three parts joined along another axis": Concat(p, q, r, axis=1) is not join_of_three
  where p, q, r = Split(x: float32[9, 2], num_outputs=3, axis=0)
test "a join of two split again": (p, q) => (x, y)
  where p, q = Split(Concat(x: float32[2, 3], y: float32[2, 5], axis=1), [3, 5], axis=1)
test "split elsewhere": (p, q) is not split_of_two
  where p, q = Split(Concat(x: float32[2, 3], y: float32[2, 5], axis=1), [4, 4], axis=1)
test "the second part split": (p, q) is not split_of_two
  where p, q, r = Split(Concat(x: float32[2, 3], y: float32[2, 5], axis=1), [3, 2, 3], axis=1)
test "the first part of unknown size": (p, q) is not split_of_two
  where p, q = Split(Concat(x: float32[2, N], y: float32[2, 5], axis=1), [3, 5], axis=1)
test "the second part of unknown size": (p, q) is not split_of_two
  where p, q = Split(Concat(x: float32[2, 3], y: float32[2, N], axis=1), [3, 5], axis=1)
test "a join of three split again": (p, q, r) => (x, y, z)
  where p, q, r = Split(Concat(x: float32[2, 3], y: float32[2, 5], z: float32[2, 1], axis=1), [3, 5, 1], axis=1)
test "three split elsewhere": (p, q, r) is not split_of_three
  where p, q, r = Split(Concat(x: float32[2, 3], y: float32[2, 3], z: float32[2, 3], axis=1), [3, 2, 4], axis=1)
test "the first of three of unknown size": (p, q, r) is not split_of_three
  where p, q, r = Split(Concat(x: float32[2, N], y: float32[2, 3], z: float32[2, 3], axis=1), [3, 3, 3], axis=1)
test "the second of three of unknown size": (p, q, r) is not split_of_three
  where p, q, r = Split(Concat(x: float32[2, 3], y: float32[2, N], z: float32[2, 3], axis=1), [3, 3, 3], axis=1)
test "the last of three of unknown size": (p, q, r) is not split_of_three
  where p, q, r = Split(Concat(x: float32[2, 3], y: float32[2, 3], z: float32[2, N], axis=1), [3, 3, 3], axis=1)
test "a split stays": place Add(p, Neg(q)) => Add(p, Neg(q)) on host
  where p, q = Split(x: float32[4, 8], [4, 4], axis=1)

test "a cut before relu": Slice(Relu(x: float32[2, 9]), [1], [3], [1]) => Relu(Slice(x, [1], [3], [1], [1]))
test "a cut before sigmoid": Slice(Sigmoid(x: float32[2, 9]), [1], [3], [1]) => Sigmoid(Slice(x, [1], [3], [1], [1]))
test "a cut before tanh": Slice(Tanh(x: float32[2, 9]), [-8], [3], [1]) => Tanh(Slice(x, [1], [3], [1], [1]))
test "a cut before a transpose": Slice(Transpose(x: float32[2, 3, 9], perm=[2, 0, 1]), [1], [3], [0])
  => Transpose(Slice(x, [1], [3], [2], [1]), perm=[2, 0, 1])
test "relu of each part": Relu(Concat(x: float32[2, 3], y: float32[2, 4], z: float32[2, 1], axis=1))
  => Concat(Relu(x), Relu(y), Relu(z), axis=1)
test "sigmoid of each part": Sigmoid(Concat(x: float32[2, 3], y: float32[2, 4], axis=1))
  => Concat(Sigmoid(x), Sigmoid(y), axis=1)
test "tanh of each part": Tanh(Concat(x: float32[2, 3], y: float32[2, 4], axis=1)) => Concat(Tanh(x), Tanh(y), axis=1)
test "relu of both": Concat(Relu(x: float32[2, 3]), Relu(y: float32[2, 4]), axis=1) => Relu(Concat(x, y, axis=1))
test "sigmoid of both": Concat(Sigmoid(x: float32[2, 3]), Sigmoid(y: float32[2, 4]), axis=1)
  => Sigmoid(Concat(x, y, axis=1))
test "tanh of both": Concat(Tanh(x: float32[2, 3]), Tanh(y: float32[2, 4]), axis=1) => Tanh(Concat(x, y, axis=1))
test "two functions stay": place Tanh(Sigmoid(Relu(x: float32[8]))) => Tanh(Sigmoid(Relu(x))) on host
test "parts turned": Transpose(Concat(x: float32[2, 3, 4], y: float32[2, 3, 1], axis=2), perm=[1, 2, 0])
  => Concat(Transpose(x, perm=[1, 2, 0]), Transpose(y, perm=[1, 2, 0]), axis=1)
test "both turned": Concat(Transpose(x: float32[2, 3, 4], perm=[1, 2, 0]), Transpose(y: float32[2, 3, 1], perm=[1, 2, 0]), axis=1)
  => Transpose(Concat(x, y, axis=2), perm=[1, 2, 0])
test "turned in two ways": Concat(Transpose(x: float32[2, 2], perm=[1, 0]), Transpose(y: float32[2, 2], perm=[0, 1]), axis=1)
  is not turn_both
test "a transpose stays": place Transpose(x: float32[2, 3], perm=[1, 0]) => Transpose(x, perm=[1, 0]) on host
