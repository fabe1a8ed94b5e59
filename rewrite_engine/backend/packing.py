"""Sharing of bytes by blocks that are live over intervals of steps: blocks live at the same time never overlap.

In: blocks (size, first and last step). Out: an aligned offset for each in one arena, or a pool for each, where every
pool is an allocation of its own. Both are greedy; the problems are NP-hard, but on neural networks the arena is nearly
always within a few percent of the peak of live bytes.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from rewrite_engine.diagnostics import RewriteError

ALIGNMENT = 64
"""Bytes: a cache line, and as wide as the widest vector register."""


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes needed from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int


Planner = Callable[[Sequence[Block]], Mapping[str, int]]
"""Lays out the arena of one device: the offset of every block by name, each a multiple of `ALIGNMENT`, such that blocks
that are live at the same step share no byte. `pack` is one; any function will do that gives the same for the same
blocks."""


_ORDERS: tuple[Callable[[Block], tuple[int | str, ...]], ...] = (
    lambda block: (-block.size, block.first, block.name),  # large ones first
    lambda block: (-block.size * (block.last - block.first + 1), block.name),  # large and long-lived ones first
    lambda block: (block.first, -block.size, block.name),  # as they come
)


def align(offset: int) -> int:
    """The offset rounded up to a multiple of `ALIGNMENT`."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def pack(blocks: Sequence[Block]) -> dict[str, int]:
    """Offset by block name, a multiple of `ALIGNMENT`: the best of a few greedy orders."""
    best: dict[str, int] = {}
    best_end = -1
    for order in _ORDERS:
        offsets = _best_fit(sorted(blocks, key=order))
        end = max((offsets[block.name] + block.size for block in blocks), default=0)
        if best_end < 0 or end < best_end:
            best, best_end = offsets, end
    return best


def check_layout(blocks: Sequence[Block], offsets: Mapping[str, int], where: str) -> None:
    """Raises RewriteError where a planner's offsets miss a block, are not aligned, or share live bytes."""
    names = [block.name for block in blocks]
    if not isinstance(offsets, Mapping) or sorted(offsets) != sorted(names):
        missing = sorted(set(names) - set(offsets)) if isinstance(offsets, Mapping) else names
        found = f"none for {', '.join(missing[:3])}" if missing else "offsets of unknown blocks"
        raise RewriteError(f"{where}: expected an offset for each of {len(names)} blocks, found {found}")
    for block in blocks:
        offset = offsets[block.name]
        if not isinstance(offset, Integral) or offset < 0 or offset % ALIGNMENT:
            raise RewriteError(f"{where}: `{block.name}`: expected a multiple of {ALIGNMENT}, found {offset!r}")
    live: list[Block] = []
    for block in sorted((b for b in blocks if b.size), key=lambda block: (block.first, block.name)):
        live = [other for other in live if other.last >= block.first]
        for other in live:
            apart = offsets[other.name] + other.size <= offsets[block.name]
            if not apart and offsets[block.name] + block.size > offsets[other.name]:
                raise RewriteError(
                    f"{where}: `{other.name}` and `{block.name}` share bytes and are both live at step {block.first}"
                )
        live.append(block)


def pool(blocks: Sequence[Block]) -> dict[str, int]:
    """Pool number by block name; a pool is as large as its largest block, and its blocks are never live together.

    Large blocks first, each in the pool where it follows an earlier block most closely, or in a new one.
    """
    pools: list[list[tuple[int, int]]] = []  # lives in each, by first step
    chosen: dict[str, int] = {}
    for block in sorted(blocks, key=_ORDERS[0]):
        life = (block.first, block.last)
        best, shortest = len(pools), 0
        for number, lives in enumerate(pools):
            place = bisect(lives, life)
            if place < len(lives) and lives[place][0] <= block.last:
                continue
            if place and lives[place - 1][1] >= block.first:
                continue
            wait = block.first - lives[place - 1][1] if place else block.first + 1
            if best == len(pools) or wait < shortest:
                best, shortest = number, wait
        if best == len(pools):
            pools.append([])
        pools[best].insert(bisect(pools[best], life), life)
        chosen[block.name] = best
    return chosen


def peak_of_live_bytes(blocks: Sequence[Block], steps: int) -> int:
    """The largest sum of sizes live at one step: a lower bound of any arena."""
    change = np.zeros(steps + 1, dtype=np.int64)
    for block in blocks:
        change[block.first] += block.size
        change[block.last + 1] -= block.size
    return int(np.cumsum(change).max(initial=0))


def _best_fit(blocks: Sequence[Block]) -> dict[str, int]:
    """Place blocks in the given order, each in the smallest gap that holds it between blocks live at the same time."""
    count = len(blocks)
    first = np.array([block.first for block in blocks], dtype=np.int64)
    last = np.array([block.last for block in blocks], dtype=np.int64)
    start = np.zeros(count, dtype=np.int64)
    end = np.zeros(count, dtype=np.int64)
    for index, block in enumerate(blocks):
        needed = align(block.size)
        together = np.flatnonzero((first[:index] <= block.last) & (last[:index] >= block.first))
        together = together[np.argsort(start[together], kind="stable")]
        # The gap before each block reaches back to the furthest end of those before it.
        reach = np.maximum.accumulate(np.concatenate([[0], end[together]]))
        gaps = start[together] - reach[:-1]
        fits = np.flatnonzero(gaps >= needed)
        offset = int(reach[fits[np.argmin(gaps[fits])]]) if len(fits) else int(reach[-1])
        start[index], end[index] = offset, offset + needed
    return {block.name: int(start[index]) for index, block in enumerate(blocks)}
