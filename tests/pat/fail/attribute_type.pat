#! 3:30: attribute `axis` of Softmax is a whole number, found a fraction
#! 4:32: attribute `perm` of Transpose is a list of whole numbers, found a single number
rule r: Relu(Softmax(x, axis=1.5)) => Softmax(x)
rule s: Relu(Transpose(x, perm=1)) => Transpose(x)
