#! 4:1: expected `}`, found `rule`
target t on host {
  supports Relu
rule r: Relu(Relu(x)) => Relu(x)
