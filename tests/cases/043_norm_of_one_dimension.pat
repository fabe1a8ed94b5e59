## A vector: the quotient has the rank of the gain, and still is not taken for it.
include "std/layer_norm.pat"
rule spelled: Mul(Div(d, Sqrt(Add(ReduceMean(Mul(d, d), [-1]), const e))), const gain)
  => LayerNormalization(x, gain, axis=-1, epsilon=item(e))
  where d = Sub(x, ReduceMean(x, [-1]))
  if e.numel == 1
test "a vector": Mul(Div(d, Sqrt(Add(ReduceMean(Mul(d, d), [-1]), 1e-3))), const g: float32[8])
  => LayerNormalization(x, g, epsilon=1e-3)
  where d = Sub(x: float32[8], ReduceMean(x: float32[8], [-1]))
