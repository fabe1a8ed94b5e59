"""Elements chosen by data: Gather and Scatter in their forms, OneHot, Compress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rewrite_engine.loops.build import Builder, Tensor, normalized
from rewrite_engine.loops.expr import Expr, cast, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    host_integer,
    integer,
    replaced,
    required,
    text,
    without,
)


def gather(b: Builder, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """NumPy's take: the axis is replaced by the axes of `indices`; negative ones count from the end.

    Positions outside are refused, where they are known at compile time, else when the kernel runs.
    """
    _check_positions(b, indices, [x.shape[axis]])

    def source(*i: Expr) -> tuple[Expr, ...]:
        chosen = normalized(indices[i[axis : axis + indices.rank]], x.shape[axis])
        return (*i[:axis], chosen, *i[axis + indices.rank :])

    return b.move(x, [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]], source)


def _check_positions(b: Builder, indices: Tensor, extents: Sequence[int]) -> None:
    """Positions lie in their axis, negative ones counted from its end; with several extents, one per last index."""
    if len(extents) == 1 and indices.shape[-1:] != (1,):
        b.require_positions(indices, -extents[0], extents[0] - 1)
        return
    for column, extent in enumerate(extents):
        b.require_positions(indices, -extent, extent - 1, column)


def _gather(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [gather(b, required(inputs, 0), required(inputs, 1), integer(attributes, "axis"))]


def _gather_elements(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, indices, axis = required(inputs, 0), required(inputs, 1), integer(attributes, "axis")
    _check_positions(b, indices, [x.shape[axis]])
    return [b.move(x, indices.shape, lambda *i: replaced(i, axis, normalized(indices[i], x.shape[axis])))]


def _gather_nd(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, indices, batch = required(inputs, 0), required(inputs, 1), integer(attributes, "batch_dims")
    outer, depth = indices.rank - 1, indices.shape[-1]
    _check_positions(b, indices, x.shape[batch : batch + depth])

    def source(*i: Expr) -> list[Expr]:
        chosen = [normalized(indices[(*i[:outer], k)], x.shape[batch + k]) for k in range(depth)]
        return [*i[:batch], *chosen, *i[outer:]]

    return [b.move(x, [*indices.shape[:-1], *x.shape[batch + depth :]], source)]


_COMBINES: Mapping[str, str] = {"none": "set", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _scatter_elements(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, indices, updates = (required(inputs, k) for k in range(3))
    axis, combine = integer(attributes, "axis"), _COMBINES[str(attributes.get("reduction", "none"))]
    _check_positions(b, indices, [x.shape[axis]])

    def target(*i: Expr) -> tuple[Expr, ...]:
        return replaced(i, axis, normalized(indices[i], x.shape[axis]))

    return [b.scatter(x, indices.shape, target, lambda *i: updates[i], combine)]


def _scatter_nd(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, indices, updates = (required(inputs, k) for k in range(3))
    outer, depth = indices.rank - 1, indices.shape[-1]
    _check_positions(b, indices, x.shape[:depth])

    def target(*i: Expr) -> list[Expr]:
        return [*(normalized(indices[(*i[:outer], k)], x.shape[k]) for k in range(depth)), *i[outer:]]

    return [b.scatter(x, updates.shape, target, lambda *i: updates[i], _COMBINES[text(attributes, "reduction")])]


def _one_hot(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    indices, depth, values = required(inputs, 0), host_integer(b, required(inputs, 1)), required(inputs, 2)
    axis = integer(attributes, "axis")

    def element(*i: Expr) -> Expr:
        given = indices[without(i, axis)]
        chosen = cast(given, "index") if indices.dtype.startswith("uint") else normalized(given, depth)
        return select(chosen.eq(i[axis]), values[1], values[0])

    return [b.compute([*indices.shape[:axis], depth, *indices.shape[axis:]], element)]


def _compress(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """The condition decides a shape, so it is read on the host."""
    x, condition = required(inputs, 0), b.value(required(inputs, 1))
    if "axis" not in attributes:
        x = b.reshape(x, [x.size])
    axis = integer(attributes, "axis") if "axis" in attributes else 0
    return [gather(b, x, b.constant(np.flatnonzero(condition).astype(np.int64)), axis)]


def _non_zero(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """How many there are decides the shape, so the operand is read on the host."""
    x = b.value(required(inputs, 0))
    found = np.nonzero(np.atleast_1d(x))
    return [b.constant(np.array(found[: x.ndim], np.int64).reshape(x.ndim, len(found[0])))]


GATHER: Mapping[str, OperatorCompute] = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}
"""Operator -> compute."""
