"""The search for placements on devices that are called.

In: a network. Out: the best places found for the latency or the load of the busiest device. Orders of blocks are cut
into intervals, orders that cut well are changed a little and cut again, and the best placement is annealed, in rounds
that each start from the best so far. For contiguous sets, the best of all orders is found where their ideals are few.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Sequence

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.extract.ladder import Clock
from rewrite_engine.egraph.objectives.calls import Network, Places, fits, latency, works
from rewrite_engine.egraph.objectives.chains import least_load_chain
from rewrite_engine.egraph.objectives.convex import Convex
from rewrite_engine.egraph.objectives.folded import folded
from rewrite_engine.egraph.objectives.ideals import ideals_of
from rewrite_engine.egraph.objectives.intervals import least_latency_cut, least_load_cut, rests
from rewrite_engine.egraph.objectives.orders import Graph, blocks_of, ordered
from rewrite_engine.egraph.objectives.shifts import Placed, Shifts, neighbours

Price = Callable[[Places], int | None]
HEATS = (0.01, 0.1, 0.03, 0.4)
"""The warmth that each round of annealing starts with in turn, as a part of the price it starts from."""


def least_latency(net: Network, *, orders: int = 200, tries: int = 5_000, rounds: int = 4, seed: int = 0,
                  seconds: float | None = None) -> Placed:  # fmt: skip
    """The placement of least latency found. Raises RewriteError where none fits."""
    rest = rests(net)
    clock = Clock(seconds)

    def cut(blocks: list[list[int]]) -> list[int] | None:
        return least_latency_cut(net, blocks, rest)

    best = _by_orders(net, cut, lambda places: latency(net, places), orders, seed, clock.part(0.4), blocks_of(net))
    for turn in range(rounds):
        if clock.over:
            break
        heat = HEATS[turn % len(HEATS)]
        best = _anneal(net, best, lambda places: latency(net, places), tries, seed + turn, heat, clock)
    return best


def least_busy(net: Network, late: frozenset[int] = frozenset(), *, orders: int = 60, tries: int = 80_000,
               rounds: int = 4, seed: int = 0, seconds: float | None = None) -> Placed:  # fmt: skip
    """The placement found whose busiest device is busy the least. Raises RewriteError where none fits.

    `late` values order nothing: those of the way back, which stay with values of the way there.
    """
    clock = Clock(seconds)
    best = _cut(net, blocks_of(net, late, mirrored=True), orders, seed, clock.part(0.3))
    return _shifted(net, best, tries, rounds, seed, clock, None)


def least_contiguous(net: Network, late: frozenset[int] = frozenset(), *, ideals: int = 60_000, orders: int = 60,
                     tries: int = 80_000, rounds: int = 4, seed: int = 0,
                     seconds: float | None = None) -> tuple[Placed, int | None]:  # fmt: skip
    """The same for contiguous sets: from each of them, the host's too, no way leads out and back in.

    Also the least that a *chain* of such sets costs, each of them reading from those before it alone: exact where there
    are at most so many ideals and the time is enough, else None. Sets that are no chain may cost less. In a chain,
    `late` values whose group has no others come in the mirror image of their order.
    """
    clock = Clock(seconds)
    graph = blocks_of(net, late, mirrored=True)
    best = _cut(net, graph, orders, seed, clock.part(0.1))
    blocks, reads = folded(net, *graph)
    members = ideals_of(reads, ideals)
    least = None
    if members is not None:
        end = clock.part(0.8)
        with contextlib.suppress(TimeoutError):
            places = least_load_chain(net, blocks, members, best.cost, lambda: not end.over)
            best = best if places is None else Placed(tuple(places), max(works(net, places)))
            least = best.cost
    return _shifted(net, best, tries, rounds, seed, clock, Convex(net, late)), least


def _cut(net: Network, graph: Graph, orders: int, seed: int, clock: Clock) -> Placed:
    def price(places: Places) -> int:
        return max(works(net, places))

    return _by_orders(net, lambda blocks: least_load_cut(net, blocks), price, orders, seed, clock, graph)


def _shifted(net: Network, best: Placed, tries: int, rounds: int, seed: int, clock: Clock,
             convex: Convex | None) -> Placed:  # fmt: skip
    for turn in range(rounds):
        if clock.over:
            break
        heat = HEATS[turn % len(HEATS)]
        best = Shifts(net, best.places).anneal(best, tries, seed + turn, heat, lambda: not clock.over, convex)
    return best


def _by_orders(net: Network, cut: Callable[[list[list[int]]], list[int] | None], price: Price, orders: int, seed: int,
               clock: Clock, graph: Graph) -> Placed:  # fmt: skip
    rng = random.Random(seed)
    blocks, reads = graph
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


def _anneal(net: Network, start: Placed, price: Price, tries: int, seed: int, heat: float, clock: Clock) -> Placed:
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
