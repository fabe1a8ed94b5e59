#! 6:29: `x` is not constant: arithmetic and functions compute constants
#! 6:33: `y` is not constant: arithmetic and functions compute constants
#! 8:24: the left side has 1 result, the right side 2
#! 9:30: the left side has 2 results, the right side 1
#! 10:33: `y` is not constant: arithmetic and functions compute constants
rule a: Mul(x, y) => Add(x, x * y)
rule b: Mul(x, const y) => Add(x, y * 2)
rule c: Split(x, s) => (x, s)
rule d: (Relu(x), Abs(x)) => Relu(x)
rule e: Mul(x, y) => Add(x, max(y))
rule f: Mul(x, y) => Add(x, y * 2) if is_const(y)
