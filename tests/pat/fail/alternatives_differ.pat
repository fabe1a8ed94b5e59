#! 4:21: the alternatives bind different names: `y` is missing in another one
#! 4:33: the alternatives bind different names: `z` is missing in another one
#! 5:21: the alternatives bind different names: `c` is missing in another one
rule r: Relu(Add(x, y) | Mul(x, z)) => Relu(x)
rule s: Relu(Add(x, const c) | Relu(x)) => Add(x, c)
