"""Copies of what reductions read: with a border where reads are guarded, strides taken apart, 16-bit floats as float32.

In: a program. Out: the same program in which reductions read such copies, so that their reads are contiguous and need
no guard. A copy holds the part of a tensor that is read; an axis that is read with a step of 2 becomes two axes, the
remainder (in front) and the quotient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite_engine.loops.compute import Buffer, Compute, Program, Scan, Statement
from rewrite_engine.loops.contraction import contraction, is_windowed
from rewrite_engine.loops.dtypes import INDEX, identity
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function, task_loop
from rewrite_engine.loops.emit_c.types import literal, stored
from rewrite_engine.loops.emit_c.vector import LANE_FLOATS
from rewrite_engine.loops.expr import Expr, const, load, postorder, substitute
from rewrite_engine.loops.grid import affine, padded_load
from rewrite_engine.loops.index import bounds, flatten, row_major, terms
from rewrite_engine.loops.schedule import in_parts

MOST_GROWTH, SMALL = 4, 1 << 16
"""A copy may have so many times the elements of what it copies, or so many elements."""

STEPS = (1, 2, 3, 4)
"""Distances of neighbouring lanes that a copy is made for."""


@dataclass(frozen=True, slots=True)
class Staged:
    """target[r..., q...] = source[low + q*step + r for each axis], or `fill` outside of the source.

    There is an r for each axis with a step greater than 1.
    """

    source: str
    target: str
    fill: float
    lows: tuple[int, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the target."""
        quotients = (-(-extent // step) for extent, step in zip(self.extents, self.steps, strict=True))
        return (*(step for step in self.steps if step > 1), *quotients)


def staged(program: Program) -> tuple[list[Statement | Staged], dict[str, Buffer]]:
    """The statements, some in parts, with copies before the reductions that read them, and all buffers."""
    tensors = dict(program.tensors)
    return _staged(in_parts(program.statements, program.wanted), tensors), tensors


def _staged(statements: Sequence[Statement], tensors: dict[str, Buffer]) -> list[Statement | Staged]:
    """The statements, and those inside scans, with copies before them; the copies are added to `tensors`."""
    found: list[Statement | Staged] = []
    for statement in statements:
        if isinstance(statement, Compute) and _is_window(statement):
            copies, statement = _stage(trimmed(statement), tensors)
            found += copies
        elif isinstance(statement, Scan):
            inner = tuple(_staged(statement.statements, tensors))
            statement = replace(statement, statements=inner)  # type: ignore[arg-type]
        found.append(statement)
    return found


def trimmed(compute: Compute) -> Compute:
    """sum over r < 9 of select(r < 4, x, 0) => sum over r < 4 of x: what only adds the identity is not visited."""
    assert compute.combine is not None
    body = compute.body
    if body.op != "select" or body.args[2] is not const(identity(compute.combine, body.dtype), body.dtype):
        return compute
    extents = {it.expr: it.extent for it in compute.reduction if it.extent > 1}
    for condition in body.args[0].args if body.args[0].op == "and" else body.args[:1]:
        if condition.op not in ("lt", "le") or condition.args[0].dtype != INDEX:
            continue
        constant, coefficients = terms(condition.args[1] - condition.args[0])
        if len(coefficients) == 1 and (axis := next(iter(coefficients))) in extents and coefficients[axis] == -1:
            limit = constant + (condition.op == "le")  # axis < limit
            if 0 < limit < extents[axis]:
                extents[axis] = limit
    iters = tuple(replace(it, extent=extents.get(it.expr, it.extent)) for it in compute.iters)
    moved = {it.expr: new.expr for it, new in zip(compute.iters, iters, strict=True) if it != new}
    return replace(compute, iters=iters, body=substitute(body, moved)) if moved else compute


def _is_window(compute: Compute) -> bool:
    is_reduction = compute.combine is not None and not compute.is_scatter
    return is_reduction and compute.body.dtype == "float32" and math.prod(it.extent for it in compute.iters) > 0


def _stage(compute: Compute, tensors: dict[str, Buffer]) -> tuple[list[Staged], Compute]:
    strides = terms(flatten(compute.index, tensors[compute.out].shape))[1]
    lane = next((axis for axis, stride in strides.items() if stride == 1), None)
    multiplies = contraction(compute) is not None
    copies: dict[Staged, str] = {}
    replaced: dict[Expr, Expr] = {}
    for node in postorder(compute.body):
        value = node.args[1] if node.op == "select" else node
        source, fill = value.args[0] if value.op == "cast" else value, 0.0
        if node.dtype != "float32" or source.op != "load" or source.dtype not in LANE_FLOATS:
            continue
        if node.op == "select":
            padded = padded_load(node, (tensors[source.name].shape,))
            if padded is None:
                continue
            fill = float(padded.fill.value)  # type: ignore[arg-type]
        copy = _copy(compute, node, source, fill, lane, multiplies, tensors)
        if copy is not None:
            name = copies.setdefault(copy, f"{compute.out}.staged{len(copies)}")
            tensors[name] = Buffer(copy.shape, "float32")
            replaced[node] = _read(copy, name, source.args)
    if not replaced:
        return [], compute
    body = substitute(compute.body, replaced)
    used = {node.name for node in postorder(body) if node.op == "load"}
    return [replace(copy, target=name) for copy, name in copies.items() if name in used], replace(compute, body=body)


def _copy(
    compute: Compute,
    node: Expr,
    source: Expr,
    fill: float,
    lane: Expr | None,
    multiplies: bool,
    tensors: Mapping[str, Buffer],
) -> Staged | None:
    """The copy that makes a read plain, or None where it is plain enough."""
    if affine(source) is None or not source.args:
        return None
    shape = tensors[source.name].shape
    parallel = {it.expr for it in compute.parallel}
    along = terms(source.args[-1])[1].get(lane, 0) if lane is not None else 0
    if node.op == "cast":
        if not multiplies and not is_windowed(compute):
            return None
    elif node is source:
        inside = all(low >= 0 and high < n for (low, high), n in zip(map(bounds, source.args), shape, strict=True))
        if not inside or along not in STEPS[1:] or not (multiplies or len(terms(source.args[-1])[1]) > 1):
            return None
    steps = []
    for index in source.args:
        moving = [k for axis, k in terms(index)[1].items() if axis in parallel]
        steps.append(moving[0] if along in STEPS and len(moving) == 1 and moving[0] in STEPS else 1)
    ranges = [bounds(index) for index in source.args]
    lows, extents = tuple(low for low, _ in ranges), tuple(high - low + 1 for low, high in ranges)
    copy = Staged(source.name, "", fill, lows, extents, tuple(steps))
    return copy if math.prod(copy.shape) <= max(MOST_GROWTH * math.prod(shape), SMALL) else None


def _read(copy: Staged, name: str, indices: Sequence[Expr]) -> Expr:
    moved = [index - low for index, low in zip(indices, copy.lows, strict=True)]
    remainders = [index % step for index, step in zip(moved, copy.steps, strict=True) if step > 1]
    return load(name, [*remainders, *(index // step for index, step in zip(moved, copy.steps, strict=True))], "float32")


def staging_function(copy: Staged, tensors: Mapping[str, Buffer]) -> NestFunction:
    """The copy in C, row by row of the source's last axis."""
    shape = tensors[copy.source].shape
    strides, rank = row_major(shape), len(shape)
    outer = [axis for axis in range(rank - 1) if copy.extents[axis] != 1]
    names = {axis: f"i{position}" for position, axis in enumerate(outer)}
    split = [axis for axis in range(rank) if copy.steps[axis] > 1]
    target_strides = row_major(copy.shape)
    phase_stride = dict(zip(split, target_strides[: len(split)], strict=True))
    inside, start, place = [], copy.lows[-1], ["b0"]
    for axis in range(rank - 1):
        position = f"{names[axis]} + ({copy.lows[axis]})" if axis in names else str(copy.lows[axis])
        if copy.lows[axis] < 0:
            inside.append(f"{position} >= 0")
        if copy.lows[axis] + copy.extents[axis] > shape[axis]:
            inside.append(f"{position} < {shape[axis]}")
        start += copy.lows[axis] * strides[axis]
        if axis in names:
            name, step, stride = names[axis], copy.steps[axis], target_strides[len(split) + axis]
            place.append(f"{name} * {stride}" if step == 1 else f"{name} / {step} * {stride}")
            if step > 1:
                place.append(f"{name} % {step} * {phase_stride[axis]}")
    source = " + ".join([f"b1 + ({start})", *(f"{names[axis]} * {strides[axis]}" for axis in outer)])
    kind = tensors[copy.source].dtype
    filled, copied = _row(copy, shape[-1], phase_stride.get(rank - 1, 0), "" if kind == "float32" else f"_{kind}")
    row = [f"float *y = {' + '.join(place)};"]
    body = [f"const {stored(kind)} *x = {source};", *copied]
    row += [f"if ({' && '.join(inside)}) {{", *body, "} else {", *filled, "}"] if inside else body
    tasks = math.prod(copy.extents[axis] for axis in outer)
    lines = task_loop([names[axis] for axis in outer], [copy.extents[axis] for axis in outer], row)
    buffers = {copy.target: "b0", copy.source: "b1"}
    points = math.prod(copy.shape)
    return nest_function(lines, buffers, frozenset((copy.target,)), tensors, tasks, points, "staged copy")


def _row(copy: Staged, n: int, phase_stride: int, kind: str) -> tuple[list[str], list[str]]:
    """One row at y, all of it filled; and copied from the source's row at x (which may begin before its elements)."""
    low, step = copy.lows[-1], copy.steps[-1]
    fill, width = literal(copy.fill, "float32"), copy.shape[-1]
    filled, copied = [], []
    for phase in range(step):
        place = f"y + {phase * phase_stride}" if phase else "y"
        first = min(max(0, -(-(-low - phase) // step)), width)
        end = max(min(width, -(-(n - low - phase) // step)), first)
        filled.append(f"re_fill({place}, {fill}, {width});")
        copied += [f"re_fill({place}, {fill}, {first});"] if first else []
        if end > first:
            source = f"x + {phase + first * step}"
            call = f"re_copy_step{kind}({place} + {first}, {source}, {step}, {end - first});"
            copied.append(call if step > 1 else f"re_copy{kind}({place} + {first}, {source}, {end - first});")
        copied += [f"re_fill({place} + {end}, {fill}, {width - end});"] if end < width else []
    return filled, copied
