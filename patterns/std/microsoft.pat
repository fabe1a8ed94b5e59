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
operator com.microsoft::FusedConv(x, w, b?, activation="Relu") =
  Relu(Conv(x, w, b?, auto_pad=auto_pad?, dilations=dilations?, group=group?, kernel_shape=kernel_shape?, pads=pads?, strides=strides?))
operator com.microsoft::FusedGemm(a, b, c?, activation="Relu") =
  Relu(Gemm(a, b, c?, alpha=alpha?, beta=beta?, transA=transA?, transB=transB?))
operator com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za?, zb?) =
  Mul(Cast(MatMulInteger(a, b, za?, zb?), to=float32), Mul(sa, sb))
operator com.microsoft::DynamicQuantizeMatMul(a, b, sb, zb?) =
  Mul(Cast(MatMulInteger(q, b, z, zb?), to=float32), Mul(s, sb))
  where q, s, z = DynamicQuantizeLinear(a)
## A scale of 0 means the usual one there, and queries fewer than keys are the last ones where masks are causal.
operator com.microsoft::MultiHeadAttention(q, k, v, num_heads=h, scale=scale?, mask_filter_value=f?, unidirectional=u?) =
  Attention(q, k, v, q_num_heads=h, kv_num_heads=h, scale=scale?, is_causal=u?)
  if scale != 0.0 and u * (q.shape[1] - k.shape[1]) == 0
operator com.microsoft::Attention(x, w, b, num_heads=h, scale=scale?, mask_filter_value=f?, unidirectional=u?) =
  Attention(q, k, v, q_num_heads=h, kv_num_heads=h, scale=scale?, is_causal=u?)
  where q, k, v = Split(Add(MatMul(x, w), b), axis=-1, num_outputs=3)
  if scale != 0.0
## Without a number of heads, the tables' width says how many there are, which the public operator does not take.
operator com.microsoft::RotaryEmbedding(x, ids, cos, sin, num_heads=h?, scale=1.0?, is_packed_batching=0?) =
  RotaryEmbedding(x, cos, sin, ids, interleaved=interleaved?, num_heads=h?, rotary_embedding_dim=rotary_embedding_dim?)
  if ids.rank == 2 and (x.rank == 4 or default(h, 0) > 0)
## The second result is the length of what is not padded, which nothing says here.
operator com.microsoft::EmbedLayerNormalization(ids, segments, words, places, kinds, gain, bias, mask_index_type=0?) =
  (LayerNormalization(Add(Add(Gather(words, ids), Slice(places, [0], [ids.shape[1]], [0])), Gather(kinds, segments)),
                      gain, bias, axis=-1, epsilon=epsilon), ReduceMin(Mul(segments, 0), [1], keepdims=0))
operator com.microsoft::MatMulNBits(a, b, s, K=k, N=n, bits=4, block_size=z, accuracy_level=l?) =
  MatMul(a, Transpose(Reshape(Mul(Sub(Cast(codes, to=float32), 8.0), Reshape(s, [n, k // z, 1])), [n, k]), perm=[1, 0]))
  where low = Unsqueeze(BitwiseAnd(b, 15), [3]); high = Unsqueeze(BitShift(b, 4, direction="RIGHT"), [3]);
        codes = Reshape(Concat(low, high, axis=3), [n, k // z, z])

test "gelu": com.microsoft::Gelu(x: float32[2, 8]) => com.microsoft::Gelu(x)
test "a product of quantised values":
  com.microsoft::QLinearMul(a: uint8[8], const s: float32[] = 0.5, const z: uint8[] = 3, b: uint8[8], s, z, s, z)
  => com.microsoft::QLinearMul(a, s, z, b, s, z, s, z)
test "the sigmoid linear unit of the usual factor":
  com.microsoft::QuickGelu(x: float32[2, 8], alpha=1.702) => com.microsoft::QuickGelu(x, alpha=1.702)
test "of another factor, as it is":
  place com.microsoft::QuickGelu(x: float32[2, 8], alpha=1.5) => com.microsoft::QuickGelu(x, alpha=1.5) on host
test "a convolution and its activation":
  com.microsoft::FusedConv(x: float32[1, 4, 8, 8], const w: float32[6, 4, 3, 3], activation="Relu", pads=[1, 1, 1, 1])
  => Relu(Conv(x, w, pads=[1, 1, 1, 1]))
test "a convolution and another activation, as it is":
  place com.microsoft::FusedConv(x: float32[1, 4, 8, 8], const w: float32[6, 4, 3, 3], activation="HardSigmoid")
  => com.microsoft::FusedConv(x, w, activation="HardSigmoid") on host
test "a product and its activation":
  com.microsoft::FusedGemm(a: float32[3, 4], b: float32[5, 4], activation="Relu", transB=1)
  => Relu(Gemm(a, b, transB=1))
test "a product of integers":
  com.microsoft::MatMulIntegerToFloat(a: uint8[3, 4], const b: int8[4, 5], const sa: float32[], const sb: float32[5])
  => Mul(Cast(MatMulInteger(a, b), to=float32), Mul(sa, sb))
test "attention": com.microsoft::MultiHeadAttention(q: float32[2, 5, 8], k: float32[2, 7, 8], v: float32[2, 7, 8], num_heads=2)
  => Attention(q, k, v, q_num_heads=2, kv_num_heads=2)
test "positions from one on, as they are":
  place com.microsoft::RotaryEmbedding(x: float32[2, 2, 5, 8], i: int64[1], const c: float32[9, 4], const s: float32[9, 4])
  => com.microsoft::RotaryEmbedding(x, i, c, s) on host
test "weights of four bits":
  place com.microsoft::MatMulNBits(a: float32[2, 64], const b: uint8[8, 2, 16], const s: float32[16], K=64, N=8, bits=8,
                                   block_size=32)
  => com.microsoft::MatMulNBits(a, b, s, K=64, N=8, bits=8, block_size=32) on host
test "weights that end within a block":
  place com.microsoft::MatMulNBits(a: float32[2, 48], const b: uint8[8, 2, 16], const s: float32[16], K=48, N=8, bits=4,
                                   block_size=32)
  => com.microsoft::MatMulNBits(a, b, s, K=48, N=8, bits=4, block_size=32) on host
test "a scale of nothing is the usual one, as it is":
  place com.microsoft::MultiHeadAttention(q: float32[2, 5, 8], k: float32[2, 7, 8], v: float32[2, 7, 8], num_heads=2, scale=0.0)
  => com.microsoft::MultiHeadAttention(q, k, v, num_heads=2, scale=0.0) on host
test "fewer queries than keys, each for those before, as it is":
  place com.microsoft::MultiHeadAttention(q: float32[2, 5, 8], k: float32[2, 7, 8], v: float32[2, 7, 8], num_heads=2,
                                          unidirectional=1)
  => com.microsoft::MultiHeadAttention(q, k, v, num_heads=2, unidirectional=1) on host
test "attention of no scale, as it is":
  place com.microsoft::Attention(x: float32[2, 5, 8], const w: float32[8, 24], const b: float32[24], num_heads=2, scale=0.0)
  => com.microsoft::Attention(x, w, b, num_heads=2, scale=0.0) on host
test "positions for heads that nothing counts, as they are":
  place com.microsoft::RotaryEmbedding(x: float32[2, 5, 16], i: int64[2, 5], const c: float32[9, 4], const s: float32[9, 4])
  => com.microsoft::RotaryEmbedding(x, i, c, s) on host
