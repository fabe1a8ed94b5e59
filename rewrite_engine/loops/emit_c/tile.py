"""Register tiles: MR rows times NR columns of a matrix product, summed over the whole depth, into a small buffer.

One static function per tile shape and layout of its operands; every contraction of a library shares them.
"""

from __future__ import annotations

from dataclasses import dataclass

AHEAD = 4096
"""Packed rows are asked for so many elements ahead: weights come from memory, and tiles lie one after the other."""


@dataclass(frozen=True, slots=True)
class Tile:
    """`rows` times `vectors` vectors of `lanes` columns.

    `row_step` is 0 where the rows are packed ([depth][rows]), else the distance between rows whose depth is contiguous.
    `pitch` is the packed columns' width ([depth][pitch]), or 0 where a table gives the address of each depth.
    """

    rows: int
    vectors: int
    lanes: int
    row_step: int
    pitch: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def name(self) -> str:
        left = f"rows{self.row_step}" if self.row_step else "packed"
        right = f"packed{self.pitch}" if self.pitch else "table"
        return f"re_tile_{self.rows}x{self.vectors}_{self.lanes}_{left}_{right}"


def tile_code(tile: Tile) -> str:
    """`tile(depth, a, b, table, left, c)`: c[rows][columns] = a * b, of the last vector only `left` columns read."""
    head = (
        f"static __attribute__((noinline)) void {tile.name}"
        "(int64_t depth, const float *a, const float *b, const int32_t *table, int64_t left, float *c) {"
    )
    rows, vectors = range(tile.rows), range(tile.vectors)
    at_row = [f"a[{i * tile.row_step} + k]" if tile.row_step else f"a[k * {tile.rows} + {i}]" for i in rows]
    any_row = f"a[i * {tile.row_step} + k]" if tile.row_step else f"a[k * {tile.rows} + i]"
    pointer = f"b + k * {tile.pitch}" if tile.pitch else "b + table[k]"
    last = tile.vectors - 1

    def body(masked: bool) -> list[str]:
        load = [
            f"re_load_n(q + {j} * RE_W, left)" if masked and j == last else f"re_load(q + {j} * RE_W)" for j in vectors
        ]
        return [
            "    for (int64_t k = 0; k < depth; k++) {",
            f"      const float *q = {pointer};",
            *([] if tile.row_step else [f"      __builtin_prefetch(a + k * {tile.rows} + {AHEAD});"]),
            "      " + " ".join(f"re_f b{j} = {load[j]};" for j in vectors),
            *(
                f"      {{ re_f x = re_splat({at_row[i]}); {' '.join(f'c{i}_{j} += x * b{j};' for j in vectors)} }}"
                for i in rows
            ),
            "    }",
        ]

    stores = [
        f"  {' '.join(f're_store(c + {i * tile.columns} + {j} * RE_W, c{i}_{j});' for j in vectors)}" for i in rows
    ]
    return "\n".join(
        [
            head,
            "  (void)table;",
            f"#if RE_W == {tile.lanes}",
            "  re_f " + ", ".join(f"c{i}_{j} = {{0}}" for i in rows for j in vectors) + ";",
            "  if (left == RE_W) {",
            *body(False),
            "  } else {",
            *body(True),
            "  }",
            *stores,
            "#else",
            f"  left += {tile.columns - tile.lanes};",
            f"  for (int64_t i = 0; i < {tile.rows}; i++)",
            f"    for (int64_t j = 0; j < {tile.columns}; j += RE_W) {{",
            "      re_f sum = re_splat(0.f);",
            "      const int64_t n = left - j < RE_W ? left - j : RE_W;",
            "      for (int64_t k = 0; n > 0 && k < depth; k++)",
            f"        sum += re_splat({any_row}) * re_load_n({pointer} + j, n);",
            f"      re_store(c + i * {tile.columns} + j, sum);",
            "    }",
            "#endif",
            "}",
            "",
        ]
    )


def choose(rows: int, columns: int, depth: int, lanes: int) -> tuple[int, int]:
    """Rows and vectors of the tile for a product: the fewest cycles by a simple count, then the largest tile.

    A step of the depth takes as long as its multiplications (two vectors per cycle), its loads (two per cycle) or the
    four cycles until a sum can be added to again, and some of its loads wait; a tile has its epilogue, too.
    """
    registers, needed = 32 if lanes == 16 else 16, -(-columns // lanes)

    def tile_cycles(height: int, vectors: int) -> float:
        loads = (height + vectors) / 2
        step = max(height * vectors / 2, loads, 4.0) + 0.15 * loads
        return depth * step + 3 * height * vectors + 40 if vectors else 0.0

    best: tuple[float, int, int, int] | None = None
    for vectors in range(1, min(4 if rows > 3 else 8, needed) + 1):
        for height in range(1, min(rows, 24) + 1):
            if height * vectors + vectors + 1 > registers:
                continue
            panels, rest = divmod(needed, vectors)
            cycles = -(-rows // height) * (panels * tile_cycles(height, vectors) + tile_cycles(height, rest))
            candidate = (cycles, -height * vectors, height, vectors)
            if best is None or candidate < best:
                best = candidate
    assert best is not None
    return best[2], best[3]
