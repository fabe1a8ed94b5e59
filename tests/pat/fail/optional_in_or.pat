#! 7:44: `b` may be absent: inside `or` and `not` only `present(b)` may speak of it
#! 8:52: `b` may be absent: inside `or` and `not` only `present(b)` may speak of it
#! 10:49: `b` may be absent: inside `or` and `not` only `present(b)` may speak of it
let here(b) = present(b)
let wide(b) = b.rank > 1
target t on host {
  composite a(x, w, b?) = Conv(x, w, b) if b.rank == 1 or x.rank == 4
  composite c(x, w, b?) = Conv(x, w, b) if not all(b == 0)
  composite d(x, w, b?) = Conv(x, w, b) if b.rank == 1 and (present(b) or x.rank == 4 or here(b))
  composite e(x, w, b?) = Conv(x, w, b) if wide(b) or x.rank == 4
}
