## Alternatives are ways of their own: each may bind the same names in its own way, and has inner nodes of its own.

pattern centred(x) =
    (Div(d, r) where d = Sub(x, m); m = ReduceMean(x, [-1], keepdims=1); r = Sqrt(ReduceMean(Mul(d, d), [-1], keepdims=1)))
  | (Mul(d, r) where r = Reciprocal(ReduceMax(d, [-1], keepdims=1)); d = Sub(x, ReduceMin(x, [-1], keepdims=1)))
pattern bounded(x) = ((Relu(x) as y) | (HardSigmoid(x) as y)) if y.rank == 2
pattern signed(x) =
    (Neg(y) where y, _ = TopK(x, const _, axis=-1) if y.shape[-1] == 1)
  | (Abs(y) where y = Relu(x) if y.shape[-1] == 2)
  | (Exp(y) where y = Sigmoid(x))
pattern beside(x) = (Relu(x) where d = Neg(x) if readers(d) == 2) | Sigmoid(x)
pattern helped(x) = (Mul(h, x) where h = Tanh(x)) | Softplus(x)

rule outer: Relu((Add(d, d) where d = Abs(_)) | (Mul(d, 2) where d = Abs(_))) => Add(d, d)
rule sized: ((a, b) where a, b = Split(x, num_outputs=2) if a.shape == b.shape) => (Sigmoid(x), Tanh(x)) if x.rank == 9
rule pair: ((a, b) where a = Abs(x); b = Neg(x) if a.rank == 2) | ((a, Erf(x)) where a = Exp(x)) => (Relu(x), Sqrt(x))
rule second: y => x where y, _ = with_input(x)
pattern with_input(x) = (Selu(x), x)

test "first way": Div(d, Sqrt(ReduceMean(Mul(d, d), [-1], keepdims=1))) is centred
  where d = Sub(x: float32[2, 8], ReduceMean(x, [-1], keepdims=1))
test "second way": Mul(d, Reciprocal(ReduceMax(d, [-1], keepdims=1))) is centred
  where d = Sub(x: float32[2, 8], ReduceMin(x, [-1], keepdims=1))
test "one way's divisor with the other's difference": Div(d, Sqrt(ReduceMean(Mul(d, d), [-1], keepdims=1))) is not centred
  where d = Sub(x: float32[2, 8], ReduceMin(x, [-1], keepdims=1))
test "named alike, first": Relu(x: float32[2, 8]) is bounded
test "named alike, second": HardSigmoid(x: float32[2, 8]) is bounded
test "named alike, and asked": HardSigmoid(x: float32[8]) is not bounded
test "guard of the first": Neg(a) is signed where a, b = TopK(x: float32[8], [1])
test "not of the first": Neg(a) is not signed where a, b = TopK(x: float32[8], [2])
test "guard of the second": Abs(Relu(x: float32[2])) is signed
test "not of the second": Abs(Relu(x: float32[1])) is not signed
test "no guard on the third": Exp(Sigmoid(x: float32[5])) is signed
test "a node that only the guard reads": (Relu(x: float32[8]), Add(Exp(d), Abs(d))) is (beside(v), _) where d = Neg(x)
test "which is not there": Relu(x: float32[8]) is not beside
test "which is not read as often": Add(Relu(x: float32[8]), Neg(x)) is not beside
test "a name of one way only": Mul(Tanh(x: float32[8]), x) is helped
test "and the other way": Softplus(x: float32[8]) is helped
test "read outside, from the first": Relu(Add(Abs(x: float32[8]), Abs(x))) => Add(Abs(x), Abs(x))
test "read outside, from the second": Relu(Mul(Abs(x: float32[8]), 2)) => Add(Abs(x), Abs(x))
test "a guarded pair of names": (Abs(x: float32[2, 3]), Neg(x)) => (Relu(x), Sqrt(x))
test "its other way": (Exp(x: float32[2, 3]), Erf(x)) => (Relu(x), Sqrt(x))
test "a guard on a pair": (Abs(x: float32[2]), Neg(x)) is not pair
test "one of two results": Selu(x: float32[2]) => x
