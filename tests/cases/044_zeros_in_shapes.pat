## A zero means "as before" or "nothing", as the operator at hand says.
include "std/algebra.pat"
test "a zero that is a size":
  place Reshape(Reshape(x: float32[0, 6, 2], [3, 2, -1]), [0, 0, 3], allowzero=1)
  => Reshape(Reshape(x, [3, 2, -1]), [0, 0, 3], allowzero=1) on host
test "a zero that copies": Reshape(Reshape(x: float32[4, 6, 2], [4, 12]), [0, 3, 4]) => Reshape(x, [4, 3, 4])
test "a zero that copies from the middle": Reshape(Reshape(x: float32[4, 6], [3, 8]), [0, 8]) => Reshape(x, [3, 8])
test "a size that is worked out": Reshape(Reshape(x: float32[4, 6], [-1, 8]), [2, -1]) => Reshape(x, [2, 12])
