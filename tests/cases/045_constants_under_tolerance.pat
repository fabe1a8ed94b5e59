## A literal means every constant within 1e-5 of it, relative; integers are exact.
include "std/gelu.pat"
pattern thrice(x) = Mul(x, 3)
test "six digits": Mul(Mul(x: float32[8], Add(Erf(Div(x, 1.41421)), 1)), 0.5) is gelu
test "rounded down": Mul(Mul(x: float32[8], Add(Erf(Div(x, 1.4142099)), 1)), 0.5) is gelu
test "one and a half": Mul(Mul(x: float32[8], Add(Erf(Div(x, 1.5)), 1)), 0.5) is not gelu
test "three digits": Mul(Mul(x: float32[8], Add(Erf(Div(x, 1.414)), 1)), 0.5) is not gelu
test "half precision": Mul(Mul(x: float16[8], Add(Erf(Div(x, const s: float16[] = 1.4142135)), 1)), 0.5) is gelu
test "integers": Mul(x: int64[4], 3) is thrice
test "integers, nearly": Mul(x: int64[4], 4) is not thrice
test "integers, large": Mul(x: int64[4], const c: int64[] = 300001) is not thrice
