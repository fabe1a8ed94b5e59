## Four targets with three memories, for scale.py: the bundled host, library and matrix engine, and a signal processor
## with a memory of its own that is good at whatever works row by row or element by element.

include "targets/fastlib.pat"
include "targets/npu.pat"

device dsp0 { memory 64MiB }
link host <-> dsp0: 400ns + bytes / 12GBps
link npu0 <-> dsp0: 200ns + bytes / 24GBps

## 64 lanes at 1 GHz, a few of them for exponentials; a tightly coupled memory delivers 64 GB/s.
target dsp on dsp0 {
  launch 300ns
  flops 64GFLOPS
  bandwidth 64GBps
  requires all(is_static(t) and t.rank <= 5 for t in inputs + outputs)
  supports Add, Sub, Mul, Div, Relu, Sigmoid, Tanh, Erf, Sqrt, Pow, Clip, HardSigmoid, HardSwish, Gelu, Neg, Where
    cost 100ns + max(flops / 64GFLOPS, bytes / 64GBps)
  supports Softmax, LayerNormalization, RMSNormalization, ReduceMean, MaxPool, AveragePool, GlobalAveragePool, LRN
    cost 100ns + max(flops / 16GFLOPS, 2 * bytes / 64GBps)
  supports Transpose, Concat, Slice, Split, Gather, Pad cost 100ns + bytes / 32GBps
  supports MatMul cost 100ns + max(flops / 40GFLOPS, bytes / 64GBps)
}

test "short rows stay on the processor": dsp runs Softmax(x: float32[1, 12, 64, 64])
