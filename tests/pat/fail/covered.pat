#! 5:12: warning: `Relu` is covered by an earlier `supports` of `t` that costs no more
#! 6:12: warning: `Add` is covered by an earlier `supports` of `t` that costs no more
target t on host {
  supports Relu, Add cost 1us
  supports Relu(x) if x.rank == 4 cost 1us
  supports Add cost 2us
}
