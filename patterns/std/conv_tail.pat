## What a convolution's kernel does to its result before it stores it: steps of one element at a time, a residual, an
## activation.

include "std/activations.pat"      # activation(v)

## Up to four steps in any order; what else they read is laid over the result.
pattern conv_steps(x, w, b?, *others) =
    chain?(conv, {Add, Sub, Mul, Relu, Clip, Sigmoid, HardSwish}, most=4, others=others) as post
  where conv = Conv(x, const w, const b?)
  if all(step.shape == conv.shape for step in post.steps)

## Four steps in one order, each there or not: a bias, a factor per channel, a residual, an activation.
pattern conv_stages(x, w, bias?, factor?, rest?) =
    activation?(Add?(Mul?(Add?(conv, const bias?), const factor?), rest?))
  where conv = Conv(x: [_, _, _, _], const w: [K, _, _, _])
  if bias.shape == [K, 1, 1] and factor.shape == [K, 1, 1] and rest.shape == conv.shape

## A residual is computed before the kernel starts, so not from the convolution itself: nobody but the sum reads that.
pattern conv_residual(x, w, b?, rest) = activation?(Add(conv, rest))
  where conv = Conv(x, const w, const b?)
  if rest.shape == conv.shape and readers(conv) == 1

test "no step": Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3], const b: float32[4]) is conv_steps
test "one step": Relu(Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])) is conv_steps
test "four steps":
  Clip(Mul(const c: float32[4, 1, 1], Sub(Add(r: float32[1, 4, 6, 6], conv), s: float32[])), 0, 6) is conv_steps
  where conv = Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])
test "none of the four": Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3]) is conv_stages
test "all four":
  Relu(Add(r: float32[1, 4, 6, 6], Mul(Add(conv, const b: float32[4, 1, 1]), const k: float32[4, 1, 1]))) is conv_stages
  where conv = Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])
test "the second and the fourth":
  Sigmoid(Mul(const k: float32[4, 1, 1], Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3]))) is conv_stages
test "the third alone":
  Add(Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3]), r: float32[1, 4, 6, 6]) is conv_stages
test "a residual":
  Add(r: float32[1, 4, 6, 6], Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])) is conv_residual
test "a residual from the same input":
  Relu(Add(Conv(x: float32[1, 4, 6, 6], const w: float32[4, 4, 1, 1], const b: float32[4]), Sigmoid(x)))
  is conv_residual

test "five steps": Relu(Mul(Relu(Mul(Relu(conv), c: float32[])), c)) is not conv_steps
  where conv = Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])
test "a step of another kind": Relu(Exp(Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3]))) is not conv_steps
test "a step that makes it larger":
  Add(Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3]), r: float32[3, 4, 6, 6]) is not conv_steps
test "the factor before the bias":
  Add(const b: float32[4, 1, 1], Mul(const k: float32[4, 1, 1], conv)) is not conv_stages
  where conv = Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])
test "a bias per pixel": Mul(Add(conv, const b: float32[6, 6]), const k: float32[4, 1, 1]) is not conv_stages
  where conv = Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])
test "a factor per row": Mul(conv, const k: float32[6, 1]) is not conv_stages
  where conv = Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])
test "a residual per channel":
  Add(Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3]), r: float32[1, 4, 1, 1]) is not conv_stages
test "a residual that is larger":
  Add(Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3]), r: float32[3, 4, 6, 6]) is not conv_residual
test "a residual from the convolution itself": Add(conv, Sigmoid(conv)) is not conv_residual
  where conv = Conv(x: float32[1, 2, 8, 8], const w: float32[4, 2, 3, 3])
