## fastlib: a library of hand-written float32 kernels on the host's own cores, in the manner of the vector libraries
## that CPU makers give away. It reads and writes host memory, so nothing is copied.
##
## Where the numbers come from: four cores of 1.5 GHz with one 128-bit fused multiply-add every second cycle peak at 24
## GFLOPS; all four together draw 8 GB/s from the bus. Entering the library (thread pool, scratch memory) costs half a
## microsecond, each primitive in it another 0.2 us. A dot product instruction multiplies sixteen codes of eight bits in
## the place of four floats: 48 GMACS.

include "machines/cores.pat"
include "std/activations.pat"
include "std/algebra.pat"
include "std/attention.pat"
include "std/batch_norm.pat"
include "std/conv.pat"
include "std/gelu.pat"
include "std/layer_norm.pat"
include "std/qdq.pat"
include "std/qdq_pad.pat"
include "std/qdq_softmax.pat"
include "std/qdq_dynamic.pat"
include "std/qlinear.pat"

let primitive = 200ns
let peak = 24GFLOPS
let dots = 48GMACS
let bus = 8GBps
let real(x) = x.dtype == float32
let moved(x) = x.dtype in {float32, int8, uint8}
## Accumulators are scaled by a 32-bit number and a shift to the right.
let scales(factor) = all(factor >= 0.00000000023283064) and all(factor < 256)
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

  ## Codes of eight bits, with weights of int8 around zero and biases that count steps of the accumulator.
  composite conv_q8(x: q8[_, _, _, _], w: int8[...], b?: int32[_]) = codes_out(rectified?(conv), ys, yz) as y
    where conv = Conv(codes_in(x, xs, xz), row_weights(w, ws), bias_steps(b, bs)?)
    if y.dtype == x.dtype and close(bs, xs * ws) and scales(xs * ws / ys) and (conv.group == 1 or depthwise(conv))
    with factor = xs * ws / ys, zero_in = xz, zero_out = yz
    cost primitive + max(if depthwise(conv) then macs / (dots / 3) else macs / dots, bytes / bus)
  composite gemm_q8(x: q8[_, _], w: int8[_, _], b?: int32[_]) = codes_out(gemm, ys, yz) as y
    where gemm = Gemm(codes_in(x, xs, xz), row_weights(w, ws), bias_steps(b, bs)?, transA=0, transB=1, alpha=1,
                      beta=1)
    if y.dtype == x.dtype and close(bs, xs * ws) and scales(xs * ws / ys)
    with factor = xs * ws / ys, zero_in = xz, zero_out = yz
    cost primitive + max(macs / dots, bytes / bus)
  composite matmul_q8(x: q8[...], w: int8[_, _]) =
      codes_out(MatMul(codes_in(x, xs, xz), column_weights(w, ws)), ys, yz) as y
    if y.dtype == x.dtype and scales(xs * ws / ys)
    with factor = xs * ws / ys, zero_in = xz, zero_out = yz
    cost primitive + max(macs / dots, bytes / bus)
  composite add_q8(a: q8[...], b: q8[...]) =
      codes_out(rectified?(Add(codes_in(a, sa, az), codes_in(b, sb, bz))), ys, yz) as y
    if y.dtype == a.dtype and b.dtype == a.dtype and scales(sa / ys) and scales(sb / ys)
    with factor_a = sa / ys, factor_b = sb / ys, zero_a = az, zero_b = bz, zero_out = yz
    cost primitive + max(flops / peak, bytes / bus)
  composite pool_q8(x: q8[_, _, _, _]) = codes_out({AveragePool, GlobalAveragePool}(codes_in(x, xs, xz)), ys, yz) as y
    if y.dtype == x.dtype and scales(xs / ys)
    with factor = xs / ys, zero_in = xz, zero_out = yz
    cost primitive + max(flops / peak, bytes / bus)
  composite softmax_q8(x: q8[...]) = qdq_softmax(x, step)
    with scale = step
    cost primitive + max(flops / peak, bytes / bus)
  ## The left side is quantised as the model runs.
  composite dynamic_matmul(a: uint8[...], zero, step, w: int8[_, _], b?: float32[_]) =
      dynamic_linear(a, zero, step, w, b)
    cost primitive + max(macs / dots, bytes / bus)
  ## One scale for the whole tensor.
  supports QuantizeLinear(x, const s, const z) as y, DequantizeLinear(x, const s, const z) as y
    if moved(x) and moved(y) and per_tensor(s)
    cost primitive + max(flops / peak, bytes / bus)
  supports DynamicQuantizeLinear(x)
    cost primitive + max(flops / peak, bytes / bus)

  ## Pooling in two dimensions.
  supports MaxPool(x) if moved(x) and x.rank == 4 cost primitive + max(flops / peak, bytes / bus)
  supports AveragePool(x), GlobalAveragePool(x), GlobalMaxPool(x) if real(x) and x.rank == 4
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
  supports Transpose(x), Pad(x, const _, _, _) if moved(x) cost primitive + bytes / bus
  supports Concat(*xs) if all(moved(x) for x in xs) and len(xs) <= 8 cost primitive + bytes / bus
  supports Reshape(x, _), Flatten(x) if moved(x) cost view_cost
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

