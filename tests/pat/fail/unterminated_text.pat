#! 2:6: the text is not closed
test "open: Relu(x: float32[1]) is p
