#! 16:6: warning: rule `second` does the same as rule `first`
#! 17:6: warning: rule `third` has the left side and the condition of rule `first`
#! 20:6: warning: rule `same` builds what it has matched
#! 21:6: warning: rule `still` builds what it has matched
#! 22:6: warning: rule `grow` matches what it has built, and so grows without bound
#! 23:6: warning: rule `deeper` matches what it has built
#! 30:13: warning: composite `again` is covered by composite `conv` of `t`
#! 31:13: warning: composite `narrow` is covered by composite `conv` of `t`
#! 32:13: warning: composite `dear` is covered by composite `conv` of `t`
#! 33:13: warning: composite `cheaper_later` is covered by composite `conv` of `t`
#! 41:12: warning: `Relu` is covered by an earlier `supports` of `t`


## Left sides that are alike; another name, order of declarations or line does not matter.
rule first: Relu(Relu(x)) => Relu(x)
rule second: Relu(Relu(value)) => Relu(value)
rule third: Relu(Relu(x)) => Max(x, 0)
rule guarded: Relu(Relu(x)) => Relu(x) if x.rank == 4
rule other: Relu(Abs(x)) => Abs(x)
rule same: Add(x, y) => Add(x, y)
rule still: Softmax(x, axis=a) => Softmax(x, axis=a)
rule grow: Mul(x, const c) => Mul(x, c + 1)
rule deeper: Abs(x) => Abs(Neg(x))
rule turns: Mul(x, y) => Mul(y, x)
rule ends: Div(x, const c) => Div(x, c + 1) if all(c < 9)
rule moves reassociates: Add(x, Add(y, z)) <=> Add(Add(x, y), z)
rule of_axis: Softmax(x, axis=0) => Softmax(x, axis=1) if x.rank == 9
target t on host {
  composite conv(x, w, b?) = Relu(Conv(x, w, b)) cost 2us
  composite again(v, k, c?) = Relu(Conv(v, k, c)) cost 2us
  composite narrow(x: float32[1, ...], w, b) = Relu(Conv(x, const w, b)) if w.rank == 4 cost 2us
  composite dear(x, w, b?) = Relu(Conv(x, w, b)) cost 3us
  composite cheaper_later(x, w, b?) = Relu(Conv(x, w, b, group=1)) cost 2us
  composite cheaper(x, w, b?) = Relu(Conv(x, w, b)) cost 1us
  composite no_relu(x, w) = Conv(x, w) cost 2us
  composite square(x) = Mul(Relu(x), Relu(x)) cost 2us
  composite product(x, y) = Mul(Relu(x), Relu(y)) cost 2us
  composite held(x) = Tanh(Relu(x)) if x.rank == 4 cost 2us
  composite free(x) = Tanh(Relu(x)) cost 2us
  supports Relu cost 1us
  supports Relu(x) if x.rank == 4 cost 2000ns
  supports Abs(x) if x.rank == 4 cost 2us
  supports Abs cost 2us
}
