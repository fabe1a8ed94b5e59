"""Kernels gathered into regions, greedily: what the baselines use, and the last polish of an extraction.

In: a problem and the kernels that run. Out: every kernel with its region, as few regions as single joins can give.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import Audit, audit, describe
from rewrite_engine.egraph.problem import Choice, Kernel, Problem
from rewrite_engine.egraph.supply import INPUT, region_needs, sources_of, supply


def merge_regions(
    problem: Problem,
    kernels: Sequence[int],
    start: Sequence[Choice] | None = None,
    mergeable: frozenset[int] | None = None,
) -> tuple[Choice, ...]:
    """The choices of `merged`."""
    return merged(problem, kernels, start, mergeable).choices


def merged(
    problem: Problem,
    kernels: Sequence[int],
    start: Sequence[Choice] | None = None,
    mergeable: frozenset[int] | None = None,
) -> Audit:
    """Joins kernels of one target where an operand passes between them, unless that would close a cycle.

    `kernels` index `problem.kernels`; the result is in an order in which they can run. Kernels are visited producers
    first and join the regions of their producers. `start` gives regions to begin with in place of single kernels; only
    regions of the targets `mergeable` (all by default) grow. Raises RewriteError when the kernels alone cannot run.
    """
    groups = _start(problem, kernels, start)
    regions = [[problem.kernels[kernel] for kernel in group] for group in groups]
    needs_of = region_needs(problem, regions)
    every = [
        *(need for needs in needs_of for need in needs),
        *(r for r in problem.roots if r[0] not in problem.resident),
    ]
    for (value, device), sources in sources_of(problem, regions, every).items():
        if not sources:
            raise RewriteError(
                f"cannot form regions: `{problem.names[value]}` is read in the memory of {problem.devices[device]}, "
                "but none of the chosen kernels puts it there; choose a kernel that computes it"
            )
    plan = supply(problem, regions)
    if plan.stuck:
        stuck = describe(problem, regions[plan.stuck[0]][0])
        raise RewriteError(f"cannot form regions: the chosen kernels wait for each other, among them {stuck}")
    where = {(kernel.value, kernel.target): number for number, region in enumerate(regions) for kernel in region}
    suppliers = [sorted({plan.sources[need].region for need in needs} - {INPUT}) for needs in needs_of]
    apart = []  # what a region reads from another device's memory, it cannot have from itself
    for region, needs in zip(regions, needs_of, strict=True):
        device = problem.targets[region[0].target].device
        apart.append({plan.sources[need].region for need in needs if need[1] != device} - {INPUT})
    growing = _Growing()
    for number in plan.order:
        open_to_join = mergeable is None or regions[number][0].target in mergeable
        producers = _producers(problem, regions[number], where) if open_to_join else []
        growing.add(number, suppliers[number], producers, apart[number])
    joined = [
        Choice(kernel, place)
        for place, members in enumerate(growing.groups())
        for member in members
        for kernel in groups[member]
    ]
    return audit(problem, joined)


class _Growing:
    """Groups of regions under way, and the graph of what must run before what among them.

    A group's `_level` is above the levels of all that must run before it, which keeps searches short.
    """

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._before: dict[int, set[int]] = {}
        self._after: dict[int, set[int]] = {}
        self._level: dict[int, int] = {}

    def groups(self) -> list[list[int]]:
        return list(self._members.values())

    def add(self, region: int, suppliers: Sequence[int], producers: Sequence[int], apart: Iterable[int]) -> None:
        """Adds a region whose suppliers are there already, and lets it join the groups of its producers where it may.

        It may join a group that reaches none of its other suppliers: nothing else runs between the two. Several groups
        become one when none of them reaches another. It never joins the suppliers `apart`.
        """
        read = list(dict.fromkeys(self._find(supplier) for supplier in suppliers))
        never = {self._find(supplier) for supplier in apart}
        home: list[int] = []
        for group in dict.fromkeys(self._find(p) for p in producers if p in self._parent):
            others = [other for other in (*read, *home) if other != group]
            if group in never or any(self._reaches(group, other) for other in others):
                continue
            if any(self._reaches(other, group) for other in home):
                continue
            home.append(group)
        first = min(home, default=region)
        self._parent[region] = region
        self._members[region], self._before[region], self._after[region] = [region], set(), set()
        self._level[region] = 0
        for group in (*home, region):
            if group != first:
                self._unite(first, group)
        for group in read:
            if group not in home:
                self._before[first].add(group)
                self._after[group].add(first)
                self._level[first] = max(self._level[first], self._level[group] + 1)
        self._raise(first)

    def _find(self, region: int) -> int:
        while self._parent[region] != region:
            self._parent[region] = self._parent[self._parent[region]]
            region = self._parent[region]
        return region

    def _reaches(self, early: int, late: int) -> bool:
        """Whether one group must run before another: searched from both ends, a step at the one with less to do."""
        levels = self._level
        low, high = levels[early], levels[late]
        if low >= high:
            return False
        down, up = {early}, {late}
        down_todo, up_todo = [early], [late]
        while down_todo and up_todo:
            forward = len(self._after[down_todo[-1]]) <= len(self._before[up_todo[-1]])
            todo, seen, goal = (down_todo, down, up) if forward else (up_todo, up, down)
            step = (self._after if forward else self._before)[todo.pop()]
            for neighbour in step:
                group = self._find(neighbour)
                if group in goal:
                    return True
                if group not in seen and low < levels[group] < high:
                    seen.add(group)
                    todo.append(group)
        return False

    def _unite(self, first: int, group: int) -> None:
        self._parent[group] = first
        self._members[first] += self._members.pop(group)
        for sides in (self._before, self._after):
            moved = sides.pop(group)
            small, large = sorted((moved, sides[first]), key=len)
            large |= small
            sides[first] = large
        self._level[first] = max(self._level[first], self._level.pop(group))

    def _raise(self, group: int) -> None:
        """Restores the levels of what runs after a group whose own has risen."""
        todo = [group]
        while todo:
            group = todo.pop()
            for neighbour in self._after[group]:
                later = self._find(neighbour)
                if self._level[later] <= self._level[group]:
                    self._level[later] = self._level[group] + 1
                    todo.append(later)


def _start(problem: Problem, kernels: Sequence[int], start: Sequence[Choice] | None) -> list[list[int]]:
    """Regions to begin with: single kernels, but a value of several results together with its readers."""
    if start is not None:
        given: dict[int, list[int]] = defaultdict(list)
        for choice in start:
            given[choice.region].append(choice.kernel)
        return list(given.values())
    parent = {kernel: kernel for kernel in kernels}

    def find(kernel: int) -> int:
        while parent[kernel] != kernel:
            parent[kernel] = parent[parent[kernel]]
            kernel = parent[kernel]
        return kernel

    made = {(problem.kernels[k].value, problem.kernels[k].target): k for k in kernels}
    for k in kernels:
        for read in problem.kernels[k].reads:
            producer = made.get((read.value, problem.kernels[k].target))
            if read.value in problem.solo and producer is not None:
                first, second = sorted((find(k), find(producer)))
                parent[second] = first
    groups: dict[int, list[int]] = defaultdict(list)
    for k in kernels:
        groups[find(k)].append(k)
    return list(groups.values())


def _producers(problem: Problem, region: Sequence[Kernel], where: dict[tuple[int, int], int]) -> list[int]:
    """Regions of the same target that compute an operand of `region`, in the order in which operands are read."""
    found: dict[int, None] = {}
    for kernel in region:
        for read in kernel.reads:
            producer = where.get((read.value, kernel.target))
            own_memory = read.device in (None, problem.targets[kernel.target].device)
            if producer is not None and own_memory and read.value not in problem.resident:
                found[producer] = None
    if region:
        found.pop(where[region[0].value, region[0].target], None)
    return list(found)
