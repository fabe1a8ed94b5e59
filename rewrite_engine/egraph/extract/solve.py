"""Exact extraction: the cheapest kernels, copies and regions of a problem, with a proof or an honest gap.

In: a problem. Out: a solution whose cost comes from the audit, and a lower bound of what any solution costs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from rewrite_engine.diagnostics import LimitReached, RewriteError
from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.extract.branch import branch
from rewrite_engine.egraph.extract.cycles import Unrolled, break_cycles
from rewrite_engine.egraph.extract.ladder import LADDER, LAST_RESORT, Clock, attempt, with_beam
from rewrite_engine.egraph.extract.model import HIGHEST, Machine, Way, Ways
from rewrite_engine.egraph.extract.order import build_model
from rewrite_engine.egraph.extract.prepare import Unreachable, machine_of, possible_kernels, reachable, ways_of
from rewrite_engine.egraph.extract.program import Outcome, Program
from rewrite_engine.egraph.needs import Facts
from rewrite_engine.egraph.objectives.general import search_general
from rewrite_engine.egraph.problem import Choice, Problem, Solution
from rewrite_engine.egraph.prune import pruned
from rewrite_engine.egraph.regions import merge_regions, merged
from rewrite_engine.pause import collector_paused

Roots = tuple[tuple[int, int], ...]


@collector_paused()
def solve(
    problem: Problem,
    *,
    time_limit: float | None = None,
    gap: Fraction | float = 0,
    beam: int | None = None,
    cutoff: Solution | None = None,
) -> Solution:
    """The cheapest solution, or the best within `time_limit` seconds.

    `status` is "optimal" when cost and bound are equal, "limit" when time ran out before that, else "feasible": the
    relative `gap` asked for was reached, or the problem was out of reach of an exact answer. `beam` keeps that many
    states per step for the answer, and merges states for the bound, in place of the exact search. `cutoff` is a known
    solution: it is returned when nothing cheaper is found. Kernels of constants are never chosen. Raises RewriteError
    when an output cannot be had, LimitReached when the search ends without any answer.
    """
    clock = Clock(time_limit)
    problem, kernels = _in_range(problem)
    facts = pruned(problem, kernels, lambda: not clock.over)
    if facts is not None:
        kernels = facts.kernels
    search = _Search(problem, kernels, Fraction(gap), clock, beam, cutoff)
    if facts is not None:
        _branch(search, facts)
    if search.done:
        return _solution(search)
    machine = machine_of(problem)
    roots = tuple(dict.fromkeys(root for root in problem.roots if root[0] not in problem.resident))
    ways = _reached(ways_of(problem, machine, kernels), roots)
    unrolled = _unrolled(problem, machine, ways)
    if not unrolled.cyclic:
        _climb(search, _Task(problem, kernels, machine, ways, roots, real=True))
    else:
        _bound_cycles(search, machine, unrolled, roots)
        if not search.done:
            _answer_cycles(search, machine, unrolled, roots)
        if not search.done:
            _answer_locally(search)
    return _solution(search)


def _in_range(problem: Problem) -> tuple[Problem, list[int]]:
    """What can be had without anything that costs `HIGHEST` or more: a solution below that is the best of all.

    Raises RewriteError when outputs cannot be had so.
    """
    launches = [target.launch for target in problem.targets]
    among = [i for i, kernel in enumerate(problem.kernels) if max(kernel.cost, launches[kernel.target]) < HIGHEST]
    copies = {copy: cost for copy, cost in problem.copies.items() if cost < HIGHEST}
    if len(among) == len(problem.kernels) and len(copies) == len(problem.copies):
        return problem, possible_kernels(problem)
    possible_kernels(problem)  # what cannot be had at any price has a message of its own
    targets = tuple(replace(target, launch=min(target.launch, HIGHEST)) for target in problem.targets)
    cheaper = replace(problem, copies=copies, targets=targets)
    try:
        return cheaper, possible_kernels(cheaper, among)
    except Unreachable as error:
        raise _beyond(f"without what costs so much, the output `{error.output}` cannot be had") from None


def _beyond(reason: str) -> RewriteError:
    return RewriteError(
        f"every placement costs {HIGHEST:,} or more (ps, or pJ), further than costs are added up; look at the units of "
        f"the costs, and at the sizes of the model's values: {reason}"
    )


class _Search:
    """The best answer and the best bound so far."""

    def __init__(
        self, problem: Problem, kernels: Sequence[int], gap: Fraction, clock: Clock, beam: int | None,
        cutoff: Solution | None,
    ) -> None:  # fmt: skip
        self.problem, self.kernels, self.gap, self.clock, self.beam = problem, kernels, gap, clock, beam
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

    def take(self, outcome: Outcome, real: bool) -> None:
        """Offers what a run chose; the audit and an exact run of the problem's own ways must agree.

        The kernels of an answer whose regions do not hold may still make one, with other regions.
        """
        found = self.offer(outcome.choices)
        if real and outcome.exact and (found.problems or found.cost != outcome.cost):
            said = "; ".join(found.problems) or f"{found.cost}"
            raise AssertionError(f"the extraction says {outcome.cost}, the audit of its answer says {said}")
        if found.problems:
            try:
                self.offer(merge_regions(self.problem, [choice.kernel for choice in outcome.choices]))
            except RewriteError:
                return

    @property
    def done(self) -> bool:
        return self.best is not None and self.best.cost - self.bound <= self.gap * self.best.cost


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Ways without cycles, of some kernels. `real`: they are those of the problem, not relaxed ones."""

    problem: Problem
    kernels: Sequence[int]
    machine: Machine
    ways: Ways
    roots: Roots
    real: bool

    def program(self, kind: str) -> Program:
        """The program for rungs of this kind."""
        machine, ways = self.machine, self.ways
        if kind == "free":
            machine, ways = _without_launches(self.problem, self.kernels)
            ways = _unrolled(self.problem, machine, _reached(ways, self.roots)).relaxed
        if kind in ("merging", "free"):
            machine = replace(machine, items=machine.items + 1, needed=machine.items)
        return Program(build_model(self.problem, machine, _reached(ways, self.roots), self.roots))


