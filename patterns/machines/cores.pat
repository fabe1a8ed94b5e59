## The host of the bundled boards: four small in-order cores running portable loops, one thread, no assembly.
##
## 3 GFLOPS is about 2 flops per cycle of a 1.5 GHz core; 4 GB/s is what one such core draws from a shared LPDDR bus.
## Views only give the same bytes another shape: they cost the bookkeeping of one operator.

let view_cost = 50ns

target host {
  flops 3GFLOPS
  bandwidth 4GBps
  supports Reshape, Flatten, Squeeze, Unsqueeze, Identity cost view_cost
  ## A lookup reads the rows that it copies, not the whole table.
  supports Gather(_, indices) as y
    cost (2 * y.bytes + indices.bytes) / 4GBps
}

test "the host runs what no other target knows": host runs Gather(x: float32[500, 64], i: int64[1, 16])
test "a lookup of as many rows as the data says": host runs
  Gather(x: float32[500, 64], Reshape(i: int64[16], s: int64[2]))
test "a view costs the host no traffic, so it stays where it is":
  place Reshape(x: float32[64, 64], [4096]) => Reshape(x, [4096]) on host
