## Products that read the same value: one product of their weights side by side, and a Split. No target includes them:
## `-p std/merge.pat` adds them to a run. Only what the model computes is merged, so that it ends, and
## each set in one order: by the sums of weights.

let given(a) = readers(a) > 0 or is_graph_output(a)
let plain(a) = a.group == 1 and a.auto_pad == "NOTSET"
let alike(a, b) = a.strides == b.strides and a.pads == b.pads and a.dilations == b.dilations
let windows(v, w) = v.shape[2:] == w.shape[2:]

rule merge_matmuls reassociates: (a, b) => Split(MatMul(x, concat([v, w], 1)), [v.shape[1], w.shape[1]], axis=-1)
  where a = MatMul(x, const v); b = MatMul(x, const w)
  if v.rank == 2 and w.rank == 2 and sum(v) < sum(w) and given(a) and given(b)
rule merge_three_matmuls reassociates: (a, b, c)
  => Split(MatMul(x, concat([u, v, w], 1)), [u.shape[1], v.shape[1], w.shape[1]], axis=-1)
  where a = MatMul(x, const u); b = MatMul(x, const v); c = MatMul(x, const w)
  if u.rank == 2 and v.rank == 2 and w.rank == 2 and sum(u) < sum(v) and sum(v) < sum(w)
     and given(a) and given(b) and given(c)
rule merge_convs reassociates: (a, b)
  => Split(Conv(x, concat([v, w], 0), concat([c, d], 0), like a), [v.shape[0], w.shape[0]], axis=1)
  where a = Conv(x, const v, const c); b = Conv(x, const w, const d)
  if plain(a) and plain(b) and alike(a, b) and windows(v, w) and sum(v) < sum(w) and given(a) and given(b)

## And back: the results of one product by themselves.
rule split_matmul reassociates: (p, q)
  => (MatMul(x, transpose(transpose(w)[:p.shape[-1]])), MatMul(x, transpose(transpose(w)[p.shape[-1]:])))
  where p, q = Split(y, _, axis=-1); y = MatMul(x, const w)
  if w.rank == 2

test "two products": (MatMul(x: float32[4, 2], const v: float32[2, 1] = 1), MatMul(x, const w: float32[2, 2] = 2))
  => (p, q) where p, q = Split(MatMul(x, [[1, 2, 2], [1, 2, 2]]), [1, 2], axis=-1)
test "three products":
  (MatMul(x: float32[4, 2], const u: float32[2, 1] = 1), MatMul(x, const v: float32[2, 2] = 2),
   MatMul(x, const w: float32[2, 1] = 9))
  => (p, q, r) where p, q, r = Split(MatMul(x, [[1, 2, 2, 9], [1, 2, 2, 9]]), [1, 2, 1], axis=-1)
test "weights of each batch": (MatMul(x: float32[2, 4, 8], const v: float32[2, 8, 3]), MatMul(x, const w: float32[8, 5]))
  is not merge_matmuls
test "products of two values": (MatMul(x: float32[4, 8], const v: float32[8, 3]), MatMul(y: float32[4, 8], v))
  is not merge_matmuls
test "weights that are computed": (MatMul(x: float32[4, 8], v: float32[8, 3]), MatMul(x, const w: float32[8, 5]))
  is not merge_matmuls
test "two convolutions":
  (Conv(x: float32[1, 1, 8, 8], const v: float32[1, 1, 1, 1] = 1, const c: float32[1] = 3, pads=[1, 1, 1, 1]),
   Conv(x, const w: float32[1, 1, 1, 1] = 9, const d: float32[1] = 4, pads=[1, 1, 1, 1]))
  => (p, q) where p, q = Split(Conv(x, [[[[1]]], [[[9]]]], [3, 4], pads=[1, 1, 1, 1]), [1, 1], axis=1)
test "other windows":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[6, 4, 3, 3], const c: float32[6], pads=[1, 1, 1, 1]),
   Conv(x, const w: float32[2, 4, 1, 1], const d: float32[2])) is not merge_convs
test "a product split in two": (p, q) => (MatMul(x, [[2], [2]]), MatMul(x, [[2, 2], [2, 2]]))
  where p, q = Split(MatMul(x: float32[4, 2], const w: float32[2, 3] = 2), [1, 2], axis=1)
