#! 3:1: an operator declaration is not supported yet
#! 5:29: `chain` is not supported yet
operator com.x::Op(x) = Relu(x)
target a on host {
  composite c(x, *others) = chain(conv, {Relu, Add}, most=2, others=others) where conv = Conv(x, const w)
}
