#! 7:1: an operator declaration is not supported yet
#! 9:29: `chain` is not supported yet
#! 10:19: `for … in` is not supported yet
#! 12:18: `extends` is not supported yet
#! 12:30: `without` is not supported yet
#! 13:12: `for … in` is not supported yet
operator com.x::Op(x) = Relu(x)
target a on host {
  composite c(x, *others) = chain(conv, {Relu, Add}, most=2, others=others) where conv = Conv(x, const w)
  composite d for OP in {Relu, Abs} (x) = OP(x)
}
target b on host extends a { without c }
rule r for OP in {Relu, Abs}: OP(OP(x)) => OP(x)
