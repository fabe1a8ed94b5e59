#! 2:8: invisible character U+00A0 (no-break space)
pattern p(x) = Relu(x)
