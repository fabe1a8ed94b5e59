"""Any compute as plain loops, one element at a time: the form that needs nothing of its index maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rewrite_engine.loops.compute import Buffer, Compute
from rewrite_engine.loops.dtypes import identity, numpy_dtype
from rewrite_engine.loops.emit_c.binding import Bindings, address, flat
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function, task_loop
from rewrite_engine.loops.emit_c.scalar import combined
from rewrite_engine.loops.emit_c.types import literal, stored
from rewrite_engine.loops.expr import Expr, accumulator
from rewrite_engine.loops.index import flatten


def serial_function(compute: Compute, tensors: Mapping[str, Buffer]) -> NestFunction | None:
    """The nest of a compute; None when it writes nothing."""
    if tensors[compute.out].size == 0:
        return None
    return scatter(compute, tensors) if compute.is_scatter else _gather(compute, tensors)


def _gather(compute: Compute, tensors: Mapping[str, Buffer]) -> NestFunction:
    outer = [it.expr for it in compute.parallel if it.extent != 1]
    inner = [it.expr for it in compute.reduction if it.extent != 1]
    where = flatten(compute.index, tensors[compute.out].shape)
    body = flat(compute.body, tensors)
    extents = [axis.extent for axis in outer]
    names = {axis: f"i{position}" for position, axis in enumerate((*outer, *inner))}
    buffers: dict[str, str] = {}
    depth = {axis: position for position, axis in enumerate(outer, 1)}
    if compute.combine is None:
        bindings = Bindings(depth, names, buffers)
        value, cell = bindings.add(body, where)
        innermost = [*bindings.lines[len(outer)]] if outer else []
        store = f"{bindings.buffer(compute.out)}[{cell}] = {value};"
        lines = _task_nest(outer, names, bindings.lines, [*innermost, store])
    else:
        lines = _reduction(compute, tensors, outer, inner, names, buffers, body, where)
    points = math.prod(extents) * math.prod(it.extent for it in compute.reduction)
    tasks = math.prod(extents[: _task_axes(outer)])
    return nest_function(lines, buffers, frozenset((compute.out,)), tensors, tasks, points, f"{compute.out}: serial")


def _reduction(
    compute: Compute,
    tensors: Mapping[str, Buffer],
    outer: Sequence[Expr],
    inner: Sequence[Expr],
    names: Mapping[Expr, str],
    buffers: dict[str, str],
    body: Expr,
    where: Expr,
) -> list[str]:
    assert compute.combine is not None
    dtype = compute.body.dtype
    depth = {axis: position for position, axis in enumerate((*outer, *inner), 1)}
    bindings = Bindings(depth, names, buffers)
    (value,) = bindings.add(body)
    total = accumulator(dtype)
    after = Bindings(
        {**{axis: position for position, axis in enumerate(outer, 1)}, total: len(outer)},
        {**names, total: "acc"},
        buffers,
    )
    after._count = bindings._count
    post = total if compute.post is None else flat(compute.post, tensors)
    result, cell = after.add(post, where)
    first = literal(_numpy(identity(compute.combine, dtype), dtype), dtype)
    update: list[str] = [f"acc = {combined(compute.combine, 'acc', value, dtype)};"]
    for position in range(len(inner) - 1, -1, -1):
        axis, level = inner[position], len(outer) + position + 1
        head = f"for (int64_t {names[axis]} = 0; {names[axis]} < {axis.extent}; {names[axis]}++) {{"
        update = [head, *bindings.lines[level], *update, "}"]
    if any(it.extent == 0 for it in compute.reduction):
        update = []
    innermost = [
        *(bindings.lines[len(outer)] if outer else []),
        f"{stored(dtype)} acc = {first};",
        *update,
        *(after.lines[len(outer)] if outer else []),
        f"{Bindings.buffer(after, compute.out)}[{cell}] = {result};",
    ]
    if not outer:
        return ["{", *bindings.lines[0], f"{innermost[0]}", *update, *after.lines[0], innermost[-1], "}"]
    levels = [[*bindings.lines[level], *after.lines[level]] for level in range(len(outer))]
    return _task_nest(outer, names, [*levels, []], innermost)


def _numpy(value: bool | int | float, dtype: str) -> bool | int | float:
    """The identity as the type holds it: the lowest float16 is an infinity, that of a float without one its limit."""
    return value if isinstance(value, int) else float(numpy_dtype(dtype).type(value))


def _task_axes(outer: Sequence[Expr]) -> int:
    """How many leading iterators become tasks: all but the innermost, as few as give enough of them."""
    count, tasks = 0, 1
    while count < len(outer) - 1 and tasks < 64:
        tasks *= outer[count].extent
        count += 1
    return max(count, min(len(outer), 1))


def _task_nest(
    outer: Sequence[Expr], names: Mapping[Expr, str], levels: Sequence[Sequence[str]], innermost: Sequence[str]
) -> list[str]:
    """Loops over the parallel iterators around `innermost`; the leading ones are decoded from the task."""
    if not outer:
        return [*levels[0], *innermost]
    tasks = _task_axes(outer)
    lines = list(innermost)
    for position in range(len(outer) - 1, tasks - 1, -1):
        axis = outer[position]
        bound = [] if position == len(outer) - 1 else levels[position + 1]
        lines = [
            f"for (int64_t {names[axis]} = 0; {names[axis]} < {axis.extent}; {names[axis]}++) {{",
            *bound,
            *lines,
            "}",
        ]
    before = (
        [line for level in levels[1 : tasks + 1] for line in level]
        if tasks < len(outer)
        else [line for level in levels[1:tasks] for line in level]
    )
    decoded = task_loop(
        [names[axis] for axis in outer[:tasks]], [axis.extent for axis in outer[:tasks]], [*before, *lines]
    )
    return [*levels[0], *decoded]


def scatter(compute: Compute, tensors: Mapping[str, Buffer]) -> NestFunction:
    """A copy of the initial tensor, then its updates in the order of the iterators (on one thread)."""
    assert compute.init is not None and compute.combine is not None
    axes = [it.expr for it in compute.parallel if it.extent != 1]
    names = {axis: f"i{position}" for position, axis in enumerate(axes)}
    bindings = Bindings({axis: position for position, axis in enumerate(axes, 1)}, names, {})
    out = bindings.buffer(compute.out)
    initial = bindings.buffer(compute.init)
    buffer = tensors[compute.out]
    lines = [f"memcpy({out}, {initial}, {buffer.size * _bytes(buffer.dtype)});"]
    if all(axis.extent for axis in axes):
        where = [flat(index, tensors) for index in compute.index]
        value, cell = bindings.add(flat(compute.body, tensors), address(where, buffer.shape))
        update: list[str] = [f"{out}[{cell}] = {combined(compute.combine, f'{out}[{cell}]', value, buffer.dtype)};"]
        for position in range(len(axes) - 1, -1, -1):
            axis = axes[position]
            head = f"for (int64_t {names[axis]} = 0; {names[axis]} < {axis.extent}; {names[axis]}++) {{"
            update = [head, *bindings.lines[position + 1], *update, "}"]
        lines += [*bindings.lines[0], *update]
    return nest_function(lines, bindings.buffers, frozenset((compute.out,)), tensors, 1, 0, f"{compute.out}: scatter")


def _bytes(dtype: str) -> int:
    return numpy_dtype(dtype).itemsize
