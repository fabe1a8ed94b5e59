#! 12:19: unknown target `turn`
#! 13:55: target `tern` has no composite `con`
#! 14:58: unknown target `hots`
#! 15:43: unknown pattern `acct`
#! 16:44: unknown pattern `acct`
#! 17:21: input `x` has no type
#! 18:22: the dtype `T` is open
#! 18:22: the type of input `x` is open
#! 19:47: unknown name `y`
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
