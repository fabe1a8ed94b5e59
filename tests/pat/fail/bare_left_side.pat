#! 11:9: the left side of a rule must be the result of an operator: this matches any value
#! 12:20: the left side of a rule must be the result of an operator: this matches any value
#! 13:15: the left side of a rule must be the result of an operator: this matches any value
#! 14:15: the left side of a rule must be the result of an operator: this matches any value
#! 15:37: a composite must be the result of an operator: this matches any value
#! 16:19: the left side of a rule must be the result of an operator: this matches any value
#! 17:39: the left side of a rule must be the result of an operator: this matches any value
#! 18:29: the left side of a rule must be the result of an operator: this matches any value
#! 20:9: `y` names one value, and here are 2
pattern maybe(x) = Relu(x) | x
rule r: x => Relu(x)
rule s: (Relu(x) | x) => Relu(x)
rule t: Relu?(x) => Relu(x)
rule u: maybe(x) => Relu(x)
target t on host { composite c(x) = x }
rule a: ((Abs(x), y) if x.rank == 2) => (Exp(x), Log(y))
rule b: ((y, z) where y, z = (Neg(x), x)) => (z, x)
rule c: (y where y = z; z = y) => z
pattern two(x) = (Exp(x), Neg(x))
rule d: two(_) as y => (Neg(y), y)
