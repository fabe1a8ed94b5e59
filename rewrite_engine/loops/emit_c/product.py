"""Matrix products in C: operands packed where they have to be, register tiles, the epilogue on each tile.

In: the plan of a contraction. Out: the functions that pack its operands (by which buffer they fill) and the one that
multiplies: a task is a block of rows times a panel of columns. The depth is never split, so a tile's sums are final.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.emit_c.binding import Bindings, Numbers
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function
from rewrite_engine.loops.emit_c.matrix import Operand, Product
from rewrite_engine.loops.emit_c.nests import lane_loop
from rewrite_engine.loops.emit_c.tile import Tile, tile_code
from rewrite_engine.loops.emit_c.vector import Vectors
from rewrite_engine.loops.expr import Expr, accumulator, substitute

BLOCK_BYTES = 1 << 19
"""Bytes of the left operand that a task goes through: they stay in the second-level cache from panel to panel."""

LEAST_TASKS = 16


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed operand: the buffer that `function` fills from the tensor `source`."""

    source: str
    target: str
    buffer: Buffer
    function: NestFunction


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
        packed.append(_pack_left(plan, tensors, shared))
    if not plan.in_place:
        packed.append(_pack_right(plan, tensors, shared))
    for part in packed:
        tensors[part.target] = part.buffer
    multiply = _multiply(plan, tensors, shared)
    return ProductCode(tuple(shared.items()), tuple(packed), multiply)


# ---------------------------------------------------------------- packing


def _varies(operand: Operand, axis: Expr) -> bool:
    return axis.op == "var" and axis in operand.start.variables


