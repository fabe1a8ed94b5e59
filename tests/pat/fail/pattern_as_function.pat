#! 4:17: `p` is a pattern: it matches, and has no value
#! 5:28: `Relu(…)` builds an operator, which a guard, value or cost cannot
pattern p(x) = Relu(Relu(x))
rule r: p(x) => p(x)
rule s: p(x) => Relu(x) if Relu(x).rank == 3
