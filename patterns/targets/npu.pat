## npu: a matrix engine with a memory of its own on the same chip, for convolutions and matrix products with constant
## weights. Made up, in the manner of the engines of small vision boards.
##
## Where the numbers come from: a 16 x 16 array of multiply-accumulate units at 800 MHz is 204 GMACS; a depthwise
## convolution keeps one column of it busy, 12.8 GMACS. Operands and results of a layer lie in 4 MiB of scratch
## memory that delivers 16 GB/s; weights are streamed in at 6 GB/s, so layers with many weights and few pixels are
## better off elsewhere. A unit multiplies one pair of reals or four pairs of codes of eight bits: 800 GMACS, 48 of them
## in a column. Starting a job (descriptor, doorbell, interrupt) takes 1.5 us, each layer in it 0.2 us.

include "machines/cores.pat"
include "std/activations.pat"
include "std/algebra.pat"
include "std/batch_norm.pat"
include "std/conv.pat"
include "std/gelu.pat"
include "std/layer_norm.pat"
include "std/qdq.pat"
include "std/qdq_pad.pat"
include "std/qdq_softmax.pat"
include "std/qlinear.pat"

## DRAM set aside for the engine: weights and the tensors of a job.
device npu0 { memory 256MiB }
## A cache is cleaned or invalidated and a transfer engine is started: 0.8 us. It moves 8 GB/s.
link host <-> npu0: 800ns + bytes / 8GBps

let scratch = 4MiB
let layer = 200ns
let stream = 6GBps
let port = 16GBps
let array = 200GMACS
let column = 12GMACS
let array8 = 800GMACS
let column8 = 48GMACS
let vector_unit = 8GFLOPS

let real = {float16, float32}
let stored = {float16, float32, int8, uint8}
## Channels are stored in groups of eight.
let in_eights(n) = n % 8 == 0
let one_column(c) = c.group == c.inputs[0].shape[1] and c.inputs[1].shape[0] == c.group
## What the address generators can do.
let window(c) = all(c.kernel_shape <= 7) and all(c.strides <= 2) and all(c.dilations == 1)
let convolves(c) = (c.group == 1 or one_column(c)) and window(c)

## Accumulators have 32 bits: 2^16 products of 255 and -128 fit.
let accumulates(products) = products <= 65536
## Sums are scaled by a number of 16 bits and a shift: to the right by up to 32 places, to the left by up to 8.
let scales(factor) = all(factor >= 0.00000000023283064) and all(factor < 256)

## What the output stage applies to an accumulator: comparisons, or a table that is interpolated.
pattern output_stage(v) = Relu(v) | clamp(v) | LeakyRelu(v) | HardSwish(v) | Sigmoid(v)

