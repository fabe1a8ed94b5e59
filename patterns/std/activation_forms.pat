## Activations that exporters take apart, as the operators that targets know. No target includes them:
## `-p std/activation_forms.pat` adds them to a run. What std/activations.pat and std/gelu.pat put together is not here.

## One number, and no axis more than the value has.
let number(c, v) = c.numel == 1 and c.rank <= v.rank

## Bounds meet: what two clamps leave, one leaves. The upper bound goes last, as in Clip itself, so that this holds for
## bounds that cross each other, too.
rule relu_of_max: Max(x, 0) => Relu(x)
rule relu_of_clip: Clip(x, 0, none) => Relu(x)
rule clip_of_relu: Clip(Relu(x), const a, const b) => Clip(x, max(a, 0), b)
rule relu_of_clamp: Relu(Clip(x, const a, const b)) => Clip(x, max(a, 0), max(b, 0))
rule cap_of_relu: Min(Relu(x), const b) => Clip(x, 0, reshape(b, [])) if number(b, x)
rule clip_of_clip: Clip(Clip(x, const a, const b), const c, const d) => Clip(x, max(a, c), min(max(b, c), d))
rule clip_of_max: Min(Max(x, const a), const b) => Clip(x, reshape(a, []), reshape(b, [])) if number(a, x) and number(b, x)

rule sigmoid_of_div reassociates: Div(1, Add(Exp(Neg(x)), 1)) => Sigmoid(x)
rule sigmoid_of_reciprocal reassociates: Reciprocal(Add(Exp(Neg(x)), 1)) => Sigmoid(x)
rule silu_of_div reassociates: Div(x, Add(Exp(Neg(x)), 1)) => Mul(x, Sigmoid(x))
rule softplus_of_log reassociates: Log(Add(Exp(x), 1)) => Softplus(x)
rule mish_of_tanh reassociates: Mul(x, Tanh(Softplus(x))) => Mish(x)

## Attributes hold numbers in single precision, so not in double.
rule hard_sigmoid_of_clip reassociates: Clip(Add(Mul(x, const a), const b), 0, 1)
  => HardSigmoid(x, alpha=item(a), beta=item(b))
  if number(a, x) and number(b, x) and x.dtype != float64
rule leaky_of_max reassociates: Max(x, Mul(x, const a)) => LeakyRelu(x, alpha=item(a))
  if number(a, x) and 0 <= item(a) <= 1 and x.dtype != float64
rule leaky_of_prelu reassociates: PRelu(x, const a) => LeakyRelu(x, alpha=item(a)) if number(a, x) and x.dtype != float64
rule leaky_of_where reassociates: Where(Greater(x, 0), x, Mul(x, const a)) => LeakyRelu(x, alpha=item(a))
  if number(a, x) and x.dtype != float64
rule thresholded_of_where reassociates: Where(Greater(x, const a), x, 0) => ThresholdedRelu(x, alpha=item(a))
  if number(a, x) and x.dtype != float64

test "a maximum with zero": Max(0, x: float32[2, 8]) => Relu(x)
test "a maximum with one stays": place Max(x: float32[2, 8], 1) => Max(x, 1) on host
test "a clip at zero": Clip(x: float32[2, 8], 0) => Relu(x)
test "a clip on both sides": Clip(x: float32[2, 8], 0, 6) is not relu_of_clip
test "a clip stays": place Clip(x: float32[2, 8], -1, 6) => Clip(x, -1, 6) on host
test "relu6 in two steps": Clip(Relu(x: float32[2, 8]), -1, 6) => Clip(x, 0, 6)
test "relu after a clip": Relu(Clip(x: float32[2, 8], -1, 6)) => Clip(x, 0, 6)
test "relu of what is below zero": Relu(Clip(x: float32[2, 8], -3, -1)) => Clip(x, 0, 0)
test "a relu stays": place Relu(Tanh(x: float32[2, 8])) => Relu(Tanh(x)) on host
test "a cap over relu": Min(6, Relu(x: float32[2, 8])) => Clip(x, 0, 6)
test "a cap per column": Min(Relu(x: float32[2, 8]), const b: float32[8]) is not cap_of_relu
test "a clip of a clip": Clip(Clip(x: float32[2, 8], -4, 6), 0, 9) => Clip(x, 0, 6)
test "clips that do not meet": Clip(Clip(x: float32[2, 8], -4, -2), 0, 9) => Clip(x, 0, 0)
test "a clip by minimum and maximum": Min(Max(x: float32[2, 8], const a: float32[1] = -1), 1) => Clip(x, -1, 1)
test "a maximum per column": Min(Max(x: float32[2, 8], const a: float32[8]), 1) is not clip_of_max
test "a minimum per column": Min(Max(x: float32[2, 8], 1), const b: float32[8]) is not clip_of_max
test "a minimum stays": place Min(x: float32[2, 8], 1) => Min(x, 1) on host

