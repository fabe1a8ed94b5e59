## fastlib: a library of hand-written float32 kernels on the host's own cores, in the manner of the vector libraries
## that CPU makers give away. It reads and writes host memory, so nothing is copied.
##
## Where the numbers come from: four cores of 1.5 GHz with one 128-bit fused multiply-add every second cycle peak at 24
## GFLOPS; all four together draw 8 GB/s from the bus. Entering the library (thread pool, scratch memory) costs half a
## microsecond, each primitive in it another 0.2 us.

include "machines/cores.pat"
include "std/activations.pat"
include "std/algebra.pat"
include "std/attention.pat"
include "std/batch_norm.pat"
include "std/conv.pat"
include "std/gelu.pat"
include "std/layer_norm.pat"

let primitive = 200ns
let peak = 24GFLOPS
let bus = 8GBps
let real(x) = x.dtype == float32
let depthwise(c) = c.group > 1 and c.group == c.inputs[0].shape[1]

target fastlib on host {
  launch 500ns
  flops 24GFLOPS
  bandwidth 8GBps
  ## Kernels are made for one set of sizes, and their loops have at most six counters.
  requires all(is_static(t) and t.rank <= 6 for t in inputs + outputs)

  ## Depthwise convolution reuses little of what it loads and reaches a third of the peak.
  composite conv_bias_act(x: float32[_, _, _, _], w: float32[...], b?: float32[...]) = activation?(conv)
    where conv = Conv(x, const w, const b?)
    cost primitive + max(if depthwise(conv) then flops / (peak / 3) else flops / peak, bytes / bus)

  ## The residual sum is the last thing that happens to the accumulator.
  composite conv_bias_add_act(x: float32[_, _, _, _], w: float32[...], b?: float32[...], rest: float32[...]) =
      activation?(Add(conv, rest))
    where conv = Conv(x, const w, const b?)
    if rest.shape == conv.shape
    cost primitive + max(if depthwise(conv) then flops / (peak / 3) else flops / peak, bytes / bus)

  composite matmul_bias_act(x: float32[...], w: float32[_, _], b?: float32[_]) = {Relu, Tanh, Gelu}?(linear(x, w, b))
    cost primitive + max(flops / peak, bytes / bus)
  composite gemm_bias_act(x: float32[_, _], w: float32[_, _], b?: float32[...]) =
      {Relu, Tanh, Gelu}?(Gemm(x, const w, const b?))
    cost primitive + max(flops / peak, bytes / bus)

  ## The pieces in one pass over the data; the operators themselves stand below.
  composite gelu_pieces(x: float32[...]) = gelu_erf_spelled(x)
    cost primitive + max(flops / peak, bytes / bus)
  composite layer_norm_pieces(x: float32[...], gain, bias) = layer_norm_biased(x, gain, bias, eps)
    with epsilon = item(eps)
    cost primitive + max(flops / peak, bytes / bus)

  ## Scores stay in cache: queries, keys, values, mask and result are the traffic. A head is at most 256 wide.
  composite softmax_attention(q: float32[_, _, _, _], kt: float32[_, _, _, _], v: float32[_, _, _, _],
                              mask?: float32[...]) =
      attention(q, kt, v, factor, mask)
    if v.shape[-1] <= 256
    with factor = factor
    cost primitive + max(flops / peak, bytes / bus)

  ## Pooling in two dimensions.
  supports MaxPool(x), AveragePool(x), GlobalAveragePool(x), GlobalMaxPool(x) if real(x) and x.rank == 4
    cost primitive + max(flops / peak, bytes / bus)
  ## One pass over contiguous data; a broadcast operand is read once.
  supports Add(a, b), Sub(a, b), Mul(a, b), Div(a, b), Max(a, b), Min(a, b) if real(a)
    cost primitive + max(flops / peak, bytes / bus)
  supports Relu(x), LeakyRelu(x), Sigmoid(x), Tanh(x), HardSwish(x), HardSigmoid(x), Gelu(x), Erf(x), Exp(x), Sqrt(x)
    if real(x)
    cost primitive + max(flops / peak, bytes / bus)
  supports Clip(x, const _, const _) if real(x)
    cost primitive + max(flops / peak, bytes / bus)
  ## Normalisation along the contiguous axis.
  supports Softmax(x, axis=a), LayerNormalization(x, _, _, axis=a) if real(x) and a == x.rank - 1
    cost primitive + max(flops / peak, bytes / bus)
  supports MatMul(a, b) if real(a)
    cost primitive + max(flops / peak, bytes / bus)
  ## Blocked, so that reading and writing both stream.
  supports Transpose(x), Pad(x, const _, _, _) if real(x) cost primitive + bytes / bus
  supports Concat(*xs) if all(real(x) for x in xs) and len(xs) <= 8 cost primitive + bytes / bus
  supports Reshape(x, _), Flatten(x) if real(x) cost view_cost
}

