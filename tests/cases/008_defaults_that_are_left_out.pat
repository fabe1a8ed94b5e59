## An attribute that a node leaves out has its default, or what its absence means for the sizes at hand.
pattern dense(x, w) = Conv(x, w, dilations=[1, 1])
pattern plain(x, w) = Conv(x, w, group=1, strides=[1, 1], pads=[0, 0, 0, 0], kernel_shape=[3, 3])
pattern reversed(x) = Transpose(x, perm=[2, 1, 0])
pattern last(x) = Softmax(x, axis=1)
test "left out": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 3, 3]) is dense
test "written": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 3, 3], dilations=[1, 1]) is dense
test "another value": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 3, 3], dilations=[2, 2]) is not dense
test "one of two": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 3, 3], dilations=[1, 2]) is not dense
test "all of them left out": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 3, 3]) is plain
test "another kernel": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 1, 1]) is not plain
test "padding by a word, and there is none": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 3, 3], auto_pad="VALID") is plain
test "padding by a word": Conv(x: float32[1, 2, 8, 8], w: float32[2, 2, 3, 3], auto_pad="SAME_UPPER") is not plain
test "reversed": Transpose(x: float32[2, 3, 4]) is reversed
test "not reversed": Transpose(x: float32[2, 3, 4], perm=[2, 0, 1]) is not reversed
test "two dimensions": Transpose(x: float32[2, 3]) is not reversed
test "the last axis": Softmax(x: float32[2, 3]) is last
test "the last axis, counted from the end": Softmax(x: float32[2, 3], axis=-1) is last
test "not the last axis": Softmax(x: float32[2, 3], axis=0) is not last