def _without_launches(problem: Problem, kernels: Sequence[int]) -> tuple[Machine, Ways]:
    """A relaxation: no target has a launch, so regions matter no more."""
    free = replace(problem, targets=tuple(replace(target, launch=0) for target in problem.targets))
    machine = machine_of(free)
    return machine, ways_of(free, machine, possible_kernels(free, kernels))


def _reached(ways: Ways, roots: Roots) -> dict[int, tuple[Way, ...]]:
    return reachable(ways, [value for value, _ in roots])


def _unrolled(problem: Problem, machine: Machine, ways: Ways) -> Unrolled:
    given = frozenset(value for value, _ in problem.given)
    originals = frozenset(n for n, kernel in enumerate(problem.kernels) if kernel.payload in problem.originals)
    return break_cycles(ways, machine, given, problem.solo, originals)


def _climb(search: _Search, task: _Task) -> None:
    """Runs a ladder of relaxations: each is a bound, and an optimum where its trace passes the audit at that cost.

    A rung keeps more states exactly than the one before. Where even merged states are too many, others merge them
    further. Whatever a trace is, its kernels may make an answer with regions of their own.
    """
    plain = task.program("bound")
    programs = {"bound": plain, "answer": plain}
    bounded = False
    for rung in LADDER if search.beam is None else with_beam(search.beam):
        if (rung.kind == "answer" and not task.real) or (bounded and not rung.always):
            continue
        if rung.kind not in programs:
            programs[rung.kind] = task.program(rung.kind)
        outcome = attempt(programs[rung.kind], rung, search.clock)
        if outcome is None:
            continue
        if rung.kind != "answer":
            search.bound = max(search.bound, outcome.cost)
            bounded = bounded or rung.kind != "free"
        search.take(outcome, task.real and rung.kind == "bound")
        if search.done or (outcome.exact and rung.kind == "bound"):
            return
    if search.best is None and task.real:
        search.take(plain.run(LAST_RESORT), False)


def _branch(search: _Search, facts: Facts) -> None:
    """Decides what is certainly needed, for half of the time."""
    highest, half = None if search.best is None else search.best.cost, search.clock.part(0.5)
    kernels, bound = branch(facts, highest, lambda: not half.over)
    search.bound = max(search.bound, bound)
    if kernels is not None:
        search.offer([Choice(kernel, place) for place, kernel in enumerate(kernels)])


def _bound_cycles(search: _Search, machine: Machine, unrolled: Unrolled, roots: Roots) -> None:
    """The bound of a problem with logical cycles, from relaxed ways; without launches where these are not safe."""
    problem, relaxed = search.problem, unrolled.relaxed
    if not unrolled.safe:
        machine, ways = _without_launches(problem, search.kernels)
        relaxed = _unrolled(problem, machine, _reached(ways, roots)).relaxed
    _climb(search, _Task(problem, search.kernels, machine, relaxed, roots, real=False))


def _answer_cycles(search: _Search, machine: Machine, unrolled: Unrolled, roots: Roots) -> None:
    """An answer from ways without logical cycles; what it proves holds for those ways only."""
    proven = search.bound
    kernels = possible_kernels(search.problem, (way.kernel for mine in unrolled.real.values() for way in mine))
    ways = ways_of(search.problem, machine, kernels)
    _climb(search, _Task(search.problem, kernels, machine, ways, roots, real=True))
    search.bound = proven


def _answer_locally(search: _Search) -> None:
    """An answer that may go round a logical cycle in another sense than the order chosen for `real` ways."""
    left = search.clock.left()
    found = search_general(search.problem, seconds=left)
    if found is not None:
        search.offer(found.choices)
        with contextlib.suppress(RewriteError):
            search.offer(merge_regions(search.problem, [choice.kernel for choice in found.choices]))


def _solution(search: _Search) -> Solution:
    """The best answer; its kernels of targets without a launch are gathered into regions too, at the same cost."""
    best = search.best
    if best is None:
        raise LimitReached("no answer was found in time; give the search more (--time-limit), or leave the limit out")
    if best.cost >= HIGHEST:
        raise _beyond(f"the best one found costs {best.cost:,}")
    bound = min(search.bound, best.cost)
    free = frozenset(number for number, target in enumerate(search.problem.targets) if not target.launch)
    kernels = [choice.kernel for choice in best.choices]
    gathered = merged(search.problem, kernels, best.choices, free)
    if gathered.cost != best.cost or gathered.problems:
        raise AssertionError(f"gathering kernels without a launch changed the cost from {best.cost} to {gathered.cost}")
    status = "optimal" if bound == best.cost else "limit" if search.clock.ran_out else "feasible"
    return Solution(gathered.choices, gathered.copies, gathered.cost, bound, status)
