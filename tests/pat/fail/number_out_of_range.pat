#! 2:9: the number is out of range
let a = 1e99999999
rule r: Relu(Relu(x)) => Relu(x) if x.rank < a
