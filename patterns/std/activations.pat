## Activations, as operators and as exporters take them apart. `activation(v)` is what a kernel can apply to each
## element before it stores it. A rounding apart, the spellings of one function compute the same, so each has one
## name here.

## x * sigmoid(x), also called swish.
pattern silu(v) = Mul(v, Sigmoid(v))

## min(max(x + 3, 0), 6), the ramp under hard sigmoid and hard swish.
pattern ramp6(v) = Clip(Add(v, 3), 0, 6)

## x * ramp6(x) / 6: the sixth is taken of either factor or of the product, by division or by multiplication.
pattern hard_swish_spelled(v) =
    Mul(v, Div(ramp6(v), 6))
  | Div(Mul(v, ramp6(v)), 6)
  | Mul(v, Mul(ramp6(v), 0.16666667))
  | Mul(Mul(v, ramp6(v)), 0.16666667)
  | Mul(v, HardSigmoid(v, alpha=0.16666667, beta=0.5))
pattern hard_swish(v) = HardSwish(v) | hard_swish_spelled(v)

## ramp6(x) / 6, which HardSigmoid computes with these attributes (its own defaults are others).
pattern hard_sigmoid_spelled(v) = Div(ramp6(v), 6) | Mul(ramp6(v), 0.16666667)
pattern hard_sigmoid(v) = HardSigmoid(v) | hard_sigmoid_spelled(v)

## A bound on both sides or on one, known when the kernel is built: Clip(v, 0, 6) is ReLU6.
pattern clamp(v) = Clip(v, const _, const _)

pattern activation(v) =
    Relu(v) | clamp(v) | Sigmoid(v) | Tanh(v) | LeakyRelu(v) | silu(v) | hard_swish(v) | hard_sigmoid(v)

## Decomposed hard swish and hard sigmoid become the operators; a division by 6 is then a multiplication. Attributes
## hold a sixth in single precision, so not in double.
rule fuse_hard_swish reassociates: hard_swish_spelled(v) => HardSwish(v) if v.dtype != float64
rule fuse_hard_sigmoid reassociates: hard_sigmoid_spelled(v) => HardSigmoid(v, alpha=0.16666667, beta=0.5)
  if v.dtype != float64

## Nothing is below zero twice.
rule relu_twice: Relu(Relu(x)) => Relu(x)

test "relu": Relu(x: float32[1, 8]) is activation
test "relu6, its bounds as inputs":
  Clip(x: float32[1, 8], const low: float32[] = 0, const high: float32[] = 6) is activation
test "relu6, its bounds as literals": Clip(x: float32[1, 8], 0, 6) is clamp
test "one bound only": Clip(x: float32[1, 8], 0) is clamp
test "sigmoid": Sigmoid(x: float32[1, 8]) is activation
test "tanh": Tanh(x: float32[1, 8]) is activation
test "leaky relu": LeakyRelu(x: float32[1, 8], alpha=0.1) is activation
test "silu": Mul(x: float32[1, 8], Sigmoid(x)) is silu
test "silu, the factors exchanged": Mul(Sigmoid(x: float32[1, 8]), x) is activation
test "hard swish": HardSwish(x: float32[1, 8]) is hard_swish
test "hard swish, the ramp divided": Mul(x: float32[1, 8], Div(Clip(Add(x, 3), 0, 6), 6)) is hard_swish
test "hard swish, the product divided": Div(Mul(x: float32[1, 8], Clip(Add(3, x), 0, 6)), 6) is hard_swish_spelled
test "hard swish by hard sigmoid":
  Mul(x: float32[1, 8], HardSigmoid(x, alpha=0.16666667, beta=0.5)) is activation
test "hard sigmoid": HardSigmoid(x: float32[1, 8]) is hard_sigmoid
test "hard sigmoid, decomposed": Div(Clip(Add(x: float32[1, 8], 3), 0, 6), 6) is hard_sigmoid_spelled
test "the ramp": Clip(Add(x: float32[1, 8], 3), 0, 6) is ramp6

test "exp is no activation here": Exp(x: float32[1, 8]) is not activation
test "a bound that is computed": Clip(x: float32[1, 8], low: float32[]) is not clamp
test "the sigmoid of something else": Mul(x: float32[1, 8], Sigmoid(y: float32[1, 8])) is not silu
test "a ramp to 5": Clip(Add(x: float32[1, 8], 3), 0, 5) is not ramp6
test "hard swish over 7": Mul(x: float32[1, 8], Div(Clip(Add(x, 3), 0, 6), 7)) is not hard_swish
test "the ramp of something else":
  Mul(x: float32[1, 8], Div(Clip(Add(y: float32[1, 8], 3), 0, 6), 6)) is not hard_swish_spelled
test "another slope": Mul(x: float32[1, 8], HardSigmoid(x, alpha=0.2, beta=0.5)) is not hard_swish
test "hard sigmoid over 5": Div(Clip(Add(x: float32[1, 8], 3), 0, 6), 5) is not hard_sigmoid
test "hard sigmoid is another spelling": HardSigmoid(x: float32[1, 8]) is not hard_sigmoid_spelled

test "hard swish becomes the operator": Mul(x: float32[1, 8], Div(Clip(Add(x, 3), 0, 6), 6)) => HardSwish(x)
test "hard sigmoid becomes the operator":
  Div(Clip(Add(x: float32[1, 8], 3), 0, 6), 6) => HardSigmoid(x, alpha=0.16666667, beta=0.5)
test "one relu is enough": Relu(Relu(x: float32[1, 8])) => Relu(x)
test "a relu of a tanh stays": place Relu(Tanh(x: float32[1, 8])) => Relu(Tanh(x)) on host
test "a sixth in single precision is none in double, in hard swish":
  place Mul(x: float64[1, 8], Div(Clip(Add(x, 3), 0, 6), 6)) => Mul(x, Div(Clip(Add(x, 3), 0, 6), 6)) on host
test "double precision stays":
  place Div(Clip(Add(x: float64[1, 8], 3), 0, 6), 6) => Div(Clip(Add(x, 3), 0, 6), 6) on host
