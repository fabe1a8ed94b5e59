"""One step of the program: all ways to compute one value, in every state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rewrite_engine.egraph.extract.model import Model, Turn, Value
from rewrite_engine.egraph.extract.options import Option, OptionTable, option_table, options_of
from rewrite_engine.egraph.extract.state import (
    CHILDREN_PER_WORD,
    COST,
    FROM_MEMORY,
    MERGES,
    MODES,
    OPTION,
    PARENT,
    TAKES_OVER,
    Layout,
    TooWide,
    contains,
)
from rewrite_engine.egraph.extract.tables import Array, Tables

_MOST_NUMBERS = 6_000_000  # in the states of one step


class Stepper:
    """Expands states; remembers options by what is local to a value."""

    def __init__(self, model: Model, layout: Layout, tables: Tables) -> None:
        self.model, self.layout, self.tables = model, layout, tables
        self.most = max(1000, _MOST_NUMBERS // (layout.open + 16))
        self._options: dict[tuple[int, int], list[Option]] = {}
        self._tables: dict[tuple[int, tuple[int, ...]], OptionTable] = {}
        self._interned: dict[object, int] = {}

    def intern(self, key: object) -> int:
        return self._interned.setdefault(key, len(self._interned))

    def local_key(self, value: Value) -> int:
        """Equal for values whose options are the same but for kernel numbers and the names of children."""
        place = {child: number for number, child in enumerate(value.children)}
        ways = tuple(
            (
                t,
                tuple(
                    (
                        w.cost,
                        w.refund,
                        w.refund_item,
                        w.companion,
                        tuple(place[c] for c in w.inside),
                        tuple((place[c], i) for c, i in w.memory),
                    )
                    for w in ws
                ),
            )
            for t, ws in value.ways.items()
        )
        plain = tuple(not self.model.values[child].ways for child in value.children)
        solo = tuple(self.model.values[child].solo for child in value.children)
        return self.intern(("value", value.signature, ways, plain, solo))

    def turn_key(self, turn: Turn) -> int:
        """Equal for steps that do the same to equal states."""
        values = self.model.values
        live = tuple((c.slot, values[c.value].signature, c.items, c.offers) for c in turn.live)
        return self.intern(("turn", self.local_key(values[turn.value]), turn.slot, turn.child_slots, live))

    def table(self, turn: Turn, states: Array) -> tuple[OptionTable, Array]:
        """The options of all demands for the value of the turn, and which of these demands each state makes."""
        layout, value = self.layout, self.model.values[turn.value]
        offer = layout.offer + turn.slot * layout.offers
        code = states[:, layout.demand + turn.slot] << layout.offers
        for place in range(layout.offers):
            code |= (states[:, offer + place] > 0).astype(np.int64) << place
        found, which = np.unique(code, return_inverse=True)
        return self._table(value, tuple(int(c) for c in found)), which.reshape(-1)

    def expand(self, turn: Turn, states: Array, table: OptionTable, which: Array, cut: int | None) -> Array:
        """All successors of the states when the value of the turn is computed, not yet in canonical form.

        A kernel that reads many values from several regions has a great many. The cheapest `cut` are kept; without a
        `cut`, TooWide is raised when they are too many to hold.
        """
        layout, value = self.layout, self.model.values[turn.value]
        offer = layout.offer + turn.slot * layout.offers
        rows, chosen = _multiply(states, table, which)
        first_new = states.shape[1] - layout.open
        kernels = table.tracked.shape[1]
        rows = np.concatenate([rows, np.zeros((len(rows), kernels), np.int64)], axis=1)
        rows = _await_readers(layout, rows, table, chosen, turn.slot)
        for kernel in range(kernels):
            target = table.tracked[rows[:, OPTION], kernel]
            parts = []
            for place in range(-2, layout.offers):
                mine = rows[target == place]
                if len(mine) and place != -2:
                    run = _Run(layout, table, turn, value, kernel, place, first_new + kernel, self.most, cut)
                    mine = run.compute(self.model, mine)
                parts.append(mine)
            rows = np.concatenate(parts)
        rows[:, layout.demand + turn.slot] = 0
        rows[:, offer : offer + layout.offers] = 0
        after = layout.after + turn.slot * layout.items
        rows[:, after : after + layout.items] = 0
        rows[:, layout.scratch : layout.open] = 0
        for child, slot in zip(value.children, turn.child_slots, strict=True):
            if not self.model.values[child].ways:  # an input: it is there before everything, whoever reads it
                at = layout.after + slot * layout.items
                rows[:, at : at + layout.items] = 0
        return rows

    def _table(self, value: Value, found: tuple[int, ...]) -> OptionTable:
        layout, key = self.layout, self.local_key(value)
        if (key, found) not in self._tables:
            for code in found:
                if (key, code) not in self._options:
                    demand, offers = code >> layout.offers, code & layout.offer_mask
                    items, must = demand & layout.item_mask, demand >> layout.items
                    self._options[key, code] = options_of(self.tables, value, items, must, offers)
            self._tables[key, found] = option_table(self.tables, value, [self._options[key, code] for code in found])
        return self._tables[key, found]


def _multiply(states: Array, table: OptionTable, which: Array) -> tuple[Array, Array]:
    """Every state with every option of its code."""
    count = table.count[which]
    parent = np.repeat(np.arange(len(states)), count)
    chosen = np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count) + table.start[which][parent]
    rows = states[parent]
    rows[:, COST] += table.cost[chosen]
    rows[:, PARENT], rows[:, OPTION] = parent, chosen
    return rows, chosen


def _await_readers(layout: Layout, rows: Array, table: OptionTable, chosen: Array, slot: int) -> Array:
    """Fills `scratch`: what runs after each kernel of the option, through the memories that it provides.

    Offers that are not joined are reads from memory. Options that pay only in the face of regions go where none are.
    """
    number = np.arange(len(rows))
    after = rows[:, layout.after + slot * layout.items : layout.after + (slot + 1) * layout.items].copy()
    for place in range(layout.offers):
        region = rows[:, layout.offer + slot * layout.offers + place]
        refused = (region > 0) & (table.joined_set[chosen] >> place & 1 == 0)
        if refused.any():
            reach = layout.bits[region] | rows[number, layout.open + region]
            after[:, layout.devices[place]] |= np.where(refused, reach, 0)
    blocked = np.zeros(len(rows), np.int64)
    for item in range(layout.items):
        blocked |= (after[:, item] != 0).astype(np.int64) << item
    useful = table.needs_all[chosen] & ~blocked == 0
    for kernel in range(table.tracked.shape[1]):
        wanted = table.needs_any[chosen, kernel]
        useful &= (wanted == -1) | (wanted & blocked != 0)
        for item in range(layout.items):
            provided = table.provides[chosen, kernel] >> item & 1 == 1
            rows[:, layout.scratch + kernel] |= np.where(provided, after[:, item], 0)
    return rows if useful.all() else rows[useful]


class _Run:
    """One kernel of the options, on one tracked target (`place`) or any untracked one (-1)."""

    def __init__(
        self,
        layout: Layout,
        table: OptionTable,
        turn: Turn,
        value: Value,
        kernel: int,
        place: int,
        new_region: int,
        most: int,
        cut: int | None,
    ) -> None:
        self.layout, self.table, self.turn, self.value = layout, table, turn, value
        self.most, self.cut = most, cut
        self.kernel, self.place, self.new_region = kernel, place, new_region

    def compute(self, model: Model, rows: Array) -> Array:
        table, kernel = self.table, self.kernel
        if self.place < 0:
            region: Array | None = None
        else:
            rows, region = self._enter(rows)
        for number, slot in enumerate(self.turn.child_slots):
            items = table.items[rows[:, OPTION], kernel, number]
            if items.any():
                self._read_memory(rows, slot, items, self._after(rows, region))
            if region is None:
                continue
            reads = table.inside[rows[:, OPTION], kernel, number]
            if reads.any():
                solo = model.values[self.value.children[number]].solo
                rows, region = self._read_inside(rows, region, reads, number, slot, solo)
        return rows

    def _enter(self, rows: Array) -> tuple[Array, Array]:
        """The region of the kernel: the one that it joins, if that closes no cycle, or a new one."""
        layout = self.layout
        offered = rows[:, layout.offer + self.turn.slot * layout.offers + self.place]
        region = np.where(self.table.joined[rows[:, OPTION], self.kernel], offered, self.new_region)
        scratch = layout.scratch + self.kernel
        sound = contains(rows[:, scratch], region) == 0
        if not sound.all():
            rows, region = rows[sound], region[sound]
        number = np.arange(len(rows))
        if rows[:, scratch].any():
            rows[number, layout.open + region] |= rows[:, scratch]
            sets = rows[:, layout.after :]
            sets |= contains(sets, region[:, None]) * rows[number, layout.open + region][:, None]
        return rows, region

    def _after(self, rows: Array, region: Array | None) -> Array:
        """Open regions that run after whatever this kernel reads: its own region with all that follows."""
        if region is None:
            return rows[:, self.layout.scratch + self.kernel]
        return self.layout.bits[region] | rows[np.arange(len(rows)), self.layout.open + region]

    def _read_memory(self, rows: Array, slot: int, items: Array, after: Array) -> None:
        layout = self.layout
        rows[:, layout.demand + slot] |= items
        for item in range(layout.items):
            rows[:, layout.after + slot * layout.items + item] |= np.where(items >> item & 1 == 1, after, 0)

    def _read_inside(
        self, rows: Array, region: Array, reads: NDArray[np.bool_], number: int, slot: int, solo: bool
    ) -> tuple[Array, Array]:
        """An operand that may come from the own region: takes the offer, or settles with the region that has it."""
        layout = self.layout
        column = layout.offer + slot * layout.offers + self.place
        held = rows[:, column]
        free = reads & (held == 0)
        rows[free, column] = region[free]
        clash = np.flatnonzero(reads & (held != 0) & (held != region))
        if not len(clash):
            return rows, region
        item = np.full(len(clash), 1 << layout.devices[self.place])
        mode = MODES + self.kernel * layout.words + number // CHILDREN_PER_WORD
        shift = 2 * (number % CHILDREN_PER_WORD)
        before, mine = rows[clash], region[clash]
        theirs = before[:, column]
        at = np.arange(len(before))
        my_reach = layout.bits[mine] | before[at, layout.open + mine]
        their_reach = layout.bits[theirs] | before[at, layout.open + theirs]
        parts, regions = [], []
        if solo:
            rest = np.ones(len(rows), bool)
            rest[clash] = False
            parts.append(rows[rest])
            regions.append(region[rest])
        else:
            second = before.copy()
            self._read_memory(second, slot, item, my_reach)
            second[:, mode] |= FROM_MEMORY << shift
            rows[clash] = second
            parts.append(rows)
            regions.append(region)
            may = before[:, layout.demand + slot] >> (layout.items + self.place) & 1 == 0
            second = before[may]
            self._read_memory(second, slot, item[may], their_reach[may])
            second[:, mode] |= TAKES_OVER << shift
            second[:, column] = mine[may]
            parts.append(second)
            regions.append(mine[may])
        apart = (contains(my_reach, theirs) | contains(their_reach, mine)) == 0
        if apart.any():
            joint = (my_reach | their_reach)[apart]
            second = self._merge(before[apart], mine[apart], theirs[apart], joint)
            second[:, mode] |= MERGES << shift
            second[:, layout.demand + slot] |= 1 << (layout.items + self.place)
            parts.append(second)
            regions.append(mine[apart])
        if self.cut is None and sum(map(len, parts)) > self.most:
            raise TooWide
        rows, region = np.concatenate(parts), np.concatenate(regions)
        if self.cut is None or len(rows) <= self.cut:
            return rows, region
        cheapest = np.sort(np.argsort(rows[:, COST], kind="stable")[: self.cut])
        return rows[cheapest], region[cheapest]

    def _merge(self, rows: Array, mine: Array, theirs: Array, joint: Array) -> Array:
        """The region `theirs` becomes part of `mine`: one launch is refunded, the value must then join the region."""
        layout = self.layout
        at = np.arange(len(rows))
        my_bit, their_bit = layout.bits[mine], layout.bits[theirs]
        joint = joint & ~(my_bit | their_bit)
        rows[:, COST] -= layout.launches[self.place]
        offers = rows[:, layout.offer : layout.after]
        np.copyto(offers, mine[:, None], where=offers == theirs[:, None])
        rows[at, layout.open + mine] = joint
        rows[at, layout.open + theirs] = 0
        sets = rows[:, layout.after :]
        hit = contains(sets, mine[:, None]) | contains(sets, theirs[:, None])
        sets &= ~their_bit[:, None]
        sets |= hit * (my_bit | joint)[:, None]
        return rows
