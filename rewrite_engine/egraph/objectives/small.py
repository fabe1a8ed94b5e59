"""The best answer of a small problem by branch and bound, for objectives that no dynamic program covers.

In: a problem, the price of an audited answer and a floor of it. Out: the cheapest answer, and whether that is certain.
Kernels are selected first, then formed into regions; the floor cuts both short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.objectives.floors import Floor, Launches
from rewrite_engine.egraph.objectives.selections import Partial, order_of, selections
from rewrite_engine.egraph.problem import Choice, Kernel, Problem

Price = Callable[[Audit, int], tuple[int, bool]]
"""What an answer costs, where that is less than so much (else any that is not), and whether that is certain."""
FloorOf = Callable[[Mapping[int, int]], Floor]
"""The floor for the values in this order, consumers first."""

MOST_VALUES = 24
_AUDIT = 4
"""Steps that an audit counts for: about as long as they take."""


class _OutOfBudget(Exception):
    """The search was cut short."""


@dataclass(slots=True, eq=False)
class _Best:
    price: int
    choices: tuple[Choice, ...] | None
    steps: int
    deadline: float | None
    certain: bool = True

    def step(self, count: int = 1) -> None:
        self.steps -= count
        if self.steps < 0 or (self.deadline is not None and time.monotonic() > self.deadline):
            raise _OutOfBudget


def enumerate_answers(
    problem: Problem, price: Price, floor_of: FloorOf, limit: int, budget: int, deadline: float | None = None
) -> tuple[int, tuple[Choice, ...] | None, bool]:
    """The least price below `limit` with its answer (None: there is none), and whether that is certain.

    It is not where the problem is large, where values lead back to themselves, or where `budget` steps are used up
    or the `deadline` (a time of `time.monotonic`) has passed.
    """
    best = _Best(limit, None, budget, deadline)
    order = order_of(problem)
    if order is None or len(order) > MOST_VALUES:
        return limit, None, False
    floor = floor_of(order)
    try:
        for partial in selections(problem, order, floor.partial, lambda: best.price, best.step):
            _partition(problem, partial, price, floor, best)
    except _OutOfBudget:
        return best.price, best.choices, False
    return best.price, best.choices, best.certain


def _partition(problem: Problem, partial: Partial, price: Price, floor: Floor, best: _Best) -> None:
    """Every way to form regions of these kernels.

    Where a launch costs nothing, kernels that need not be together stay apart: that is never worse.
    """
    numbers = partial.chosen
    kernels = [problem.kernels[number] for number in numbers]
    made = {(kernel.value, kernel.target): place for place, kernel in enumerate(kernels)}
    edges: list[set[int]] = [set() for _ in kernels]
    tied: list[set[int]] = [set() for _ in kernels]
    for place, kernel in enumerate(kernels):
        for read in kernel.reads:
            producer = made.get((read.value, kernel.target))
            solo = read.value in problem.solo
            if producer is None and solo:
                return
            if producer is None or read.value in problem.resident:
                continue
            if solo:
                tied[place].add(producer)
                tied[producer].add(place)
            if read.device in (None, problem.targets[kernel.target].device):
                edges[place].add(producer)
                edges[producer].add(place)
    for parts in _parts(problem, kernels, _closure(tied), edges, floor.regions(partial), best):
        choices = tuple(Choice(numbers[place], number) for number, part in enumerate(parts) for place in part)
        best.step(_AUDIT)
        found = audit(problem, choices)
        if found.problems:
            continue
        mine, certain = price(found, best.price)
        best.certain &= certain
        if mine < best.price:
            best.price, best.choices = mine, choices


def _closure(tied: Sequence[set[int]]) -> list[int]:
    """Group numbers of places that are tied, directly or not."""
    group = list(range(len(tied)))
    for place, others in enumerate(tied):
        for other in others:
            old, new = group[other], group[place]
            group = [new if g == old else g for g in group]
    return group


def _parts(
    problem: Problem, kernels: Sequence[Kernel], group: Sequence[int], edges: Sequence[set[int]],
    least: Callable[[Launches], int], best: _Best,
) -> Iterator[list[list[int]]]:  # fmt: skip
    """Partitions into connected parts of one target that keep tied kernels together, few launches first."""
    homes = [problem.targets[kernel.target].device for kernel in kernels]
    launches = [problem.targets[kernel.target].launch for kernel in kernels]
    stack: list[tuple[frozenset[int], tuple[tuple[int, ...], ...]]] = [(frozenset(range(len(kernels))), ())]
    while stack:
        left, parts = stack.pop()
        spent = [0] * len(problem.devices)
        for part in parts:
            spent[homes[part[0]]] += launches[part[0]]
        for target in {kernels[place].target for place in left}:
            spent[problem.targets[target].device] += problem.targets[target].launch
        if least(spent) >= best.price:
            continue
        if not left:
            yield [list(part) for part in parts]
            continue
        seed = min(left)
        near = {place for place in left if kernels[place].target == kernels[seed].target}
        if not launches[seed]:
            near = {place for place in near if group[place] == group[seed]}
        found = []
        for more in _connected(seed, near, edges):
            best.step()
            inner = {group[place] for place in more}
            if not any(group[place] in inner for place in left - more):
                found.append((left - more, (*parts, tuple(sorted(more)))))
        stack += sorted(found, key=lambda one: len(one[1][-1]))


def _connected(seed: int, near: set[int], edges: Sequence[set[int]]) -> Iterator[frozenset[int]]:
    """The connected sets of places among `near` with `seed` in them, each once."""
    stack: list[tuple[frozenset[int], frozenset[int]]] = [(frozenset({seed}), frozenset())]
    while stack:
        part, refused = stack.pop()
        yield part
        open_ = sorted({other for place in part for other in edges[place]} & near - part - refused)
        for number, other in enumerate(open_):
            stack.append((part | {other}, refused.union(open_[:number])))
