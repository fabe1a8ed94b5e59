#! 3:46: unknown name `limt`
let limit = 3
rule r: Relu(Relu(x)) => Relu(x) if x.rank < limt
