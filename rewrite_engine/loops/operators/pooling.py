"""Pooling: reductions over windows (MaxPool, AveragePool, LpPool), over all of space, and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.dtypes import identity
from rewrite_engine.loops.expr import Expr, call, cast, const, land, select
from rewrite_engine.loops.index import flatten, unflatten
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    host_integers,
    inside,
    integer,
    integers,
    optional,
    required,
    working_dtype,
    zero,
)
from rewrite_engine.loops.operators.contractions import window_indices, window_sizes

_NEVER = 1 << 62
"""A position beyond every tensor: the identity of a search for the first one."""


def _windows(x: Tensor, attributes: Attributes) -> tuple[tuple[int, ...], list[int]]:
    """The kernel's sizes and the number of windows along each spatial axis."""
    kernel = integers(attributes, "kernel_shape")
    ceil = bool(integer(attributes, "ceil_mode"))
    return kernel, window_sizes(attributes, x.shape[2:], kernel, ceil)


def _pool(
    b: Builder,
    x: Tensor,
    attributes: Attributes,
    combine: str,
    fill: float,
    each: Callable[[Expr], Expr] | None = None,
    post: Callable[..., Expr] | None = None,
) -> Tensor:
    kernel, counts = _windows(x, attributes)

    def tap(*i: Expr) -> Expr:
        n, c, *rest = i
        positions = window_indices(attributes, rest[: len(counts)], rest[len(counts) :])
        value = b.load_padded(x, [n, c, *positions], fill)
        return each(value) if each is not None else value

    return b.compute([*x.shape[:2], *counts], tap, kernel, combine, x.dtype, post)


def _max_pool(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    kernel, counts = _windows(x, attributes)
    lowest = identity("max", working_dtype(x.dtype))
    best = _pool(b, x, attributes, "max", lowest)
    column_major = bool(integer(attributes, "storage_order"))
    space = x.shape[2:][::-1] if column_major else x.shape[2:]

    def position(*i: Expr) -> Expr:
        n, c, *rest = i
        window = rest[: len(counts)]
        taps = window_indices(attributes, window, rest[len(counts) :])
        at = [n, c, *taps]
        value, top = x[at], best[[n, c, *window]]
        ordered = taps[::-1] if column_major else taps
        place = flatten([n, c], x.shape[:2]) * math.prod(space) + flatten(ordered, space)
        return select(inside(x, at) & value.eq(top), cast(place, "int64"), const(_NEVER, "int64"))

    return [best, b.compute(best.shape, position, kernel, "min")]


def _average_pool(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    divisors = _tap_counts(b, x, attributes)

    def divide(total: Expr, *i: Expr) -> Expr:
        count = const(math.prod(c for c in divisors if isinstance(c, int)), total.dtype)
        for axis, counts in enumerate(divisors):
            if not isinstance(counts, int):
                count = count * cast(counts[i[2 + axis]], total.dtype)
        return total / count

    return [_pool(b, x, attributes, "sum", 0, None, divide)]


def _tap_counts(b: Builder, x: Tensor, attributes: Attributes) -> list[int | Tensor]:
    """Per spatial axis, how many taps of each window count: one number, or a tensor where windows differ."""
    kernel, counts = _windows(x, attributes)
    strides, dilations, pads = (integers(attributes, name) for name in ("strides", "dilations", "pads"))
    with_padding = bool(integer(attributes, "count_include_pad"))
    result: list[int | Tensor] = []
    for axis, (size, k) in enumerate(zip(x.shape[2:], kernel, strict=True)):
        begin, end = pads[axis], pads[axis + len(kernel)]
        first, beyond = (-begin, size + end) if with_padding else (0, size)
        taps = [
            sum(first <= w * strides[axis] + t * dilations[axis] - begin < beyond for t in range(k))
            for w in range(counts[axis])
        ]
        result.append(taps[0] if len(set(taps)) == 1 else b.constant(taps, "float32"))
    return result


def _power_of_norm(attributes: Attributes) -> tuple[Callable[[Expr], Expr], Callable[[Expr], Expr]]:
    """|v| ** p, and the p-th root."""
    p = integer(attributes, "p")
    if p == 1:
        return lambda v: call("abs", v), lambda total: total
    if p == 2:
        return lambda v: v * v, lambda total: call("sqrt", total)
    return lambda v: call("pow", call("abs", v), p), lambda total: call("pow", total, 1 / p)


def _lp_pool(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    power, root = _power_of_norm(attributes)
    return [_pool(b, required(inputs, 0), attributes, "sum", 0, power, lambda total, *i: root(total))]


def _global(combine: str) -> OperatorCompute:
    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        x = required(inputs, 0)
        return [b.reduce(x, range(2, x.rank), combine)]

    return compute


def _global_average_pool(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    count = math.prod(x.shape[2:])
    return [b.reduce(x, range(2, x.rank), "sum", None, True, lambda total: total / count)]


def _global_lp_pool(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    power, root = _power_of_norm(attributes)
    return [b.reduce(x, range(2, x.rank), "sum", power, True, root)]


def _max_unpool(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, places, wanted = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    kernel, strides, pads = (integers(attributes, name) for name in ("kernel_shape", "strides", "pads"))
    spatial = [
        (size - 1) * stride - pads[d] - pads[d + len(kernel)] + k
        for d, (size, stride, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    natural = [*x.shape[:2], *spatial]  # what the places count in
    shape = natural if wanted is None else host_integers(b, wanted)
    b.require_positions(places, 0, math.prod(natural) - 1)
    blank = b.compute(shape, lambda *i: const(0, x.dtype))
    return [b.scatter(blank, x.shape, lambda *i: unflatten(cast(places[i], "index"), natural), lambda *i: x[i])]


def _col2im(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """Each image element sums the block elements that cover it."""
    x = required(inputs, 0)
    image, block = host_integers(b, required(inputs, 1)), host_integers(b, required(inputs, 2))
    strides, dilations, pads = (integers(attributes, name) for name in ("strides", "dilations", "pads"))
    spatial = range(len(image))
    counts = window_sizes(attributes, image, block)
    channels = x.shape[1] // math.prod(block)
    blocks = b.reshape(x, [x.shape[0], channels, *block, *counts])

    def tap(*i: Expr) -> Expr:
        n, c, *rest = i
        place, taps = rest[: len(image)], rest[len(image) :]
        reach = [place[d] + pads[d] - taps[d] * dilations[d] for d in spatial]
        fits = land(*((reach[d] % strides[d]).eq(0) for d in spatial))
        value = b.load_padded(blocks, [n, c, *taps, *(reach[d] // strides[d] for d in spatial)], 0)
        return select(fits, value, zero(value))

    return [b.compute([x.shape[0], channels, *image], tap, block, "sum", x.dtype)]


POOLING: Mapping[str, OperatorCompute] = {
    "AveragePool": _average_pool,
    "Col2Im": _col2im,
    "GlobalAveragePool": _global_average_pool,
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global("max"),
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
"""Operator -> compute."""
