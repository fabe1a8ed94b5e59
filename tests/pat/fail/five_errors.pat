#! 9:13: unknown unit `parsecs`
#! 10:28: unknown operator `Sigmoidd`
#! 12:3: unknown declaration `suports`
#! 13:42: `x` is not the result of an operator here: it has no attribute `dtpe`
#! 13:65: expected a time, found bytes; divide by a rate such as 8GBps
#! 16:1: expected `)`, found `test`
#! 16:41: target `t` has no composite `d`
## Five different errors, all reported in one run.
let reach = 3parsecs
pattern act(v) = Relu(v) | Sigmoidd(v)
target t on host {
  suports Relu
  composite c(x, w) = act(Conv(x, w)) if x.dtpe == float32 cost bytes
}
rule r: act(x) => Relu(x
test "a": t runs Relu(x: float32[1]) in d
