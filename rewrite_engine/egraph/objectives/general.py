"""Answers for large e-graphs of one target: the cheapest set of kernels per value, then local search.

In: a problem. Out: a solution to start an exact extraction from. It minds the costs of kernels alone while it searches,
so it is at its best where nothing else costs anything: no launches, no copies.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import product

from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.objectives.contracted import Contracted, contract
from rewrite_engine.egraph.objectives.moves import Moves, Plan
from rewrite_engine.egraph.objectives.search import improve
from rewrite_engine.egraph.problem import Choice, Problem, Solution

HEATS = (0.0005, 0.002)
CONTRACTED_HEATS = (0.001, 0.003)
RESTARTS = 4
"""The warmths were chosen among five on the instances of extraction-gym that `benchmarks/instances.py` runs."""


def cheapest_sets(problem: Problem) -> dict[int, int]:
    """Per value, the kernel whose own cost with all that it needs, each thing once, is least (greedy, no cycles)."""
    readers: dict[int, list[int]] = defaultdict(list)
    needs: list[list[int]] = []
    for number, kernel in enumerate(problem.kernels):
        needs.append([read.value for read in kernel.reads if read.value not in problem.resident])
        for value in needs[number]:
            readers[value].append(number)
    sets: dict[int, dict[int, int]] = {value: {} for value, _ in problem.given}
    cost: dict[int, int] = dict.fromkeys(sets, 0)
    chosen: dict[int, int] = {}
    todo = deque(number for number, mine in enumerate(needs) if all(value in sets for value in mine))
    queued = set(todo)
    while todo:
        number = todo.popleft()
        queued.discard(number)
        kernel = problem.kernels[number]
        if any(value not in sets or kernel.value in sets[value] for value in needs[number]):
            continue
        together: dict[int, int] = {}
        for value in needs[number]:
            together |= sets[value]
        together[kernel.value] = kernel.cost
        total = sum(together.values())
        if kernel.value not in cost or total < cost[kernel.value]:
            cost[kernel.value], sets[kernel.value], chosen[kernel.value] = total, together, number
            for reader in readers[kernel.value]:
                if reader not in queued:
                    queued.add(reader)
                    todo.append(reader)
    return chosen


def search_general(
    problem: Problem, tries: int = 2_000, seed: int = 0, seconds: float | None = None
) -> Solution | None:
    """The best answer of greedy choice and local search; None where the greedy choice cannot run."""
    deadline = None if seconds is None else time.monotonic() + seconds
    moves = Moves(problem)
    for value, number in cheapest_sets(problem).items():
        moves.fallback[value] = (number,)

    def keep_on() -> bool:
        return deadline is None or time.monotonic() < deadline

    contracted = contract(problem)
    plans = (
        _plans(moves, tries, seed, keep_on) if contracted is None else _among(contracted, moves, tries, seed, keep_on)
    )
    best: Solution | None = None
    for plan in plans:
        numbers = moves.kernels(plan)
        if numbers is None:
            continue
        checked = audit(problem, [Choice(number, place) for place, number in enumerate(numbers)])
        if not checked.problems and (best is None or checked.cost < best.cost):
            best = Solution(checked.choices, checked.copies, checked.cost, 0, "feasible")
    return best


def _plans(moves: Moves, tries: int, seed: int, keep_on: Callable[[], bool]) -> Iterator[Plan]:
    costs = [kernel.cost for kernel in moves.problem.kernels]

    def score(numbers: list[int]) -> tuple[int, float]:
        return sum(costs[number] for number in numbers), 0.0

    for heat in HEATS:
        found = improve(moves, {}, score, tries, seed, keep_on, heat)
        if found is not None:
            yield found[0]


def _among(contracted: Contracted, moves: Moves, tries: int, seed: int, keep_on: Callable[[], bool]) -> Iterator[Plan]:
    """Plans for the values that have a choice, several from each warmth: tries cost little here."""
    options = contracted.options
    start = {
        value: next((n for n, needs in enumerate(mine) if (needs.kernel,) == moves.fallback[value]), 0)
        for value, mine in options.items()
    }
    if contracted.price(start) is None:
        return
    for heat, turn in product(CONTRACTED_HEATS, range(RESTARTS)):
        plan = contracted.anneal(start, tries, seed * RESTARTS + turn, heat, keep_on)
        yield {value: (options[value][n].kernel,) for value, n in plan.items()}
