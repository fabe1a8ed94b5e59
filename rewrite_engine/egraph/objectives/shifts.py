"""Annealing of loads: groups shift between devices, and only what changes is counted anew.

In: a network and places. Out: better places. The price is the busiest device's load, and a little of all loads'
squares, so that a move which helps the second busiest is told from one that does not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.objectives.calls import Network, works
from rewrite_engine.egraph.objectives.convex import Convex


@dataclass(frozen=True, slots=True)
class Placed:
    """The device of every value, and what that costs."""

    places: tuple[int, ...]
    cost: int


def neighbours(net: Network) -> list[list[int]]:
    """Per group, the groups that it reads or that read it."""
    near: list[dict[int, None]] = [{} for _ in net.groups]
    for value, operands in enumerate(net.reads):
        for operand in operands:
            a, b = net.group_of[value], net.group_of[operand]
            if a != b:
                near[a][b] = near[b][a] = None
    return [list(mine) for mine in near]


class Shifts:
    """Places that change: per value its readers on each device, per device its work and the bytes held."""

    def __init__(self, net: Network, places: Sequence[int]) -> None:
        self.net = net
        self.places = list(places)
        self.inside = [[0] * net.devices for _ in places]
        self.work = works(net, places)
        self.held = [0] * net.devices
        for value, device in enumerate(places):
            self.held[device] += net.sizes[value]
            for operand in net.reads[value]:
                self.inside[operand][device] += 1
            if value in net.wanted:
                self.inside[value][0] += 1

    def shift(self, group: int, target: int) -> None:
        """Moves a group, and what that changes."""
        for value in self.net.groups[group]:
            self._shift(value, target)

    def _shift(self, value: int, target: int) -> None:
        net, places, inside, work = self.net, self.places, self.inside, self.work
        here = places[value]
        if here == target:
            return
        before, after = net.cost[value][here], net.cost[value][target]
        assert before is not None and after is not None
        readers = inside[value]
        total = len(net.readers[value]) + (value in net.wanted)
        work[here] -= before
        work[target] += after
        if readers[here] < total:
            work[here] -= net.out[value][here]
        if readers[target] < total:
            work[target] += net.out[value][target]
        if readers[here]:
            work[here] += net.into[value][here]
        if readers[target]:
            work[target] -= net.into[value][target]
        self.held[here] -= net.sizes[value]
        self.held[target] += net.sizes[value]
        places[value] = target
        for operand in net.reads[value]:
            counts, home = inside[operand], places[operand]
            all_ = len(net.readers[operand]) + (operand in net.wanted)
            was = counts[home] < all_
            counts[here] -= 1
            counts[target] += 1
            if not counts[here] and here != home:
                work[here] -= net.into[operand][here]
            if counts[target] == 1 and target != home:
                work[target] += net.into[operand][target]
            if was != (counts[home] < all_):
                work[home] += -net.out[operand][home] if was else net.out[operand][home]

    def allowed(self, group: int, target: int) -> bool:
        """Whether the group has kernels and room there."""
        net, limit = self.net, self.net.memory[target]
        mine = net.groups[group]
        if any(net.cost[value][target] is None for value in mine):
            return False
        return limit is None or self.held[target] + sum(net.sizes[value] for value in mine) <= limit

    def price(self) -> float:
        top = max(self.work)
        return top + sum(work * work for work in self.work) / max(1, top) / len(self.work) / 4

    def anneal(
        self, start: Placed, tries: int, seed: int, heat: float, keep_on: Callable[[], bool],
        convex: Convex | None = None,
    ) -> Placed:  # fmt: skip
        """The best places met in so many moves; the warmth falls to nothing. With `convex`, sets stay contiguous."""
        net, rng = self.net, random.Random(seed)
        first = now = self.price()
        best = start
        around = neighbours(net)
        for turn in range(tries):
            if not turn % 64 and not keep_on():
                break
            warmth = heat * first * (1 - turn / tries) ** 2
            undo = self._move(around, rng)
            if not undo:
                continue
            after = self.price()
            taken = after <= now or (warmth > 0 and rng.random() < math.exp((now - after) / warmth))
            if taken and convex is not None:
                groups = {group for group, _ in undo}
                changed = {home for _, home in undo} | {self.places[net.groups[group][0]] for group in groups}
                taken = convex.holds(self.places, changed)
            if taken:
                now = after
                if max(self.work) < best.cost:
                    best = Placed(tuple(self.places), max(self.work))
            else:
                for group, home in reversed(undo):
                    self.shift(group, home)
        return best

    def _move(self, near: Sequence[Sequence[int]], rng: random.Random) -> list[tuple[int, int]]:
        """One move, as what takes it back: groups around one follow it to a neighbour's device."""
        net, places = self.net, self.places
        group = rng.randrange(len(net.groups))
        here = places[net.groups[group][0]]
        if rng.random() < 0.1:  # two exchange devices: nothing else helps where loads are even
            return self._exchange(group, rng.randrange(len(net.groups)))
        if near[group] and rng.random() < 0.8:
            target = places[net.groups[rng.choice(near[group])][0]]
        else:
            target = rng.randrange(net.devices)
        if target == here:
            return []
        undo = []
        todo, seen, left = [group], {group}, rng.choice((1, 1, 1, 2, 3, 5))
        while todo and left:
            at = todo.pop()
            left -= 1
            if not self.allowed(at, target):
                break
            self.shift(at, target)
            undo.append((at, here))
            for other in near[at]:
                if other not in seen and places[net.groups[other][0]] == here:
                    seen.add(other)
                    todo.append(other)
        return undo

    def _exchange(self, one: int, other: int) -> list[tuple[int, int]]:
        here, there = self.places[self.net.groups[one][0]], self.places[self.net.groups[other][0]]
        if here == there or any(self.net.cost[value][there] is None for value in self.net.groups[one]):
            return []
        self.shift(one, there)  # there may be too much there for a moment
        if self.allowed(other, here):
            self.shift(other, here)
            limit = self.net.memory[there]
            if limit is None or self.held[there] <= limit:
                return [(one, here), (other, there)]
            self.shift(other, there)
        self.shift(one, here)
        return []
