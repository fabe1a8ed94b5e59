## Epsilon and the type of the sums need not be written: they have their defaults.
rule rename: LayerNormalization(Identity(x), gain, axis=-1, epsilon=e, stash_type=t)
  => LayerNormalization(x, gain, axis=-1, epsilon=e, stash_type=t)
test "neither": LayerNormalization(Identity(x: float32[2, 8]), const g: float32[8], axis=-1)
  => LayerNormalization(x, g, axis=-1, epsilon=1e-5, stash_type=1)
test "not even the axis": LayerNormalization(Identity(x: float32[2, 8]), const g: float32[8])
  => LayerNormalization(x, g, axis=1, epsilon=1e-5)
test "an epsilon of its own": LayerNormalization(Identity(x: float32[2, 8]), const g: float32[8], epsilon=1e-6)
  => LayerNormalization(x, g, epsilon=1e-6)
test "another axis": place LayerNormalization(Identity(x: float32[2, 8]), const g: float32[2, 8], axis=0)
  => LayerNormalization(Identity(x), g, axis=0) on host
