## What moves elements about without computing: views, transposes, operators that do nothing. All of it is exact.

rule merge_transposes: Transpose(Transpose(x, perm=p), perm=r) => Transpose(x, perm=[p[i] for i in r])
rule drop_transpose: Transpose(x, perm=p) => x if p == iota(x.rank)

## A view of a view is one view. The shape is the result's own, so that zeros and -1 have been worked out; where it is
## not known, nothing can be built and the rule does not hold.
rule merge_reshapes: Reshape(Reshape(x, _), _) as y => Reshape(x, y.shape)
rule drop_reshape: Reshape(x, _) as y => x if y.shape == x.shape
rule flatten_is_reshape: Flatten(x) as y => Reshape(x, y.shape)
rule squeeze_is_reshape: Squeeze(x, _) as y => Reshape(x, y.shape)
rule unsqueeze_is_reshape: Unsqueeze(x, _) as y => Reshape(x, y.shape)
rule squeeze_of_unsqueeze: Squeeze(Unsqueeze(x, const axes), axes) => x

rule drop_identity: Identity(x) => x
## Without a training mode, dropout is the identity.
rule drop_dropout: Dropout(x, _, none) => x
rule drop_pad: Pad(x, const p, _, _) => x if all(p == 0)
rule drop_expand: Expand(x, _) as y => x if y.shape == x.shape
rule drop_cast: Cast(x) as y => x if y.dtype == x.dtype
rule drop_slice: Slice(x, _, _, _, const steps) as y => x if y.shape == x.shape and all(steps == 1)
rule drop_concat: Concat(x) => x
rule drop_mul_one: Mul(x, 1) => x
rule drop_div_one: Div(x, 1) => x
rule drop_add_zero: Add(x, 0) => x
rule drop_sub_zero: Sub(x, 0) => x

test "a perm and its inverse": Transpose(Transpose(x: float32[2, 3, 4], perm=[0, 2, 1]), perm=[0, 2, 1]) => x
test "two perms are one":
  Transpose(Transpose(x: float32[2, 3, 4], perm=[1, 2, 0]), perm=[0, 2, 1]) => Transpose(x, perm=[1, 0, 2])
test "two transposes with something between":
  place Transpose(Relu(Transpose(x: float32[2, 3], perm=[1, 0])), perm=[1, 0])
  => Transpose(Relu(Transpose(x, perm=[1, 0])), perm=[1, 0]) on host
test "a transpose that moves nothing": Transpose(x: float32[2, 3, 4], perm=[0, 1, 2]) => x
test "a square is not its transpose":
  place Transpose(x: float32[3, 3], perm=[1, 0]) => Transpose(x, perm=[1, 0]) on host
test "two reshapes are one": Reshape(Reshape(x: float32[2, 6], [3, 4]), [0, -1, 2]) => Reshape(x, [3, 2, 2])
test "a reshape of a computed shape stays":
  place Reshape(Reshape(x: float32[2, 6], [3, 4]), s: int64[2]) => Reshape(Reshape(x, [3, 4]), s) on host
test "a reshape to the same shape": Reshape(x: float32[2, 6], [-1, 6]) => x
test "a reshape to another shape stays": place Reshape(x: float32[2, 6], [6, 2]) => Reshape(x, [6, 2]) on host
test "flatten is a reshape": Flatten(x: float32[2, 3, 4]) => Reshape(x, [2, 12])
test "flatten of a computed shape stays":
  place Flatten(Reshape(x: float32[24], s: int64[3])) => Flatten(Reshape(x, s)) on host
test "squeeze is a reshape": Squeeze(x: float32[1, 3, 1], [0]) => Reshape(x, [3, 1])
test "squeeze of a computed shape stays":
  place Squeeze(Reshape(x: float32[24], s: int64[3]), [0]) => Squeeze(Reshape(x, s), [0]) on host
test "unsqueeze is a reshape": Unsqueeze(x: float32[3, 4], [1]) => Reshape(x, [3, 1, 4])
test "unsqueeze of a computed shape stays":
  place Unsqueeze(Reshape(x: float32[24], s: int64[3]), [0]) => Unsqueeze(Reshape(x, s), [0]) on host
test "unsqueeze and squeeze, whatever the shape":
  Squeeze(Unsqueeze(Reshape(x: float32[24], s: int64[3]), [1]), [1]) => Reshape(x, s)
test "unsqueeze and squeeze of another axis":
  place Squeeze(Unsqueeze(x: float32[1, 4], [2]), [0]) => Reshape(x, [4, 1]) on host
test "identity": Identity(x: float32[2]) => x
test "a sign stays": place Neg(x: float32[2]) => Neg(x) on host
test "dropout at inference": Dropout(x: float32[2, 8], 0.5) => x
test "dropout in training stays":
  place Dropout(x: float32[2, 8], 0.5, const on: bool[] = 1) => Dropout(x, 0.5, on) on host
test "no padding": Pad(x: float32[2, 8], [0, 0, 0, 0], 0) => x
test "a shift by one keeps the shape, not the elements":
  place Pad(x: float32[2, 8], [0, 1, 0, -1], 0) => Pad(x, [0, 1, 0, -1], 0) on host
test "one zero in front stays": place Pad(x: float32[2, 8], [0, 1, 0, 0], 0) => Pad(x, [0, 1, 0, 0], 0) on host
test "expand to the same shape": Expand(x: float32[2, 8], [1, 8]) => x
test "expand to more rows stays": place Expand(x: float32[1, 8], [2, 8]) => Expand(x, [2, 8]) on host
test "expand to a computed shape stays": place Expand(x: float32[1, 8], s: int64[2]) => Expand(x, s) on host
test "cast to the same dtype": Cast(x: float32[8], to=1) => x
test "cast to another dtype stays": place Cast(x: float32[8], to=6) => Cast(x, to=6) on host
test "a slice of everything": Slice(x: float32[4, 8], [0], [8], [1], [1]) => x
test "a slice backwards stays":
  place Slice(x: float32[4, 8], [-1], [-9], [1], [-1]) => Slice(x, [-1], [-9], [1], [-1]) on host
test "a slice of computed bounds stays":
  place Slice(x: float32[4, 8], [0], e: int64[1], [1], [1]) => Slice(x, [0], e, [1], [1]) on host
test "one part alone": Concat(x: float32[2, 8], axis=0) => x
test "two parts stay": place Concat(x: float32[2, 8], y: float32[2, 8], axis=0) => Concat(x, y, axis=0) on host
test "times one": Mul(const c: float32[8] = 1, x: float32[2, 8]) => x
test "times one, broadcast": place Mul(x: float32[8], const c: float32[2, 8] = 1) => Mul(x, c) on host
test "by one": Div(x: float32[2, 8], 1) => x
test "one by it stays": place Div(1, x: float32[2, 8]) => Div(1, x) on host
test "plus zero": Add(x: float32[2, 8], const c: float32[1, 1] = 0) => x
test "plus one stays": place Add(x: float32[2, 8], 1) => Add(x, 1) on host
test "minus zero": Sub(x: float32[2, 8], 0) => x
test "zero minus it stays": place Sub(0, x: float32[2, 8]) => Sub(0, x) on host