target npu on npu0 {
  launch 1500ns
  flops 8GFLOPS
  bandwidth 16GBps
  requires all(is_static(t) and t.rank <= 4 for t in inputs + outputs)

  ## One image at a time; input, weights and output of a layer share the scratch memory.
  composite conv_act(x: real[1, C, _, _], w: real[K, _, _, _], b?: real[K]) = output_stage?(conv)
    where conv = Conv(x, const w, const b?)
    if in_eights(C) and in_eights(K) and convolves(conv) and x.bytes + w.bytes + conv.bytes <= scratch
    cost layer + max(if one_column(conv) then macs / column else macs / array, const_bytes / stream, bytes / port)

  ## The residual is read while the accumulators are written out.
  composite conv_add_act(x: real[1, C, _, _], w: real[K, _, _, _], b?: real[K], rest: real[...]) =
      output_stage?(Add(conv, rest))
    where conv = Conv(x, const w, const b?)
    if in_eights(C) and in_eights(K) and convolves(conv) and rest.shape == conv.shape
       and x.bytes + w.bytes + 2 * conv.bytes <= scratch
    cost layer + max(if one_column(conv) then macs / column else macs / array, const_bytes / stream, bytes / port)

  composite matmul_act(x: real[...], w: real[C, K], b?: real[K]) = {Relu, Gelu}?(linear(x, w, b)) as y
    if in_eights(C) and in_eights(K) and x.bytes + w.bytes + y.bytes <= scratch
    cost layer + max(macs / array, const_bytes / stream, bytes / port)
  composite matmul_add(x: real[...], w: real[C, K], b?: real[K], rest: real[...]) = Add(product, rest)
    where product = linear(x, w, b)
    if in_eights(C) and in_eights(K) and rest.shape == product.shape and x.bytes + w.bytes + 2 * rest.bytes <= scratch
    cost layer + max(macs / array, const_bytes / stream, bytes / port)
  composite gemm(x: real[_, C], w: real[_, _], b?: real[K]) =
      Gemm(x, const w, const b?, transA=0, alpha=1, beta=1) as y
    if in_eights(C) and in_eights(y.shape[1]) and x.bytes + w.bytes + y.bytes <= scratch
    cost layer + max(macs / array, const_bytes / stream, bytes / port)

  ## Two passes of the vector unit over the rows: moments, then the result.
  composite norm(x: real[..., C], gain: real[C], bias?: real[C]) =
      LayerNormalization(x, const gain, const bias?, axis=-1) as y
    if in_eights(C) and x.bytes + y.bytes <= scratch
    cost layer + max(flops / vector_unit, 2 * bytes / port)

  ## Codes of eight bits, with weights of int8 around zero and biases that count steps of the accumulator.
  composite conv_int8(x: q8[1, C, _, _], w: int8[K, _, _, _], b?: int32[K]) = codes_out(rectified?(conv), ys, yz) as y
    where conv = Conv(codes_in(x, xs, xz), row_weights(w, ws), bias_steps(b, bs)?)
    if y.dtype == x.dtype and close(bs, xs * ws) and scales(xs * ws / ys)
       and in_eights(C) and in_eights(K) and convolves(conv) and accumulates(w.numel / K)
       and x.bytes + w.bytes + y.bytes <= scratch
    with factor = xs * ws / ys, zero_in = xz, zero_out = yz
    cost layer + max(if one_column(conv) then macs / column8 else macs / array8, const_bytes / stream, bytes / port)
  composite gemm_int8(x: q8[_, C], w: int8[_, _], b?: int32[K]) = codes_out(gemm, ys, yz) as y
    where gemm = Gemm(codes_in(x, xs, xz), row_weights(w, ws), bias_steps(b, bs)?, transA=0, transB=1, alpha=1,
                      beta=1)
    if y.dtype == x.dtype and close(bs, xs * ws) and scales(xs * ws / ys)
       and in_eights(C) and in_eights(w.shape[0]) and accumulates(C) and x.bytes + w.bytes + y.bytes <= scratch
    with factor = xs * ws / ys, zero_in = xz, zero_out = yz
    cost layer + max(macs / array8, const_bytes / stream, bytes / port)
  composite matmul_int8(x: q8[..., C], w: int8[C, K]) = codes_out(product, ys, yz) as y
    where product = MatMul(codes_in(x, xs, xz), column_weights(w, ws))
    if y.dtype == x.dtype and scales(xs * ws / ys)
       and in_eights(C) and in_eights(K) and accumulates(C) and x.bytes + w.bytes + y.bytes <= scratch
    with factor = xs * ws / ys, zero_in = xz, zero_out = yz
    cost layer + max(macs / array8, const_bytes / stream, bytes / port)
  composite add_int8(a: q8[...], b: q8[...]) =
      codes_out(rectified?(Add(codes_in(a, sa, az), codes_in(b, sb, bz))), ys, yz) as y
    if y.dtype == a.dtype and b.dtype == a.dtype and a.shape == b.shape and scales(sa / ys) and scales(sb / ys)
    with factor_a = sa / ys, factor_b = sb / ys, zero_a = az, zero_b = bz, zero_out = yz
    cost layer + bytes / port
  composite pool_int8(x: q8[_, _, _, _]) = codes_out(pool, ys, yz) as y
    where pool = AveragePool(codes_in(x, xs, xz))
    if y.dtype == x.dtype and scales(xs / ys) and all(pool.kernel_shape <= 3) and all(pool.strides <= 2)
    with factor = xs / ys, zero_in = xz, zero_out = yz
    cost layer + bytes / port
  ## A table of 256 exponentials: one pass sums, one divides.
  composite softmax_int8(x: q8[..., C]) = qdq_softmax(x, step) as y
    if in_eights(C) and x.bytes + y.bytes <= scratch
    with scale = step
    cost layer + max(flops / vector_unit, 2 * bytes / port)

  ## Tensors of one shape, or a constant laid over the other operand.
  supports Add(a, b), Sub(a, b), Mul(a, b)
    if a.dtype in real and (a.shape == b.shape or is_const(b) and broadcasts(b, a))
    cost layer + bytes / port
  supports Relu(x), LeakyRelu(x), Sigmoid(x), HardSwish(x), Gelu(x), Clip(x, const _, const _) if x.dtype in real
    cost layer + bytes / port
  supports MaxPool(x) as y, AveragePool(x) as y
    if x.dtype in stored and x.rank == 4 and all(y.kernel_shape <= 3) and all(y.strides <= 2)
    cost layer + bytes / port
  supports Reshape(x, _), Flatten(x) if x.dtype in stored cost view_cost
}

