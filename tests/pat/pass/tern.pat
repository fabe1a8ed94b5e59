## Tern T2: int8 matrix engine and a float16 vector unit; batch 1, static shapes.

include "std/activations.pat"                  # pattern activation(v)
let q8 = {int8, uint8}
let sram = 1MiB
let per_tensor(s) = s.numel == 1
let per_channel(s, w, axis) = s.shape == [w.shape[axis]] and axis == 0
let depthwise(c) = c.group == c.inputs[0].shape[1]
let reach(c) = (c.kernel_shape - 1) * c.dilations + 1        # lists work element by element

device npu0 { memory 64MiB }
link host <-> npu0: 4us + bytes / 8GBps  energy bytes * 20pJ

target host { flops 60GFLOPS  bandwidth 20GBps }            # the host's roofline; it always exists

pattern dq(v, scale, zero) = DequantizeLinear(v, const scale, const zero?)
pattern requant(v, scale, zero) = QuantizeLinear(v, const scale, const zero?)
## Three spellings, one meaning: `with` gives a value that each alternative works out for itself.
pattern scaled(v, factor) =
    (Mul(v, const c) if c.numel == 1 with factor = item(c))
  | (Div(v, const c) if c.numel == 1 with factor = 1 / item(c))
  | (v with factor = 1)
pattern layer_norm(x, gain, eps) = Mul(n, gain)
  where d  = Sub(x, ReduceMean(x, [-1], keepdims=1));
        sd = Sqrt(Add(ReduceMean(Mul(d, d) | Pow(d, 2), [-1], keepdims=1), const eps));
        n  = Div(d, sd) | Mul(d, Reciprocal(sd))

target tern on npu0 {
  launch 12us   flops 4TFLOPS   bandwidth 64GBps             # roofline where no cost is given
  option arch = 69                                           # --set tern.arch=73
  requires all(t.rank <= 4 and is_static(t) for t in inputs + outputs)

  ## Dense or depthwise; bias, requantisation and activation ride the accumulator.
  composite qconv(xv: q8[1, C, H, W], wv: q8[K, _, R, S], bv?: int32[K]) =
      requant(activation?(conv), ys, yz) as y
    where conv = Conv(dq(xv, xs, xz), dq(wv, ws, wz) as w, dq(bv, bs, bz)?)
    if y.dtype == xv.dtype and per_tensor(xs) and per_tensor(ys)
       and (per_tensor(ws) or per_channel(ws, wv, w.axis)) and all(wz == 0)
       and all(bz == 0) and close(bs, xs * ws)
       and (conv.group == 1 or depthwise(conv) and present(bv))
       and all(conv.strides in {1, 2}) and all(reach(conv) <= 64)
       and xv.bytes + wv.bytes + y.bytes <= sram
    with multiplier = xs * ws / ys, strides = conv.strides, pads = conv.pads
    cost 2us + (if depthwise(conv) then macs / 250GMACS else macs / 2TMACS)

  supports Relu, Sigmoid, Tanh, HardSwish
    if all(t.dtype == float16 for t in inputs)   cost 1us + bytes / 64GBps
  supports Add(a, b), Sub(a, b), Mul(a, b) if a.dtype == float16 and a.shape == b.shape
  supports Concat(*xs) as y if len(xs) <= 5 and y.axis == 1

  ## The sum leaves as a second output, so the residual branch needs no second Add.
  composite skip_norm(x: T[B, S, C], skip: T[B, S, C], gain: T[C], bias?: T[C]) = (norm, total)
    where total = Add(x, skip);
          norm = LayerNormalization(total, gain, bias, axis=-1, epsilon=e)
    if T == float16 with epsilon = e
  composite conv_post(x, w, b?, *others) =
      chain(conv, {Add, Mul, Relu, Clip}, most=4, others=others) as post
    where conv = Conv(x, const w, const b)
    if conv.dtype == float16 and all(step.shape == conv.shape for step in post.steps)
}
target tern_lite on npu0 extends tern { without skip_norm  option arch = 68 }

rule fuse_norm: layer_norm(x, gain, eps)
  => LayerNormalization(x, gain, axis=-1, epsilon=item(eps), stash_type=1)
  if eps.numel == 1 and gain.shape == [x.shape[-1]] and x.dtype == float32
rule bn_into_conv: BatchNormalization(conv, const g, const b, const m, const v, epsilon=e, training_mode=0)
  => Conv(x, w * reshape(k, [-1, 1, 1, 1]), (default(b0, 0) - m) * k + b, like conv)
  where conv = Conv(x, const w: T[_, _, _, _], const b0?)
  with k = g / sqrt(v + e)
rule merge_transposes: Transpose(Transpose(x, perm=p), perm=r) => Transpose(x, perm=[p[i] for i in r])
rule drop_transpose: Transpose(x, perm=p) => x if p == iota(x.rank)
rule matmul_left reassociates: MatMul(a, MatMul(b, c)) <=> MatMul(MatMul(a, b), c)
rule drop_zero_bias for OP in {Conv, ConvTranspose}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)

test "qdq conv and relu are one kernel": tern runs
  requant(Relu(Conv(dq(x: int8[1, 64, 28, 28], const s: float32[] = 0.02, const z: int8[] = 0),
                    DequantizeLinear(const w: int8[32, 64, 3, 3], const ws: float32[32] = 0.01, const wz: int8[32] = 0, axis=0))),
          s, z) in qconv
test "scales along the input channels are refused": tern rejects
  requant(Conv(dq(x: int8[1, 8, 8, 8], const s: float32[] = 1, const z: int8[] = 0),
               DequantizeLinear(const w: int8[8, 8, 1, 1], const ws: float32[8] = 1, const wz: int8[8] = 0, axis=1)), s, z)
test "a zero point on the weights is refused": tern rejects
  requant(Conv(dq(x: int8[1, 8, 8, 8], const s: float32[] = 1, const z: int8[] = 0),
               dq(const w: int8[8, 8, 1, 1], s, const wz: int8[] = 3)), s, z)
test "a perm and its inverse": Transpose(Transpose(x: float32[2, 3, 4], perm=[0, 2, 1]), perm=[0, 2, 1]) => x
test "no mean, no norm": Mul(Div(x: float32[2, 8], const s: float32[8] = 1), const g: float32[8] = 1) is not layer_norm
test "too small for the link": place Relu(x: float16[1, 8]) => Relu(x) on host
test "a factor may be divided by": Div(x: float32[2, 8], const c: float32[] = 4) is scaled
test "a factor is one number": Div(x: float32[2, 8], const c: float32[8] = 4) is not scaled
test "a chain of steps": tern runs
  Relu(Mul(Add(Conv(x: float16[1, 3, 8, 8], const w: float16[4, 3, 3, 3], const b: float16[4]), y: float16[1, 4, 6, 6]), y))
  in conv_post
test "the light one has no skip_norm": tern_lite rejects
  LayerNormalization(Add(x: float16[1, 4, 8], y: float16[1, 4, 8]), g: float16[8])
test "the other one has": tern runs
  LayerNormalization(Add(x: float16[1, 4, 8], y: float16[1, 4, 8]), g: float16[8])
test "a bias of zeros": Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3], const b: float32[4] = 0) => Conv(x, w)
