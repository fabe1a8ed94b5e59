#! 13:22: expected a time, found bytes; divide by a rate such as 8GBps
#! 14:21: expected a time, found a number; write a unit, such as 2us
#! 15:21: expected a time, found bytes; divide by a rate such as 8GBps
#! 16:21: macs cannot be divided by a rate in bytes per second; divide by a rate such as 2TMACS
#! 17:32: expected an energy, found a time
#! 18:9: expected a rate in flops per second, found a time
#! 19:13: expected a rate in bytes per second, found bytes; write a rate such as 8GBps
#! 21:24: expected a time, found a number; write a unit, such as 2us
#! 22:19: expected bytes, found a time
#! 23:17: expected a time, found bytes; divide by a rate such as 8GBps
#! 23:30: expected an energy, found a time
target t on host {
  supports Relu cost bytes
  supports Abs cost 3
  supports Neg cost 2us + bytes
  supports Exp cost macs / 64GBps
  supports Log cost 1us energy 2us
  flops 3us
  bandwidth 64GB
}
target u on d { launch 3 supports Relu if all(t.bytes < 3us for t in inputs) }
device d { memory 3us }
link host -> d: bytes energy 1us
