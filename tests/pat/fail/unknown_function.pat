#! 3:37: unknown function `al`
#! 4:33: unknown function `squrt`
rule r: Relu(Relu(x)) => Relu(x) if al(x.shape == [1])
rule s: Relu(Relu(x)) => Mul(x, squrt(2))
