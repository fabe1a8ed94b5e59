"""Reductions over axes: Reduce*, ArgMax, ArgMin, Hardmax, CumSum, TopK."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.build_scan import scan
from rewrite_engine.loops.dtypes import is_float, is_integer
from rewrite_engine.loops.expr import Expr, call, cast, const, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    axes_from_front,
    host_integer,
    host_integers,
    integer,
    optional,
    replaced,
    required,
    working_dtype,
    zero,
)

Unary = Callable[[Expr], Expr]

_NEVER = 1 << 62
"""A position beyond every tensor: the identity of a search for the first one."""


def reduced_axes(b: Builder, inputs: Operands, attributes: Attributes) -> list[int]:
    """The axes of a Reduce operator: its operand 1, all of them when it is absent or empty, or none when told so."""
    operand, rank = optional(inputs, 1), required(inputs, 0).rank
    axes = host_integers(b, operand) if operand is not None else ()
    if not axes and not integer(attributes, "noop_with_empty_axes"):
        return list(range(rank))
    return sorted(axes_from_front(axes, rank))


def _reduction(combine: str, each: Unary | None = None, post: Unary | None = None) -> OperatorCompute:
    """post(combine of each(x)); integers with a `post` go through float64."""

    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        x, axes = required(inputs, 0), reduced_axes(b, inputs, attributes)
        keepdims = bool(integer(attributes, "keepdims"))
        if post is None or not is_integer(x.dtype):
            return [b.reduce(x, axes, combine, each, keepdims, post)]

        def wide(v: Expr) -> Expr:
            return cast(each(v) if each is not None else v, "float64")

        return [b.reduce(x, axes, combine, wide, keepdims, post)]

    return compute


def _mean(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, axes = required(inputs, 0), reduced_axes(b, inputs, attributes)
    count = math.prod(x.shape[axis] for axis in axes)
    divide = None if count == 1 else lambda total: total / count
    return [b.reduce(x, axes, "sum", None, bool(integer(attributes, "keepdims")), divide)]


def _log_sum_exp(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """max + log(sum(exp(x - max))), where an infinite maximum counts as 0 inside."""
    x, axes = required(inputs, 0), reduced_axes(b, inputs, attributes)
    dtype = working_dtype(x.dtype) if is_float(x.dtype) else "float64"

    def finite(v: Expr) -> Expr:
        return select(call("isinf", v), zero(v), v)

    top = b.reduce(x, axes, "max", dtype=dtype)
    powers = b.map(lambda v, m: call("exp", cast(v, dtype) - finite(m)), x, top, dtype=dtype)
    total = b.reduce(powers, axes, "sum")
    result = b.map(lambda s, m: call("log", s) + finite(m), total, top, dtype=x.dtype)
    if integer(attributes, "keepdims"):
        return [result]
    return [b.reshape(result, [n for axis, n in enumerate(x.shape) if axis not in axes])]


# ---- positions ------------------------------------------------------------------------------------------------------


def _arg(combine: str) -> OperatorCompute:
    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        return [
            extreme_position(
                b,
                required(inputs, 0),
                integer(attributes, "axis"),
                combine,
                bool(integer(attributes, "keepdims")),
                last=bool(integer(attributes, "select_last_index")),
            )
        ]

    return compute


def extreme_position(b: Builder, x: Tensor, axis: int, combine: str, keepdims: bool, last: bool = False) -> Tensor:
    """int64 positions along `axis` of the "max" or "min" elements: the first (or last) one; NaN counts as extreme."""
    best = b.reduce(x, [axis], combine)
    shape = list(best.shape) if keepdims else [n for a, n in enumerate(x.shape) if a != axis]
    missing = -1 if last else _NEVER

    def position(*i: Expr) -> Expr:
        outer, r = i[:-1], i[-1]
        before, after = outer[:axis], outer[axis + 1 :] if keepdims else outer[axis:]
        value = x[(*before, r, *after)]
        hit = value.eq(best[(*before, 0, *after)])
        if is_float(x.dtype):
            hit = hit | call("isnan", value)
        return select(hit, cast(r, "int64"), const(missing, "int64"))

    return b.compute(shape, position, [x.shape[axis]], "max" if last else "min")


def _hardmax(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, axis = required(inputs, 0), integer(attributes, "axis")
    where = extreme_position(b, x, axis, "max", keepdims=True)

    def one_hot(*i: Expr) -> Expr:
        here = where[replaced(i, axis, const(0, "index"))].eq(cast(i[axis], "int64"))
        return select(here, const(1, x.dtype), const(0, x.dtype))

    return [b.compute(x.shape, one_hot)]


def _top_k(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """A sort: not a loop nest. Always sorted; of equal elements the first comes first."""
    x, axis, k = required(inputs, 0), integer(attributes, "axis"), host_integer(b, required(inputs, 1))
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    largest = bool(integer(attributes, "largest"))
    return b.host("sort", [x], [(shape, x.dtype), (shape, "int64")], axis=axis, count=k, largest=largest)


MOST_TERMS = 1 << 14
"""Running sums of so many terms in all are sums of their own; those of more are taken step by step."""


def _cumulative_sum(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    axis = host_integer(b, required(inputs, 1)) % x.rank
    exclusive, reverse = bool(integer(attributes, "exclusive")), bool(integer(attributes, "reverse"))
    if x.size * x.shape[axis] > MOST_TERMS:
        return [_running_sum(b, x, axis, exclusive, reverse)]

    def term(*i: Expr) -> Expr:
        *outer, r = i
        here = outer[axis]
        first, second = (here, r) if reverse else (r, here)
        value = x.lift(replaced(outer, axis, r))
        return select(first < second if exclusive else first <= second, value, zero(value))

    return [b.compute(x.shape, term, [x.shape[axis]], "sum", x.dtype)]


def _running_sum(b: Builder, x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """A scan along the axis, which is brought to the front."""
    order = [axis, *(other for other in range(x.rank) if other != axis)]
    rows = b.transpose(x, order) if axis else x
    start = b.compute(rows.shape[1:], lambda *i: zero(rows.lift([0, *i])))

    def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        total = b.compute(start.shape, lambda *i: now[0][i] + parts[0].lift(i))
        return [total], [now[0] if exclusive else total]

    _, (sums,) = scan(b, rows.shape[0], step, [start], [rows], [reverse], [reverse])
    rounded = b.map(lambda v: v, sums, dtype=x.dtype)
    return b.transpose(rounded, [order.index(a) for a in range(x.rank)]) if axis else rounded


def _square(v: Expr) -> Expr:
    return v * v


def _abs(v: Expr) -> Expr:
    return call("abs", v)


REDUCTIONS: Mapping[str, OperatorCompute] = {
    "ArgMax": _arg("max"),
    "ArgMin": _arg("min"),
    "CumSum": _cumulative_sum,
    "Hardmax": _hardmax,
    "ReduceL1": _reduction("sum", _abs),
    "ReduceL2": _reduction("sum", _square, lambda total: call("sqrt", total)),
    "ReduceLogSum": _reduction("sum", None, lambda total: call("log", total)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _reduction("max"),
    "ReduceMean": _mean,
    "ReduceMin": _reduction("min"),
    "ReduceProd": _reduction("prod"),
    "ReduceSum": _reduction("sum"),
    "ReduceSumSquare": _reduction("sum", _square),
    "TopK": _top_k,
}
"""Operator -> compute."""
