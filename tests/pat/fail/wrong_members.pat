#! 4:30: `y` (Relu) has no attribute `group`
#! 5:33: `c` (Conv) has no attribute `groups`
#! 5:51: `x` is not the result of an operator here: it has no attribute `group`
rule r: Relu(x) as y => x if y.group == 1
rule s: Conv(x, w) as c => x if c.groups == 1 and x.group == w.rank
