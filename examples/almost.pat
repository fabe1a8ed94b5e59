## A table that almost fits: written from a data sheet, and wrong in the ways in which tables are wrong.
## docs/explain.md shows what `rewrite-engine explain` says about it.

include "std/batch_norm.pat"

device edge0 { memory 64MiB }
link host <-> edge0: 2us + bytes / 8GBps

target edge on edge0 {
  launch 4us
  flops 2TFLOPS
  bandwidth 32GBps

  ## "Convolution, bias and ReLU": here the bias is an operator of its own, in models it is an input of Conv.
  composite conv_bias_relu(x, w, b) = Relu?(Add(Conv(x, const w), const b))

  ## "Kernels up to 3 x 3 without padding": the pool of a residual network has some.
  supports MaxPool(x) as pool if all(pool.kernel_shape <= 3) and all(pool.pads == 0)
  supports AveragePool(x) as pool if all(pool.kernel_shape <= 3)

  ## "Normalises rows": of a matrix; in attention the last axis is number 3.
  supports Softmax(x, axis=1)

  ## "Rows up to 32 elements".
  supports LayerNormalization(x, const gain, const bias, axis=-1) if x.shape[-1] <= 32

  ## "Products with weights": attention multiplies two values that are computed.
  composite linear(x, w, b) = Add(MatMul(x, const w), const b)
  supports Gemm(x, const w, transB=0)
}

test "no padding": edge runs MaxPool(x: float32[1, 8, 16, 16], kernel_shape=[3, 3], strides=[2, 2])
test "rows": edge runs Softmax(x: float32[16, 100])
test "a bias of its own": edge runs
  Relu(Add(Conv(x: float32[1, 8, 16, 16], const w: float32[8, 8, 3, 3]), const b: float32[8, 1, 1])) in conv_bias_relu
test "a bias that is an input": edge rejects
  Conv(x: float32[1, 8, 16, 16], const w: float32[8, 8, 3, 3], const b: float32[8])
