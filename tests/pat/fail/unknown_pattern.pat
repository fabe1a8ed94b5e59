#! 3:14: unknown pattern `tow`
pattern two(a, b) = Add(a, b)
rule r: Relu(tow(a, a)) => Relu(a)
