## `none` is absent; `_` is anything, present or absent; a name is present.
pattern upper(x, hi) = Clip(x, none, hi)
pattern any_lower(x, hi) = Clip(x, _, hi)
pattern both(x, lo, hi) = Clip(x, lo, hi)
pattern maybe(x, lo?, hi) = Clip(x, lo, hi)
test "absent, asked for": Clip(x: float32[4], none, 6) is upper
test "absent, any": Clip(x: float32[4], none, 6) is any_lower
test "absent, named": Clip(x: float32[4], none, 6) is not both
test "absent, may be": Clip(x: float32[4], none, 6) is maybe
test "present, absent asked for": Clip(x: float32[4], 0, 6) is not upper
test "present, any": Clip(x: float32[4], 0, 6) is any_lower
test "present, named": Clip(x: float32[4], 0, 6) is both
test "present, may be": Clip(x: float32[4], 0, 6) is maybe
test "nothing above": Clip(x: float32[4], 0) is not upper
test "nothing above, any below": Clip(x: float32[4], 0) is not any_lower
