"""The independent check of a choice of kernels and regions, and its cost.

In: a problem and the chosen kernels with their regions. Out: the cost of what was chosen, with the cheapest copies, and
every rule that it breaks. Nothing here comes from a solver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.problem import Choice, Kernel, Memory, Problem
from rewrite_engine.egraph.supply import reads_inside, region_needs, sources_of, supply


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """What a choice costs, in picoseconds, and what is wrong with it (nothing: it can run as it stands).

    `choices` are in an order in which they can run, region by region, regions numbered in that order; `regions` are
    their kernels. Costs are 0 where the problems leave them without a meaning.
    """

    cost: int
    kernels_cost: int
    copies_cost: int
    launches_cost: int
    copies: tuple[tuple[int, int, int], ...]  # (value, from, to)
    regions: tuple[tuple[int, ...], ...]
    choices: tuple[Choice, ...]
    problems: list[str]


def audit(problem: Problem, choices: Sequence[Choice]) -> Audit:
    """Checks reads, regions and their order, and recomputes the cost with the cheapest copies that let everything run.

    A target computes a value at most once. A region is connected by operands that pass between its kernels, and the
    graph of regions has no cycle (which is more than convexity of each). Each value is copied to each memory at most
    once. An operand read from the memory of the kernel's own device may come from its own region as well.
    """
    groups: dict[int, list[int]] = defaultdict(list)
    for choice in choices:
        groups[choice.region].append(choice.kernel)
    numbers = sorted(groups)
    regions = [[problem.kernels[kernel] for kernel in groups[number]] for number in numbers]
    problems = _twice(problem, choices) + _constants(problem, choices)
    inner: list[list[int]] = []
    for number, region in zip(numbers, regions, strict=True):
        found, order = _region_problems(problem, number, region)
        problems += found
        inner.append([groups[number][place] for place in order])
    problems += _unmet(problem, regions)
    kernels_cost = sum(kernel.cost for region in regions for kernel in region)
    launches_cost = sum(problem.targets[region[0].target].launch for region in regions)
    if problems:
        return Audit(0, kernels_cost, 0, launches_cost, (), tuple(map(tuple, inner)), tuple(choices), problems)
    plan = supply(problem, regions)
    if plan.stuck:
        problems.append(_cycle(problem, numbers, regions, plan.stuck))
        return Audit(0, kernels_cost, 0, launches_cost, (), tuple(map(tuple, inner)), tuple(choices), problems)
    copies = tuple(sorted((value, s.device, device) for (value, device), s in plan.sources.items() if s.copied))
    copies_cost = sum(problem.copies[copy] for copy in copies)
    if copies_cost != plan.cost:
        raise AssertionError(f"the copies cost {copies_cost}, the search for them said {plan.cost}")
    ordered = tuple(tuple(inner[region]) for region in plan.order)
    renumbered = tuple(Choice(kernel, number) for number, members in enumerate(ordered) for kernel in members)
    total = kernels_cost + copies_cost + launches_cost
    return Audit(total, kernels_cost, copies_cost, launches_cost, copies, ordered, renumbered, problems)


def describe(problem: Problem, kernel: Kernel) -> str:
    """A kernel as users know it: "`y` on npu"."""
    return f"`{problem.names[kernel.value]}` on {problem.targets[kernel.target].name}"


def _twice(problem: Problem, choices: Sequence[Choice]) -> list[str]:
    seen: set[tuple[int, int]] = set()
    found = []
    for choice in choices:
        kernel = problem.kernels[choice.kernel]
        if (kernel.value, kernel.target) in seen:
            found.append(f"{describe(problem, kernel)} is computed twice; once is enough")
        seen.add((kernel.value, kernel.target))
    return found


def _constants(problem: Problem, choices: Sequence[Choice]) -> list[str]:
    computed = (problem.kernels[choice.kernel] for choice in choices)
    return [
        f"{describe(problem, k)} is a constant and must not be computed"
        for k in computed
        if k.value in problem.resident
    ]


def _region_problems(problem: Problem, number: int, region: Sequence[Kernel]) -> tuple[list[str], list[int]]:
    """One target, connected, no kernel waiting for itself; also an order in which the kernels can run."""
    targets = sorted({problem.targets[kernel.target].name for kernel in region})
    if len(targets) > 1:
        return [f"region {number} mixes the targets {', '.join(targets)}; a region runs on one"], list(
            range(len(region))
        )
    made = frozenset(kernel.value for kernel in region)
    by_value = {kernel.value: place for place, kernel in enumerate(region)}
    readers: dict[int, list[int]] = defaultdict(list)
    waiting = [0] * len(region)
    for place, kernel in enumerate(region):
        inside = {r.value for r in kernel.reads if reads_inside(problem, kernel, r.value, r.device, made)}
        for value in sorted(inside - problem.resident):
            readers[by_value[value]].append(place)
            waiting[place] += 1
    found = []
    ready = [place for place in range(len(region)) if not waiting[place]]
    order = []
    while ready:
        place = ready.pop(0)
        order.append(place)
        for reader in readers[place]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    if len(order) < len(region):
        stuck = next(kernel for place, kernel in enumerate(region) if waiting[place])
        found.append(f"region {number}: {describe(problem, stuck)} needs its own result")
        order = list(range(len(region)))
    reached = _reach(len(region), readers)
    if len(reached) < len(region):
        apart = next(kernel for place, kernel in enumerate(region) if place not in reached)
        found.append(
            f"region {number} is not connected: no operand passes between {describe(problem, region[0])} "
            f"and {describe(problem, apart)}; give them regions of their own"
        )
    return found, order


def _reach(count: int, readers: dict[int, list[int]]) -> set[int]:
    """Places joined to place 0 by operands, in either direction."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for place, others in readers.items():
        for other in others:
            neighbours[place].append(other)
            neighbours[other].append(place)
    reached, todo = {0}, [0]
    while todo:
        for other in neighbours[todo.pop()]:
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return reached


