## Fused operators of ONNX Runtime by their meaning: what targets can do with the pieces holds for them, too.

operator com.microsoft::Gelu(x) = Gelu(x)
operator com.microsoft::BiasGelu(x, bias) = Gelu(Add(x, bias))
operator com.microsoft::FastGelu(x) = Gelu(x, approximate="tanh")
operator com.microsoft::QuickGelu(x, alpha=alpha?) = Mul(x, Sigmoid(Mul(x, 1.702))) if abs(alpha - 1.702) < 0.000001
operator com.microsoft::FusedMatMul(a, b, alpha=1.0?, transA=0?, transB=0?, transBatchA=0?, transBatchB=0?) =
  MatMul(a, b)
## Their epsilon has another default than that of the pieces: it must be there.
operator com.microsoft::SkipLayerNormalization(x, skip, gain, bias) =
  LayerNormalization(Add(x, skip), gain, bias, axis=-1, epsilon=epsilon)
operator com.microsoft::SkipSimplifiedLayerNormalization(x, skip, gain) =
  RMSNormalization(Add(x, skip), gain, axis=-1, epsilon=epsilon)
operator com.microsoft::QLinearMul(a, sa, za, b, sb, zb, sy, zy) =
  QuantizeLinear(Mul(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)), sy, zy)

test "gelu": com.microsoft::Gelu(x: float32[2, 8]) => com.microsoft::Gelu(x)
test "a product of quantised values":
  com.microsoft::QLinearMul(a: uint8[8], const s: float32[] = 0.5, const z: uint8[] = 3, b: uint8[8], s, z, s, z)
  => com.microsoft::QLinearMul(a, s, z, b, s, z, s, z)
test "the sigmoid linear unit of the usual factor":
  com.microsoft::QuickGelu(x: float32[2, 8], alpha=1.702) => com.microsoft::QuickGelu(x, alpha=1.702)
test "of another factor, as it is":
  place com.microsoft::QuickGelu(x: float32[2, 8], alpha=1.5) => com.microsoft::QuickGelu(x, alpha=1.5) on host
