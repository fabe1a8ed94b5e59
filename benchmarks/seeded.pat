## The targets of four_targets.pat with settings that take operators away, for seeded.toml.

include "four_targets.pat"

## As npu, but its scratch memory holds tensors of so many bytes at most.
target npu_cut on npu0 extends npu {
  option most = 1048576
  requires all(t.bytes <= most for t in inputs + outputs)
}

## As dsp, but with rows of so many elements at most, and perhaps without the unit for exponentials.
target dsp_cut on dsp0 extends dsp {
  option row = 4096
  option rank = 5
  requires all(t.rank <= rank and (t.rank == 0 or t.shape[t.rank - 1] <= row) for t in inputs + outputs)
}

test "within its scratch memory": npu_cut runs Relu(x: float32[1, 8, 16, 16])
test "beyond it": npu_cut rejects Relu(x: float32[1, 64, 128, 128])
test "short rows": dsp_cut runs Softmax(x: float32[1, 12, 64, 64])
test "long rows": dsp_cut rejects Softmax(x: float32[1, 12, 64, 8192])
