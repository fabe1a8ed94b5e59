language 1
## The supported forms of the language, one after another; the file's own documentation.

include "library/shared.pat"

let q8 = {int8, uint8}
let sram = 1MiB
let per_tensor(s) = s.numel == 1
let small(a) = a.bytes <= sram and per_tensor(a)
let either(b) = present(b) and default(b, 0) == 0

device npu0 { memory 2 * sram }
link host <-> npu0: 4us + bytes / 8GBps energy bytes * 20pJ
target host { flops 60GFLOPS bandwidth 20GBps }

pattern dq(v, scale, zero) = DequantizeLinear(v, const scale, const zero?)
pattern scaled(v, factor) = (Mul(v, const c) if c.numel == 1 with factor = item(c)) | (v with factor = 1)
pattern root(v) = Mul(v, sqrt(2)) | Add(v, inf) | Add(v, -inf) | Mul(v, -0.5) | Mul(v, [1, 2])

target tern on npu0 {
  launch 12us flops 4TFLOPS bandwidth 64GBps
  option arch = 69
  requires all(t.rank <= 4 and is_static(t) for t in inputs + outputs) and arch >= 60
  supports Relu, Sigmoid, Conv if all(t.dtype in {float16, float32} for t in inputs) cost 1us + bytes / 64GBps
  supports Add(a, b), Mul(a, b) if a.shape == b.shape or a.dtype == float16
  supports Concat(*xs) as y if len(xs) <= 5 and y.axis == 1
  supports {Abs, Neg}(x) if small(x) cost if x.rank == 1 then 1us else 2us
  composite conv_act(x: float32[1, C, H, W], w, b?) = activation?(conv) as y
    where conv = Conv(x, const w, const b)
    if conv.group == 1 and all(conv.strides in {1, 2}) and b.rank == 1 and (present(b) or C == 4) and not y.rank == 3
    with group = conv.group, bias = either(b)
    cost 2us + macs / 2TMACS + conv.cost
  composite norm(x: T[B, S, C], skip: T[B, S, C], gain: T[C], bias?: T[C]) = (scale, total)
    where total = Add(x, skip); scale = LayerNormalization(total, gain, bias, axis=-1, epsilon=e)
    if T == float16 with epsilon = e
  composite gated(x: q8[...], s, z?) = Relu(scaled(dq(x, s, z), f)) with factor = f
  composite first(x) = top where top, _ = TopK(x, const _, axis=-1, largest=l?) with largest = default(l, 1)
}

rule bn_into_conv: BatchNormalization(conv, const g, const b, const m, const v, epsilon=e, training_mode=0)
  => Conv(x, w * reshape(k, [-1, 1, 1, 1]), (default(b0, 0) - m) * k + b, like conv)
  where conv = Conv(x, const w: T[_, _, _, _], const b0?)
  with k = g / sqrt(v + e)
rule merge: Transpose(Transpose(x, perm=p), perm=r) => Transpose(x, perm=[p[i] for i in r])
rule drop: Transpose(x, perm=p) => x if p == iota(x.rank) and p[0:1] == [0]
rule assoc reassociates: MatMul(a, MatMul(b, c)) <=> MatMul(MatMul(a, b), c)

test "a convolution": tern runs Relu(Conv(x: float32[1, 4, 8, 8], const w: float32[4, 4, 1, 1])) in conv_act
test "not this one": tern rejects Exp(x: float32[4])
test "root": Mul(x: float32[4], const c: float32[] = 1.4142135) is root
test "scaled": Mul(x: float32[4], const c: float32[] = 2) is scaled(y, f)
test "no root": Relu(x: float32[4]) is not root
test "reached": Transpose(Transpose(x: float32[2, 3], perm=[1, 0]), perm=[1, 0]) => x
test "placed": place Relu(x: float16[1, 8]) => Relu(x) on host