def _row_tiles(plan: Product) -> int:
    return -(-plan.rows // plan.height)


def _panels(plan: Product) -> int:
    return -(-plan.columns // (plan.vectors * plan.lanes))


def _first_row(plan: Product) -> str:
    """The first row of tile `tile`: the last tile begins earlier where it would leave the matrix."""
    if plan.rows % plan.height == 0:
        return f"tile * {plan.height}"
    return f"re_min_s(tile * {plan.height}, {plan.rows - plan.height})"


def _pack_left(plan: Product, tensors: dict[str, Buffer], shared: dict[str, str]) -> Packed:
    """[b][tile][depth][row of the tile]."""
    tiles, batches = _row_tiles(plan), plan.batch if _varies(plan.left, plan.b) else 1
    target = f"{plan.out}.left"
    buffer = Buffer((batches, tiles, plan.depth, plan.height), "float32")
    buffers = {target: "b0", plan.left.tensor: "b1"}
    bindings = Bindings(_depths(plan.b, plan.m), _names(plan), buffers, Numbers())
    (start,) = bindings.add(plan.left.start)
    lines = [
        *bindings.lines[0],
        "for (int64_t task = first; task < last; task++) {",
        f"const int64_t b = task / {tiles}, tile = task % {tiles}, top = {_first_row(plan)};",
        "(void)b;",
        *bindings.lines[1],
        f"float *p = b0 + task * {plan.depth * plan.height};",
        f"for (int64_t i = 0; i < {plan.height}; i++) {{",
        "const int64_t m = top + i;",
        "(void)m;",
        *bindings.lines[2],
        f"const float *a = b1 + {start};",
        f"for (int64_t k = 0; k < {plan.depth}; k++) p[k * {plan.height} + i] = a[{_offset(plan.left.offsets, shared)}];",
        "}",
        "}",
    ]
    tables = {**tensors, target: buffer}
    tasks = batches * tiles
    function = nest_function(lines, buffers, frozenset((target,)), tables, tasks, buffer.size, "rows packed")
    return Packed(plan.left.tensor, target, buffer, function)


def _pack_right(plan: Product, tensors: dict[str, Buffer], shared: dict[str, str]) -> Packed:
    """[b][panel][depth][column of the panel], 0 beyond the last column."""
    panels, batches = _panels(plan), plan.batch if _varies(plan.right, plan.b) else 1
    wide = plan.vectors * plan.lanes
    target = f"{plan.out}.right"
    buffer = Buffer((batches, panels, plan.depth, wide), "float32")
    buffers = {target: "b0", plan.right.tensor: "b1"}
    bindings = Bindings(_depths(plan.b, plan.y, plan.x), _names(plan), buffers, Numbers())
    (start,) = bindings.add(plan.right.start)
    offset = _offset(plan.right.offsets, shared)
    depth_contiguous = plan.right.offsets[1] - plan.right.offsets[0] == 1
    copy = (
        f"for (int64_t j = 0; j < n; j++) for (int64_t k = 0; k < {plan.depth}; k++) p[k * {wide} + j] = b1[at[j] + {offset}];"
        if depth_contiguous
        else f"for (int64_t k = 0; k < {plan.depth}; k++) for (int64_t j = 0; j < n; j++) p[k * {wide} + j] = b1[at[j] + {offset}];"
    )
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
        copy,
        "}",
    ]
    tables = {**tensors, target: buffer}
    tasks = batches * panels
    function = nest_function(lines, buffers, frozenset((target,)), tables, tasks, buffer.size, "columns packed")
    return Packed(plan.right.tensor, target, buffer, function)


def _names(plan: Product) -> dict[Expr, str]:
    named = {"b": plan.b, "m": plan.m, "y": plan.y, "x": plan.x}
    return {axis: name for name, axis in named.items() if axis.op == "var"}


def _depths(*axes: Expr) -> dict[Expr, int]:
    """Depths of the flat iterators, in order; a trivial one keeps its level."""
    depths = {axis: level for level, axis in enumerate(axes, 1) if axis.op == "var"}
    return {**depths, accumulator("index"): len(axes)}  # the last level exists even when its iterator is trivial


def _step(offsets: Sequence[int]) -> int | None:
    """The common difference of the offsets, None when there is none."""
    step = offsets[1] - offsets[0]
    return step if tuple(offsets) == tuple(offsets[0] + k * step for k in range(len(offsets))) else None


def _offset(offsets: Sequence[int], shared: dict[str, str]) -> str:
    """The offset of depth `k` in C: a product, or a look-up in a shared table."""
    step = _step(offsets)
    if step is not None:
        return f"({offsets[0]} + k * {step})"
    return f"{_table(offsets, shared)}[k]"


def _table(offsets: Sequence[int], shared: dict[str, str]) -> str:
    values = ", ".join(map(str, offsets))
    name = f"re_offsets_{hashlib.sha256(values.encode()).hexdigest()[:16]}"
    shared[name] = f"static const int32_t {name}[{len(offsets)}] = {{{values}}};\n"
    return name


# ---------------------------------------------------------------- multiplying


def _multiply(plan: Product, tensors: dict[str, Buffer], shared: dict[str, str]) -> NestFunction:
    wide, panels, tiles = plan.vectors * plan.lanes, _panels(plan), _row_tiles(plan)
    left = plan.left.tensor if plan.row_step else f"{plan.out}.left"
    right = plan.right.tensor if plan.in_place else f"{plan.out}.right"
    buffers: dict[str, str] = {}
    for name in (plan.out, left, right):
        buffers.setdefault(name, f"b{len(buffers)}")
    row_bytes = plan.depth * 4
    blocks = max(-(-plan.rows * row_bytes // BLOCK_BYTES), -(-LEAST_TASKS // (plan.batch * panels)))
    block = -(-tiles // min(blocks, tiles))
    blocks = -(-tiles // block)

    step = _step(plan.right.offsets)
    pitch = wide if not plan.in_place else step if step is not None and step > 0 else 0
    table = _table(plan.right.offsets, shared) if not pitch else "0"
    full = Tile(plan.height, plan.vectors, plan.lanes, plan.row_step, pitch)
    beyond = plan.columns - (panels - 1) * wide
    last = replace(full, vectors=-(-beyond // plan.lanes))
    used = [full] * (panels > 1 or last == full) + [last] * (last != full)
    for tile in used:
        shared[tile.name] = tile_code(tile)

    numbers, names = Numbers(), _names(plan)
    pointers = Bindings(_depths(plan.b, plan.m), names, buffers, numbers)
    zero = {axis: axis * 0 for axis in (plan.y, plan.x) if axis.op == "var"}
    row_start, column_start = pointers.add(
        plan.left.start + plan.left.offsets[0],
        substitute(plan.right.start, zero) + (plan.right.offsets[0] if pitch else 0),
    )
    a = f"{buffers[left]} + {row_start}"
    if not plan.row_step:
        number = f"b * {tiles} + tile" if _varies(plan.left, plan.b) else "tile"
        a = f"{buffers[left]} + ({number}) * {plan.depth * plan.height}"
    right_start = f"{buffers[right]} + {column_start} + panel * {wide}"
    if not plan.in_place:
        number = f"b * {panels} + panel" if _varies(plan.right, plan.b) else "panel"
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
    epilogue, outside = _epilogue(plan, buffers, numbers, wide)
    lines = [
        *pointers.lines[0],
        *outside[0],
        f"float c[{plan.height * wide} + RE_W] __attribute__((aligned(64)));",
        "for (int64_t task = first; task < last; task++) {",
        f"const int64_t panel = task % {panels}, block = task / {panels} % {blocks}, b = task / {panels * blocks};",
        f"const int64_t begin = panel * {wide}, end = re_min_s(begin + {wide}, {plan.columns}), stride = {stride_text};",
        "(void)b, (void)block;",
        *pointers.lines[1],
        *outside[1],
        f"const float *q = {right_start};",
        f"for (int64_t tile = block * {block}; tile < re_min_s(block * {block} + {block}, {tiles}); tile++) {{",
        f"const int64_t top = {_first_row(plan)};",
        "{",
        "const int64_t m = top;",
        "(void)m;",
        *pointers.lines[2],
        f"const float *a = {a};",
        *calls,
        "}",
        f"for (int64_t m = tile * {plan.height}; m < re_min_s(tile * {plan.height} + {plan.height}, {plan.rows}); m++) {{",
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


def _epilogue(plan: Product, buffers: dict[str, str], numbers: Numbers, wide: int) -> tuple[list[str], list[list[str]]]:
    """Lines that finish row m of a tile (its sums are at r[column]), and what is bound outside, by b, m."""
    total = accumulator("float32")
    depth = {**_depths(plan.b, plan.m, plan.y, plan.x), total: 4}
    outside: list[list[str]] = [[], [], []]
    lines: list[list[str]] = []
    inner: list[str] = []
    for count in ("RE_W", "left"):
        name = numbers.fresh("acc")
        names = {**_names(plan), total: name}
        vectors = Vectors(depth, names, buffers, plan.x, count, numbers, (total,))
        stored = vectors.store(plan.out, plan.where, total if plan.post is None else plan.post)
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
        f"const int64_t from = re_max_s(0, begin - y * {plan.pitch}), to = re_min_s({plan.width}, end - y * {plan.pitch});",
        *inner,
        *lane_loop("x", "from", "to", lines[0], lines[1]),
        "}",
    ], outside
