#! 10:18: unknown target `bigg`
#! 11:10: targets extend each other: b -> c -> b
#! 14:3: target `big` has no `ones` to leave out
#! 15:3: composite `one` comes from `big` already
#! 17:19: `without` leaves out what an extended target can do, but `e` extends none
#! 18:31: option `arch` of `big` is a number, found a time
#! 19:54: target `big` has no composite `two`
device npu { memory 1MiB }
target big on npu { flops 1GFLOPS option arch = 1 supports Relu composite one(x) = Exp(Neg(x)) if arch > 0 }
target a extends bigg { }
target b extends c { }
target c extends b { }
target d extends big {
  without ones
  composite one(x) = Log(Abs(x))
}
target e on npu { without one }
target f on npu extends big { option arch = 5us }
test "left out": big runs Exp(Neg(x: float32[2])) in two
