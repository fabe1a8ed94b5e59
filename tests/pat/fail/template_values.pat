#! 8:29: `x` is not constant: arithmetic and functions compute constants
#! 8:33: `y` is not constant: arithmetic and functions compute constants
#! 10:24: the left side has 1 result, the right side 2
#! 11:30: the left side has 2 results, the right side 1
#! 12:33: `y` is not constant: arithmetic and functions compute constants
#! 15:19: the left side has 2 results, the right side 1
#! 16:30: both sides of `<=>` must be the result of an operator
rule a: Mul(x, y) => Add(x, x * y)
rule b: Mul(x, const y) => Add(x, y * 2)
rule c: Split(x, s) => (x, s)
rule d: (Relu(x), Abs(x)) => Relu(x)
rule e: Mul(x, y) => Add(x, max(y))
rule f: Mul(x, y) => Add(x, y * 2) if is_const(y)
pattern two(x) = (Relu(x), Abs(x))
rule g: two(x) => Relu(x)
rule h: (Exp(x), Abs(x)) <=> (Relu(x), x)
