## A small vision board: slow cores, a fast library for them, and a matrix engine in memory of its own.
## `rewrite-engine place MODEL -p board.pat` is the same as `-p npu.pat -p fastlib.pat`.

include "targets/fastlib.pat"
include "targets/npu.pat"

## What the engine is good at, and where its narrow path for weights or the way there costs more than it gains.
test "many pixels, few weights: the engine":
  place Relu(Conv(x: float32[1, 64, 28, 28], const w: float32[64, 64, 3, 3])) => Relu(Conv(x, w)) on npu
test "few pixels, many weights: the library":
  place Relu(Conv(x: float32[1, 256, 1, 1], const w: float32[256, 256, 3, 3], pads=[1, 1, 1, 1]))
  => Relu(Conv(x, w, pads=[1, 1, 1, 1])) on fastlib
test "a small layer: the library":
  place Relu(Conv(x: float32[1, 8, 8, 8], const w: float32[8, 8, 1, 1])) => Relu(Conv(x, w)) on fastlib
test "one row: the host": place Relu(x: float32[1, 8]) => Relu(x) on host
test "three colours: the library":
  place Relu(Conv(x: float32[1, 3, 224, 224], const w: float32[16, 3, 3, 3])) => Relu(Conv(x, w)) on fastlib
