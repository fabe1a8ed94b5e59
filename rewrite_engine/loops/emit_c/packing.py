"""Operands of matrix products packed for register tiles: which tile or panel, then depth, then row or column.

In: the plan of a contraction. Out: the function that fills the packed buffer of an operand, from any addresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.emit_c.binding import Bindings, Numbers
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function
from rewrite_engine.loops.emit_c.matrix import Operand, Product
from rewrite_engine.loops.expr import Expr, accumulator


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed operand: the buffer that `function` fills from the tensor `source`."""

    source: str
    target: str
    buffer: Buffer
    function: NestFunction


def varies(operand: Operand, axis: Expr) -> bool:
    return axis.op == "var" and axis in operand.start.variables


def row_tiles(plan: Product) -> int:
    return -(-plan.rows // plan.height)


def panel_count(plan: Product) -> int:
    return -(-plan.columns // (plan.vectors * plan.lanes))


def first_row(plan: Product) -> str:
    """The first row of tile `tile`: the last tile begins earlier where it would leave the matrix."""
    if plan.rows % plan.height == 0:
        return f"tile * {plan.height}"
    return f"re_min_s(tile * {plan.height}, {plan.rows - plan.height})"


def pack_left(plan: Product, tensors: dict[str, Buffer], shared: dict[str, str]) -> Packed:
    """[b][tile][depth][row of the tile]."""
    tiles, batches = row_tiles(plan), plan.batch if varies(plan.left, plan.b) else 1
    target = f"{plan.out}.left"
    buffer = Buffer((batches, tiles, plan.depth, plan.height), "float32")
    buffers = {target: "b0", plan.left.tensor: "b1"}
    bindings = Bindings(iterator_depths(plan.b, plan.m), iterator_names(plan), buffers, Numbers())
    (start,) = bindings.add(plan.left.start)
    offset = _offset(plan.left.offsets, shared)
    lines = [
        *bindings.lines[0],
        "for (int64_t task = first; task < last; task++) {",
        f"const int64_t b = task / {tiles}, tile = task % {tiles}, top = {first_row(plan)};",
        "(void)b;",
        *bindings.lines[1],
        f"float *p = b0 + task * {plan.depth * plan.height};",
        f"for (int64_t i = 0; i < {plan.height}; i++) {{",
        "const int64_t m = top + i;",
        "(void)m;",
        *bindings.lines[2],
        f"const float *a = b1 + {start};",
        f"for (int64_t k = 0; k < {plan.depth}; k++) p[k * {plan.height} + i] = a[{offset}];",
        "}",
        "}",
    ]
    tables = {**tensors, target: buffer}
    tasks = batches * tiles
    function = nest_function(lines, buffers, frozenset((target,)), tables, tasks, buffer.size, "rows packed")
    return Packed(plan.left.tensor, target, buffer, function)


def pack_right(plan: Product, tensors: dict[str, Buffer], shared: dict[str, str]) -> Packed:
    """[b][panel][depth][column of the panel], 0 beyond the last column."""
    panels, batches = panel_count(plan), plan.batch if varies(plan.right, plan.b) else 1
    wide = plan.vectors * plan.lanes
    target = f"{plan.out}.right"
    buffer = Buffer((batches, panels, plan.depth, wide), "float32")
    buffers = {target: "b0", plan.right.tensor: "b1"}
    bindings = Bindings(iterator_depths(plan.b, plan.y, plan.x), iterator_names(plan), buffers, Numbers())
    (start,) = bindings.add(plan.right.start)
    offset = _offset(plan.right.offsets, shared)
    loops = [f"for (int64_t k = 0; k < {plan.depth}; k++)", "for (int64_t j = 0; j < n; j++)"]
    if plan.right.offsets[1] - plan.right.offsets[0] == 1:  # read along the depth
        loops.reverse()
    lines = [
        *bindings.lines[0],
        "for (int64_t task = first; task < last; task++) {",
        f"const int64_t b = task / {panels}, panel = task % {panels};",
        "(void)b;",
        *bindings.lines[1],
        f"const int64_t n = re_min_s({wide}, {plan.lines * plan.width} - panel * {wide});",
        f"float *p = b0 + task * {plan.depth * wide};",
        f"int64_t at[{wide}];",
        "for (int64_t j = 0; j < n; j++) {",
        f"const int64_t y = (panel * {wide} + j) / {plan.width}, x = (panel * {wide} + j) % {plan.width};",
        "(void)y, (void)x;",
        *bindings.lines[2],
        *(bindings.lines[3] if len(bindings.lines) > 3 else []),
        f"at[j] = {start};",
        "}",
        f"if (n < {wide}) memset(p, 0, {plan.depth * wide * 4});",
        f"{' '.join(loops)} p[k * {wide} + j] = b1[at[j] + {offset}];",
        "}",
    ]
    tables = {**tensors, target: buffer}
    tasks = batches * panels
    function = nest_function(lines, buffers, frozenset((target,)), tables, tasks, buffer.size, "columns packed")
    return Packed(plan.right.tensor, target, buffer, function)


def iterator_names(plan: Product) -> dict[Expr, str]:
    named = {"b": plan.b, "m": plan.m, "y": plan.y, "x": plan.x}
    return {axis: name for name, axis in named.items() if axis.op == "var"}


def iterator_depths(*axes: Expr) -> dict[Expr, int]:
    """Depths of the flat iterators, in order; a trivial one keeps its level."""
    depths = {axis: level for level, axis in enumerate(axes, 1) if axis.op == "var"}
    return {**depths, accumulator("index"): len(axes)}  # the last level exists even when its iterator is trivial


def common_step(offsets: Sequence[int]) -> int | None:
    """The common difference of the offsets, None when there is none."""
    step = offsets[1] - offsets[0]
    return step if tuple(offsets) == tuple(offsets[0] + k * step for k in range(len(offsets))) else None


def _offset(offsets: Sequence[int], shared: dict[str, str]) -> str:
    """The offset of depth `k` in C: a product, or a look-up in a shared table."""
    step = common_step(offsets)
    if step is not None:
        return f"({offsets[0]} + k * {step})"
    return f"{offset_table(offsets, shared)}[k]"


def offset_table(offsets: Sequence[int], shared: dict[str, str]) -> str:
    values = ", ".join(map(str, offsets))
    name = f"re_offsets_{hashlib.sha256(values.encode()).hexdigest()[:16]}"
    shared[name] = f"static const int32_t {name}[{len(offsets)}] = {{{values}}};\n"
    return name
