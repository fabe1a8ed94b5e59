#! 12:21: the alternatives bind different names: `y` is missing in another one
#! 12:33: the alternatives bind different names: `z` is missing in another one
#! 13:21: the alternatives bind different names: `c` is missing in another one
#! 14:31: `d` is bound by `where` already
#! 15:56: `d` is bound by some alternatives only
#! 16:32: `y` names two different things
#! 17:31: `d` is bound by `where` but not used
#! 18:23: `y` is captured but never read
#! 19:39: `d` is bound by `where` already
#! 20:38: `x` is captured but never read
#! 21:35: `d` is the name of another value already
rule r: Relu(Add(x, y) | Mul(x, z)) => Relu(x)
rule s: Relu(Add(x, const c) | Relu(x)) => Add(x, c)
rule t: Relu((Add(d, d) where d = Abs(x)) | Exp(d)) => Neg(x) where d = Log(x)
rule u: Relu((Add(d, x) where d = Abs(x)) | Exp(x)) => d
rule v: Add(Relu(x) as y, Add((Abs(x) as y) | Exp(x), y)) => x
rule w: Relu((Add(x, x) where d = Abs(x)) | Exp(x)) => Neg(x)
pattern p(x) = Add(x, y) | Mul(x, y)
pattern q(x) = (Relu((Add(d, x) where d = Abs(x))) where d = Exp(x)) | Neg(x)
rule z: (Add(d, d) where d = Softmax(x)) | (Mul(d, 2) where d = Abs(_)) => d
rule a: Add(d, Relu((Abs(d) where d = Exp(x)))) => x
