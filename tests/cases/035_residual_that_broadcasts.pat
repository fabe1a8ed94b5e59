## A kernel that adds element by element takes no addend of another shape.
target lib on host {
  composite conv_add(x, w, r) = Add(conv, r) where conv = Conv(x, const w) if r.shape == conv.shape
}
test "the same shape": lib runs Add(Conv(x: float32[2, 4, 16, 8], const w: float32[16, 4, 1, 1]), r: float32[2, 16, 16, 8])
  in conv_add
test "broadcast": lib rejects Add(Conv(x: float32[2, 4, 16, 8], const w: float32[16, 4, 1, 1]), r: float32[2, 1, 1, 8])
test "broadcast, first": lib rejects Add(r: float32[2, 1, 1, 8], Conv(x: float32[2, 4, 16, 8], const w: float32[16, 4, 1, 1]))
test "fewer dimensions": lib rejects Add(Conv(x: float32[2, 4, 16, 8], const w: float32[16, 4, 1, 1]), r: float32[16, 16, 8])
test "a scalar": lib rejects Add(Conv(x: float32[2, 4, 16, 8], const w: float32[16, 4, 1, 1]), r: float32[])
test "the sum is larger": lib rejects Add(Conv(x: float32[1, 4, 16, 8], const w: float32[16, 4, 1, 1]), r: float32[2, 16, 16, 8])