test "a convolution and relu6": npu runs
  Clip(Conv(x: float32[1, 16, 32, 32], const w: float32[32, 16, 3, 3], const b: float32[32], pads=[1, 1, 1, 1]), 0, 6)
  in conv_act
test "a depthwise convolution in half precision": npu runs
  HardSwish(Conv(x: float16[1, 16, 32, 32], const w: float16[16, 1, 5, 5], group=16)) in conv_act
test "three colours": npu rejects Conv(x: float32[1, 3, 32, 32], const w: float32[16, 3, 3, 3])
test "ten classes": npu rejects Conv(x: float32[1, 8, 1, 1], const w: float32[10, 8, 1, 1])
test "two images": npu rejects Conv(x: float32[2, 8, 32, 32], const w: float32[8, 8, 3, 3])
test "two groups": npu rejects Conv(x: float32[1, 16, 32, 32], const w: float32[16, 8, 3, 3], group=2)
test "a window of nine": npu rejects Conv(x: float32[1, 8, 32, 32], const w: float32[8, 8, 9, 9])
test "strides of four": npu rejects Conv(x: float32[1, 8, 32, 32], const w: float32[8, 8, 4, 4], strides=[4, 4])
test "a dilated window": npu rejects Conv(x: float32[1, 8, 32, 32], const w: float32[8, 8, 3, 3], dilations=[2, 2])
test "more than the scratch memory":
  Conv(x: float32[1, 64, 112, 112], const w: float32[64, 64, 1, 1]) is not conv_act
test "an output stage without exp": Exp(Conv(x: float32[1, 8, 8, 8], const w: float32[8, 8, 1, 1])) is not conv_act

test "a residual block's end": npu runs
  Relu(Add(Conv(x: float32[1, 16, 16, 16], const w: float32[16, 16, 3, 3], pads=[1, 1, 1, 1]),
           r: float32[1, 16, 16, 16]))
  in conv_add_act
test "a residual sum of 4 channels":
  Add(Conv(x: float32[1, 4, 16, 16], const w: float32[16, 4, 1, 1]), r: float32[1, 16, 16, 16]) is not conv_add_act
test "a residual sum of 12 channels":
  Add(Conv(x: float32[1, 16, 16, 16], const w: float32[12, 16, 1, 1]), r: float32[1, 12, 16, 16]) is not conv_add_act
test "a residual sum in two groups":
  Add(Conv(x: float32[1, 16, 16, 16], const w: float32[16, 8, 1, 1], group=2), r: float32[1, 16, 16, 16])
  is not conv_add_act
test "a residual per channel":
  Add(Conv(x: float32[1, 16, 16, 16], const w: float32[16, 16, 1, 1]), r: float32[1, 16, 1, 1]) is not conv_add_act
test "a residual that no longer fits":
  Add(Conv(x: float32[1, 16, 128, 128], const w: float32[32, 16, 1, 1]), r: float32[1, 32, 128, 128])
  is not conv_add_act

test "a linear layer and gelu": npu runs
  Gelu(Add(const b: float32[128], MatMul(x: float32[1, 16, 64], const w: float32[64, 128]))) in matmul_act
