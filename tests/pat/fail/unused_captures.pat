#! 12:16: `c` is captured but never read
#! 13:9: `y` is captured but never read
#! 14:25: `a` is captured but never read
#! 15:16: `y` is captured but never read
#! 15:36: `z` is bound by `where` but not used
#! 16:37: `k` is given but never read
#! 17:14: parameter `y` is not used
#! 20:13: `y` is captured but never read
#! 21:13: `y` is captured but never read
#! 22:16: `y` is captured but never read
#! 23:49: `y` is neither a parameter nor constant
rule r: Mul(x, const c) => Relu(x)
rule s: Relu(x) as y => Abs(x)
rule t: Softmax(x, axis=a) => Relu(x)
rule u: Add(x, y) => Relu(x) where z = Relu(x)
rule v: Add(x, y) => Mul(x, y) with k = 3
pattern p(x, y) = Relu(x)
test "p": Relu(x: float32[1]) is p

rule w: Neg(Abs(x) as y: [...]) => Neg(x)
rule x: Neg(Abs(x) as y: T[...]) => Neg(x)
rule y: Add(x, y: T[...]) => Neg(x)
target t on host { composite c(x) = Relu(Add(x, y: float32[4])) }
