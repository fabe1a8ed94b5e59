"""Matrix products in C: operands packed where they have to be, register tiles, the epilogue on each tile.

In: the plan of a contraction. Out: the functions that pack its operands (by which buffer they fill) and the one that
multiplies: a task is a block of rows times a panel of columns. The depth is never split, so a tile's sums are final.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.emit_c.binding import Bindings, Numbers
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function
from rewrite_engine.loops.emit_c.matrix import Product
from rewrite_engine.loops.emit_c.nests import lane_loop
from rewrite_engine.loops.emit_c.packing import (
    Packed,
    common_step,
    first_row,
    iterator_depths,
    iterator_names,
    offset_table,
    pack_left,
    pack_right,
    panel_count,
    row_tiles,
    varies,
)
from rewrite_engine.loops.emit_c.tile import Tile, tile_code
from rewrite_engine.loops.emit_c.vector import Vectors
from rewrite_engine.loops.expr import accumulator, substitute

BLOCK_BYTES = 1 << 19
"""Bytes of the left operand that a task goes through: they stay in the second-level cache from panel to panel."""

LEAST_TASKS = 16


@dataclass(frozen=True, slots=True)
class ProductCode:
    """`shared` are the tiles and tables by name; `packed` run before `multiply`."""

    shared: tuple[tuple[str, str], ...]
    packed: tuple[Packed, ...]
    multiply: NestFunction


def product_code(plan: Product, tensors: dict[str, Buffer]) -> ProductCode:
    """The C of a product; buffers of packed operands are added to `tensors`."""
    shared: dict[str, str] = {}
    packed = []
    if not plan.row_step:
        packed.append(pack_left(plan, tensors, shared))
    if not plan.in_place:
        packed.append(pack_right(plan, tensors, shared))
    for part in packed:
        tensors[part.target] = part.buffer
    multiply = _multiply(plan, tensors, shared)
    return ProductCode(tuple(shared.items()), tuple(packed), multiply)


def _multiply(plan: Product, tensors: dict[str, Buffer], shared: dict[str, str]) -> NestFunction:
    wide, panels, tiles = plan.vectors * plan.lanes, panel_count(plan), row_tiles(plan)
    left = plan.left.tensor if plan.row_step else f"{plan.out}.left"
    right = plan.right.tensor if plan.in_place else f"{plan.out}.right"
    buffers: dict[str, str] = {}
    for name in (plan.out, left, right):
        buffers.setdefault(name, f"b{len(buffers)}")
    row_bytes = plan.depth * 4
    blocks = max(-(-plan.rows * row_bytes // BLOCK_BYTES), -(-LEAST_TASKS // (plan.batch * panels)))
    block = -(-tiles // min(blocks, tiles))
    blocks = -(-tiles // block)

    step = common_step(plan.right.offsets)
    pitch = wide if not plan.in_place else step if step is not None and step > 0 else 0
    table = offset_table(plan.right.offsets, shared) if not pitch else "0"
    full = Tile(plan.height, plan.vectors, plan.lanes, plan.row_step, pitch)
    beyond = plan.columns - (panels - 1) * wide
    last = replace(full, vectors=-(-beyond // plan.lanes))
    used = [full] * (panels > 1 or last == full) + [last] * (last != full)
    for tile in used:
        shared[tile.name] = tile_code(tile)

    numbers, names = Numbers(), iterator_names(plan)
    pointers = Bindings(iterator_depths(plan.b, plan.m), names, buffers, numbers)
    zero = {axis: axis * 0 for axis in (plan.y, plan.x) if axis.op == "var"}
    row_start, column_start = pointers.add(
        plan.left.start + plan.left.offsets[0],
        substitute(plan.right.start, zero) + (plan.right.offsets[0] if pitch else 0),
    )
    a = f"{buffers[left]} + {row_start}"
    if not plan.row_step:
        number = f"b * {tiles} + tile" if varies(plan.left, plan.b) else "tile"
        a = f"{buffers[left]} + ({number}) * {plan.depth * plan.height}"
    right_start = f"{buffers[right]} + {column_start} + panel * {wide}"
    if not plan.in_place:
        number = f"b * {panels} + panel" if varies(plan.right, plan.b) else "panel"
        right_start = f"{buffers[right]} + ({number}) * {plan.depth * wide}"

    def call(tile: Tile, columns: int) -> str:
        rest = columns - (tile.vectors - 1) * plan.lanes if plan.in_place else plan.lanes
        return f"{tile.name}({plan.depth}, a, q, {table}, {rest}, c);"

    calls = [call(full, wide)] if last == full and beyond == wide else [call(last, beyond)]
    if panels > 1 and not (last == full and beyond == wide):
        calls = [f"if (panel < {panels - 1}) {call(full, wide)}", f"else {calls[0]}"]
    stride = wide
    if last != full:
        stride_text = f"(panel < {panels - 1} ? {wide} : {last.columns})" if panels > 1 else str(last.columns)
    else:
        stride_text = str(stride)
    epilogue, outside = _epilogue(plan, buffers, numbers)
    lines = [
        *pointers.lines[0],
        *outside[0],
        f"float c[{plan.height * wide} + RE_W] __attribute__((aligned(64)));",
        "for (int64_t task = first; task < last; task++) {",
        f"const int64_t panel = task % {panels}, block = task / {panels} % {blocks}, b = task / {panels * blocks};",
        f"const int64_t begin = panel * {wide}, end = re_min_s(begin + {wide}, {plan.columns});",
        f"const int64_t stride = {stride_text};",
        "(void)b, (void)block;",
        *pointers.lines[1],
        *outside[1],
        f"const float *q = {right_start};",
        f"const int64_t beyond = re_min_s(block * {block} + {block}, {tiles});",
        f"for (int64_t tile = block * {block}; tile < beyond; tile++) {{",
        f"const int64_t top = {first_row(plan)};",
        "{",
        "const int64_t m = top;",
        "(void)m;",
        *pointers.lines[2],
        f"const float *a = {a};",
        *calls,
        "}",
        f"const int64_t bottom = re_min_s(tile * {plan.height} + {plan.height}, {plan.rows});",
        f"for (int64_t m = tile * {plan.height}; m < bottom; m++) {{",
        "const float *r = c + (m - top) * stride - begin;",
        *outside[2],
        *epilogue,
        "}",
        "}",
        "}",
    ]
    tasks = plan.batch * panels * blocks
    points = plan.batch * plan.rows * plan.columns * plan.depth // 8
    note = f"product of {plan.batch} x {plan.rows} x {plan.columns} by {plan.depth}, tile {plan.height}x{plan.vectors}"
    return nest_function(lines, buffers, frozenset((plan.out,)), tensors, tasks, points, note)


def _epilogue(plan: Product, buffers: dict[str, str], numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    """Lines that finish row m of a tile (its sums are at r[column]), and what is bound outside, by b, m."""
    total = accumulator("float32")
    depth = {**iterator_depths(plan.b, plan.m, plan.y, plan.x), total: 4}
    outside: list[list[str]] = [[], [], []]
    lines: list[list[str]] = []
    inner: list[str] = []
    for count in ("RE_W", "left"):
        name = numbers.fresh("acc")
        names = {**iterator_names(plan), total: name}
        vectors = Vectors(depth, names, buffers, plan.x, count, numbers, (total,))
        stored = vectors.store(plan.out, plan.where, total if plan.post is None else plan.post, True)
        assert stored, "the product's columns are contiguous in the output"
        for level in range(3):
            outside[level] += vectors.lines[level]
        inner += vectors.lines[3]
        at = f"y * {plan.pitch} + x" if plan.lines > 1 else "x"
        lines.append([f"const re_f {name} = re_load(r + {at});", *vectors.lines[4]])
    if plan.lines == 1:
        return [*inner, *lane_loop("x", "begin", "end", lines[0], lines[1])], outside
    return [
        f"for (int64_t y = begin / {plan.pitch}; y < {plan.lines} && y * {plan.pitch} < end; y++) {{",
        f"const int64_t start = y * {plan.pitch};",
        f"const int64_t from = re_max_s(0, begin - start), to = re_min_s({plan.width}, end - start);",
        *inner,
        *lane_loop("x", "from", "to", lines[0], lines[1]),
        "}",
    ], outside
