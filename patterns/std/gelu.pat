## GELU, as the operator and as exporters spell it: x / 2 * (1 + erf(x / sqrt(2))), or its tanh approximation. Where
## the half is taken differs, and so does the spelling of the argument; both are free.

## x * e / 2: half of the product, of one factor or of the other.
pattern half_product(x, e) = Mul(Mul(x, e), 0.5) | Mul(x, Mul(e, 0.5)) | Mul(Mul(x, 0.5), e)

pattern gelu_erf_spelled(x) = half_product(x, Add(Erf(Div(x, sqrt(2)) | Mul(x, sqrt(0.5))), 1))

## The constants are sqrt(2 / pi) and 0.044715.
pattern gelu_tanh_spelled(x) =
    half_product(x, Add(Tanh(Mul(Add(x, Mul(Pow(x, 3) | Mul(x, Mul(x, x)), 0.044715)), 0.7978845608)), 1))

pattern gelu(x) = Gelu(x) | gelu_erf_spelled(x) | gelu_tanh_spelled(x)

## x * sigmoid(1.702 x), which is GELU to two digits only.
pattern gelu_sigmoid_spelled(x) = Mul(x, Sigmoid(Mul(x, 1.702)))

## Both spellings become the operator, each with its own attribute: neither stands for the other.
rule fuse_gelu_erf reassociates: gelu_erf_spelled(x) => Gelu(x, approximate="none")
rule fuse_gelu_tanh reassociates: gelu_tanh_spelled(x) => Gelu(x, approximate="tanh")
rule gelu_for_sigmoid approximates: gelu_sigmoid_spelled(x) => Gelu(x, approximate="none")

test "the operator": Gelu(x: float32[1, 8]) is gelu
test "the operator with tanh": Gelu(x: float32[1, 8], approximate="tanh") is gelu
test "erf, the product halved": Mul(Mul(x: float32[1, 8], Add(Erf(Div(x, 1.4142135)), 1)), 0.5) is gelu_erf_spelled
test "erf, x halved first": Mul(Mul(x: float32[1, 8], 0.5), Add(Erf(Div(x, 1.4142135)), 1)) is gelu_erf_spelled
test "erf, the other factor halved": Mul(Mul(Add(1, Erf(Div(x: float32[1, 8], 1.4142135))), 0.5), x) is gelu_erf_spelled
test "erf of a product": Mul(Mul(x: float32[1, 8], Add(Erf(Mul(x, 0.70710678)), 1)), 0.5) is gelu
test "tanh": Mul(Mul(x: float32[1, 8], 0.5), Add(Tanh(Mul(Add(x, Mul(Pow(x, 3), 0.044715)), 0.79788456)), 1))
  is gelu_tanh_spelled
test "tanh, the cube as products":
  Mul(Mul(x: float32[1, 8], 0.5), Add(Tanh(Mul(Add(x, Mul(Mul(Mul(x, x), x), 0.044715)), 0.79788456)), 1)) is gelu
test "sigmoid": Mul(x: float32[1, 8], Sigmoid(Mul(1.702, x))) is gelu_sigmoid_spelled
test "half a product": Mul(Mul(x: float32[1, 8], e: float32[1, 8]), 0.5) is half_product

test "relu is no gelu": Relu(x: float32[1, 8]) is not gelu
test "1.5 is not sqrt(2)": Mul(Mul(x: float32[1, 8], Add(Erf(Div(x, 1.5)), 1)), 0.5) is not gelu_erf_spelled
test "erf of something else":
  Mul(Mul(x: float32[1, 8], Add(Erf(Div(y: float32[1, 8], 1.4142135)), 1)), 0.5) is not gelu
test "the approximation by sigmoid is another function": Mul(x: float32[1, 8], Sigmoid(Mul(1.702, x))) is not gelu
test "the sigmoid of another multiple": Mul(x: float32[1, 8], Sigmoid(Mul(x, 1.7))) is not gelu_sigmoid_spelled
test "the sigmoid itself": Mul(x: float32[1, 8], Sigmoid(x)) is not gelu_sigmoid_spelled
test "a third of a product": Mul(Mul(x: float32[1, 8], e: float32[1, 8]), 0.3333) is not half_product
test "a square instead of a cube":
  Mul(Mul(x: float32[1, 8], 0.5), Add(Tanh(Mul(Add(x, Mul(Pow(x, 2), 0.044715)), 0.79788456)), 1))
  is not gelu_tanh_spelled

test "erf becomes the operator":
  Mul(Mul(x: float32[1, 8], Add(Erf(Div(x, 1.4142135)), 1)), 0.5) => Gelu(x, approximate="none")
test "sigmoid becomes the operator, where approximations are allowed":
  Mul(x: float32[1, 8], Sigmoid(Mul(1.702, x))) => Gelu(x, approximate="none")
test "sigmoid stays otherwise":
  place Mul(x: float32[1, 8], Sigmoid(Mul(1.702, x))) => Mul(x, Sigmoid(Mul(1.702, x))) on host
test "1.4142099 is within 1e-5 of sqrt(2)":
  Mul(Mul(x: float32[1, 8], Add(Erf(Div(x, 1.4142099)), 1)), 0.5) is gelu_erf_spelled
test "tanh becomes the operator":
  Mul(Mul(x: float32[1, 8], 0.5), Add(Tanh(Mul(Add(x, Mul(Pow(x, 3), 0.044715)), 0.79788456)), 1))
  => Gelu(x, approximate="tanh")
test "another cubic term":
  Mul(Mul(x: float32[1, 8], 0.5), Add(Tanh(Mul(Add(x, Mul(Pow(x, 3), 0.05)), 0.79788456)), 1)) is not gelu_tanh_spelled
