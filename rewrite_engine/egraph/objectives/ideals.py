"""The ideals of blocks in an order: sets that hold, with each block, all that must come before it.

In: what each block reads. Out: all ideals, one row of members each, or None where there are too many. The contiguous
sets are the differences of two ideals, and a chain of ideals is a way to cut a graph into such sets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Members = NDArray[np.bool_]


def ideals_of(reads: Sequence[Sequence[int]], limit: int) -> Members | None:
    """[ideals, blocks]: what each ideal holds, smaller ones first; None where there are more than `limit`."""
    count = len(reads)
    needs = [sum(1 << operand for operand in set(mine)) for mine in reads]
    readers: list[list[int]] = [[] for _ in range(count)]
    for block, mine in enumerate(reads):
        for operand in set(mine):
            readers[operand].append(block)
    ready = {0: tuple(block for block in range(count) if not needs[block])}  # by ideal: what may come next
    level = list(ready)
    found = list(level)
    while level:
        larger: dict[int, tuple[int, ...]] = {}
        for ideal in level:
            nexts = ready.pop(ideal)
            for block in nexts:
                grown = ideal | 1 << block
                if grown in larger:
                    continue
                fresh = (reader for reader in readers[block] if not needs[reader] & ~grown)
                larger[grown] = (*(other for other in nexts if other != block), *fresh)
            if len(found) + len(larger) > limit:
                return None
        ready, level = larger, list(larger)
        found += level
    return _members(found, count)


def _members(ideals: Sequence[int], count: int) -> Members:
    width = -(-count // 8)
    packed = np.frombuffer(b"".join(ideal.to_bytes(width, "little") for ideal in ideals), np.uint8)
    if not width:
        return np.zeros((len(ideals), 0), np.bool_)
    return np.unpackbits(packed.reshape(-1, width), axis=1, count=count, bitorder="little").astype(np.bool_)


def words_of(members: Members) -> NDArray[np.uint64]:
    """[ideals, words]: members as bits, to compare many sets at once."""
    packed = np.packbits(members, axis=1, bitorder="little")
    width = -(-packed.shape[1] // 8) * 8
    padded = np.zeros((len(members), width), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)