test "sigmoid by a division": Div(1, Add(1, Exp(Neg(x: float32[2, 8])))) => Sigmoid(x)
test "sigmoid by a reciprocal": Reciprocal(Add(Exp(Neg(x: float32[2, 8])), 1)) => Sigmoid(x)
test "silu by a division": Div(x: float32[2, 8], Add(Exp(Neg(x)), 1)) => Mul(x, Sigmoid(x))
test "the exponential of something else": place Div(x: float32[8], Add(Exp(Neg(y: float32[8])), 1))
  => Div(x, Add(Exp(Neg(y)), 1)) on host
test "a sum over two": place Reciprocal(Add(Exp(Neg(x: float32[8])), 2)) => Reciprocal(Add(Exp(Neg(x)), 2)) on host
test "softplus": Log(Add(Exp(x: float32[2, 8]), 1)) => Softplus(x)
test "a logarithm of a sum with two": place Log(Add(Exp(x: float32[8]), 2)) => Log(Add(Exp(x), 2)) on host
test "mish": Mul(Tanh(Softplus(x: float32[2, 8])), x) => Mish(x)
test "mish from the exponential on": Mul(x: float32[2, 8], Tanh(Log(Add(1, Exp(x))))) => Mish(x)
test "mish of something else": Mul(y: float32[8], Tanh(Softplus(x: float32[8]))) is not mish_of_tanh

test "hard sigmoid": Clip(Add(Mul(x: float32[2, 8], 0.2), 0.5), 0, 1) => HardSigmoid(x, alpha=0.2, beta=0.5)
test "a slope per column": Clip(Add(Mul(x: float32[2, 8], const a: float32[8]), 0.5), 0, 1) is not hard_sigmoid_of_clip
test "a shift per column": Clip(Add(Mul(x: float32[2, 8], 0.2), const b: float32[8]), 0, 1) is not hard_sigmoid_of_clip
test "a fifth in double precision": Clip(Add(Mul(x: float64[8], 0.2), 0.5), 0, 1) is not hard_sigmoid_of_clip
test "leaky relu by a maximum": Max(x: float32[2, 8], Mul(0.125, x)) => LeakyRelu(x, alpha=0.125)
test "a maximum with a double": Max(x: float32[8], Mul(x, 2)) is not leaky_of_max
test "a maximum with a slope per column": Max(x: float32[2, 8], Mul(x, const a: float32[8] = 0.5)) is not leaky_of_max
test "a slope with an axis more": Max(x: float32[8], Mul(x, const a: float32[1, 1] = 0.5)) is not leaky_of_max
test "a maximum in double precision": Max(x: float64[8], Mul(x, 0.1)) is not leaky_of_max
test "one slope": PRelu(x: float32[2, 8], const a: float32[1] = 0.25) => LeakyRelu(x, alpha=0.25)
test "a slope for each": PRelu(x: float32[2, 8], const a: float32[8]) is not leaky_of_prelu
test "one slope in double precision": PRelu(x: float64[2, 8], const a: float64[1] = 0.1) is not leaky_of_prelu
test "slopes for each stay": place PRelu(x: float32[2, 8], const a: float32[8]) => PRelu(x, a) on host
test "leaky relu by a choice": Where(Greater(x: float32[2, 8], 0), x, Mul(x, 0.125)) => LeakyRelu(x, alpha=0.125)
test "a choice with a slope per column": Where(Greater(x: float32[2, 8], 0), x, Mul(x, const a: float32[8]))
  is not leaky_of_where
test "a choice in double precision": Where(Greater(x: float64[8], 0), x, Mul(x, 0.1)) is not leaky_of_where
test "above a threshold": Where(Greater(x: float32[2, 8], 0.5), x, 0) => ThresholdedRelu(x, alpha=0.5)
test "above a threshold per column": Where(Greater(x: float32[2, 8], const a: float32[8]), x, 0)
  is not thresholded_of_where
test "above a threshold in double precision": Where(Greater(x: float64[8], 0.1), x, 0) is not thresholded_of_where
test "a choice stays": place Where(c: bool[8], x: float32[8], y: float32[8]) => Where(c, x, y) on host
