#! 2:48: unexpected `&`
rule r: Relu(Relu(x)) => Relu(x) if x.rank > 1 && x.rank < 4
