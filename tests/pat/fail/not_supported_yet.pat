#! 2:1: an operator declaration is not supported yet
operator com.x::Op(x) = Relu(x)
