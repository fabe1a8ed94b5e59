#! 13:10: `Plain` has no domain: those operators are ONNX's own
#! 14:27: the meaning of an operator has no alternatives
#! 15:37: `y` is not an input of com.x::Unbound
#! 16:27: parameter `y` is not used
#! 17:10: operator `com.x::Loop` is built from itself
#! 18:40: `b` may be absent, but Add needs its B
#! 21:13: com.x::Slope takes 1 input, found 2
#! 21:29: `y` is captured but never read
#! 22:33: com.x::Slope has no attribute `beta`
#! 23:26: input x of com.x::Typed cannot be int8
#! 24:15: unknown operator `com.x::Slop`
#! 25:24: com.x::Slope needs the attribute `alpha`
operator Plain(x) = Relu(x)
operator com.x::Open(x) = Relu(x) | Abs(x)
operator com.x::Unbound(x) = Mul(x, y)
operator com.x::Unused(x, y) = Relu(x)
operator com.x::Loop(x) = Relu(com.x::Loop(x))
operator com.x::Absent(x, b?) = Add(x, b)
operator com.x::Typed(x: float32[...]) = Relu(x)
operator com.x::Slope(x) = LeakyRelu(x, alpha=alpha)
rule arity: com.x::Slope(x, y) => x
rule attribute: com.x::Slope(x, beta=1) => x
rule dtype: com.x::Typed(x: int8[2]) => x
rule unknown: com.x::Slop(x) => x
rule needs: Relu(x) => com.x::Slope(x)
