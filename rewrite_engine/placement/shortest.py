"""Strategy `dp`: the shortest path through the operators of a model, each by one kernel, as if the graph were a tree.

In: an explored problem. Out: kernels. In the order of the model, each value learns what it costs at least to have it
computed on every target: the kernel's own cost, that of each operand where it is best for this kernel with its copy,
and a launch, unless an operand comes from the same target. Operands that are shared count wherever they are read: this
is exact for chains, and for trees where launches are free, and a guess elsewhere. Then kernels are taken back from the
outputs, consumers first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Kernel, Problem
from rewrite_engine.placement.choosing import serve
from rewrite_engine.placement.given import Given


class Way(NamedTuple):
    """How a value is had from a target at least cost; `joined` is the operand whose region the kernel joins, or -1."""

    cost: int
    smaller: int  # minus the operators that the kernel computes: of equal cost, the largest
    kernel: int
    joined: int


def shortest(explored: Explored, given: Given) -> list[int] | None:
    """The kernels of `dp`, in an order in which they can run, or None where some value cannot be served."""
    problem = explored.problem
    ways = Ways(problem, given)
    sizes = {payload: -len(covered) for payload, covered in explored.covers.items()}
    for value in sorted(given.order, key=given.order.__getitem__):
        ways.learn(value, given.candidates.get(value, ()), sizes)
    counted: dict[int, set[int]] = defaultdict(set)  # value -> targets with a reader that is to join its region

    def pick(value: int, devices: set[int], targets: set[int]) -> list[int] | None:
        found = ways.found.get(value, {})
        if targets:
            picked = [found.get(target) for target in sorted(targets)]
        else:
            picked = [ways.serving(value, devices, counted.get(value, set()))]
        kernels = []
        for way in picked:
            if way is None:
                return None
            kernels.append(way.kernel)
            if way.joined >= 0:
                counted[way.joined].add(problem.kernels[way.kernel].target)
        return kernels

    return serve(problem, given, pick)


class Ways:
    """What every value costs on every target, as far as it was learnt."""

    def __init__(self, problem: Problem, given: Given) -> None:
        self.found: dict[int, dict[int, Way]] = {}
        self._problem = problem
        self._homes: dict[int, list[int]] = defaultdict(list)
        for value, home in sorted(problem.given):
            self._homes[value].append(home)
        self._arrivals: dict[tuple[int, int], int | None] = {}

    def learn(self, value: int, candidates: Sequence[int], sizes: Mapping[int, int]) -> None:
        """The best kernel of every target, once all operands are known."""
        found: dict[int, Way] = {}
        for k in candidates:
            kernel = self._problem.kernels[k]
            way = self._way(k, kernel, sizes.get(kernel.payload, 0))
            if way is not None and (kernel.target not in found or way < found[kernel.target]):
                found[kernel.target] = way
        self.found[value] = found

    def serving(self, value: int, devices: set[int], counted: set[int]) -> Way | None:
        """The way that is best for all readers: those on `devices`, and the targets that counted on its region."""
        problem = self._problem
        best: tuple[int, int] | None = None
        for target, way in self.found.get(value, {}).items():
            home = problem.targets[target].device
            copies = [problem.copies.get((value, home, device)) for device in devices if device != home]
            if None not in copies:
                launches = sum(problem.targets[other].launch for other in counted if other != target)
                cost = way.cost + sum(copy or 0 for copy in copies) + launches
                best = min(best or (cost, target), (cost, target))
        return None if best is None else self.found[value][best[1]]

    def _way(self, k: int, kernel: Kernel, size: int) -> Way | None:
        problem = self._problem
        target = problem.targets[kernel.target]
        cost, start, joined = kernel.cost, target.launch, -1
        for value, device in ((read.value, read.device) for read in kernel.reads):
            same = self.found.get(value, {}).get(kernel.target)
            if value in problem.solo:  # several results in one are always in the region of their reader
                if same is None:
                    return None
                cost, start, joined = cost + same.cost, 0, value
                continue
            arrival = self._arrival(value, target.device if device is None else device)
            if arrival is None:
                return None
            cost += arrival
            if same is not None and device in (None, target.device) and value not in self._homes:
                more = same.cost - arrival
                if more < start:
                    start, joined = more, value
        return Way(cost + start, size, k, joined)

    def _arrival(self, value: int, device: int) -> int | None:
        """The least cost to have a value in the memory of a device; None where it cannot get there."""
        if (value, device) not in self._arrivals:
            problem = self._problem
            if value in problem.resident:
                starts = [(0, device)]
            elif value in self._homes:
                starts = [(0, home) for home in self._homes[value]]
            else:
                ways = self.found.get(value, {}).items()
                starts = [(way.cost, problem.targets[target].device) for target, way in ways]
            costs = []
            for cost, home in starts:
                copy = 0 if home == device else problem.copies.get((value, home, device))
                if copy is not None:
                    costs.append(cost + copy)
            self._arrivals[value, device] = min(costs, default=None)
        return self._arrivals[value, device]