test "a convolution of codes, its bias and relu":
  fastlib runs
  QuantizeLinear(Relu(Conv(dx, dw, db, pads=[1, 1, 1, 1])), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  in conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[] = 0.125, const bz: int32[] = 0)
test "a depthwise convolution of signed codes":
  fastlib runs QuantizeLinear(Conv(dx, dw, group=16), const ys: float32[] = 0.75, const yz: int8[] = 3) in conv_q8
  where dx = DequantizeLinear(x: int8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: int8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 1, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "codes to codes of another type":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: int8[] = 3) is not conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a bias of other steps":
  QuantizeLinear(Conv(dx, dw, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[] = 0.25, const bz: int32[] = 0)
test "a factor that vanishes":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 1e-12, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a factor of 256":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.00048828125, const yz: uint8[] = 3) is not conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "weights of uint8": QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: uint8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: uint8[] = 0)
test "codes of weights that are computed":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "two groups of codes":
  QuantizeLinear(Conv(dx, dw, group=2), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_q8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 8, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a classifier of codes":
  fastlib runs QuantizeLinear(Gemm(dx, dw, db, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) in gemm_q8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[16], const bs: float32[] = 0.125, const bz: int32[] = 0)
test "a classifier to another type":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: int8[] = 3) is not gemm_q8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a classifier whose bias has other steps":
  QuantizeLinear(Gemm(dx, dw, db, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_q8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[16], const bs: float32[] = 0.25, const bz: int32[] = 0)
test "a classifier with a factor that vanishes":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_q8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 1e-12, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a classifier with a factor of 256":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.00048828125, const yz: uint8[] = 3) is not gemm_q8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "weights in columns":
  QuantizeLinear(Gemm(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_q8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a scaled product of codes":
  QuantizeLinear(Gemm(dx, dw, alpha=0.5, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_q8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product of codes":
  fastlib runs QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) in matmul_q8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product to another type":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: int8[] = 3) is not matmul_q8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product with a factor that vanishes":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_q8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 1e-12, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product with a factor of 256":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.00048828125, const yz: uint8[] = 3) is not matmul_q8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product of codes that are both computed":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_q8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(w: int8[64, 16], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a sum of codes and relu":
  fastlib runs QuantizeLinear(Relu(Add(da, db)), const ys: float32[] = 0.75, const yz: uint8[] = 3) in add_q8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a sum to another type":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: int8[] = 3) is not add_q8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a sum of two types": QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_q8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: int8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: int8[] = 2)
test "a left operand that vanishes":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_q8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 1e-12, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a right operand that vanishes":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_q8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 1e-12, const zb: uint8[] = 2)
test "a left operand of 256 steps":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_q8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 192, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a right operand of 256 steps":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_q8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 192, const zb: uint8[] = 2)
test "an average of codes":
  fastlib runs QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  in pool_q8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "an average of whole images of codes":
  fastlib runs QuantizeLinear(GlobalAveragePool(dx), const ys: float32[] = 0.75, const yz: uint8[] = 3) in pool_q8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "an average of another type":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: int8[] = 3) is not pool_q8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "an average that vanishes":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not pool_q8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 1e-12, const xz: uint8[] = 1)
test "an average of 256 steps":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not pool_q8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 192, const xz: uint8[] = 1)
test "an average of a signal of codes":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2]), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not pool_q8
  where dx = DequantizeLinear(x: uint8[1, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "softmax of codes":
  fastlib runs QuantizeLinear(Softmax(dx), const ys: float32[] = 0.00390625, const yz: uint8[] = 0) in softmax_q8
  where dx = DequantizeLinear(x: uint8[4, 16], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "softmax of codes with other steps":
  QuantizeLinear(Softmax(dx), const ys: float32[] = 0.005, const yz: uint8[] = 0) is not softmax_q8
  where dx = DequantizeLinear(x: uint8[4, 16], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "a product quantised as it runs":
  fastlib runs Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)) in dynamic_matmul
  where m = MatMulInteger(a: uint8[2, 8], const w: int8[8, 4], z: uint8[])
test "a product of signed codes quantised as it runs":
  Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)) is not dynamic_matmul
  where m = MatMulInteger(a: int8[2, 8], const w: int8[8, 4], z: int8[])
