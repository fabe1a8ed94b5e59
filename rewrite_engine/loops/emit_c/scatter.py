"""Scatters in C: a copy of what was there, then the updates in the order of the iterators."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.loops.compute import Buffer, Compute
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c.binding import Bindings, Numbers, flat
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function
from rewrite_engine.loops.emit_c.scalar import combined
from rewrite_engine.loops.index import address


def scatter_functions(compute: Compute, tensors: Mapping[str, Buffer]) -> list[NestFunction]:
    """The function of a scatter, on one thread; none when it writes nothing."""
    if tensors[compute.out].size == 0:
        return []
    assert compute.init is not None and compute.combine is not None
    axes = [it.expr for it in compute.parallel if it.extent != 1]
    names = {axis: f"i{position}" for position, axis in enumerate(axes)}
    bindings = Bindings({axis: position for position, axis in enumerate(axes, 1)}, names, {}, Numbers())
    out = bindings.buffer(compute.out)
    initial = bindings.buffer(compute.init)
    buffer = tensors[compute.out]
    lines = [f"memcpy({out}, {initial}, {buffer.size * numpy_dtype(buffer.dtype).itemsize});"]
    if all(axis.extent for axis in axes):
        where = [flat(index, tensors) for index in compute.index]
        value, cell = bindings.add(flat(compute.body, tensors), address(where, buffer.shape))
        update: list[str] = [f"{out}[{cell}] = {combined(compute.combine, f'{out}[{cell}]', value, buffer.dtype)};"]
        for position in range(len(axes) - 1, -1, -1):
            axis = axes[position]
            head = f"for (int64_t {names[axis]} = 0; {names[axis]} < {axis.extent}; {names[axis]}++) {{"
            update = [head, *bindings.lines[position + 1], *update, "}"]
        lines += [*bindings.lines[0], *update]
    return [
        nest_function(lines, bindings.buffers, frozenset((compute.out,)), tensors, 1, 0, f"scatter {compute.combine}")
    ]
