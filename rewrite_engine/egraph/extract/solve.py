"""Exact extraction: the cheapest kernels, copies and regions of a problem, with a proof or an honest gap.

In: a problem. Out: a solution whose cost comes from the audit, and a lower bound of what any solution costs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.extract.cycles import Unrolled, break_cycles
from rewrite_engine.egraph.extract.model import Machine, Ways
from rewrite_engine.egraph.extract.order import build_model
from rewrite_engine.egraph.extract.prepare import machine_of, possible_kernels, reachable, ways_of
from rewrite_engine.egraph.extract.program import Outcome, Program
from rewrite_engine.egraph.extract.reduce import Limits
from rewrite_engine.egraph.problem import Choice, Problem, Solution
from rewrite_engine.egraph.regions import merge_regions

_LADDER = (Limits(100, 1500), Limits(1000, 6000), Limits(10000, 40000))
_MERGING = (Limits(30, 100, compared=16), Limits(300, 1000))  # for frontiers that are too wide for the ladder
_BEAM, _NARROW = 100, 4
Roots = tuple[tuple[int, int], ...]


class _Search:
    """The best answer and the best bound so far."""

    def __init__(self, problem: Problem, gap: Fraction, cutoff: Solution | None) -> None:
        self.problem, self.gap = problem, gap
        self.bound = 0
        self.best: Audit | None = None
        if cutoff is not None:
            self.offer(cutoff.choices)

    def offer(self, choices: Sequence[Choice]) -> Audit:
        """Takes an answer if it holds and is cheaper than the best."""
        found = audit(self.problem, choices)
        if not found.problems and (self.best is None or found.cost < self.best.cost):
            self.best = found
        return found

    def repair(self, choices: Sequence[Choice]) -> None:
        """The kernels of an answer whose regions do not hold, with other regions."""
        try:
            self.offer(merge_regions(self.problem, [choice.kernel for choice in choices]))
        except RewriteError:
            return

    @property
    def done(self) -> bool:
        return self.best is not None and self.best.cost - self.bound <= self.gap * self.best.cost


def solve(
    problem: Problem,
    *,
    time_limit: float | None = None,
    gap: Fraction | float = 0,
    beam: int | None = None,
    cutoff: Solution | None = None,
) -> Solution:
    """The cheapest solution, or the best within `time_limit` seconds.

    `status` is "optimal" when cost and bound are equal, "limit" when time ran out before that, else "feasible": the gap
    asked for was reached, or the problem was out of reach of an exact answer. `beam` keeps that many states per step
    for the answer, and merges states for the bound, in place of the exact search. `cutoff` is a solution known already:
    it is returned when nothing cheaper is found. Kernels of constants are never chosen. Raises RewriteError when an
    output cannot be had.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    machine = machine_of(problem)
    roots = tuple(dict.fromkeys(root for root in problem.roots if root[0] not in problem.resident))
    outputs = [value for value, _ in roots]
    ways = reachable(ways_of(problem, machine, possible_kernels(problem)), outputs)
    given = frozenset(value for value, _ in problem.given)
    originals = frozenset(n for n, kernel in enumerate(problem.kernels) if kernel.payload in problem.originals)
    solo = problem.solo
    unrolled = break_cycles(ways, machine, given, solo, originals)
    search = _Search(problem, Fraction(gap), cutoff)
    if not unrolled.cyclic:
        timely = _climb(search, _Task(problem, machine, ways, roots, deadline, beam, True))
    else:
        timely = _bound_cycles(search, machine, ways, unrolled, roots, originals, deadline, beam)
        if not search.done:
            timely = _answer_cycles(search, machine, unrolled, roots, deadline, beam) and timely
    return _solution(search, timely)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Ways without cycles and what to do with them. `real`: they are those of the problem, not relaxed ones."""

    problem: Problem
    machine: Machine
    ways: Ways
    roots: Roots
    deadline: float | None
    beam: int | None
    real: bool

    def program(self, merging: bool = False) -> Program:
        machine = (
            replace(self.machine, items=self.machine.items + 1, needed=self.machine.items) if merging else self.machine
        )
        ways = reachable(self.ways, [value for value, _ in self.roots])
        return Program(build_model(self.problem, machine, ways, self.roots))

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def share(self, part: float) -> float | None:
        """A deadline that takes this part of the time that is left."""
        now = time.monotonic()
        return None if self.deadline is None else now + (self.deadline - now) * part


def _climb(search: _Search, task: _Task) -> bool:
    """Runs a ladder of relaxations: each is a bound, and an optimum where its trace passes the audit at that cost.

    A rung keeps more states exactly than the one before. Where even merged states are too many, or the task asks for a
    beam, others merge them further, and a beam gives the answer. Whatever a trace is, its kernels make an answer with
    regions of their own. Returns whether it came to its end in time.
    """
    program = task.program()
    for number, limits in enumerate(_LADDER if task.beam is None else ()):
        outcome = program.run(limits, task.share(0.5 if number else 0.25))
        if outcome is None:
            break
        search.bound = max(search.bound, outcome.cost)
        _take(search, outcome, task.real)
        if search.done or outcome.exact:
            return True
        if not number and task.real:
            _answer(search, program, task.share(0.25), _BEAM)
            if search.done:
                return True
    merging = task.program(merging=True)
    for number, limits in enumerate(_MERGING):
        outcome = None if search.done else merging.run(limits, task.share(0.6))
        if outcome is not None:
            search.bound = max(search.bound, outcome.cost)
            _take(search, outcome, False)
        if not number and task.real and (search.best is None or task.beam is not None):
            _answer(search, program, task.share(0.6), task.beam or _BEAM)
    if search.best is None and task.real:
        _answer(search, program, None, _NARROW)
    return not task.late


def _take(search: _Search, outcome: Outcome, real: bool) -> None:
    """Offers what a run chose; the audit and an exact run of the problem's own ways must agree."""
    found = search.offer(outcome.choices)
    if real and outcome.exact and (found.problems or found.cost != outcome.cost):
        said = "; ".join(found.problems) or f"{found.cost}"
        raise AssertionError(f"the extraction says {outcome.cost}, the audit of its answer says {said}")
    if found.problems:
        search.repair(outcome.choices)


