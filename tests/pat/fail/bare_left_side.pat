#! 7:9: the left side of a rule must be the result of an operator: this matches any value
#! 8:20: the left side of a rule must be the result of an operator: this matches any value
#! 9:15: the left side of a rule must be the result of an operator: this matches any value
#! 10:15: the left side of a rule must be the result of an operator: this matches any value
#! 11:37: a composite must be the result of an operator: this matches any value
pattern maybe(x) = Relu(x) | x
rule r: x => Relu(x)
rule s: (Relu(x) | x) => Relu(x)
rule t: Relu?(x) => Relu(x)
rule u: maybe(x) => Relu(x)
target t on host { composite c(x) = x }
