## One rule for every combination: what is absent stays absent, what has a default has it.
rule transform: Identity(DFT(x, n, a, onesided=o?, inverse=i?)) => DFT(x, n, a, onesided=o, inverse=i)
rule drop: Identity(Dropout(x, r, t, seed=s?)) => Dropout(x, r, t, seed=s)
test "neither": Identity(DFT(x: float32[1, 8, 1], 8, 1)) => DFT(x, 8, 1)
test "one side": Identity(DFT(x: float32[1, 8, 1], 8, 1, onesided=1)) => DFT(x, 8, 1, onesided=1)
test "inverse": Identity(DFT(x: float32[1, 8, 2], 8, 1, inverse=1)) => DFT(x, 8, 1, inverse=1)
test "both": Identity(DFT(x: float32[1, 8, 2], 8, 1, onesided=0, inverse=1)) => DFT(x, 8, 1, inverse=1)
test "a seed": Identity(Dropout(x: float32[4], 0.5, const t: bool[] = 1, seed=3)) => Dropout(x, 0.5, t, seed=3)
test "no seed": Identity(Dropout(x: float32[4], 0.5, const t: bool[] = 1)) => Dropout(x, 0.5, t)
