#! 10:31: unknown operator `Convo`
#! 11:29: `Conv` stands twice in the set
#! 12:29: `Q` is not used
#! 13:36: Relu takes 1 input, found 3
#! 13:62: Relu takes 1 input, found 2
#! 15:32: expected the name of an operator in the set
#! 16:57: `Elu` is an operator, not a value
#! 16:57: `Relu` is an operator, not a value
#! 18:50: target `t` has no composite `d[Tanh]`
rule unknown for OP in {Conv, Convo}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)
rule twice for OP in {Conv, Conv}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)
rule idle for OP in {Conv}, Q in {Relu}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)
rule arity for OP in {Conv, Relu}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)
target t on host {
  composite c for OP in {Relu, 2} (x) = OP(Abs(x))
  composite d for OP in {Relu, Elu} (x) = OP(Abs(x)) if OP.rank == 2
}
test "which": t runs Relu(Abs(x: float32[2])) in d[Tanh]