test "a product with unsigned weights":
  Mul(Cast(m, to=1), Mul(s: float32[], const ws: float32[] = 0.5)) is not dynamic_matmul
  where m = MatMulInteger(a: uint8[2, 8], const w: uint8[8, 4], z: uint8[])
test "encoding and decoding": fastlib runs
  DequantizeLinear(QuantizeLinear(x: float32[2, 8], const s: float32[] = 0.5, const z: int8[] = 3), s, z)
test "encoding with a scale per channel": fastlib rejects
  QuantizeLinear(x: float32[2, 8], const s: float32[2] = 0.5, const z: int8[2] = 3, axis=0)
test "encoding half precision": fastlib rejects
  QuantizeLinear(x: float16[2, 8], const s: float16[] = 0.5, const z: int8[] = 3)
test "encoding to sixteen bits": fastlib rejects
  QuantizeLinear(x: float32[2, 8], const s: float32[] = 0.5, const z: int16[] = 3)
test "decoding biases": fastlib rejects
  DequantizeLinear(x: int32[8], const s: float32[] = 0.5, const z: int32[] = 0)
test "encoding with the range of the data": fastlib runs q where q, s, z = DynamicQuantizeLinear(x: float32[2, 8])
test "encoding seven dimensions with the range of the data": fastlib rejects
  q where q, s, z = DynamicQuantizeLinear(x: float32[1, 1, 1, 1, 1, 1, 2])
test "movement of codes": fastlib runs
  Concat(Reshape(Transpose(Pad(p, [0, 0, 0, 0, 0, 0, 1, 0], 0)), [2, 12]), y: uint8[2, 9], axis=1)
  where p = MaxPool(x: uint8[1, 2, 4, 4], kernel_shape=[2, 2])

test "pooling": fastlib runs
  Concat(GlobalAveragePool(AveragePool(x, kernel_shape=[2, 2])), GlobalMaxPool(MaxPool(x, kernel_shape=[2, 2])), axis=1)
  where x = Relu(i: float32[1, 8, 16, 16])
test "pooling in double precision": fastlib rejects MaxPool(x: float64[1, 8, 16, 16], kernel_shape=[2, 2])
test "averages in double precision": fastlib rejects AveragePool(x: float64[1, 8, 16, 16], kernel_shape=[2, 2])
test "averages in one dimension": fastlib rejects AveragePool(x: float32[1, 8, 16], kernel_shape=[2])
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
