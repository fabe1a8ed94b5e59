"""What an answer costs at least, when some of its kernels are known: a sum, or the work of the busiest device.

In: a problem and a partial selection. Out: a price that no answer with these kernels goes below. What is open counts
with the values that every way computes, each at its cheapest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from rewrite_engine.egraph.needs import members, union
from rewrite_engine.egraph.objectives.least import needed_of, prices_of_devices
from rewrite_engine.egraph.objectives.loads import Shares
from rewrite_engine.egraph.objectives.selections import Devices, Partial
from rewrite_engine.egraph.problem import Problem

Launches = Sequence[int]
"""Picoseconds of launches per device."""
_FAR = 1 << 60
_WHOLE = 10**6


class Floor(Protocol):
    """Lower bounds of a price."""

    def partial(self, partial: Partial) -> int:
        """The least price of an answer with the kernels of a partial selection, and perhaps more."""
        ...

    def regions(self, partial: Partial) -> Callable[[Launches], int]:
        """The least price of a complete selection by its launches."""
        ...


class Weighted:
    """The sum of all work and copies, each times the weight of the device that is busy with it."""

    def __init__(self, problem: Problem, weights: Sequence[int], shares: Shares) -> None:
        self.problem, self.weights = problem, weights
        homes = [target.device for target in problem.targets]
        self.ways: dict[int, list[tuple[int, int]]] = {}
        for kernel in problem.kernels:
            home = homes[kernel.target]
            self.ways.setdefault(kernel.value, []).append((home, weights[home] * kernel.cost))
        for value, device in problem.given:
            self.ways.setdefault(value, []).append((device, 0))
        self.copies = {c: sum(weights[device] * cost for device, cost in shares[c]) for c in problem.copies}
        self.known: dict[tuple[int, Devices], int] = {}

    def least(self, value: int, devices: Devices) -> int:
        """Of a value that is computed, and read in these memories."""
        if (value, devices) not in self.known:
            ways = self.ways.get(value, [])
            if value in self.problem.solo:
                found = min((cost for _, cost in ways), default=_FAR)
            else:
                found = max(
                    min((cost + self._copy(value, home, device) for home, cost in ways), default=_FAR)
                    for device in devices or (None,)
                )
            self.known[value, devices] = found
        return self.known[value, devices]

    def _copy(self, value: int, home: int, device: int | None) -> int:
        return 0 if device in (None, home) else self.copies.get((value, home, device), _FAR)


class _Open:
    """The values that are sure to be computed for those that are pending."""

    def __init__(self, problem: Problem) -> None:
        self.needed = needed_of(problem)
        self.known: dict[frozenset[int], frozenset[int]] = {}

    def values(self, partial: Partial) -> frozenset[int]:
        pending = frozenset(partial.pending)
        if pending not in self.known:
            self.known[pending] = frozenset(members(union(self.needed.get(value, 0) for value in pending)))
        return self.known[pending] - partial.decided | pending


_NOWHERE: Devices = frozenset()


class Sums:
    """For prices that are the sum of kernels, copies and launches."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.open = problem, _Open(problem)
        self.rest = Weighted(problem, (1,) * len(problem.devices), {c: ((0, v),) for c, v in problem.copies.items()})

    def partial(self, partial: Partial) -> int:
        problem, rest = self.problem, self.rest
        launches = sum(problem.targets[t].launch for t in {problem.kernels[k].target for k in partial.chosen})
        left = sum(rest.least(v, partial.pending.get(v, _NOWHERE)) for v in self.open.values(partial))
        return self._fixed(partial) + launches + left

    def regions(self, partial: Partial) -> Callable[[Launches], int]:
        fixed = self._fixed(partial)
        return lambda launches: fixed + sum(launches)

    def _fixed(self, partial: Partial) -> int:
        copies = sum(min(self.problem.copies[way] for way in ways) for ways in partial.copies)
        return copies + sum(self.problem.kernels[k].cost for k in partial.chosen)


class Busiest:
    """For the load of the busiest device: what each has to do, and all of it shared out by several weights."""

    def __init__(self, problem: Problem, shares: Shares) -> None:
        self.problem, self.shares, self.open = problem, shares, _Open(problem)
        self.rests = []
        for price in prices_of_devices(problem):
            weights = [math.floor(p * _WHOLE) for p in price]
            self.rests.append(Weighted(problem, weights, shares))

    def partial(self, partial: Partial) -> int:
        problem = self.problem
        busy = self._busy(partial)
        for target in {problem.kernels[k].target for k in partial.chosen}:
            busy[problem.targets[target].device] += problem.targets[target].launch
        best = max(busy)
        if partial.pending:
            left = [(v, partial.pending.get(v, _NOWHERE)) for v in self.open.values(partial)]
            for rest in self.rests:
                total = sum(weight * load for weight, load in zip(rest.weights, busy, strict=True))
                total += sum(rest.least(value, devices) for value, devices in left)
                best = max(best, -(-total // _WHOLE))
        return best

    def regions(self, partial: Partial) -> Callable[[Launches], int]:
        busy = self._busy(partial)
        return lambda launches: max(map(int.__add__, busy, launches))

    def _busy(self, partial: Partial) -> list[int]:
        """Kernels and copies; where one of several copies is made, the least that each device does for any."""
        busy = [0] * len(self.problem.devices)
        for number in partial.chosen:
            kernel = self.problem.kernels[number]
            busy[self.problem.targets[kernel.target].device] += kernel.cost
        for ways in partial.copies:
            if len(ways) == 1:
                for device, cost in self.shares[ways[0]]:
                    busy[device] += cost
                continue
            each = [self._by_device(way) for way in ways]
            for device, cost in each[0].items():
                busy[device] += min(cost, *(other.get(device, 0) for other in each[1:]))
        return busy

    def _by_device(self, way: tuple[int, int, int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for device, cost in self.shares[way]:
            found[device] = found.get(device, 0) + cost
        return found
