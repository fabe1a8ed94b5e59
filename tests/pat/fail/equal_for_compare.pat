#! 2:44: expected an infix operator, found `=`
rule r: Relu(Relu(x)) => Relu(x) if x.rank = 4
