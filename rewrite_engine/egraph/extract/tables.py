"""Facts local to a value, tabulated on demand: what its copies cost, and how much dearer one demand is than another.

A *code* is a demand of one value: its items, shifted left by the number of tracked targets, plus the offers to join a
region. Values with equal signatures share their tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from rewrite_engine.egraph.extract.model import INFINITE, Coming, Machine, Value

Array = NDArray[np.int64]
_CHUNK = 2048


class Sparse:
    """A function of integers, computed where it is first asked for and kept in sorted order."""

    def __init__(self, compute: Callable[[Array], Array]) -> None:
        self._compute = compute
        self._keys: Array = np.zeros(0, np.int64)
        self._results: Array = np.zeros(0, np.int64)

    def __call__(self, keys: Array) -> Array:
        flat = keys.reshape(-1)
        place, known = self._find(flat)
        if not known.all():
            missing = np.unique(flat[~known])
            parts = [self._compute(missing[a : a + _CHUNK]) for a in range(0, len(missing), _CHUNK)]
            every = np.concatenate([self._keys, missing])
            order = np.argsort(every, kind="stable")
            self._keys = every[order]
            self._results = np.concatenate([self._results, *parts])[order]
            place, _ = self._find(flat)
        return self._results[place].reshape(keys.shape)

    def _find(self, flat: Array) -> tuple[Array, NDArray[np.bool_]]:
        if not len(self._keys):
            return np.zeros(len(flat), np.int64), np.zeros(len(flat), np.bool_)
        place = np.minimum(np.searchsorted(self._keys, flat), len(self._keys) - 1)
        return place, self._keys[place] == flat


@dataclass(frozen=True, slots=True, eq=False)
class Combinations:
    """All sets of targets that may compute a value, times the offers that they join: one row each."""

    joined: Array  # [rows]: tracked targets that join
    copies: Array  # [rows, item sets]: the cheapest copies into these memories
    charge: Array  # [rows, item sets, items]: see `Tables.dearer`
    given: Array  # [item sets]: copies of a value that no target computes


class Tables:
    """The tables of all signatures of a model."""

    def __init__(self, machine: Machine, values: Mapping[int, Value]) -> None:
        self.machine = machine
        self.offers = len(machine.tracked)
        self.item_mask = (1 << machine.items) - 1
        self.offer_mask = (1 << self.offers) - 1
        self._examples: dict[int, Value] = {}
        for value in values.values():
            self._examples.setdefault(value.signature, value)
        self._combinations: dict[int, Combinations] = {}
        self._dearer: dict[tuple[int, int, int], Sparse] = {}
        sets = range(1 << self.offers)
        launches, devices = machine.tracked_launches, machine.tracked_devices
        self.launch_of_set: Array = np.array(
            [sum(c for place, c in enumerate(launches) if s >> place & 1) for s in sets], np.int64
        )
        self.items_of_set: Array = np.array(
            [sum({1 << d for place, d in enumerate(devices) if s >> place & 1}) for s in sets], np.int64
        )

    def copy_cost(self, value: Value, source: int, item: int) -> int:
        """From the device `source` into the memory `item`."""
        return 0 if item in (source, self.machine.needed) else value.copies.get((source, item), INFINITE)

    def combinations(self, signature: int) -> Combinations:
        if signature not in self._combinations:
            self._combinations[signature] = self._combine(self._examples[signature])
        return self._combinations[signature]

    def _combine(self, value: Value) -> Combinations:
        machine, items = self.machine, self.machine.items
        targets = tuple(value.ways)
        reach = np.array(
            [[self.copy_cost(value, machine.target_devices[t], d) for d in range(items)] for t in targets], np.int64
        ).reshape(len(targets), items)
        given = np.full(items, INFINITE, np.int64)
        for source in value.given:
            given = np.minimum(given, [self.copy_cost(value, source, d) for d in range(items)])
        member = (np.arange(1 << items)[:, None] >> np.arange(items) & 1).astype(bool)

        def over_sets(per_item: Array) -> Array:
            sums: Array = np.where(member, per_item, 0).sum(1)
            return np.minimum(sums, INFINITE)

        joined, copies, charges = [], [], []
        position = machine.position
        for chosen in chain.from_iterable(combinations(range(len(targets)), k) for k in range(len(targets) + 1)):
            if not chosen and not value.given:
                continue
            rows = reach[list(chosen)]
            cheapest = np.minimum(given, rows.min(0, initial=INFINITE))
            # [a, b]: the worst provider that can serve a, copying to b
            usable = np.where((rows < INFINITE)[:, :, None], rows[:, None, :], -1).max(0, initial=-1)
            usable[usable < 0] = INFINITE
            charge = np.where(member[:, :, None], usable[None], INFINITE).min(1)
            charge = np.minimum(charge, given)
            charge[0] = cheapest
            tracked = sum(1 << position[targets[c]] for c in chosen if targets[c] in position)
            for subset in range(tracked + 1):
                if subset & ~tracked == 0:
                    joined.append(subset)
                    copies.append(over_sets(cheapest))
                    charges.append(charge)
        rows_count = len(joined)
        return Combinations(
            np.array(joined, np.int64),
            np.array(copies, np.int64).reshape(rows_count, 1 << items),
            np.array(charges, np.int64).reshape(rows_count, 1 << items, items),
            over_sets(given),
        )

    def future(self, signature: int, codes: Array) -> Array:
        """The least that the copies of a value still cost, given the demand for it: all targets compute and join."""
        table = self.combinations(signature)
        if not len(table.joined):
            return np.where(codes == 0, 0, INFINITE)
        refused = codes & self.offer_mask & ~table.joined[-1]
        return np.where(codes == 0, 0, table.copies[-1, codes >> self.offers | self.items_of_set[refused]])

    def dearer(self, signature: int, coming: Coming, mine: Array, matched: Array, other: Array) -> Array:
        """How much more a state pays for a value than another one, at most, when it copies the other's completion.

        `mine` and `other` are the codes of the two, `matched` the offers that both make for corresponding regions.
        Whatever targets compute the value for the other state and whichever offers they join:

        - a memory that only this state needs is charged. It is copied from where the other state has some memory that
          it demands from (which is safe: the caller checks that all that must run after this state's readers runs after
          the readers of each of those). That provider is not known, so the dearest counts, of the best such memory;
        - a memory that only the other state needs is credited, unless a consumer to come may still need it;
        - an offer that is not matched can cost this state a launch: where the value joins the other's region, or where
          a consumer to come merges with it.
        """
        key = (signature, coming.items, coming.offers)
        if key not in self._dearer:
            self._dearer[key] = Sparse(lambda keys: self._compare(signature, coming.items, coming.offers, keys))
        width = self.machine.items + self.offers
        return self._dearer[key]((((mine << self.offers) | matched) << width) | other)

    def _compare(self, signature: int, coming_items: int, coming_offers: int, keys: Array) -> Array:
        table = self.combinations(signature)
        width = self.machine.items + self.offers
        other, rest = keys & ((1 << width) - 1), keys >> width
        matched, mine = rest & self.offer_mask, rest >> self.offers
        my_items, my_offers = mine >> self.offers, mine & self.offer_mask
        its_items, its_offers = other >> self.offers, other & self.offer_mask
        enter, row = self.items_of_set, np.arange(len(table.joined))[:, None]
        joined = table.joined[:, None]
        its_need = its_items | enter[its_offers & ~joined]
        my_need = my_items | enter[my_offers & ~(joined & matched)]
        charged = (my_items | enter[my_offers & ~matched]) & ~its_items
        cost = np.zeros(its_need.shape, np.int64)
        for item in range(self.machine.items):
            cost += np.where(charged >> item & 1, table.charge[row, its_items, item], 0)
        impossible = cost >= INFINITE
        cost -= table.copies[row, its_need & ~my_need & ~coming_items]
        cost += self.launch_of_set[(joined | (its_offers & ~matched & coming_offers)) & ~matched]
        cost[impossible] = INFINITE
        cost[(joined & ~its_offers != 0) | (table.copies[row, its_need] >= INFINITE)] = -INFINITE
        best = cost.max(0, initial=-INFINITE)
        nothing = other == 0  # the other state does not need the value: it may never be computed
        alone = table.given[my_items | enter[my_offers]]
        return np.where(nothing, np.where(mine == 0, 0, alone), np.minimum(best, INFINITE))
