"""Pointwise nests and reductions in C: serial, across lanes of the output, or along lanes of what is summed.

The form follows from the addresses: a nest is vectorised over its innermost parallel iterator where it reads and writes
contiguously, over its innermost reduction iterator where only the reads do, and is serial where no type has lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rewrite_engine.loops.compute import Buffer, Compute
from rewrite_engine.loops.dtypes import identity, numpy_dtype
from rewrite_engine.loops.emit_c.binding import Bindings, Numbers
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function, task_loop
from rewrite_engine.loops.emit_c.scalar import ELEMENT, combined
from rewrite_engine.loops.emit_c.shape import Nest, nests
from rewrite_engine.loops.emit_c.types import literal, stored
from rewrite_engine.loops.emit_c.vector import Vectors
from rewrite_engine.loops.expr import Expr, accumulator, postorder
from rewrite_engine.loops.index import terms

LEAST_LANES = 4
"""Iterations from which on a loop is vectorised."""

UNROLLED = 4
"""Accumulators of a reduction along lanes: one alone waits for its own sums."""

LEAST_TASKS, MOST_TASKS = 16, 256
"""Leading iterators become tasks until there are as many; the innermost one only for the least."""

GRAIN = 1 << 12
"""Elements of a task where one loop is all there is."""

Written = tuple[list[str], int]
"""The lines of a nest and how many tasks they run."""

_UPDATES = {
    "sum": "{0} += {1};",
    "prod": "{0} *= {1};",
    "max": "{0} = re_max_v({0}, {1});",
    "min": "{0} = re_min_v({0}, {1});",
}
_HORIZONTAL = {"sum": "re_sum_v", "prod": "re_prod_v", "max": "re_top_v", "min": "re_bottom_v"}


def compute_functions(compute: Compute, tensors: Mapping[str, Buffer]) -> list[NestFunction]:
    """The functions of a compute that is no scatter, one per box; none when it writes nothing."""
    if tensors[compute.out].size == 0:
        return []
    return [_function(nest, tensors) for nest in nests(compute, tensors)]


def _function(nest: Nest, tensors: Mapping[str, Buffer]) -> NestFunction:
    for form in _forms(nest):
        buffers: dict[str, str] = {}
        written = form(nest, buffers)
        if written is not None:
            lines, tasks = written
            points = math.prod(axis.extent for axis in (*nest.outer, *nest.inner))
            note = f"{nest.combine or 'pointwise'}, {form.__name__.strip('_')}"
            return nest_function(lines, buffers, frozenset((nest.out,)), tensors, tasks, points, note)
    raise AssertionError("the serial form always holds")


def _forms(nest: Nest) -> list[Callable[[Nest, dict[str, str]], Written | None]]:
    """The forms to try, best first."""
    if nest.combine is not None and (nest.combine not in _UPDATES or nest.body.dtype != "float32"):
        return [_serial]
    if nest.combine is None or nest.is_empty or not nest.inner:
        return [_across, _serial]
    if not nest.outer or nest.outer[-1].extent < LEAST_LANES:
        return [_along, _serial]
    across, along = (_contiguous(nest, axis) for axis in (nest.outer[-1], nest.inner[-1]))
    if across > along or (across == along and nest.outer[-1].extent >= min(16, nest.inner[-1].extent)):
        return [_across, _along, _serial]
    return [_along, _across, _serial]


def _contiguous(nest: Nest, axis: Expr) -> float:
    """The share of the reads that move along an axis with steps of 1 (2 counts half)."""
    steps = [terms(node.args[0])[1] for node in postorder(nest.body) if node.op == ELEMENT and axis in node.variables]
    return sum({1: 1.0, 2: 0.5}.get(step.get(axis, 0), 0.0) for step in steps) / max(len(steps), 1)


# ---------------------------------------------------------------- forms


def _across(nest: Nest, buffers: dict[str, str]) -> Written | None:
    """Lanes over the innermost parallel iterator, the reduction inside."""
    if not nest.outer or nest.outer[-1].extent < LEAST_LANES or terms(nest.where)[1].get(nest.outer[-1]) != 1:
        return None
    lane, numbers = nest.outer[-1], Numbers()
    names = _names(nest)
    levels: list[list[str]] = [[] for _ in nest.outer]
    steps = [_across_step(nest, names, buffers, numbers, count, levels) for count in ("RE_W", "left")]
    if steps[0] is None or steps[1] is None:
        return None
    if len(nest.outer) == 1:
        limits = [f"const int64_t begin = first * {GRAIN}, end = re_min_s(last * {GRAIN}, {lane.extent});"]
        loop = lane_loop(names[lane], "begin", "end", steps[0], steps[1])
        return [*levels[0], *limits, *loop], -(-lane.extent // GRAIN)
    return _around(nest.outer[:-1], names, levels, lane_loop(names[lane], "0", str(lane.extent), steps[0], steps[1]))


def _across_step(
    nest: Nest,
    names: Mapping[Expr, str],
    buffers: dict[str, str],
    numbers: Numbers,
    count: str,
    levels: list[list[str]],
) -> list[str] | None:
    """The body for `count` lanes; what is bound outside is added to `levels`."""
    outer, lane = nest.outer, nest.outer[-1]
    depth = {axis: position for position, axis in enumerate((*outer, *nest.inner), 1)}
    body = Vectors(depth, names, buffers, lane, count, numbers)
    if nest.combine is None:
        if not body.store(nest.out, nest.where, nest.body):
            return None
        for level in range(len(outer)):
            levels[level] += body.lines[level]
        return body.lines[len(outer)]
    value = body.lanes(nest.body)
    total, acc = accumulator(nest.body.dtype), numbers.fresh("acc")
    update = [] if nest.is_empty else [_UPDATES[nest.combine].format(acc, value)]
    for position in range(len(nest.inner) - 1, -1, -1):
        update = [
            _loop(names[nest.inner[position]], nest.inner[position].extent),
            *body.lines[len(outer) + position + 1],
            *update,
            "}",
        ]
    after_depth = {**{axis: position for position, axis in enumerate(outer, 1)}, total: len(outer)}
    after = Vectors(after_depth, {**names, total: acc}, buffers, lane, count, numbers, (total,))
    if not after.store(nest.out, nest.where, total if nest.post is None else nest.post):
        return None
    for level in range(len(outer)):
        levels[level] += [*body.lines[level], *after.lines[level]]
    start = f"re_f {acc} = re_splat({_identity(nest)});"
    return [*body.lines[len(outer)], start, *update, *after.lines[len(outer)]]


def _along(nest: Nest, buffers: dict[str, str]) -> Written | None:
    """Lanes over the innermost reduction iterator, joined at the end."""
    lane = nest.inner[-1]
    if lane.extent < LEAST_LANES or nest.combine is None:
        return None
    names, numbers, outer = _names(nest), Numbers(), nest.outer
    depth = {axis: position for position, axis in enumerate((*outer, *nest.inner), 1)}
    level = len(outer) + len(nest.inner)
    full = Vectors(depth, names, buffers, lane, "RE_W", numbers)
    rest = Vectors(depth, names, buffers, lane, "left", numbers)
    value, last = full.lanes(nest.body), rest.lanes(nest.body)
    several = UNROLLED if lane.extent >= 128 else 1
    start = f"re_splat({_identity(nest)})"
    update = _UPDATES[nest.combine].format
    first = [*full.lines[level], update("acc0", value)]
    tail = [*rest.lines[level], update("acc0", f"re_first({last}, {start}, left)")]
    more = [[*full.lines[level], update(f"acc{number}", value)] for number in range(several)]
    inner = lane_loop(names[lane], "0", str(lane.extent), first, tail, more if several > 1 else [])
    for position in range(len(nest.inner) - 2, -1, -1):
        bound = [line for bindings in (full, rest) for line in bindings.lines[len(outer) + position + 1]]
        inner = [_loop(names[nest.inner[position]], nest.inner[position].extent), *bound, *inner, "}"]
    joined = [f"re_f acc{number} = {start};" for number in range(several)]
    finish = [update("acc0", f"acc{number}") for number in range(1, several)]
    result = f"const float acc = {_HORIZONTAL[nest.combine]}(acc0);"
    return _finished(nest, names, buffers, numbers, [full, rest], [*joined, *inner, *finish, result])


def _serial(nest: Nest, buffers: dict[str, str]) -> Written:
    """One element at a time."""
    names, numbers, outer = _names(nest), Numbers(), nest.outer
    depth = {axis: position for position, axis in enumerate((*outer, *nest.inner), 1)}
    bindings = Bindings(depth, names, buffers, numbers)
    if nest.combine is None:
        value, cell = bindings.add(nest.body, nest.where)
        store = f"{bindings.buffer(nest.out)}[{cell}] = {value};"
        return _around(outer, names, bindings.lines[: len(outer)], [*bindings.lines[len(outer)], store])
    dtype = nest.body.dtype
    (value,) = bindings.add(nest.body)
    update = [] if nest.is_empty else [f"acc = {combined(nest.combine, 'acc', value, dtype)};"]
    for position in range(len(nest.inner) - 1, -1, -1):
        level = len(outer) + position + 1
        update = [_loop(names[nest.inner[position]], nest.inner[position].extent), *bindings.lines[level], *update, "}"]
    return _finished(nest, names, buffers, numbers, [bindings], [f"{stored(dtype)} acc = {_identity(nest)};", *update])


def _finished(
    nest: Nest,
    names: Mapping[Expr, str],
    buffers: dict[str, str],
    numbers: Numbers,
    before: Sequence[Bindings],
    reduction: Sequence[str],
) -> Written:
    """The parallel loops around a reduction into the scalar `acc`, its epilogue and its store."""
    outer, total = nest.outer, accumulator(nest.body.dtype)
    depth = {**{axis: position for position, axis in enumerate(outer, 1)}, total: len(outer)}
    after = Bindings(depth, {**names, total: "acc"}, buffers, numbers)
    result, cell = after.add(total if nest.post is None else nest.post, nest.where)
    levels = [[line for bindings in (*before, after) for line in bindings.lines[level]] for level in range(len(outer))]
    bound = [line for bindings in before for line in bindings.lines[len(outer)]]
    store = f"{after.buffer(nest.out)}[{cell}] = {result};"
    return _around(outer, names, levels, [*bound, *reduction, *after.lines[len(outer)], store])


# ---------------------------------------------------------------- loops


def lane_loop(
    name: str, begin: str, end: str, full: Sequence[str], rest: Sequence[str], more: Sequence[Sequence[str]] = ()
) -> list[str]:
    """A loop over lanes: whole vectors (several at a time by `more`), then the `left` ones."""
    lines = ["{", f"int64_t {name} = {begin};"]
    if more:
        lines += [f"for (; {name} + {len(more)} * RE_W <= {end};) {{"]
        for part in more:
            lines += ["{", *part, "}", f"{name} += RE_W;"]
        lines += ["}"]
    lines += [f"for (; {name} + RE_W <= {end}; {name} += RE_W) {{", *full, "}"]
    return [*lines, f"if ({name} < {end}) {{", f"const int64_t left = {end} - {name};", *rest, "}", "}"]


def _around(
    outer: Sequence[Expr], names: Mapping[Expr, str], levels: Sequence[Sequence[str]], innermost: Sequence[str]
) -> Written:
    """Loops over `outer` around `innermost`, the leading ones decoded from the task. levels[d] is bound in d loops."""
    count, tasks = 0, 1
    while count < len(outer) and tasks < (MOST_TASKS if count < len(outer) - 1 else LEAST_TASKS):
        tasks *= outer[count].extent
        count += 1
    lines = list(innermost)
    for position in range(len(outer) - 1, count - 1, -1):
        bound = levels[position + 1] if position + 1 < len(levels) else []
        lines = [_loop(names[outer[position]], outer[position].extent), *bound, *lines, "}"]
    if not count:
        return [*(levels[0] if levels else []), *lines], 1
    before = [line for level in levels[1 : count + 1] for line in level]
    axes = outer[:count]
    decoded = task_loop([names[axis] for axis in axes], [axis.extent for axis in axes], [*before, *lines])
    return [*levels[0], *decoded], tasks


def _loop(name: str, extent: int) -> str:
    return f"for (int64_t {name} = 0; {name} < {extent}; {name}++) {{"


def _names(nest: Nest) -> dict[Expr, str]:
    return {axis: f"i{position}" for position, axis in enumerate((*nest.outer, *nest.inner))}


def _identity(nest: Nest) -> str:
    """The identity as the type holds it: a float without infinities starts from its limit."""
    assert nest.combine is not None
    dtype = nest.body.dtype
    first = identity(nest.combine, dtype)
    return literal(first if isinstance(first, int) else float(numpy_dtype(dtype).type(first)), dtype)