test "the greater sum first": (MatMul(x: float32[4, 8], const v: float32[8, 3] = 2), MatMul(x, const w: float32[8, 3] = 1))
  is not merge_matmuls
test "weights of each batch on the right":
  (MatMul(x: float32[2, 4, 8], const v: float32[8, 3] = 1), MatMul(x, const w: float32[2, 8, 3] = 2)) is not merge_matmuls
test "two of three are in order":
  (MatMul(x: float32[4, 8], const u: float32[8, 3] = 2), MatMul(x, const v: float32[8, 3] = 1),
   MatMul(x, const w: float32[8, 3] = 3)) is not merge_three_matmuls
test "the last of three is not in order":
  (MatMul(x: float32[4, 8], const u: float32[8, 3] = 1), MatMul(x, const v: float32[8, 3] = 3),
   MatMul(x, const w: float32[8, 3] = 2)) is not merge_three_matmuls
test "three, the first by batch":
  (MatMul(x: float32[2, 4, 8], const u: float32[2, 8, 3] = 1), MatMul(x, const v: float32[8, 3] = 17),
   MatMul(x, const w: float32[8, 3] = 18)) is not merge_three_matmuls
test "three, the second by batch":
  (MatMul(x: float32[2, 4, 8], const u: float32[8, 3] = 1), MatMul(x, const v: float32[2, 8, 3] = 2),
   MatMul(x, const w: float32[8, 3] = 18)) is not merge_three_matmuls
test "three, the last by batch":
  (MatMul(x: float32[2, 4, 8], const u: float32[8, 3] = 1), MatMul(x, const v: float32[8, 3] = 2),
   MatMul(x, const w: float32[2, 8, 3] = 3)) is not merge_three_matmuls
test "convolutions in the other order":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[2, 4, 3, 3] = 2, const c: float32[2]),
   Conv(x, const w: float32[2, 4, 3, 3] = 1, const d: float32[2])) is not merge_convs
test "the first in groups":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[4, 2, 3, 3] = 1, const c: float32[4], group=2),
   Conv(x, const w: float32[2, 4, 3, 3] = 2, const d: float32[2])) is not merge_convs
test "the second in groups":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[2, 4, 3, 3] = 1, const c: float32[2]),
   Conv(x, const w: float32[4, 2, 3, 3] = 9, const d: float32[4], group=2)) is not merge_convs
test "another stride":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[2, 4, 3, 3] = 1, const c: float32[2]),
   Conv(x, const w: float32[2, 4, 3, 3] = 2, const d: float32[2], strides=[2, 2])) is not merge_convs
test "other borders":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[2, 4, 3, 3] = 1, const c: float32[2]),
   Conv(x, const w: float32[2, 4, 3, 3] = 2, const d: float32[2], pads=[1, 1, 1, 1])) is not merge_convs
test "other distances":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[2, 4, 3, 3] = 1, const c: float32[2]),
   Conv(x, const w: float32[2, 4, 3, 3] = 2, const d: float32[2], dilations=[2, 2])) is not merge_convs
test "other windows of the same weights":
  (Conv(x: float32[1, 4, 8, 8], const v: float32[2, 4, 1, 3] = 1, const c: float32[2], pads=[1, 1, 1, 1]),
   Conv(x, const w: float32[2, 4, 3, 1] = 2, const d: float32[2], pads=[1, 1, 1, 1])) is not merge_convs
test "weights by batch that are split":
  (p, q) is not split_matmul where p, q = Split(MatMul(x: float32[2, 4, 8], const w: float32[2, 8, 5]), [3, 2], axis=2)
test "one product": place MatMul(x: float32[4, 8], const w: float32[8, 5]) => MatMul(x, w) on host
test "one convolution":
  place Conv(x: float32[1, 4, 8, 8], const w: float32[2, 4, 3, 3], const b: float32[2]) => Conv(x, w, b) on host
test "a split of no product": place Add(p, Neg(q)) => Add(p, Neg(q)) on host
  where p, q = Split(x: float32[4, 8], [4, 4], axis=1)
