## fastlib: a library of hand-written float32 kernels on the host's own cores, in the manner of the vector libraries that
## CPU makers give away. It reads and writes host memory, so nothing is copied.
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

  ## The residual sum as the last thing that happens to the accumulator.
  composite conv_bias_add_act(x: float32[_, _, _, _], w: float32[...], b?: float32[...], rest: float32[...]) =
      activation?(Add(conv, rest))
    where conv = Conv(x, const w, const b?)
    if rest.shape == conv.shape
    cost primitive + max(if depthwise(conv) then flops / (peak / 3) else flops / peak, bytes / bus)

  composite matmul_bias_act(x: float32[...], w: float32[_, _], b?: float32[_]) = {Relu, Tanh, Gelu}?(linear(x, w, b))
    cost primitive + max(flops / peak, bytes / bus)
  composite gemm_bias_act(x: float32[_, _], w: float32[_, _], b?: float32[...]) = {Relu, Tanh, Gelu}?(Gemm(x, const w, const b?))
    cost primitive + max(flops / peak, bytes / bus)

  ## The pieces in one pass over the data; the operators themselves stand below.
  composite gelu_pieces(x: float32[...]) = gelu_erf_spelled(x)
    cost primitive + max(flops / peak, bytes / bus)
  composite layer_norm_pieces(x: float32[...], gain, bias) = layer_norm_biased(x, gain, bias, eps)
    with epsilon = item(eps)
    cost primitive + max(flops / peak, bytes / bus)

  ## Scores stay in cache, so only queries, keys, values, mask and result are traffic. Exponentials are vectorised.
  composite attention(q: float32[_, _, _, _], kt: float32[_, _, _, _], v: float32[_, _, _, _], mask?: float32[...]) =
      attention(q, kt, v, factor, mask)
    if v.shape[-1] <= 256
    with factor = factor
    cost primitive + max(flops / peak, bytes / bus)

  ## Pooling in two dimensions.
  supports MaxPool(x), AveragePool(x), GlobalAveragePool(x), GlobalMaxPool(x) if real(x) and x.rank == 4
    cost primitive + max(flops / peak, bytes / bus)
  ## One pass over contiguous data; a broadcast operand is read once.
  supports Add(a, b), Sub(a, b), Mul(a, b), Div(a, b), Max(a, b), Min(a, b)
    if real(a) and real(b)
    cost primitive + max(flops / peak, bytes / bus)
  supports Relu(x), LeakyRelu(x), Sigmoid(x), Tanh(x), HardSwish(x), HardSigmoid(x), Gelu(x), Erf(x), Exp(x), Sqrt(x), Abs(x), Neg(x)
    if real(x)
    cost primitive + max(flops / peak, bytes / bus)
  supports Clip(x, const _, const _) if real(x)
    cost primitive + max(flops / peak, bytes / bus)
  ## Normalisations along the contiguous axis.
  supports Softmax(x, axis=a) if real(x) and a == x.rank - 1
    cost primitive + max(flops / peak, bytes / bus)
  supports LayerNormalization(x, _, _, axis=a) if real(x) and a == x.rank - 1
    cost primitive + max(flops / peak, bytes / bus)
  supports MatMul(a, b) if real(a) and real(b)
    cost primitive + max(flops / peak, bytes / bus)
  ## Copies with strides reach half of the bus.
  supports Transpose(x), Pad(x, const _, _, _) if real(x) cost primitive + bytes / (bus / 2)
  supports Concat(*xs) if all(real(x) for x in xs) and len(xs) <= 8 cost primitive + bytes / (bus / 2)
  supports Reshape(x, _), Flatten(x) if real(x) cost view_cost
}
