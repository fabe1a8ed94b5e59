"""All answers of a small problem, one after the other, for objectives that no dynamic program covers.

In: a problem and the price of an audited answer. Out: the cheapest answer, and whether the search was complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.components import components
from rewrite_engine.egraph.problem import Choice, Kernel, Problem

Price = Callable[[Audit], int]
Floor = Callable[[Sequence[Kernel]], int]
"""Kernels -> what any answer with these and perhaps more kernels costs at least. Devices share the work of kernels: a
price is also at least that work divided by their number."""

MOST_VALUES = 24
_AUDIT = 10
"""Steps that an audit counts for: about as long as they take."""


class _OutOfBudget(Exception):
    """The search was cut short."""


@dataclass(slots=True, eq=False)
class _Best:
    price: int
    choices: tuple[Choice, ...] | None
    steps: int
    deadline: float | None

    def step(self, count: int = 1) -> None:
        self.steps -= count
        if self.steps < 0 or (self.deadline is not None and time.monotonic() > self.deadline):
            raise _OutOfBudget


def enumerate_answers(
    problem: Problem, price: Price, floor: Floor, limit: int, budget: int, deadline: float | None = None
) -> tuple[int, tuple[Choice, ...] | None, bool]:
    """The least price below `limit` with its answer (None: there is none), and whether that is certain.

    It is not where the problem is large, where values lead back to themselves, or where `budget` steps are used up
    or the `deadline` (a time of `time.monotonic`) has passed.
    """
    order = _order(problem)
    best = _Best(limit, None, budget, deadline)
    if order is None or len(order) > MOST_VALUES:
        return limit, None, False
    try:
        for numbers in _selections(problem, order, floor, best):
            _partition(problem, numbers, price, best)
    except _OutOfBudget:
        return best.price, best.choices, False
    return best.price, best.choices, True


def _order(problem: Problem) -> dict[int, int] | None:
    """Values that an output can depend on, consumers first; None where one leads back to itself."""
    reads: dict[int, dict[int, None]] = {}
    for kernel in problem.kernels:
        mine = reads.setdefault(kernel.value, {})
        mine |= dict.fromkeys(read.value for read in kernel.reads if read.value not in problem.resident)
    edges: dict[int, list[int]] = {}
    todo = [value for value, _ in problem.roots if value not in problem.resident]
    while todo:
        value = todo.pop()
        if value not in edges:
            edges[value] = list(reads.get(value, ()))
            todo += edges[value]
    parts = components(edges)
    if any(len(part) > 1 for part in parts) or any(value in children for value, children in edges.items()):
        return None
    return {part[0]: place for place, part in enumerate(reversed(parts))}


def _selections(problem: Problem, order: Mapping[int, int], floor: Floor, best: _Best) -> Iterator[list[int]]:
    """Sets of kernels, at most one per value and target, such that every value that is read is computed or given."""
    by_value: dict[int, dict[int, list[int]]] = {}
    for number, kernel in enumerate(problem.kernels):
        if kernel.value in order:
            by_value.setdefault(kernel.value, {}).setdefault(kernel.target, []).append(number)
    inputs = {value for value, _ in problem.given}
    start = frozenset(value for value, _ in problem.roots if value in order)
    least = {
        value: min((problem.kernels[k].cost for mine in targets.values() for k in mine), default=0)
        for value, targets in by_value.items()
        if value not in inputs
    }
    devices = len({target.device for target in problem.targets})
    stack: list[tuple[frozenset[int], tuple[int, ...]]] = [(start, ())]
    while stack:
        pending, chosen = stack.pop()
        best.step()
        kernels = [problem.kernels[k] for k in chosen]
        work = sum(kernel.cost for kernel in kernels) + sum(least.get(value, 0) for value in pending)
        if work >= best.price * devices or floor(kernels) >= best.price:
            continue
        if not pending:
            yield list(chosen)
            continue
        value = min(pending, key=order.__getitem__)
        targets = by_value.get(value, {})
        found = []
        for size in range(0 if value in inputs else 1, len(targets) + 1):
            for where in combinations(sorted(targets), size):
                for picked in product(*(targets[t] for t in where)):
                    more = {read.value for k in picked for read in problem.kernels[k].reads if read.value in order}
                    found.append(((pending - {value}) | more, (*chosen, *picked)))
        stack += reversed(found)


def _partition(problem: Problem, numbers: Sequence[int], price: Price, best: _Best) -> None:
    """Every way to form regions of these kernels.

    Where a launch costs nothing, kernels that need not be together stay apart: that is never worse.
    """
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
    group = _closure(tied)
    for parts in _parts(problem, kernels, group, edges, best):
        choices = tuple(Choice(numbers[place], number) for number, part in enumerate(parts) for place in part)
        best.step(_AUDIT)
        found = audit(problem, choices)
        if found.problems:
            continue
        mine = price(found)
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
    problem: Problem, kernels: Sequence[Kernel], group: Sequence[int], edges: Sequence[set[int]], best: _Best
) -> Iterator[list[list[int]]]:
    """Partitions into connected parts of one target that keep tied kernels together."""
    stack: list[tuple[int, tuple[tuple[int, ...], ...]]] = [(0, ())]
    while stack:
        place, parts = stack.pop()
        best.step()
        if place == len(kernels):
            if all(_connected(part, edges) for part in parts):
                yield [list(part) for part in parts]
            continue
        target = kernels[place].target
        bound = [n for n, part in enumerate(parts) if any(group[other] == group[place] for other in part)]
        if len(bound) > 1:
            continue
        if not bound:
            stack.append((place + 1, (*parts, (place,))))
        for number, part in enumerate(parts):
            if kernels[part[0]].target != target or (bound and number not in bound):
                continue
            if bound or problem.targets[target].launch:
                stack.append((place + 1, (*parts[:number], (*part, place), *parts[number + 1 :])))


def _connected(part: Sequence[int], edges: Sequence[set[int]]) -> bool:
    reached, todo, members = {part[0]}, [part[0]], set(part)
    while todo:
        for other in edges[todo.pop()] & members - reached:
            reached.add(other)
            todo.append(other)
    return len(reached) == len(part)