def _unmet(problem: Problem, regions: Sequence[Sequence[Kernel]]) -> list[str]:
    """Reads and outputs that no chosen kernel, input or copy can serve."""
    found = []
    readers: list[tuple[str, list[Memory]]] = [
        (f"the region of {describe(problem, region[0])}", needs)
        for region, needs in zip(regions, region_needs(problem, regions), strict=True)
    ]
    readers.append(("an output", [root for root in problem.roots if root[0] not in problem.resident]))
    sources = sources_of(problem, regions, [need for _, needs in readers for need in needs])
    for reader, needs in readers:
        for value, device in needs:
            name = f"`{problem.names[value]}`"
            if value in problem.solo:
                found.append(f"{reader} reads {name}, which never leaves the region that computes it")
            elif not sources[value, device]:
                found.append(
                    f"{reader} reads {name} in the memory of {problem.devices[device]}, but nothing puts it there: "
                    "no kernel, no input, no link from where it is"
                )
    return found


def _cycle(problem: Problem, numbers: Sequence[int], regions: Sequence[Sequence[Kernel]], stuck: Sequence[int]) -> str:
    """Names the regions that wait for each other: a walk from any of them to what it waits for comes round."""
    needs = region_needs(problem, regions)
    waiting = set(stuck)
    path: list[int] = []
    region = stuck[0]
    while region not in path:
        path.append(region)
        sources = sources_of(problem, regions, needs[region])
        region = next(
            source.region
            for need in needs[region]
            if all(source.region in waiting for source in sources[need])
            for source in sources[need]
        )
    cycle = path[path.index(region) :]
    wide = [place for place in cycle if len(regions[place]) > 1]
    names = " <- ".join(f"{numbers[place]} ({describe(problem, regions[place][0])})" for place in [*cycle, region])
    if len(wide) == 1:
        return f"region {numbers[wide[0]]} is not convex: a value leaves it and comes back: {names}"
    return f"the graph of regions has a cycle: {names}"
