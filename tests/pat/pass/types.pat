## A capture may be there only to say what type a value has; a dimension that one type names need not be read.

let narrow = {float16, bfloat16}

pattern long(v) = Relu(Abs(v) as y: [N])
pattern wide(v) = Relu(Abs(v) as y: [_, ...])
pattern single(v) = Relu(Abs(v) as y: float32[...])
pattern small(v) = Add(v, y: narrow[...])
pattern same(v: T[...]) = Cast(Abs(Cast(v)) as y: T[...])
pattern known(v) = Relu(Abs(v) as y: T[...]) if T in narrow
pattern square(v) = Relu(Abs(v) as y: [N, N])
pattern sized(v, n) = Relu(v: [n])
rule few: Neg(Abs(x) as y: [2]) => Neg(Relu(x))

test "a list": Relu(Abs(x: float32[3])) is long
test "a matrix": Relu(Abs(x: float32[3, 3])) is not long
test "at least one": Relu(Abs(x: float32[3])) is wide
test "a scalar": Relu(Abs(x: float32[])) is not wide
test "float32": Relu(Abs(x: float32[3])) is single
test "float16": Relu(Abs(x: float16[3])) is not single
test "of a set": Add(x: float16[3], y: float16[3]) is small
test "not of the set": Add(x: float32[3], y: float32[3]) is not small
test "back again": Cast(Abs(Cast(x: float16[3], to=16)), to=10) is not same
test "all the time": Cast(Abs(Cast(x: float16[3], to=10)), to=10) is same
test "read by the guard": Relu(Abs(x: float16[3])) is known
test "refused by the guard": Relu(Abs(x: float32[3])) is not known
test "a square": Relu(Abs(x: float32[3, 3])) is square
test "no square": Relu(Abs(x: float32[3, 4])) is not square
test "a number for a dimension": Relu(x: float32[4]) is sized(_, 4)
test "two of them": Neg(Abs(x: float32[2])) => Neg(Relu(x))
test "three of them": Neg(Abs(x: float32[3])) is not few
