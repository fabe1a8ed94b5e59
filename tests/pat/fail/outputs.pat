#! 5:9: Relu has 1 output, found 2
#! 6:35: Relu has 1 output, found 2
#! 6:47: `c` is captured but never read
#! 7:13: only the result of an operator has further outputs
rule r: Relu(x)[1] => x
rule s: Abs(a) => Add(a, b) where a, b = Relu(c)
rule t: Add(x[1], x) => x
