"""Sums of products as matrix products: which factor depends on which iterators gives batch, rows, columns and depth.

In: a compute and the values of its two factors over a box. Out: the sums. Nothing here knows an operator by name:
MatMul, transposed Gemm, grouped and strided Conv, attention over folded heads are only different index maps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.loops.arithmetic import Array
from rewrite_engine.loops.compute import Compute
from rewrite_engine.loops.dtypes import INDEX, is_float, is_integer
from rewrite_engine.loops.expr import Expr, loads, mul
from rewrite_engine.loops.index import terms

MOST_PROMOTED = 64
"""A row axis that splits the column axes of the output becomes a batch axis up to this size."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """sum over K of left[batch, M, K] * right[batch, K, N]; iterators in the compute's order."""

    left: Expr
    right: Expr
    batch: tuple[Expr, ...]
    rows: tuple[Expr, ...]  # parallel, of `left` only
    columns: tuple[Expr, ...]  # parallel, of `right` only
    depth: tuple[Expr, ...]  # reduction, of both


@functools.lru_cache(maxsize=1 << 12)
def contraction(compute: Compute) -> Contraction | None:
    """The contraction that a compute is, or None: a sum over a product of two factors that share what is summed."""
    if compute.combine != "sum" or not (is_float(compute.body.dtype) or is_integer(compute.body.dtype)):
        return None
    parallel = [it.expr for it in compute.parallel if it.extent != 1]
    depth = [it.expr for it in compute.reduction if it.extent != 1]
    factors = _factors(compute.body)
    if len(factors) < 2 or compute.body.dtype == INDEX:
        return None
    groups = _two_groups(factors)
    if groups is None or not all(axis in group.variables for axis in depth for group in groups):
        return None
    left, right = groups
    rows = tuple(axis for axis in parallel if axis in left.variables and axis not in right.variables)
    columns = tuple(axis for axis in parallel if axis in right.variables and axis not in left.variables)
    if not depth or not (rows or columns):
        return None
    batch = [axis for axis in parallel if axis in left.variables and axis in right.variables]
    order = [axis for axis in parallel if axis in rows or axis in columns]
    if order[0] in columns:
        left, right, rows, columns = right, left, columns, rows
    while _interleaved(order, rows) and order[0].extent <= MOST_PROMOTED:
        batch.append(order.pop(0))
        rows = tuple(axis for axis in rows if axis in order)
        columns = tuple(axis for axis in columns if axis in order)
        if order[0] in columns:
            left, right, rows, columns = right, left, columns, rows
    batch.sort(key=parallel.index)
    return Contraction(left, right, tuple(batch), rows, columns, tuple(depth))


@functools.lru_cache(maxsize=1 << 12)
def is_windowed(compute: Compute) -> bool:
    """Whether an index of a load moves with a parallel and a reduction iterator together: reads overlap."""
    parallel = {it.expr for it in compute.parallel}
    reduction = {it.expr for it in compute.reduction}
    for node in loads(compute.body):
        for index in node.args:
            atoms = terms(index)[1]
            if not parallel.isdisjoint(atoms) and not reduction.isdisjoint(atoms):
                return True
    return False


def multiply(spec: Contraction, left: Array, right: Array, axes: Sequence[Expr], shape: Sequence[int]) -> Array:
    """The sums as an array over the parallel iterators among `axes`, of extent 1 where neither factor depends.

    `left` and `right` are the factors' values over the box; `shape` its extents, one per axis.
    """
    extent = dict(zip(axes, shape, strict=True))
    position = {axis: number for number, axis in enumerate(axes)}
    batch, rows, columns, depth = spec.batch, spec.rows, spec.columns, spec.depth

    def matrix(x: Array, first: Sequence[Expr], second: Sequence[Expr]) -> Array:
        owned = {*first, *second, *(axis for axis in batch if x.shape[position[axis]] != 1)}
        full = np.broadcast_to(x, [extent[axis] if axis in owned else 1 for axis in axes])
        order = [position[axis] for axis in (*batch, *first, *second)]
        rest = [number for number in range(len(axes)) if number not in order]
        lead = [full.shape[position[axis]] for axis in batch]
        flat = full.transpose(*rest, *order).reshape(
            *lead, math.prod(extent[axis] for axis in first), math.prod(extent[axis] for axis in second)
        )
        return _for_blas(flat)

    a, b = matrix(left, rows, depth), matrix(right, depth, columns)
    with np.errstate(all="ignore"):
        product = _exact_product(a, b) if np.issubdtype(a.dtype, np.integer) else np.matmul(a, b)
    order = (*batch, *rows, *columns)
    lead = [extent[axis] for axis in batch]  # over the box both factors may be the same for all of the batch
    wide = np.broadcast_to(product, [*lead, *product.shape[-2:]]).reshape([extent[axis] for axis in order])
    parallel = [axis for axis in axes if axis in order]
    sorted_axes = wide.transpose([order.index(axis) for axis in parallel])
    kept = [axis for axis in axes if axis not in depth]
    return sorted_axes.reshape([extent[axis] if axis in order else 1 for axis in kept])


def _factors(body: Expr) -> list[Expr]:
    found, stack = [], [body]
    while stack:
        node = stack.pop()
        if node.op == "mul":
            stack.extend(reversed(node.args))
        else:
            found.append(node)
    return found


def _two_groups(factors: Sequence[Expr]) -> tuple[Expr, Expr] | None:
    """The product as two factors with different iterators, others multiplied into one that has theirs."""
    largest: list[Expr] = []
    for factor in factors:
        if not any(factor.variables <= other.variables for other in largest):
            largest = [other for other in largest if not other.variables <= factor.variables] + [factor]
    if len(largest) != 2:
        return None
    groups = []
    for number, head in enumerate(largest):
        others = [f for f in factors if f is not head and f.variables <= head.variables]
        if number == 1:
            others = [f for f in others if not f.variables <= largest[0].variables]
        elif factors.count(largest[1]) > 1:
            return None
        groups.append(functools.reduce(mul, others, head))
    return groups[0], groups[1]


def _interleaved(order: Sequence[Expr], rows: Sequence[Expr]) -> bool:
    """Whether the output's axes are not all rows first and then all columns."""
    flags = [axis in rows for axis in order]
    return flags != sorted(flags, reverse=True)


def _for_blas(x: Array) -> Array:
    """x, copied when its last two axes are not a plain or a transposed matrix."""
    rows, columns = x.shape[-2:]
    down, across = x.strides[-2:]
    item = x.itemsize
    plain = across == item and down % item == 0 and down >= columns * item
    turned = down == item and across % item == 0 and across >= rows * item
    return x if plain or turned else np.ascontiguousarray(x)


def _exact_product(a: Array, b: Array) -> Array:
    """The matrix product of integers, through float64 where no sum can leave its exact range."""
    largest = [max(abs(int(x.max(initial=0))), abs(int(x.min(initial=0)))) for x in (a, b)]
    if largest[0] * largest[1] * max(a.shape[-1], 1) < 1 << 53:
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(a.dtype))
    return np.asarray(np.matmul(a, b))
