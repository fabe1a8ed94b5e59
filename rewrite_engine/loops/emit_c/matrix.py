"""Contractions as matrix products by register tiles, for any index maps: what is batch, row, column and depth.

In: a compute that is a sum of products of two loads. Out: a plan with the addresses of both operands and of the output
over flat iterators b, m, y, x and the depth, or None where the form does not pay. Columns are y * pitch + x: where
the right operand is contiguous along x, its rows `pitch` apart, it is read in place and the columns between are wasted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.loops.compute import Buffer, Compute
from rewrite_engine.loops.contraction import Contraction, contraction
from rewrite_engine.loops.dtypes import INDEX
from rewrite_engine.loops.emit_c.binding import flat
from rewrite_engine.loops.emit_c.scalar import ELEMENT
from rewrite_engine.loops.emit_c.tile import choose
from rewrite_engine.loops.expr import Expr, const, postorder, substitute, var
from rewrite_engine.loops.index import flatten, linear, terms, unflatten

LEAST_COLUMNS, LEAST_DEPTH = 4, 4
FEW_COLUMNS, MANY_ROWS = 7, 16
"""With so few columns and so many rows the lanes go over the rows, if the rows' operand can be packed once."""

MOST_WASTE = 1.45
"""Columns computed per column needed, beyond which the right operand is packed instead of read in place."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One factor: its tensor, where it begins for b and m (or b, y and x), and its offsets by depth."""

    tensor: str
    start: Expr
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """out[where] = post(sum over depth of left * right); b, m, y, x are flat iterators (constants where trivial)."""

    out: str
    batch: int
    rows: int
    lines: int  # values of y
    width: int  # values of x
    depth: int
    b: Expr
    m: Expr
    y: Expr
    x: Expr
    left: Operand
    right: Operand
    where: Expr
    post: Expr | None
    pitch: int  # of y in columns
    in_place: bool  # whether the right operand is read at its own address: start(y, x) = start(0, 0) + pitch*y + x
    row_step: int  # distance of the left operand's rows, when its depth is contiguous; else 0
    height: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return (self.lines - 1) * self.pitch + self.width


