#! 14:19: unknown target `turn`
#! 15:55: target `tern` has no composite `con`
#! 16:58: unknown target `hots`
#! 17:43: unknown pattern `acct`
#! 18:44: unknown pattern `acct`
#! 19:21: input `x` has no type
#! 20:22: the dtype `T` is open
#! 20:22: the type of input `x` is open
#! 21:47: unknown name `y`
#! 22:44: a pattern needs at least one operator
#! 23:49: unknown operator `Rleu`
pattern act(v) = Relu(v)
target tern on host { supports Relu composite conv(x, w) = act(Conv(x, w)) }
test "no target": turn runs Relu(x: float32[1])
test "no composite": tern runs Relu(x: float32[1]) in con
test "no place": place Relu(x: float32[1]) => Relu(x) on hots
test "no pattern": Relu(x: float32[1]) is acct
test "no such": Relu(x: float32[1]) is not acct
test "a type": Relu(x) is act
test "open": Relu(x: T[1, ...]) is act
test "not bound": Relu(x: float32[1]) => Relu(y)
test "no operator": Relu(x: float32[1]) is _
test "no such operator": Relu(x: float32[1]) is Rleu(_)
