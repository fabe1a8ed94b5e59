## A target whose guard calls a predicate of Python by name.

device tiles0 { memory 4MiB }
link host <-> tiles0: 1us + bytes / 8GBps

target tiles on tiles0 {
  flops 2TFLOPS
  bandwidth 100GBps
  launch 1us

  supports Relu(x) if x.rank >= 2 and fits_tiles(x.shape)
}

test "small enough": tiles runs Relu(x: float32[1, 8, 64, 64])
test "too large": tiles rejects Relu(x: float32[1, 8, 512, 512])
