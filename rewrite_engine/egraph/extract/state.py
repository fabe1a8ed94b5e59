"""The states of the program: one row of 64-bit integers each.

    cost | parent | option | modes     how the state was made (zero once it is filed away)
    demand   [slot]                    items demanded, and above them the offers that must be joined
    offer    [slot, tracked target]    the open region (1, 2, ...) that takes the value in if that target computes it
    after    [slot, item]              open regions that run after the readers of this item
    scratch  [kernel]                  the same for the kernels of the value being computed
    open     [region]                  open regions that run after this region (column 0 is not used)

A region is open while it makes an offer. `after` and `open` are bit sets and transitively closed. Regions are numbered
by first appearance, so equal situations are equal rows. Regions beyond the 60th have no bit: cycles through them go
unseen, which makes the program a relaxation there (and its answer is then believed only if the audit passes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite_engine.egraph.extract.model import Model
from rewrite_engine.egraph.extract.tables import Array

COST, PARENT, OPTION, MODES = range(4)
LAST_BIT = 60
CHILDREN_PER_WORD = 31  # two bits of mode each
TAKES, FROM_MEMORY, TAKES_OVER, MERGES = range(4)  # modes: how a kernel gets an operand that may come from its region


class TooWide(Exception):
    """More states than a limit allows, in a program that cannot merge them further."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the columns are. `words` of modes per kernel, `kernels` of one value at most."""

    slots: int
    offers: int
    items: int
    kernels: int
    words: int
    demand: int
    offer: int
    after: int
    scratch: int
    open: int
    devices: tuple[int, ...]  # of tracked targets
    launches: tuple[int, ...]
    bits: Array  # of regions: 1 << number, 0 beyond LAST_BIT

    @property
    def item_mask(self) -> int:
        return (1 << self.items) - 1

    @property
    def offer_mask(self) -> int:
        return (1 << self.offers) - 1


def layout_of(model: Model) -> Layout:
    machine = model.machine
    kernels = max((len(value.ways) for value in model.values.values()), default=0)
    children = max((len(value.children) for value in model.values.values()), default=0)
    words = -(-children // CHILDREN_PER_WORD)
    offers = len(machine.tracked)
    demand = MODES + kernels * words
    offer = demand + model.slots
    after = offer + model.slots * offers
    scratch = after + model.slots * machine.items
    regions = np.arange(model.slots * offers + kernels + 2)
    bits = np.where(regions <= LAST_BIT, np.left_shift(1, np.minimum(regions, LAST_BIT)), 0).astype(np.int64)
    return Layout(
        model.slots,
        offers,
        machine.items,
        kernels,
        words,
        demand,
        offer,
        after,
        scratch,
        scratch + kernels,
        machine.tracked_devices,
        machine.tracked_launches,
        bits,
    )


def contains(sets: Array, region: Array) -> Array:
    """1 where the bit set has the region, else 0."""
    return sets >> np.minimum(region, 62) & 1


def initial(layout: Layout, model: Model) -> Array:
    """The one state before anything is computed: the outputs are demanded."""
    rows = np.zeros((1, layout.open + 1), np.int64)
    for value, item in model.roots:
        rows[0, layout.demand + model.root_slots[value]] |= 1 << item
    return rows


def codes(layout: Layout, rows: Array) -> Array:
    """[state, slot]: items demanded and offers made, as one integer (see `tables`)."""
    result = (rows[:, layout.demand : layout.offer] & layout.item_mask) << layout.offers
    made = rows[:, layout.offer : layout.after].reshape(len(rows), layout.slots, layout.offers) > 0
    for place in range(layout.offers):
        result |= made[:, :, place].astype(np.int64) << place
    return result


def canonical(layout: Layout, rows: Array) -> Array:
    """Renames regions by first appearance among the offers, and forgets those that make none."""
    offers = rows[:, layout.offer : layout.after]
    used = np.flatnonzero(offers.any(0))
    if not len(used):
        rows = rows[:, : layout.open + 1].copy()
        rows[:, layout.after :] = 0
        return rows
    made = offers[:, used]
    present = made > 0
    first_at = (made[:, :, None] == made[:, None, :]).argmax(2)
    first = present & (first_at == np.arange(len(used)))
    rank = first.cumsum(1)
    count = int(rank[:, -1].max())
    old = np.zeros((len(rows), count + 1), np.int64)
    row, column = np.nonzero(first)
    old[row, rank[row, column]] = made[row, column]
    sets = np.concatenate(
        [rows[:, layout.after : layout.open], np.take_along_axis(rows[:, layout.open :], old, 1)], axis=1
    )
    renamed = np.zeros_like(sets)
    for region in range(1, min(count, LAST_BIT) + 1):
        renamed |= contains(sets, old[:, region : region + 1]) << region
    renamed[:, layout.open - layout.after] = 0
    head = rows[:, : layout.after].copy()
    head[:, layout.offer + used] = np.where(present, np.take_along_axis(rank, first_at, 1), 0)
    return np.concatenate([head, renamed], axis=1)
