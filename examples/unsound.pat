## Rules that look right and are not. `rewrite-engine test examples/unsound.pat` refutes every one and shows where:
## the smallest match that was found, as a test to keep and as Python to run.

## A difference is not commutative.
rule exchange: Sub(a, b) => Sub(b, a)

## The permutation that runs first is the one that is indexed: p[i] for i in q, not the other way round.
rule merge_transposes: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=[q[i] for i in p])

## Products of matrices may be regrouped, but a vector takes part as a row or as a column, and stacks of matrices line
## up differently: the ranks must be said.
rule regroup reassociates: MatMul(a, MatMul(b, c)) => MatMul(MatMul(a, b), c)

## Of a guard that asks for the shape alone: what is added on one side and cut off on the other keeps it.
rule drop_pad: Pad(x, const _, _) as y => x if y.shape == x.shape

## Nothing below zero passes, whatever the lower bound is. It needs `if all(low >= 0)`.
rule clip_after_relu: Clip(Relu(x), const low, const high) => Clip(x, low, high)

## Sums may be regrouped, but they round differently then: it is not exact. `rule regroup_sum reassociates: …` holds.
rule regroup_sum: Add(a, Add(b, c)) => Add(Add(a, b), c)

## Half precision and back keeps three digits.
rule there_and_back: Cast(Cast(x: float32[...], to=10), to=1) => x

## Two spellings of one name that differ in the fourth digit: that is an approximation, and must say so.
rule gelu_by_tanh reassociates: Gelu(x, approximate="none") => Gelu(x, approximate="tanh")

## Where a shape is known, the engine compares it. Where it is only known when the model runs, the rank is not enough.
rule drop_reshape: Reshape(x, _) as y => x if y.rank == x.rank

## A constant per channel, laid along the wrong axis of the weights: it is right as long as there are as many channels
## before as after and the constant is one number.
rule scale_into_conv reassociates: Mul(Conv(x, const w: [K, C, _, _]) as conv, const c)
  => Conv(x, w * reshape(c, [1, -1, 1, 1]), like conv)
  if c.shape == [K, 1, 1] and K == C

## Softmax does not change when something is added to every element, but only if it is the same along the axis.
rule shift_softmax reassociates: Softmax(Add(x, const c), axis=-1) => Softmax(x, axis=-1) if c.rank <= x.rank

## Whole numbers wrap around: the double of a large one is not its double.
rule halve reassociates: Div(Mul(x, 2), 4) => Div(x, 2)

## Not even as an approximation: the hyperbolic tangent is far from the sigmoid.
rule tanh_for_sigmoid approximates: Sigmoid(x) => Tanh(x)