test "convolution, bias and relu6": fastlib runs
  Clip(Conv(x: float32[1, 3, 32, 32], const w: float32[16, 3, 3, 3], const b: float32[16], strides=[2, 2]), 0, 6)
  in conv_bias_act
test "a depthwise convolution alone": fastlib runs
  Conv(x: float32[1, 16, 32, 32], const w: float32[16, 1, 3, 3], group=16) in conv_bias_act
test "convolution and silu": fastlib runs Mul(y, Sigmoid(y)) in conv_bias_act
  where y = Conv(x: float32[1, 8, 8, 8], const w: float32[8, 8, 1, 1])
test "convolution in double precision": fastlib rejects
  Relu(Conv(x: float64[1, 8, 8, 8], const w: float64[8, 8, 1, 1]))
test "weights that are computed": Relu(Conv(x: float32[1, 8, 8, 8], w: float32[8, 8, 1, 1])) is not conv_bias_act

test "a residual sum and relu": fastlib runs
  Relu(Add(r: float32[1, 8, 8, 8], Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 1, 1], const b: float32[8])))
  in conv_bias_add_act
test "a residual that is broadcast":
  Relu(Add(r: float32[1, 1, 8, 8], Conv(x: float32[1, 4, 8, 8], const w: float32[8, 4, 1, 1])))
  is not conv_bias_add_act

test "a linear layer and gelu": fastlib runs
  Gelu(Add(const b: float32[32], MatMul(x: float32[1, 16, 64], const w: float32[64, 32]))) in matmul_bias_act
test "a linear layer and exp":
  Exp(Add(const b: float32[32], MatMul(x: float32[1, 16, 64], const w: float32[64, 32]))) is not matmul_bias_act
test "gemm and relu": fastlib runs
  Relu(Gemm(x: float32[1, 64], const w: float32[10, 64], const b: float32[10], transB=1)) in gemm_bias_act
test "gemm of two activations": fastlib rejects Gemm(x: float32[4, 64], y: float32[64, 10])
test "gemm with a computed bias":
  Gemm(x: float32[4, 64], const w: float32[64, 10], b: float32[10]) is not gemm_bias_act

test "gelu in pieces": fastlib runs
  Mul(Mul(x: float32[1, 16, 64], Add(Erf(Div(x, 1.4142135)), 1)), 0.5) in gelu_pieces
test "an erf that is no gelu": Mul(Mul(x: float32[1, 16, 64], Add(Erf(Div(x, 2)), 1)), 0.5) is not gelu_pieces
test "layer norm in pieces": fastlib runs
  layer_norm_biased(x: float32[1, 16, 64], const g: float32[64], const b: float32[64], const e: float32[] = 1e-5)
  in layer_norm_pieces
test "half precision pieces":
  layer_norm_biased(x: float16[1, 16, 64], const g: float16[64], const b: float16[64], const e: float16[] = 0.001)
  is not layer_norm_pieces

test "attention as exported": fastlib runs
  MatMul(Where(IsNaN(p), const z: float32[1] = 0, p), v: float32[1, 4, 16, 16]) in softmax_attention
  where s = MatMul(Mul(q: float32[1, 4, 16, 16], const c: float32[] = 0.5), Mul(k: float32[1, 4, 16, 16], c));
        p = Softmax(Add(s, m: float32[1, 1, 16, 16]), axis=-1)
