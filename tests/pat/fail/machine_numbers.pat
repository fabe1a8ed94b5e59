#! 8:19: expected an amount of at least 0, found -1MiB
#! 9:18: 1B / 0 has no value
#! 10:19: expected at least nothing, found -1us
#! 12:23: expected an amount above 0, found 0FLOPS
#! 12:56: expected an amount above 0, found 0Bps
#! 13:24: expected an amount of at least 0, found -1us
let none_at_all = 0
device d { memory -1MiB }
link host <-> d: bytes / 0GBps
link d <-> host2: 1us - 2us
device host2 { memory 2 * 64KiB }
target t on d { flops none_at_all * 1GFLOPS  bandwidth 0GBps }
target u on d { launch 1us - 2us }