def product(
    compute: Compute, tensors: Mapping[str, Buffer], lanes: int, constants: Collection[str] = ()
) -> Product | None:
    """The plan of a contraction, or None. Operands among `constants` are packed once, so their order is free."""
    if compute.body.dtype != "float32" or compute.is_scatter:
        return None
    spec = contraction(compute) or _one_row(compute)
    if spec is None:
        return None
    where = flatten(compute.index, tensors[compute.out].shape)
    strides = terms(where)[1]
    if any(axis.op != "var" for axis in strides) or tensors[compute.out].size == 0:
        return None
    left, right, rows, columns = spec.left, spec.right, spec.rows, spec.columns
    lane = next((axis for axis, stride in strides.items() if stride == 1), None)
    if lane in rows:
        left, right, rows, columns = right, left, columns, rows
    if lane not in columns or left.op != "load" or right.op != "load":
        return None
    few = math.prod(axis.extent for axis in columns) <= FEW_COLUMNS
    if few and math.prod(axis.extent for axis in rows) >= MANY_ROWS and left.name in constants:
        if compute.post is not None and compute.post.dtype != "float32":
            return None
        left, right, rows, columns = right, left, columns, rows

    def outermost_first(axes: Sequence[Expr]) -> list[Expr]:
        return sorted(axes, key=lambda axis: -strides.get(axis, 0))

    batch_axes, row_axes, column_axes = map(outermost_first, (spec.batch, rows, columns))
    n_rows, n_columns, n_depth = (math.prod(a.extent for a in axes) for axes in (row_axes, column_axes, spec.depth))
    if n_columns < LEAST_COLUMNS or n_depth < LEAST_DEPTH:
        return None
    addresses = [flat(operand, tensors).args[0] for operand in (left, right)]
    post = None if compute.post is None else flat(compute.post, tensors)
    digits, b = _digits("b", batch_axes)
    row_digits, m = _digits("m", row_axes)
    digits |= row_digits
    one, x_all = _digits("x", column_axes)
    two, y = _digits("y", column_axes[:-1])
    two[column_axes[-1]] = x_last = var("x", column_axes[-1].extent)
    affine = _is_linear(x_all, [*addresses, where, *_addresses(post)], {**digits, **one})
    digits |= one if affine else two
    x, y = (x_all, const(0, INDEX)) if affine else (x_last, y)
    lines, width = (1, n_columns) if affine else (n_columns // column_axes[-1].extent, column_axes[-1].extent)
    depth_axes = _depth_order(spec.depth, addresses)
    operands = []
    for name, address in zip((left.name, right.name), addresses, strict=True):
        operand = _operand(name, substitute(address, digits), depth_axes)
        if operand is None:
            return None
        operands.append(operand)
    in_place, pitch = _in_place(operands[1], x, y, width, lines, lanes if n_rows == 1 else 0)
    row_step = _row_step(operands[0], m, n_rows)
    if n_rows == 1 and not (in_place and row_step):
        return None
    if right.name in constants:
        in_place, pitch = False, width
    if left.name in constants and n_rows > 1:
        row_step = 0
    total = (lines - 1) * pitch + width
    height, vectors = choose(n_rows, total, n_depth, lanes)
    return Product(
        compute.out, math.prod(a.extent for a in batch_axes), n_rows, lines, width, n_depth, b, m, y, x,
        operands[0], operands[1], substitute(where, digits), None if post is None else substitute(post, digits),
        pitch, in_place, row_step, height, vectors, lanes,
    )  # fmt: skip


def _one_row(compute: Compute) -> Contraction | None:
    """A sum of products in which one factor has all iterators (depthwise windows): one row for each of the other's."""
    if compute.combine != "sum" or compute.body.op != "mul" or any(arg.op != "load" for arg in compute.body.args):
        return None
    left, right = sorted(compute.body.args, key=lambda factor: len(factor.variables))
    depth = tuple(it.expr for it in compute.reduction if it.extent != 1)
    parallel = [it.expr for it in compute.parallel if it.extent != 1]
    columns = [axis for axis in parallel if axis not in left.variables][-2:]
    if not depth or not columns or not left.variables.issuperset(depth) or not left.variables <= right.variables:
        return None
    batch = tuple(axis for axis in parallel if axis not in columns)
    return Contraction(left, right, batch, (), tuple(columns), depth)


def _digits(name: str, axes: Sequence[Expr]) -> tuple[dict[Expr, Expr], Expr]:
    """One iterator over all values of several, and each of those as a digit of it."""
    flat_axis = var(name, math.prod(axis.extent for axis in axes))
    return dict(zip(axes, unflatten(flat_axis, [axis.extent for axis in axes]), strict=True)), flat_axis


def _addresses(post: Expr | None) -> list[Expr]:
    return [] if post is None else [node.args[0] for node in postorder(post) if node.op == ELEMENT]


def _is_linear(axis: Expr, indices: Sequence[Expr], digits: Mapping[Expr, Expr]) -> bool:
    """Whether every index is linear in the axis once the digits are put in."""
    for index in indices:
        if any(atom is not axis and axis in atom.variables for atom in terms(substitute(index, digits))[1]):
            return False
    return True


def _depth_order(axes: Sequence[Expr], addresses: Sequence[Expr]) -> list[Expr]:
    """The order of the depth: that of the left operand's memory, so that it is contiguous where it can be."""
    coefficients = terms(addresses[0])[1]
    return sorted(axes, key=lambda axis: -abs(coefficients.get(axis, 0)))


def _operand(tensor: str, address: Expr, depth: Sequence[Expr]) -> Operand | None:
    """The address as a start and a table of offsets, when nothing mixes the depth with the rest."""
    constant, coefficients = terms(address)
    inner = {atom: k for atom, k in coefficients.items() if not atom.variables.isdisjoint(depth)}
    if any(not atom.variables <= set(depth) for atom in inner) or any(n.op == ELEMENT for n in postorder(address)):
        return None
    outer = linear(constant, {atom: k for atom, k in coefficients.items() if atom not in inner})
    grid = np.meshgrid(*(np.arange(axis.extent) for axis in depth), indexing="ij")
    values = dict(zip(depth, grid, strict=True))
    total = np.zeros([axis.extent for axis in depth], np.int64)
    for atom, k in inner.items():
        total = total + k * _evaluate(atom, values)
    if total.size and (total.min() < -(1 << 31) or total.max() >= 1 << 31):
        return None
    return Operand(tensor, outer, tuple(total.reshape(-1).tolist()))


def _evaluate(index: Expr, values: Mapping[Expr, np.ndarray]) -> np.ndarray:
    done: dict[Expr, np.ndarray] = dict(values)
    for node in postorder(index):
        if node in done:
            continue
        args = [done[arg] for arg in node.args]
        if node.op == "const":
            done[node] = np.asarray(node.value)
        elif node.op == "lin":
            constant, coefficients = terms(node)
            done[node] = np.asarray(constant + sum(k * done[atom] for atom, k in coefficients.items()))
        elif node.op == "fdiv":
            assert isinstance(node.value, int)
            done[node] = args[0] // node.value
        else:
            done[node] = {"min": np.minimum, "max": np.maximum, "imul": np.multiply}[node.op](*args)
    return done[index]


def _in_place(right: Operand, x: Expr, y: Expr, width: int, lines: int, lanes: int) -> tuple[bool, int]:
    """Whether the right operand is contiguous along x with a pitch along y that wastes little; and that pitch.

    Where `lanes` is not 0, it counts vectors, against those of the lines one by one; else columns.
    """
    _, coefficients = terms(right.start)
    mixed = [atom for atom in coefficients if atom not in (x, y) and not atom.variables.isdisjoint((x, y))]
    pitch = coefficients.get(y, 0) if lines > 1 else width
    if mixed or coefficients.get(x, 0) != 1 or pitch < width:
        return False, width
    if lanes:
        few = -(-((lines - 1) * pitch + width) // lanes) <= 1.2 * lines * -(-width // lanes)
    else:
        few = pitch <= MOST_WASTE * width + 16 / lines
    return (True, pitch) if few else (False, width)


def _row_step(left: Operand, m: Expr, rows: int) -> int:
    """The distance between the left operand's rows, when its depth is contiguous and its rows evenly apart."""
    _, coefficients = terms(left.start)
    if any(atom is not m and m in atom.variables for atom in coefficients):
        return 0
    first = left.offsets[0]
    contiguous = left.offsets == tuple(range(first, first + len(left.offsets)))
    step = coefficients.get(m, 0) if rows > 1 else len(left.offsets)
    return step if contiguous and step > 0 else 0
