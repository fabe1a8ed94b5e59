#! 4:9: pattern `loop` is built from itself
#! 5:9: pattern `ping` is built from itself
#! 7:5: let `a` is built from itself
pattern loop(x) = Relu(loop(x))
pattern ping(x) = Relu(pong(x))
pattern pong(x) = Abs(ping(x))
let a = b
let b = a
