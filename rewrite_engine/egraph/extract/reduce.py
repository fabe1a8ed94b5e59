"""Fewer states after a step, with the same optimum: equal states become one, dominated ones go.

Where that is not enough, surplus states are merged into ones that cost no more than any of them (a lower bound
remains), or a beam keeps the most promising (an upper bound remains).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewrite_engine.egraph.extract.dominance import Dominance
from rewrite_engine.egraph.extract.model import INFINITE, Coming, Model
from rewrite_engine.egraph.extract.state import COST, Layout, TooWide, codes
from rewrite_engine.egraph.extract.tables import Array, Tables

_HASH = np.random.default_rng(7).integers(1 << 62, size=1 << 14, dtype=np.int64) * 2 + 1
_BATCH = 2048
_PAIRS = 1 << 20  # looked at together
_WORK = 20_000_000  # pairs of states, times values on the frontier, that are always worth while


@dataclass(frozen=True, slots=True)
class Limits:
    """How many states are kept as they are (`exact`), and how many after merging the rest (`most`); None: no limit.

    With a `beam` only so many are kept, and the program gives an upper bound, otherwise a lower one.
    """

    exact: int | None = None
    most: int | None = None
    beam: int | None = None
    compared: int = 32  # states that others are compared with, and more where that is little work


class Reducer:
    def __init__(self, model: Model, layout: Layout, tables: Tables, limits: Limits) -> None:
        self.model, self.layout, self.tables, self.limits = model, layout, tables, limits
        self._dominance = Dominance(model, layout, tables)

    def reduce(self, rows: Array, live: tuple[Coming, ...]) -> tuple[Array, bool]:
        """The states that remain, most promising first, and whether none was merged or cut beyond proof."""
        limits = self.limits
        rows = self.distinct(rows)
        code = codes(self.layout, rows)
        promise = rows[:, COST].copy()
        for coming in live:
            value = self.model.values[coming.value]
            if not value.solo:
                promise += self.tables.future(value.signature, code[:, coming.slot])
                np.minimum(promise, INFINITE, out=promise)
        order = np.argsort(promise, kind="stable")
        rows, code, promise = rows[order], code[order], promise[order]
        if len(promise) and promise[-1] >= INFINITE // 2:
            hopeful = promise < INFINITE // 2
            rows, code = rows[hopeful], code[hopeful]
        rows = self._undominated(rows, code, live)
        exact = True
        if limits.exact is not None and len(rows) > limits.exact:
            rows, exact = self._soften(rows, limits.exact)
            if limits.most is not None and len(rows) > limits.most:
                if self.tables.machine.needed is None:
                    raise TooWide
                rows, exact = self._fuse(rows, limits.most, self.tables.machine.needed, live), False
        if limits.beam is not None and len(rows) > limits.beam:
            rows, exact = rows[: limits.beam], False
        return rows, exact

    def distinct(self, rows: Array) -> Array:
        """The cheapest of equal states."""
        state = rows[:, self.layout.demand :]
        key = state @ _HASH[: state.shape[1]]
        order = np.lexsort((rows[:, COST], key))
        rows, key = rows[order], key[order]
        same = key[1:] == key[:-1]
        state = rows[:, self.layout.demand :]
        if (state[1:][same] != state[:-1][same]).any():
            raise AssertionError("two different states have one hash")
        first: NDArray[np.bool_] = np.concatenate([[True], ~same])
        return rows[first]

    def _undominated(self, rows: Array, code: Array, live: tuple[Coming, ...]) -> Array:
        """Compares the most promising states with all others, in growing portions."""
        if len(rows) < 2:
            return rows
        alive = np.ones(len(rows), bool)
        start = done = 0
        portion = max(2, 1024 // len(rows))
        slots = self._dominance.prepare(code, live)
        most = max(self.limits.compared, _WORK // (len(rows) * (len(slots) + 1)))
        while start < len(rows) and done < most:
            width = min(portion, most - done, max(1, _PAIRS // len(rows)))
            best = start + np.flatnonzero(alive[start:])[:width]
            if not len(best):
                break
            start = int(best[-1]) + 1
            done += len(best)
            portion *= 2
            rest = np.flatnonzero(alive)
            gap = self._dominance.at_least(rows, slots, best, rest)
            self._strike(rows, code, live, alive, best, rest, gap)
        return rows[alive]

    def _strike(
        self, rows: Array, code: Array, live: tuple[Coming, ...], alive: NDArray[np.bool_], best: Array, rest: Array,
        gap: Array,
    ) -> None:  # fmt: skip
        """Takes from `alive` what a state of `best` dominates; who most likely does is tried first."""
        order = np.argsort(gap, axis=0, kind="stable")
        some = np.count_nonzero(gap <= 0, axis=0)
        start, more = 0, 1 if some.sum() > 1024 else len(best)  # a few are tried all at once
        while start < len(best):
            left = np.flatnonzero((some > start) & alive[rest])
            if not len(left):
                return
            tried = order[start : start + more, left]
            first, second = best[tried], np.broadcast_to(rest[left], tried.shape)
            worth = (np.arange(start, start + len(tried))[:, None] < some[left]) & alive[first]
            first, second = first[worth], second[worth]
            dead = np.zeros(len(first), bool)
            for at in range(0, len(first), _BATCH):
                a, b = first[at : at + _BATCH], second[at : at + _BATCH]
                extra = self._dominance.at_most(rows[a], rows[b], code[a], code[b], live)
                dead[at : at + _BATCH] = extra <= rows[b, COST] - rows[a, COST]
            first, second = first[dead], second[dead]
            for a in np.unique(first):  # one after the other: two states may dominate each other
                if alive[a]:
                    alive[second[first == a]] = False
            start += more
            more *= 2

    def _soften(self, rows: Array, keep: int) -> tuple[Array, bool]:
        """Beyond `keep`, states with the same demands and offers become one that has seen only what all have seen."""
        rest = rows[keep:]
        part = rest[:, self.layout.demand : self.layout.after]
        groups = _groups(part)
        if groups.max() + 1 == len(rest):
            return rows, True
        merged = np.full((groups.max() + 1, rows.shape[1]), -1, np.int64)
        np.bitwise_and.at(merged, groups, rest)
        self._adopt(merged, groups, rest, rest[:, COST])
        return np.concatenate([rows[:keep], merged]), False

    def _fuse(self, rows: Array, most: int, needed: int, live: tuple[Coming, ...]) -> Array:
        """Beyond half of `most`, states become few: only common demands stay, offers are given up.

        Every completion of a member completes the merged state at no more: a demand that went needs no copies, and a
        kernel or a merge that used an offer that went costs one launch more, which is taken off before. A value that
        all members need in some form is still `needed`. Values of several results cannot leave their regions: there,
        only equal demands and offers are merged.
        """
        layout, keep = self.layout, most // 2
        rest = rows[keep:]
        solo = [coming.slot for coming in live if self.model.values[coming.value].solo]
        columns = [layout.offer + slot * layout.offers + place for slot in solo for place in range(layout.offers)]
        offers = rest[:, layout.offer : layout.after].reshape(len(rest), layout.slots, layout.offers) > 0
        offers[:, solo] = False
        refund = offers.sum(1) @ np.array(layout.launches, np.int64)
        plain = rest.copy()
        plain[:, layout.offer :] = 0
        plain[:, columns] = _renumbered(rest[:, columns])
        for coming in live:
            if coming.slot not in solo:
                plain[:, layout.demand + coming.slot] &= layout.item_mask
                some = (plain[:, layout.demand + coming.slot] != 0) | offers[:, coming.slot].any(1)
                plain[:, layout.demand + coming.slot] |= some.astype(np.int64) << needed
        only = [layout.demand + slot for slot in solo] + columns
        asked = (plain[:, layout.demand : layout.offer] != 0).astype(np.int64)
        for part in (plain[:, layout.demand : layout.after], np.hstack([asked, plain[:, only]]), plain[:, only]):
            groups = _groups(part) if part.shape[1] else np.zeros(len(rest), np.int64)
            if groups.max() < most - keep:
                break
        merged = np.full((groups.max() + 1, rows.shape[1]), -1, np.int64)
        np.bitwise_and.at(merged, groups, plain)
        self._adopt(merged, groups, rest, rest[:, COST] - refund)
        return np.concatenate([rows[:keep], merged])

    def _adopt(self, merged: Array, groups: Array, members: Array, cost: Array) -> None:
        """The merged states cost what the cheapest member costs, and continue its history."""
        order = np.lexsort((np.arange(len(members)), cost, groups))
        heads = order[np.concatenate([[True], groups[order][1:] != groups[order][:-1]])]
        merged[:, : self.layout.demand] = members[heads, : self.layout.demand]
        merged[:, COST] = cost[heads]


def _groups(part: Array) -> Array:
    """Numbers rows so that equal rows have equal numbers."""
    key = part @ _HASH[: part.shape[1]]
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    groups: Array = which.reshape(-1)
    if (part[first][groups] != part).any():
        raise AssertionError("two different states have one hash")
    return groups


def _renumbered(regions: Array) -> Array:
    """Regions by first appearance in each row, from 1; 0 stays."""
    if not regions.shape[1]:
        return regions
    first_at = (regions[:, :, None] == regions[:, None, :]).argmax(2)
    first = (first_at == np.arange(regions.shape[1])) & (regions > 0)
    return np.where(regions > 0, np.take_along_axis(first.cumsum(1), first_at, 1), 0)
