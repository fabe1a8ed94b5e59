#! 12:1: name `a` is declared twice
#! 13:1: name `a` is declared twice
#! 15:1: device `d` is declared twice
#! 17:1: the link `d -> host` is declared twice
#! 18:28: `launch` of target `t` is given twice
#! 18:52: option `o` of target `t` is given twice
#! 18:90: composite `c` of target `t` is declared twice
#! 19:1: target `t` is opened twice in one file
#! 21:1: rule `r` is declared twice
#! 23:1: test `same` is declared twice
let a = 3
let a = 4
pattern a(x) = Relu(x)
device d { memory 1MiB }
device d { memory 2MiB memory 3MiB }
link host <-> d: 1us
link d -> host: 2us
target t on d { launch 1us launch 2us option o = 1 option o = 2 composite c(x) = Relu(x) composite c(x) = Abs(x) }
target t on d { supports Relu }
rule r: Relu(Relu(x)) => Relu(x)
rule r: Abs(Abs(x)) => Abs(x)
test "same": Relu(x: float32[1]) => x
test "same": Relu(x: float32[1]) => x
