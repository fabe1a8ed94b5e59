#! 6:19: `x` is captured but never read
#! 6:31: the left side never binds `y`
#! 7:34: the left side never binds `conv`
#! 8:17: `weights` is captured but never read
#! 8:45: the left side never binds `weight`
rule r: Relu(Relu(x)) => Relu(y)
rule s: Conv(x, w) => Conv(x, w, like conv)
rule t: Conv(x, weights) as conv => Conv(x, weight, like conv)
