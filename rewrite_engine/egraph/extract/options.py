"""Every way to serve a demand of one value: target sets, kernels, offers to join, and who provides each memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

import numpy as np
from numpy.typing import NDArray

from rewrite_engine.egraph.extract.model import INFINITE, Machine, Value, Way
from rewrite_engine.egraph.extract.tables import Array, Tables

_GIVEN = -1


@dataclass(frozen=True, slots=True)
class Use:
    """One kernel of an option: way `place` of `target`; whether it joins the offered region; the items it provides."""

    target: int
    place: int
    joined: bool
    provides: int


@dataclass(frozen=True, slots=True)
class Option:
    """Cost of kernels, copies and new launches. The option pays only where regions are reached from the readers of
    every item of `needs_all` and of some item of each of `needs_any`: it avoids a cycle there, at a price.
    """

    cost: int
    uses: tuple[Use, ...]
    needs_all: int
    needs_any: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OptionTable:
    """The options of several codes as arrays over [option, kernel, child]; code c has `count[c]` from `start[c]`."""

    options: Sequence[Option]
    start: Array
    count: Array
    cost: Array
    needs_all: Array
    needs_any: Array  # [option, kernel]
    tracked: Array  # [option, kernel]: position of the target; -1: untracked, -2: no such kernel
    joined: NDArray[np.bool_]  # [option, kernel]
    joined_set: Array  # [option]
    provides: Array  # [option, kernel]
    items: Array  # [option, kernel, child]: read from memory
    inside: NDArray[np.bool_]  # [option, kernel, child]: read inside the region


def subsets(members: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(members, size) for size in range(len(members) + 1))


def options_of(tables: Tables, value: Value, items: int, must: int, offers: int) -> list[Option]:
    """The options of a value with demanded `items`, `offers`, and the offers that `must` be joined."""
    if not (items or offers):
        return [Option(0, (), 0, ())]
    machine = tables.machine
    position = machine.position
    targets = tuple(value.ways)
    offering = [t for t in targets if t in position and offers >> position[t] & 1]
    bound = {t for t in offering if must >> position[t] & 1}
    if value.solo:
        bound = set(offering)
    homes = {t for place, t in enumerate(machine.untracked) if value.solo and items >> place & 1}
    found: list[Option] = []
    for chosen in subsets(targets):
        if not (bound | homes) <= set(chosen) or not (chosen or value.given):
            continue
        free = [t for t in offering if t in chosen and t not in bound]
        for extra in subsets(free):
            joined = bound | set(extra)
            if value.solo:
                found += _solo(machine, value, chosen, joined, homes)
                continue
            needed = items
            for t in offering:
                if t not in joined:
                    needed |= 1 << machine.target_devices[t]
            wanted = [item for item in range(machine.items) if needed >> item & 1]
            for provider in _assignments(tables, value, chosen, wanted):
                found += _with_kernels(tables, value, chosen, joined, wanted, provider)
    return found


def _solo(
    machine: Machine, value: Value, chosen: tuple[int, ...], joined: set[int], homes: set[int]
) -> Iterator[Option]:
    """A value of several results is computed exactly where it is read."""
    if set(chosen) != joined | homes:
        return
    item = {t: 1 << place for place, t in enumerate(machine.untracked)}
    for ways in product(*(range(len(value.ways[t])) for t in chosen)):
        cost = sum(
            value.ways[t][place].cost - value.ways[t][place].refund for t, place in zip(chosen, ways, strict=True)
        )
        if all(value.ways[t][place].companion for t, place in zip(chosen, ways, strict=True)):
            continue
        uses = tuple(Use(t, place, t in joined, item.get(t, 0)) for t, place in zip(chosen, ways, strict=True))
        yield Option(cost, uses, 0, ())


def _assignments(
    tables: Tables, value: Value, chosen: tuple[int, ...], wanted: Sequence[int]
) -> Iterator[dict[int, tuple[int, int, bool]]]:
    """Who provides each wanted item: item -> (cost, target or _GIVEN, whether this is the first choice)."""
    lists = []
    for item in wanted:
        ranked = [(tables.copy_cost(value, tables.machine.target_devices[t], item), t) for t in chosen]
        if value.given:
            ranked.append((min(tables.copy_cost(value, source, item) for source in value.given), _GIVEN))
        ranked = sorted(entry for entry in ranked if entry[0] < INFINITE)
        if not ranked:
            return
        cut = next((n for n, entry in enumerate(ranked) if entry[1] == _GIVEN), len(ranked) - 1)
        lists.append([(cost, t, n == 0) for n, (cost, t) in enumerate(ranked[: cut + 1])])  # an input waits for nothing
    for picked in product(*lists):
        yield dict(zip(wanted, picked, strict=True))


def _with_kernels(
    tables: Tables,
    value: Value,
    chosen: tuple[int, ...],
    joined: set[int],
    wanted: Sequence[int],
    provider: Mapping[int, tuple[int, int, bool]],
) -> Iterator[Option]:
    """One option per choice of ways, without those that are never better than leaving a target out.

    A target that joins nothing is there for the memories it provides. Without it they come from the next best provider
    (`saved` dearer), and no operand of it can join regions: each may have spared a launch. If that is no dearer, the
    target pays only where its readers reach an open region, so that another provider could close a cycle. (A target
    that provides nothing at all can still pay by joining regions, or as the proper kernel beside a companion.)
    """
    machine = tables.machine
    provides = dict.fromkeys(chosen, 0)
    copies = needs_all = 0
    for item, (cost, target, first) in provider.items():
        copies += cost
        if target != _GIVEN:
            provides[target] |= 1 << item
        if not first:
            needs_all |= 1 << item
    loose = [t for t in chosen if t not in joined]
    saved = {t: _saved(tables, value, chosen, t, provider) for t in loose}
    launches = sum(machine.launches[t] for t in loose)
    for places in product(*(range(len(value.ways[t])) for t in chosen)):
        ways: list[Way] = [value.ways[t][place] for t, place in zip(chosen, places, strict=True)]
        proper = [way.target for way in ways if not way.companion]
        if not proper and not value.given:
            continue
        needs_any = []
        refunds = 0
        for way in ways:
            t = way.target
            refund = way.refund if _is_due(way, provider) else 0
            refunds += refund
            alone = proper == [t] and not value.given
            if t in saved and not alone:
                spared = machine.launches[t] * (1 - len(way.inside))
                if saved[t] <= way.cost - refund + spared:
                    needs_any.append(provides[t])
        if 0 in needs_any:
            continue
        cost = copies + launches + sum(way.cost for way in ways) - refunds
        uses = tuple(Use(t, place, t in joined, provides[t]) for t, place in zip(chosen, places, strict=True))
        yield Option(cost, uses, needs_all, tuple(needs_any))


def _is_due(way: Way, provider: Mapping[int, tuple[int, int, bool]]) -> bool:
    item = way.refund_item
    return item is None or (item in provider and provider[item][1] != way.target)


def _saved(
    tables: Tables, value: Value, chosen: tuple[int, ...], target: int, provider: Mapping[int, tuple[int, int, bool]]
) -> int:
    """How much dearer copies get when `target` does not compute the value."""
    total = 0
    for item, (cost, by, _) in provider.items():
        if by == target:
            others = [tables.machine.target_devices[t] for t in chosen if t != target] + list(value.given)
            total += min((tables.copy_cost(value, s, item) for s in others), default=INFINITE) - cost
    return min(total, INFINITE)


def option_table(tables: Tables, value: Value, lists: Iterable[list[Option]]) -> OptionTable:
    """Several lists of options as one table of arrays."""
    options: list[Option] = []
    start, count = [], []
    for found in lists:
        start.append(len(options))
        count.append(len(found))
        options += found
    position = tables.machine.position
    child_place = {child: place for place, child in enumerate(value.children)}
    kernels = max((len(option.uses) for option in options), default=0)
    shape = (len(options), kernels)
    tracked = np.full(shape, -2, np.int64)
    joined, provides = np.zeros(shape, bool), np.zeros(shape, np.int64)
    needs_any = np.full(shape, -1, np.int64)
    items = np.zeros((*shape, len(child_place)), np.int64)
    inside = np.zeros((*shape, len(child_place)), bool)
    joined_set = np.zeros(len(options), np.int64)
    for row, option in enumerate(options):
        needs_any[row, : len(option.needs_any)] = option.needs_any
        for column, use in enumerate(option.uses):
            tracked[row, column] = position.get(use.target, -1)
            joined[row, column], provides[row, column] = use.joined, use.provides
            if use.joined:
                joined_set[row] |= 1 << position[use.target]
            way = value.ways[use.target][use.place]
            for child in way.inside:
                inside[row, column, child_place[child]] = True
            for child, item in way.memory:
                items[row, column, child_place[child]] |= 1 << item
    return OptionTable(
        options,
        np.array(start, np.int64),
        np.array(count, np.int64),
        np.array([option.cost for option in options], np.int64),
        np.array([option.needs_all for option in options], np.int64),
        needs_any,
        tracked,
        joined,
        joined_set,
        provides,
        items,
        inside,
    )
