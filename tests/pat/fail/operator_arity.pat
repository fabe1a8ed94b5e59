#! 3:9: Relu takes 1 input, found 2
#! 4:20: Conv takes 2 to 3 inputs, found 1
rule r: Relu(x, y) => Add(x, y)
rule s: Relu(x) => Conv(x)