def _answer(search: _Search, program: Program, deadline: float | None, beam: int) -> bool:
    outcome = program.run(Limits(beam=beam, compared=8), deadline)
    if outcome is None:
        return False
    if search.offer(outcome.choices).problems:
        search.repair(outcome.choices)
    return True


def _bound_cycles(
    search: _Search,
    machine: Machine,
    ways: Ways,
    unrolled: Unrolled,
    roots: Roots,
    originals: frozenset[int],
    deadline: float | None,
    beam: int | None,
) -> bool:
    """The bound of a problem with logical cycles, from relaxed ways; without launches where these are not safe."""
    problem, relaxed = search.problem, unrolled.relaxed
    if not unrolled.safe:
        problem = replace(problem, targets=tuple(replace(target, launch=0) for target in problem.targets))
        machine = machine_of(problem)
        ways = reachable(ways_of(problem, machine, possible_kernels(problem)), [value for value, _ in roots])
        given = frozenset(value for value, _ in problem.given)
        relaxed = break_cycles(ways, machine, given, problem.solo, originals).relaxed
    return _climb(search, _Task(problem, machine, relaxed, roots, deadline, beam, False))


def _answer_cycles(
    search: _Search, machine: Machine, unrolled: Unrolled, roots: Roots, deadline: float | None, beam: int | None
) -> bool:
    """An answer from ways without logical cycles; what it proves holds for those ways only."""
    problem, proven = search.problem, search.bound
    kernels = possible_kernels(problem, (way.kernel for mine in unrolled.real.values() for way in mine))
    ways = reachable(ways_of(problem, machine, kernels), [value for value, _ in roots])
    timely = _climb(search, _Task(problem, machine, ways, roots, deadline, beam, True))
    search.bound = proven
    return timely


def _solution(search: _Search, timely: bool) -> Solution:
    best = search.best
    if best is None:
        raise RewriteError("no answer was found within the time limit; give it more time, or a cutoff to fall back on")
    bound = min(search.bound, best.cost)
    untracked = frozenset(n for n, target in enumerate(search.problem.targets) if not target.launch)
    kernels = [choice.kernel for choice in best.choices]
    gathered = audit(search.problem, merge_regions(search.problem, kernels, best.choices, untracked))
    if gathered.cost != best.cost or gathered.problems:
        raise AssertionError(f"gathering kernels without a launch changed the cost from {best.cost} to {gathered.cost}")
    status = "optimal" if bound == best.cost else "feasible" if timely else "limit"
    return Solution(gathered.choices, gathered.copies, gathered.cost, bound, status)