test "attention over three dimensions":
  MatMul(Softmax(Div(MatMul(q: float32[4, 16, 8], k: float32[4, 8, 16]), const c: float32[] = 2.8284271), axis=-1),
         v: float32[4, 16, 8]) is not softmax_attention
test "a scale per head":
  MatMul(Softmax(Mul(MatMul(q: float32[1, 4, 16, 8], k: float32[1, 4, 8, 16]), const c: float32[4, 1, 1]), axis=-1),
         v: float32[1, 4, 16, 8]) is not softmax_attention
test "a head of 512":
  MatMul(Softmax(Div(MatMul(q: float32[1, 1, 16, 512], k: float32[1, 1, 512, 16]), const c: float32[] = 22.627417),
                 axis=-1), v: float32[1, 1, 16, 512]) is not softmax_attention

test "pooling": fastlib runs
  Concat(GlobalAveragePool(AveragePool(x, kernel_shape=[2, 2])), GlobalMaxPool(MaxPool(x, kernel_shape=[2, 2])), axis=1)
  where x = Relu(i: float32[1, 8, 16, 16])
test "pooling in double precision": fastlib rejects MaxPool(x: float64[1, 8, 16, 16], kernel_shape=[2, 2])
test "pooling in one dimension": fastlib rejects MaxPool(x: float32[1, 8, 16], kernel_shape=[2])
test "arithmetic": fastlib runs
  Min(Max(Div(Mul(Sub(Add(a: float32[2, 8], b: float32[8]), a), b), a), b), a)
test "integers": fastlib rejects Add(a: int32[2, 8], b: int32[2, 8])
test "functions": fastlib runs
  Sqrt(Exp(Erf(Gelu(HardSigmoid(HardSwish(Tanh(Sigmoid(LeakyRelu(Relu(x: float32[2, 8]))))))))))
test "relu of double precision": fastlib rejects Relu(x: float64[2, 8])
test "clip": fastlib runs Clip(x: float32[2, 8], -1, 1)
test "clip in double precision": fastlib rejects Clip(x: float64[2, 8], -1, 1)
test "normalisation along the last axis": fastlib runs
  LayerNormalization(Softmax(x: float32[2, 8], axis=-1), const g: float32[8], const b: float32[8])
test "softmax in double precision": fastlib rejects Softmax(x: float64[2, 8], axis=1)
test "softmax along the first axis": fastlib rejects Softmax(x: float32[2, 8], axis=0)
test "a product of activations": fastlib runs MatMul(a: float32[4, 16, 8], b: float32[4, 8, 16])
test "a product of integers": fastlib rejects MatMul(a: int32[16, 8], b: int32[8, 16])
test "movement": fastlib runs
  Flatten(Reshape(Transpose(Pad(x: float32[2, 6, 8], [0, 0, 0, 0, 2, 0], 0), perm=[0, 2, 1]), [2, 4, 16]))
test "movement of integers": fastlib rejects Transpose(x: int64[2, 8])
test "views of integers": fastlib rejects Reshape(x: int64[2, 8], [16])
test "concatenation of two": fastlib runs Concat(x: float32[2, 8], y: float32[2, 8], axis=1)
test "concatenation of integers": fastlib rejects Concat(x: int64[2, 8], y: int64[2, 8], axis=1)
test "concatenation of nine": fastlib rejects
  Concat(a: float32[1], b: float32[1], c: float32[1], d: float32[1], e: float32[1], f: float32[1], g: float32[1],
         h: float32[1], i: float32[1], axis=0)
test "a computed shape": fastlib rejects Relu(Reshape(x: float32[16], s: int64[2]))
test "seven dimensions": fastlib rejects Relu(x: float32[1, 1, 1, 1, 1, 1, 2])
test "gather is the host's": fastlib rejects Gather(x: float32[500, 64], i: int64[1, 16])

test "entering the library for one row does not pay": place Relu(x: float32[1, 8]) => Relu(x) on host
test "for an image it does": place Relu(x: float32[1, 8, 64, 64]) => Relu(x) on fastlib
