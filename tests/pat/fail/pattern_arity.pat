#! 3:14: pattern `two` takes 2 arguments, found 1
pattern two(a, b) = Add(a, b)
rule r: Relu(two(a)) => Relu(a)
