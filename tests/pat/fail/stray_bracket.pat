#! 2:26: expected an expression, found `)`
rule r: Relu(Relu(x)) => ) Relu(x)
