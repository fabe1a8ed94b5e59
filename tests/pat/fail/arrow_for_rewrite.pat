#! 3:25: expected `=>`, found `->`
#! 4:25: expected `=>`, found `=`
rule one: Relu(Relu(x)) -> Relu(x)
rule two: Relu(Relu(x)) = Relu(x)
