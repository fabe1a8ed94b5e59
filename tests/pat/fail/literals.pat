#! 4:17: expected a number, found `half`
#! 5:16: `c` is filled with a value, which only a test can do
let half = 0.5
rule r: Mul(x, [half, 1]) => Relu(x)
rule s: Mul(x, const c: float32[] = 3) => Mul(x, c)
