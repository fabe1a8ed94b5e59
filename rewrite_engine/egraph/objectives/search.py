"""What searches for all objectives share: the best answer so far, and a local search that is the same on every run."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.objectives.moves import Moves, Plan
from rewrite_engine.egraph.problem import Choice, Problem, Solution
from rewrite_engine.egraph.regions import merge_regions

HEAT = 0.001
"""The warmth that annealing starts with, as a part of the first price."""

Score = Callable[[list[int]], tuple[int, float] | None]
"""Kernels that run -> their price, and a finer number to tell equal ones apart; None where they cannot run."""


@dataclass(slots=True, eq=False)
class Best:
    """The best audited answer by `price`, and the best lower bound."""

    problem: Problem
    price: Callable[[Audit], int]
    gap: Fraction
    seconds: float | None
    bound: int = 0
    cost: int | None = None
    answer: Audit | None = None
    started: float = field(default_factory=time.monotonic)
    ran_out: bool = False

    def offer(self, choices: Sequence[Choice]) -> bool:
        """Takes an answer if it holds and is better."""
        found = audit(self.problem, choices)
        if found.problems:
            return False
        cost = self.price(found)
        if self.cost is None or (cost, found.cost) < (self.cost, self.answer.cost if self.answer else cost):
            self.cost, self.answer = cost, found
            return True
        return False

    def offer_kernels(self, numbers: Sequence[int], free: frozenset[int]) -> None:
        """Takes kernels in regions made greedily, once with those of targets without a launch apart."""
        for mergeable in (None, frozenset(range(len(self.problem.targets))) - free):
            try:
                self.offer(merge_regions(self.problem, numbers, None, mergeable))
            except RewriteError:
                return

    @property
    def left(self) -> float | None:
        """Seconds that are left, None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.started))

    def part(self, share: float) -> float | None:
        """The time, by `time.monotonic`, at which this share of what is left is over."""
        left = self.left
        return None if left is None else time.monotonic() + left * share

    @property
    def done(self) -> bool:
        if self.left == 0.0:
            self.ran_out = True
            return True
        return self.cost is not None and self.cost - self.bound <= self.gap * self.cost

    def solution(self) -> Solution:
        """Raises RewriteError where there is no answer."""
        if self.answer is None or self.cost is None:
            raise RewriteError("no answer was found; give the search more time")
        bound = min(self.bound, self.cost)
        status = "optimal" if bound == self.cost else "limit" if self.ran_out else "feasible"
        return Solution(self.answer.choices, self.answer.copies, self.cost, bound, status)


def improve(
    moves: Moves, plan: Plan, score: Score, tries: int, seed: int, keep_on: Callable[[], bool], heat: float = HEAT
) -> tuple[Plan, tuple[int, float]] | None:
    """The best plan that simulated annealing finds in so many tries; None where the plan given cannot run.

    A move changes what computes one value that the plan runs, or gives it to the target of a neighbour.
    """
    rng = random.Random(seed)
    numbers = moves.kernels(plan)
    now = None if numbers is None else score(numbers)
    if numbers is None or now is None:
        return None
    current, first = dict(plan), now[0]
    best, best_score = dict(current), now
    problem = moves.problem
    for turn in range(tries):
        if not keep_on():
            break
        number = numbers[rng.randrange(len(numbers))]
        value = problem.kernels[number].value
        options = moves.others(value, current)
        if not options:
            continue
        chosen = options[rng.randrange(len(options))]
        candidate = current | {value: (chosen,)}
        if rng.random() < 0.5:  # and its operands, a few steps up
            target, todo, depth = problem.kernels[chosen].target, [chosen], rng.randint(1, 6)
            while todo and depth:
                depth -= 1
                for read in problem.kernels[todo.pop()].reads:
                    same = [k for k in moves.of.get(read.value, ()) if problem.kernels[k].target == target]
                    if same and candidate.get(read.value) != (same[0],):
                        candidate[read.value] = (same[0],)
                        todo.append(same[0])
        found = moves.kernels(candidate)
        after = None if found is None else score(found)
        if found is None or after is None:
            continue
        warmth = heat * first * (1 - turn / tries) ** 2
        worse = after[0] - now[0] + (after[1] - now[1])
        if worse <= 0 or (warmth > 0 and rng.random() < math.exp(-worse / warmth)):
            current, numbers, now = candidate, found, after
            if now < best_score:
                best, best_score = dict(current), now
    return best, best_score
