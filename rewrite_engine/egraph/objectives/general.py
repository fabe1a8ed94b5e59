"""Answers for large e-graphs of one target: the cheapest set of kernels per value, then local search.

In: a problem. Out: a solution to start an exact extraction from. It minds the costs of kernels alone while it searches,
so it is at its best where nothing else costs anything: there, what needs no choice is left out first (`prune`).
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator

from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.needs import Facts
from rewrite_engine.egraph.objectives.decisions import Decisions
from rewrite_engine.egraph.objectives.moves import Moves
from rewrite_engine.egraph.objectives.search import improve
from rewrite_engine.egraph.problem import Choice, Problem, Solution
from rewrite_engine.egraph.prune import pruned

HEATS = (0.0005, 0.002)
QUICK = 25
"""So many moves of decisions take the time of one that walks the whole e-graph, or less."""


def cheapest_sets(problem: Problem, among: Iterable[int] | None = None) -> dict[int, int]:
    """Per value, the kernel (of `among`) whose own cost with all that it needs, each thing once, is least.

    Greedy, and without cycles.
    """
    readers: dict[int, list[int]] = defaultdict(list)
    needs: list[list[int]] = []
    for number, kernel in enumerate(problem.kernels):
        needs.append([read.value for read in kernel.reads if read.value not in problem.resident])
        for value in needs[number]:
            readers[value].append(number)
    sets: dict[int, dict[int, int]] = {value: {} for value, _ in problem.given}
    cost: dict[int, int] = dict.fromkeys(sets, 0)
    chosen: dict[int, int] = {}
    allowed = set(range(len(needs)) if among is None else among)
    todo = deque(number for number in sorted(allowed) if all(value in sets for value in needs[number]))
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
                if reader not in queued and reader in allowed:
                    queued.add(reader)
                    todo.append(reader)
    return chosen


def search_general(
    problem: Problem, tries: int = 2_000, seed: int = 0, seconds: float | None = None
) -> Solution | None:
    """The best answer of greedy choice and local search; None where the greedy choice cannot run."""
    deadline = None if seconds is None else time.monotonic() + seconds

    def keep_on() -> bool:
        return deadline is None or time.monotonic() < deadline

    facts = pruned(problem, range(len(problem.kernels)), keep_on)
    plans = _walked(problem, tries, seed, keep_on) if facts is None else _decided(problem, facts, tries, seed, keep_on)
    best: Solution | None = None
    for numbers in plans:
        checked = audit(problem, [Choice(number, place) for place, number in enumerate(numbers)])
        if not checked.problems and (best is None or checked.cost < best.cost):
            best = Solution(checked.choices, checked.copies, checked.cost, 0, "feasible")
    return best


def _walked(problem: Problem, tries: int, seed: int, keep_on: Callable[[], bool]) -> Iterator[list[int]]:
    """Answers of a search that walks the kernels of every plan."""
    moves = Moves(problem)
    for value, number in cheapest_sets(problem).items():
        moves.fallback[value] = (number,)
    costs = [kernel.cost for kernel in problem.kernels]

    def score(numbers: list[int]) -> tuple[int, float]:
        return sum(costs[number] for number in numbers), 0.0

    for heat in HEATS:
        found = improve(moves, {}, score, tries, seed, keep_on, heat)
        numbers = None if found is None else moves.kernels(found[0])
        if numbers is not None:
            yield numbers


def _decided(
    problem: Problem, facts: Facts, tries: int, seed: int, keep_on: Callable[[], bool]
) -> Iterator[list[int]]:  # fmt: skip
    """Answers of a search over what is left to decide, each from the one before."""
    moves, decisions = Moves(problem), Decisions(facts)
    picks = decisions.picks(cheapest_sets(problem, facts.kernels))
    for turn, heat in enumerate((0.0, *HEATS)):
        if turn:
            picks = decisions.anneal(picks, tries * QUICK, seed + turn, heat, keep_on)
        for value, number in decisions.kernels(picks).items():
            moves.fallback[value] = (number,)
        numbers = moves.kernels({})
        if numbers is not None:
            yield numbers
