#! 9:20: a chain needs `most`, the number of its steps
#! 10:42: expected a whole number from 1 to 16
#! 11:45: unknown operator `Add2`
#! 12:18: parameter `others` is not used
#! 12:59: a chain has no `other`
#! 13:12: `supports` takes single operators
#! 15:24: a test writes each operator of its graph out
target t on host {
  composite a(x) = chain(x, {Relu, Abs})
  composite b(x) = chain(x, {Relu}, most=0)
  composite c(x, *others) = chain(x, {Relu, Add2}, most=1, others=others)
  composite d(x, *others) = chain(x, {Relu, Add}, most=1, other=others)
  supports chain(x, {Relu}, most=1)
}
test "of one" : t runs chain(x: float32[2], {Relu}, most=1)
