#! 8:16: `c` is captured but never read
#! 9:9: `y` is captured but never read
#! 10:25: `a` is captured but never read
#! 11:16: `y` is captured but never read
#! 11:36: `z` is bound by `where` but not used
#! 12:37: `k` is given but never read
#! 13:14: parameter `y` is not used
rule r: Mul(x, const c) => Relu(x)
rule s: Relu(x) as y => Abs(x)
rule t: Softmax(x, axis=a) => Relu(x)
rule u: Add(x, y) => Relu(x) where z = Relu(x)
rule v: Add(x, y) => Mul(x, y) with k = 3
pattern p(x, y) = Relu(x)
test "p": Relu(x: float32[1]) is p
