## The host of the bundled boards: four small in-order cores running portable loops, one thread, no assembly.
##
## 3 GFLOPS is about 2 flops per cycle of a 1.5 GHz core; 4 GB/s is what one such core draws from a shared LPDDR bus.
## Views only give the same bytes another shape: they cost the bookkeeping of one operator.

let view_cost = 50ns

target host {
  flops 3GFLOPS
  bandwidth 4GBps
  supports Reshape, Flatten, Squeeze, Unsqueeze, Identity cost view_cost
}

test "a view costs the host no traffic, so it stays where it is":
  place Reshape(x: float32[64, 64], [4096]) => Reshape(x, [4096]) on host
