#! 3:37: broadcasts() takes 2 arguments, found 1
#! 3:55: len() takes 1 argument, found 2
rule r: Relu(Relu(x)) => Relu(x) if broadcasts(x) and len(x.shape, 2) == 1
