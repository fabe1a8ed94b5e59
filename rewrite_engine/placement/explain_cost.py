"""Legal but dearer: what a placement costs more when an operator must run on one target, and because of what.

In: an explored e-graph and the solution it is compared with. Out: the optimum with every other target's kernels of that
operator left out, minus the optimum, in its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice, Problem, Solution


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy that one of two placements makes and the other does not; picoseconds."""

    value: str
    source: str
    destination: str
    cost: int


@dataclass(frozen=True, slots=True)
class Dearer:
    """What the alternative costs more, in picoseconds, in all and in parts; `exact` where both optima are proven.

    `moved` are (operator's value, from, to), by target; `kernel` is what the operator's own kernels cost more.
    """

    total: int
    kernels: int
    copies: int
    launches: int
    kernel: int
    exact: bool
    moved: tuple[tuple[str, str, str], ...] = ()
    more: tuple[Copied, ...] = ()
    fewer: tuple[Copied, ...] = ()


class Alternatives:
    """Alternatives to a solution, each solved when it is asked for."""

    def __init__(self, explored: Explored, solution: Solution, seconds: float | None, optimal: bool) -> None:
        self.explored, self.solution, self.seconds, self.is_optimal = explored, solution, seconds, optimal
        self._forced: dict[tuple[str, int], Dearer | None] = {}

    @cached_property
    def base(self) -> tuple[Audit, Solution]:
        """The optimum; the solution at hand where that is one."""
        problem = self.explored.problem
        found = self.solution
        if not self.is_optimal:
            found = solve(problem, time_limit=self.seconds, cutoff=self.solution)
        return audit(problem, found.choices), found

    def dearer(self, operator: str, target: int) -> Dearer | None:
        """What it costs to have the model's `operator` on `target`; None when nothing else can then be placed."""
        key = (operator, target)
        if key not in self._forced:
            self._forced[key] = self._solve(operator, target)
        return self._forced[key]

    def _solve(self, operator: str, target: int) -> Dearer | None:
        explored = self.explored
        problem = explored.problem
        kept = tuple(
            kernel
            for kernel in problem.kernels
            if kernel.target == target or operator not in explored.covers.get(kernel.payload, ())
        )
        restricted = replace(problem, kernels=kept)
        try:
            found = solve(restricted, time_limit=self.seconds)
        except RewriteError:
            return None
        there = audit(restricted, found.choices)
        here, base = self.base
        before = placed_on(explored, problem, base.choices)
        after = placed_on(explored, restricted, found.choices)
        own = self._kernels(operator, restricted, found.choices) - self._kernels(operator, problem, base.choices)
        names = [target.name for target in problem.targets]
        return Dearer(
            total=there.cost - here.cost,
            kernels=there.kernels_cost - here.kernels_cost,
            copies=there.copies_cost - here.copies_cost,
            launches=there.launches_cost - here.launches_cost,
            kernel=own,
            exact=found.bound == found.cost and base.bound >= base.cost,
            moved=tuple(
                (name, _names(names, before[name]), _names(names, after[name]))
                for name in before
                if name in after and before[name] != after[name]
            ),
            more=self._copies(sorted(set(there.copies) - set(here.copies))),
            fewer=self._copies(sorted(set(here.copies) - set(there.copies))),
        )

    def _kernels(self, operator: str, problem: Problem, choices: Sequence[Choice]) -> int:
        chosen = (problem.kernels[choice.kernel] for choice in choices)
        return sum(kernel.cost for kernel in chosen if operator in self.explored.covers.get(kernel.payload, ()))

    def _copies(self, copies: Sequence[tuple[int, int, int]]) -> tuple[Copied, ...]:
        problem = self.explored.problem
        return tuple(
            Copied(problem.names[value], problem.devices[a], problem.devices[b], problem.copies[value, a, b])
            for value, a, b in copies
        )


def placed_on(explored: Explored, problem: Problem, choices: Sequence[Choice]) -> Mapping[str, tuple[int, ...]]:
    """The targets that compute each operator of the model, by its first output, in the model's order."""
    found: dict[str, set[int]] = {name: set() for name in operator_names(explored)}
    for choice in choices:
        kernel = problem.kernels[choice.kernel]
        for name in explored.covers.get(kernel.payload, ()):
            found[name].add(kernel.target)
    return {name: tuple(sorted(targets)) for name, targets in found.items() if targets}


def operator_names(explored: Explored) -> list[str]:
    """The first outputs of the model's operators, in order."""
    values = explored.terms.values
    return [next(values[o].name for o in node.outputs if o >= 0) for node in explored.terms.nodes]


def _names(names: Sequence[str], targets: tuple[int, ...]) -> str:
    return " and ".join(names[target] for target in targets)