test "a product of two activations": npu rejects MatMul(x: float32[1, 4, 16, 16], y: float32[1, 4, 16, 16])
test "a width of 12": MatMul(x: float32[1, 16, 64], const w: float32[64, 12]) is not matmul_act
test "60 columns in": MatMul(x: float32[1, 16, 60], const w: float32[60, 64]) is not matmul_act
test "a linear layer and tanh":
  Tanh(Add(const b: float32[128], MatMul(x: float32[1, 16, 64], const w: float32[64, 128]))) is not matmul_act
test "weights beyond the scratch memory":
  MatMul(x: float32[1, 16, 1024], const w: float32[1024, 1024]) is not matmul_act
test "a linear layer and a residual": npu runs
  Add(Add(MatMul(x: float32[1, 16, 64], const w: float32[64, 64]), const b: float32[64]), r: float32[1, 16, 64])
  in matmul_add
test "60 columns in and a residual":
  Add(MatMul(x: float32[1, 16, 60], const w: float32[60, 64]), r: float32[1, 16, 64]) is not matmul_add
test "60 columns out and a residual":
  Add(MatMul(x: float32[1, 16, 64], const w: float32[64, 60]), r: float32[1, 16, 60]) is not matmul_add
test "weights and a residual beyond the scratch memory":
  Add(MatMul(x: float32[1, 16, 1024], const w: float32[1024, 1024]), r: float32[1, 16, 1024]) is not matmul_add
test "a residual that is broadcast":
  Add(MatMul(x: float32[1, 16, 64], const w: float32[64, 64]), r: float32[16, 64]) is not matmul_add
test "a classifier": npu runs Gemm(x: float32[1, 64], const w: float32[64, 16], const b: float32[16]) in gemm
test "60 features": Gemm(x: float32[1, 60], const w: float32[60, 16]) is not gemm
test "ten classes of 64 features": Gemm(x: float32[1, 64], const w: float32[64, 10]) is not gemm
test "a thousand classes of 2048 features": Gemm(x: float32[1, 2048], const w: float32[2048, 1000]) is not gemm
test "a scaled product": Gemm(x: float32[1, 64], const w: float32[64, 16], alpha=0.5) is not gemm
test "a product of columns": Gemm(x: float32[64, 8], const w: float32[64, 16], transA=1) is not gemm

test "a convolution of codes, its bias and relu":
  npu runs QuantizeLinear(Relu(Conv(dx, dw, db, pads=[1, 1, 1, 1])), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  in conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[] = 0.125, const bz: int32[] = 0)
