"""When one state makes another useless: it can copy every completion of the other, for less than it is cheaper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewrite_engine.egraph.extract.model import INFINITE, Coming, Model
from rewrite_engine.egraph.extract.state import COST, Layout, contains
from rewrite_engine.egraph.extract.tables import Array, Tables

_ROUNDS = 4


@dataclass(frozen=True, slots=True, eq=False)
class SlotCodes:
    """The demands for one value in all states: `price[a, b]` is the least by which demand a can be dearer than b."""

    which: Array  # [state]
    price: Array


class Dominance:
    def __init__(self, model: Model, layout: Layout, tables: Tables) -> None:
        self.model, self.layout, self.tables = model, layout, tables

    def prepare(self, code: Array, live: tuple[Coming, ...]) -> list[SlotCodes]:
        result = []
        offers = (1 << self.layout.offers) - 1
        for coming in live:
            value = self.model.values[coming.value]
            if value.solo:
                continue
            found, which = np.unique(code[:, coming.slot], return_inverse=True)
            mine, other = np.meshgrid(found, found, indexing="ij")
            price = self.tables.dearer(value.signature, coming, mine, mine & other & offers, other)
            result.append(SlotCodes(which.reshape(-1), price))
        return result

    def at_least(self, rows: Array, slots: list[SlotCodes], mine: Array, other: Array) -> Array:
        """[mine, other]: what `at_most` would say if all offers made by both were matched, plus the costs."""
        gap: Array = rows[mine, COST][:, None] - rows[other, COST][None, :]
        for slot in slots:
            gap += slot.price[slot.which[mine][:, None], slot.which[other][None, :]]
            np.clip(gap, -INFINITE, INFINITE, out=gap)
        must = rows[:, self.layout.demand : self.layout.offer] >> self.layout.items
        for column in np.flatnonzero(must.any(0)):  # whoever must join a region copies only what must, too
            gap[must[mine, column][:, None] & ~must[other, column][None, :] != 0] = INFINITE
        gap[mine[:, None] == other[None, :]] = INFINITE
        return gap

    def at_most(self, mine: Array, other: Array, my_code: Array, its_code: Array, live: tuple[Coming, ...]) -> Array:
        """[pair]: how much more `mine` pays, at most, when it copies any completion of `other`; INFINITE if it cannot.

        Regions of the two states correspond if their first common offer is the same. What runs after a value of `mine`
        must run after it in `other` too, as far as corresponding regions go, or the copy could close a cycle; where it
        does not, the region is no longer taken as corresponding: `mine` never joins it again and reads from memory.
        """
        layout, pairs = self.layout, len(mine)
        extra = np.zeros(pairs, np.int64)
        matched_set = np.zeros((pairs, layout.slots), np.int64)
        my_offers, its_offers = mine[:, layout.offer : layout.after], other[:, layout.offer : layout.after]
        columns = np.flatnonzero((my_offers | its_offers).any(0))
        if len(columns):
            matched = self._match(mine, other, columns, extra)
            slot, place = columns // layout.offers, columns % layout.offers
            for column, (s, p) in enumerate(zip(slot, place, strict=True)):
                matched_set[:, s] |= matched[:, column].astype(np.int64) << p
        for coming in live:
            slot_at, value = coming.slot, self.model.values[coming.value]
            demand, its_demand = mine[:, layout.demand + slot_at], other[:, layout.demand + slot_at]
            must, its_must = demand >> layout.items, its_demand >> layout.items
            extra[must & ~(its_must & matched_set[:, slot_at]) != 0] = INFINITE
            if value.solo:
                offered = (my_code[:, slot_at] | its_code[:, slot_at]) & layout.offer_mask
                idle = (my_code[:, slot_at] == 0) & (its_code[:, slot_at] != 0)
                stuck = (offered & ~matched_set[:, slot_at] != 0) | (demand & ~its_demand != 0) | idle
                extra[stuck] = INFINITE
            else:
                extra += self.tables.dearer(
                    value.signature, coming, my_code[:, slot_at], matched_set[:, slot_at], its_code[:, slot_at]
                )
                np.clip(extra, -INFINITE, INFINITE, out=extra)
        return extra

    def _match(self, mine: Array, other: Array, columns: Array, extra: Array) -> NDArray[np.bool_]:
        """[pair, column]: whether both states make this offer for corresponding regions."""
        layout, pairs = self.layout, len(mine)
        at = np.arange(pairs)[:, None]
        width = len(columns)
        my_region = mine[:, layout.offer + columns]
        its_region = other[:, layout.offer + columns]
        both = (my_region > 0) & (its_region > 0)
        my_first = ((my_region[:, :, None] == my_region[:, None, :]) & both[:, None, :]).argmax(2)
        its_first = ((its_region[:, :, None] == its_region[:, None, :]) & both[:, None, :]).argmax(2)
        matched: NDArray[np.bool_] = both & (my_first == its_first)
        my_open = mine[at, layout.open + my_region]
        its_open = other[at, layout.open + its_region]
        reads = np.where(my_region > 0, my_open | layout.bits[my_region], 0)
        beyond = contains(my_open[:, :, None], my_region[:, None, :]) > contains(
            its_open[:, :, None], its_region[:, None, :]
        )
        covered = self._cover(other)
        where = (columns // layout.offers) * layout.items + np.array(layout.devices)[columns % layout.offers]
        after = mine[:, layout.after : layout.scratch]
        for turn in range(_ROUNDS):
            now = after.copy()
            for column in range(width):  # an offer that is not matched is a read from memory
                now[:, where[column]] |= np.where(matched[:, column], 0, reads[:, column])
            busy = np.flatnonzero(now.any(0))
            head = matched & (my_first == np.arange(width))
            seen = contains(now[:, busy, None], my_region[:, None, :]) > contains(
                covered[:, busy, None], its_region[:, None, :]
            )
            wrong = head & (seen.any(1) | (beyond & head[:, :, None]).any(1))
            if not wrong.any():
                break
            if turn == _ROUNDS - 1:
                extra[wrong.any(1)] = INFINITE
                break
            matched &= ~np.take_along_axis(wrong, my_first, 1)
        return matched

    def _cover(self, other: Array) -> Array:
        """What runs after each item, or, for an item that is not demanded, after every one that is."""
        layout = self.layout
        after = other[:, layout.after : layout.scratch].reshape(len(other), layout.slots, layout.items)
        items = other[:, layout.demand : layout.offer] & layout.item_mask
        asked = (items[:, :, None] >> np.arange(layout.items) & 1) == 1
        common = np.where(asked, after, -1)
        every = np.bitwise_and.reduce(common, axis=2)
        every[items == 0] = 0
        return np.where(asked, after, every[:, :, None]).reshape(len(other), -1)
