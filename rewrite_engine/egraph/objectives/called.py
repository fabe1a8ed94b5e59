"""The search for placements on devices that are called.

In: a network. Out: the best places found for the latency or the load of the busiest device. Orders of blocks are cut
into intervals, orders that cut well are changed a little and cut again, and the best placement is annealed, in rounds
that each start from the best so far.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.objectives.calls import Network, Places, fits, latency, works
from rewrite_engine.egraph.objectives.intervals import least_latency_cut, least_load_cut, rests
from rewrite_engine.egraph.objectives.orders import blocks_of, ordered
from rewrite_engine.egraph.objectives.shifts import Placed, Shifts, neighbours

Price = Callable[[Places], int | None]
HEATS = (0.01, 0.1, 0.03, 0.4)
"""The warmth that each round of annealing starts with in turn, as a part of the price it starts from."""


def least_latency(net: Network, *, orders: int = 200, tries: int = 5_000, rounds: int = 4, seed: int = 0,
                  seconds: float | None = None) -> Placed:  # fmt: skip
    """The placement of least latency found. Raises RewriteError where none fits."""
    rest = rests(net)
    clock = _Clock(seconds)

    def cut(blocks: list[list[int]]) -> list[int] | None:
        return least_latency_cut(net, blocks, rest)

    best = _by_orders(net, cut, lambda places: latency(net, places), orders, seed, clock.part(0.4), frozenset())
    for turn in range(rounds):
        if clock.over:
            break
        heat = HEATS[turn % len(HEATS)]
        best = _anneal(net, best, lambda places: latency(net, places), tries, seed + turn, heat, clock)
    return best


def least_busy(net: Network, late: frozenset[int] = frozenset(), *, orders: int = 60, tries: int = 80_000,
               rounds: int = 4, seed: int = 0, seconds: float | None = None,
               contiguous: bool = False) -> Placed:  # fmt: skip
    """The placement found whose busiest device is busy the least. Raises RewriteError where none fits.

    `late` values order nothing: those of the way back, which stay with values of the way there. `contiguous`: no way
    among the others leads out of a device and back.
    """
    clock = _Clock(seconds)

    def price(places: Places) -> int:
        return max(works(net, places))

    best = _by_orders(net, lambda blocks: least_load_cut(net, blocks), price, orders, seed, clock.part(0.3), late)
    for turn in range(rounds):
        if clock.over:
            break
        heat = HEATS[turn % len(HEATS)]
        ranks = _ranks(net, best.places, late) if contiguous else None
        best = Shifts(net, best.places, ranks, late).anneal(best, tries, seed + turn, heat, lambda: not clock.over)
    return best


def _ranks(net: Network, places: Places, late: frozenset[int]) -> list[int]:
    """Devices numbered so that values come after their operands."""
    waits: list[set[int]] = [set() for _ in range(net.devices)]
    for value, operands in enumerate(net.reads):
        waits[places[value]] |= {places[v] for v in operands if not {v, value} & late} - {places[value]}
    rank = [0] * net.devices
    for number, device in enumerate(TopologicalSorter(dict(enumerate(waits))).static_order()):
        rank[device] = number
    return rank


class _Clock:
    def __init__(self, seconds: float | None) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds

    def part(self, share: float) -> _Clock:
        """A clock that ends after this share of what is left."""
        return _Clock(None if self.end is None else max(0.0, self.end - time.monotonic()) * share)

    @property
    def over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end


def _by_orders(net: Network, cut: Callable[[list[list[int]]], list[int] | None], price: Price, orders: int, seed: int,
               clock: _Clock, late: frozenset[int]) -> Placed:  # fmt: skip
    rng = random.Random(seed)
    blocks, reads = blocks_of(net, late)
    kept: list[float] = [rng.random() for _ in blocks]
    best: Placed | None = None
    for turn in range(orders):
        if best is not None and clock.over:
            break
        fresh = turn < orders // 4
        trial = [rng.random() for _ in blocks] if fresh else list(kept)
        if not fresh:
            for _ in range(rng.choice((1, 2, 4, 16))):
                trial[rng.randrange(len(trial))] = rng.random()
        places = cut([blocks[b] for b in ordered(reads, trial)])
        cost = None if places is None else price(places)
        if places is not None and cost is not None and (best is None or cost <= best.cost):
            best, kept = Placed(tuple(places), cost), trial
    if best is None:
        raise RewriteError("no placement was found that fits the memories; give a device more of it")
    return best


def _anneal(net: Network, start: Placed, price: Price, tries: int, seed: int, heat: float, clock: _Clock) -> Placed:
    """Groups move to devices of their neighbours, alone or with others around them."""
    rng = random.Random(seed)
    near = neighbours(net)
    places, now, best = list(start.places), start.cost, start
    for turn in range(tries):
        if clock.over:
            break
        moved = _moved(net, places, near, rng)
        if moved is None:
            continue
        after = price(moved) if fits(net, moved) else None
        if after is None:
            continue
        warmth = heat * start.cost * (1 - turn / tries) ** 2
        if after <= now or (warmth > 0 and rng.random() < math.exp((now - after) / warmth)):
            places, now = moved, after
            if now < best.cost:
                best = Placed(tuple(places), now)
    return best


def _moved(net: Network, places: Sequence[int], near: Sequence[Sequence[int]], rng: random.Random) -> list[int] | None:
    group = rng.randrange(len(net.groups))
    if rng.random() < 0.1:  # two exchange devices: nothing else helps where memories are full
        return _exchanged(net, places, group, rng.randrange(len(net.groups)))
    here = places[net.groups[group][0]]
    around = {places[net.groups[other][0]] for other in near[group]} - {here}
    if around and rng.random() < 0.8:
        target = rng.choice(sorted(around))
    else:
        target = rng.randrange(net.devices)
    if target == here:
        return None
    moved = list(places)
    todo, seen, left = [group], {group}, rng.choice((1, 1, 2, 3, 5, 8, 13))
    while todo and left:
        at = todo.pop(rng.randrange(len(todo)))
        left -= 1
        for value in net.groups[at]:
            moved[value] = target
        for other in near[at]:
            if other not in seen and places[net.groups[other][0]] == here:
                seen.add(other)
                todo.append(other)
    return moved


def _exchanged(net: Network, places: Sequence[int], one: int, other: int) -> list[int] | None:
    here, there = places[net.groups[one][0]], places[net.groups[other][0]]
    if here == there:
        return None
    moved = list(places)
    for group, target in ((one, there), (other, here)):
        for value in net.groups[group]:
            moved[value] = target
    return moved