test "a depthwise convolution of signed codes":
  npu runs QuantizeLinear(Conv(dx, dw, group=16), const ys: float32[] = 0.75, const yz: int8[] = 3) in conv_int8
  where dx = DequantizeLinear(x: int8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: int8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 1, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "codes to codes of another type":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: int8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a bias of other steps":
  QuantizeLinear(Conv(dx, dw, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[8], const bs: float32[] = 0.25, const bz: int32[] = 0)
test "a factor that vanishes":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 1e-12, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a factor of 256":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.00048828125, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "weights of uint8":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: uint8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: uint8[] = 0)
test "weights that are computed":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "two groups of codes":
  QuantizeLinear(Conv(dx, dw, group=2), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 8, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "three colours in codes":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 3, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 3, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "ten channels of codes":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[10, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "two images of codes":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[2, 16, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a window of nine over codes":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 16, 16, 16], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 16, 9, 9], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "more codes than the scratch memory holds":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 64, 256, 256], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 64, 1, 1], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "sums of more than 2^16 products":
  QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not conv_int8
  where dx = DequantizeLinear(x: uint8[1, 1344, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 1344, 7, 7] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a classifier of codes":
  npu runs QuantizeLinear(Gemm(dx, dw, db, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) in gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[16], const bs: float32[] = 0.125, const bz: int32[] = 0)
test "a classifier to another type":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: int8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a classifier whose bias has other steps":
  QuantizeLinear(Gemm(dx, dw, db, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0);
        db = DequantizeLinear(const b: int32[16], const bs: float32[] = 0.25, const bz: int32[] = 0)
test "a classifier with a factor that vanishes":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 1e-12, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a classifier with a factor of 256":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.00048828125, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "weights in columns":
  QuantizeLinear(Gemm(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a scaled product of codes":
  QuantizeLinear(Gemm(dx, dw, alpha=0.5, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "60 features in codes":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 60], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[16, 60], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "ten classes of codes":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[10, 64], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "features whose sum overflows":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 65544], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[8, 65544] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a classifier beyond the scratch memory":
  QuantizeLinear(Gemm(dx, dw, transB=1), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not gemm_int8
  where dx = DequantizeLinear(x: uint8[1, 4096], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[1024, 4096] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product of codes":
  npu runs QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) in matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product to another type":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: int8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product with a factor that vanishes":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 1e-12, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product with a factor of 256":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.00048828125, const yz: uint8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product of codes that are both computed":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(w: int8[64, 16], const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product of 60 columns of codes":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 60], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[60, 16] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product with ten columns of codes":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 64], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 10] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product whose sums overflow":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 65544], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[65544, 8] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a product beyond the scratch memory":
  QuantizeLinear(MatMul(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not matmul_int8
  where dx = DequantizeLinear(x: uint8[1, 4, 4096], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[4096, 1024] = 1, const ws: float32[] = 0.25, const wz: int8[] = 0)
test "a sum of codes and relu":
  npu runs QuantizeLinear(Relu(Add(da, db)), const ys: float32[] = 0.75, const yz: uint8[] = 3) in add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a sum to another type":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: int8[] = 3) is not add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a sum of two types":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: int8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: int8[] = 2)
test "a left operand that vanishes":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 1e-12, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a right operand that vanishes":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 1e-12, const zb: uint8[] = 2)
test "a left operand of 256 steps":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 192, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "a right operand of 256 steps":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[1, 8, 4, 4], const sb: float32[] = 192, const zb: uint8[] = 2)
test "a sum of codes that is broadcast":
  QuantizeLinear(Add(da, db), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not add_int8
  where da = DequantizeLinear(a: uint8[1, 8, 4, 4], const sa: float32[] = 0.5, const za: uint8[] = 1);
        db = DequantizeLinear(b: uint8[8, 1, 1], const sb: float32[] = 0.25, const zb: uint8[] = 2)
test "an average of codes":
  npu runs QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  in pool_int8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "an average of another type":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: int8[] = 3)
  is not pool_int8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "an average that vanishes":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  is not pool_int8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 1e-12, const xz: uint8[] = 1)
test "an average of 256 steps":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2, 2]), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  is not pool_int8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 192, const xz: uint8[] = 1)
test "an average of a signal of codes":
  QuantizeLinear(AveragePool(dx, kernel_shape=[2]), const ys: float32[] = 0.75, const yz: uint8[] = 3) is not pool_int8
  where dx = DequantizeLinear(x: uint8[1, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "an average over seven codes":
  QuantizeLinear(AveragePool(dx, kernel_shape=[7, 7]), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  is not pool_int8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "an average of every third code":
  QuantizeLinear(AveragePool(dx, kernel_shape=[3, 3], strides=[3, 3]), const ys: float32[] = 0.75,
                 const yz: uint8[] = 3)
  is not pool_int8
  where dx = DequantizeLinear(x: uint8[1, 8, 8, 8], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "softmax of codes":
  npu runs QuantizeLinear(Softmax(dx), const ys: float32[] = 0.00390625, const yz: uint8[] = 0) in softmax_int8
  where dx = DequantizeLinear(x: uint8[4, 16], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "softmax of codes with other steps":
  QuantizeLinear(Softmax(dx), const ys: float32[] = 0.005, const yz: uint8[] = 0) is not softmax_int8
  where dx = DequantizeLinear(x: uint8[4, 16], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "softmax of 12 codes":
  QuantizeLinear(Softmax(dx), const ys: float32[] = 0.00390625, const yz: uint8[] = 0) is not softmax_int8
  where dx = DequantizeLinear(x: uint8[4, 12], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "softmax of more codes than the scratch memory holds":
  QuantizeLinear(Softmax(dx), const ys: float32[] = 0.00390625, const yz: uint8[] = 0) is not softmax_int8
  where dx = DequantizeLinear(x: uint8[4096, 1024], const xs: float32[] = 0.5, const xz: uint8[] = 1)
test "pooling and views of codes": npu runs Reshape(MaxPool(x: uint8[1, 8, 4, 4], kernel_shape=[2, 2]), [8, 9])
test "large enough in codes": place QuantizeLinear(Conv(dx, dw), const ys: float32[] = 0.75, const yz: uint8[] = 3)
  => QuantizeLinear(Conv(dx, dw), ys, yz) on npu
  where dx = DequantizeLinear(x: uint8[1, 64, 28, 28], const xs: float32[] = 0.5, const xz: uint8[] = 1);
        dw = DequantizeLinear(const w: int8[64, 64, 3, 3], const ws: float32[] = 0.25, const wz: int8[] = 0)

test "layer norm": npu runs
  LayerNormalization(x: float32[1, 16, 64], const g: float32[64], const b: float32[64], axis=-1) in norm
test "layer norm over two axes":
  LayerNormalization(x: float32[1, 16, 64], const g: float32[16, 64], axis=1) is not norm
test "layer norm of 60": npu rejects LayerNormalization(x: float32[1, 16, 60], const g: float32[60])

test "layer norm of a large tensor": LayerNormalization(x: float32[1, 4096, 256], const g: float32[256]) is not norm
test "an output stage": Relu(x: float32[1, 8, 4, 4]) is output_stage
test "tanh is no output stage": Tanh(x: float32[1, 8, 4, 4]) is not output_stage

test "sums and products": npu runs
  Sub(Mul(Add(a: float32[1, 8, 4, 4], b: float32[1, 8, 4, 4]), const c: float32[8, 1, 1]), a)
test "a sum that is broadcast": npu rejects Add(a: float32[1, 8, 4, 4], b: float32[8, 1, 1])
test "a constant that is the larger": npu rejects Add(a: float32[8, 1, 1], const b: float32[1, 8, 4, 4])
test "sums in double precision": npu rejects Add(a: float64[1, 8], b: float64[1, 8])
test "functions": npu runs Clip(Gelu(HardSwish(Sigmoid(LeakyRelu(Relu(x: float32[1, 8, 4, 4]))))), -1, 1)
test "double precision": npu rejects Relu(x: float64[1, 8, 4, 4])
test "pooling": npu runs
  AveragePool(MaxPool(x: float32[1, 8, 16, 16], kernel_shape=[3, 3], strides=[2, 2]), kernel_shape=[2, 2])
test "pooling in double precision": npu rejects MaxPool(x: float64[1, 8, 16, 16], kernel_shape=[2, 2])
test "pooling in one dimension": npu rejects MaxPool(x: float32[1, 8, 16], kernel_shape=[2])
test "pooling every third pixel": npu rejects MaxPool(x: float32[1, 8, 16, 16], kernel_shape=[3, 3], strides=[3, 3])
test "a window of seven": npu rejects AveragePool(x: float32[1, 8, 7, 7], kernel_shape=[7, 7])
test "views": npu runs Reshape(Flatten(x: float32[1, 8, 4, 4]), [8, 16])
test "views of integers": npu rejects Reshape(x: int64[1, 8], [8])
test "a computed shape": npu rejects Relu(Reshape(x: float32[16], s: int64[2]))
test "five dimensions": npu rejects Relu(x: float32[1, 1, 8, 4, 4])
test "no softmax": npu rejects Softmax(x: float32[1, 16, 64])
test "no erf": npu rejects Erf(x: float32[1, 16, 64])
test "no transpose": npu rejects Transpose(x: float32[1, 16, 64], perm=[0, 2, 1])
test "no concatenation": npu rejects Concat(x: float32[1, 8, 4, 4], y: float32[1, 8, 4, 4], axis=1)

test "too small for the link":
  place Relu(Conv(x: float32[1, 8, 4, 4], const w: float32[8, 8, 1, 1])) => Relu(Conv(x, w)) on host
test "large enough":
  place Relu(Conv(x: float32[1, 64, 28, 28], const w: float32[64, 64, 3, 3])) => Relu(Conv(x, w)) on npu
