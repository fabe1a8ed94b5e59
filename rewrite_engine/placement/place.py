"""Placement: explore, choose, rebuild; what every strategy's answer is reported as.

In: a module and a rule set. Out: a `Placement`: the placed graph, its cost recomputed from its parts, a lower bound of
that same cost, and the baselines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rewrite_engine.costs import Measured, read_costs, signature
from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.egraph.explore import DEFAULT_LIMITS, Limits, explore
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.graph.declared import infer_declared
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.graph.terms import Terms
from rewrite_engine.language.core import RuleSet
from rewrite_engine.language.evaluate import profiles
from rewrite_engine.machine import NOTHING_MEASURED, Machine, build
from rewrite_engine.operators import find as find_operator
from rewrite_engine.placement.rebuild import Costs, rebuild
from rewrite_engine.placement.rebuild import costs as costs_of
from rewrite_engine.placement.strategies import Options, Strategy, audited, baselines, find, name_of, optimal

OBJECTIVES = ("latency",)
LABELS = ("exact", "reassociates", "approximates")


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The chosen kernels, copies and regions. Costs, bound and baselines are picoseconds; `seconds` is per stage."""

    graph: PlacedGraph
    machine: Machine
    costs: Costs
    bound: int
    status: str  # "optimal" | "feasible" | "limit"
    strategy: str
    objective: str
    saturation: str
    baselines: Mapping[str, int | None]
    rules: Mapping[str, str]  # path -> sha256
    seconds: Mapping[str, float] = field(default_factory=dict)
    enodes: int = 0
    classes: int = 0
    rounds: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """(cost - bound) / cost, 0 when nothing costs anything."""
        total = self.costs.total
        return (total - self.bound) / total if total else 0.0


def place(
    terms: Terms,
    rules: RuleSet,
    *,
    name: str = "model",
    strategy: str | Strategy = "optimal",
    objective: str = "latency",
    targets: Sequence[str] = (),
    mapping: Mapping[str, str] = {},
    fallback: str = "host",
    pins: Mapping[str, str] = {},
    allow: Sequence[str] = ("exact", "reassociates"),
    time_limit: float | None = None,
    gap: float = 0.0,
    limits: Limits = DEFAULT_LIMITS,
    costs: str | Path | Mapping[str, Measured] = NOTHING_MEASURED,
    observe: Callable[[Explored, Solution], None] | None = None,
) -> Placement:
    """Places a graph on the machine of a rule set; every keyword is the command line's option of that name.

    `observe` is told the e-graph, with all its operators, and the kernels chosen from it; `explain` listens there.

    `costs` is a table of measurements for `cost profile("key")`, or the file that holds it, see `rewrite_engine.costs`.
    `strategy` is a name (of a plug-in, too) or a strategy itself, see `strategies.Strategy`.
    Raises RewriteError for an unknown target, strategy, objective, kind of rewrite or pinned value, and when nothing
    can be placed (the message names the value and why).
    """
    measured = costs if isinstance(costs, Mapping) else read_costs(costs)
    machine = build(rules, measured).restrict(targets) if targets else build(rules, measured)
    terms = infer_declared(terms, rules.meanings)
    _check(machine, terms, objective, mapping, fallback, pins, allow)
    if not 0 <= gap < 1 or (time_limit is not None and not time_limit >= 0):
        raise RewriteError(
            f"expected a gap of at least 0 and less than 1, and a time limit of at least 0, in seconds; "
            f"found {gap} and {time_limit}"
        )
    seconds: dict[str, float] = {}
    explored = explore(
        terms, rules.rules, machine, allow=allow, limits=limits, pins=pins, clock=seconds.__setitem__,
        trace=observe is not None,
    )  # fmt: skip
    options = Options(tuple(targets), mapping, fallback, time_limit, gap)
    started = time.perf_counter()
    chosen, strategy = find(strategy, explored.problem) if isinstance(strategy, str) else strategy, name_of(strategy)
    solution, others = _choose(explored, chosen, strategy, options)
    seconds["extract"] = time.perf_counter() - started
    started = time.perf_counter()
    graph = rebuild(explored, solution, name)
    total = costs_of(graph, {target.name: target.launch for target in machine.targets})
    solution = _settle(explored, solution, total, options)
    if observe is not None:
        observe(explored, solution)
    seconds["rebuild"] = time.perf_counter() - started
    return Placement(
        graph, machine, total, solution.bound, solution.status, strategy, objective, explored.saturation, others,
        {path: digest for path, (_, digest) in sorted(rules.sources.items())}, seconds,
        explored.size, len(explored.classes), explored.rounds, unmeasured(rules, graph),
    )  # fmt: skip


def unmeasured(rules: RuleSet, graph: PlacedGraph) -> tuple[str, ...]:
    """Warnings for kernels that a measurement should cost and the roofline had to, one for each key and types."""
    keys = {rule.name: profiles(rule) for rule in rules.rules if rule.target is not None}
    found: dict[str, None] = {}
    for call in graph.steps:
        if isinstance(call, KernelCall) and call.cost_source == "roofline":
            for key in keys.get(call.rule, ()):
                types = signature([graph.types[name] for name in call.inputs], [graph.types[o] for o in call.outputs])
                found[
                    f'`{call.rule}` costs profile("{key}"), of which there is no measurement for {types}: '
                    f"its roofline is used instead"
                ] = None
    return tuple(found)


def _choose(
    explored: Explored, strategy: Strategy, name: str, options: Options
) -> tuple[Solution, dict[str, int | None]]:
    """The strategy's solution with a lower bound, and what the baselines cost."""
    known = baselines(explored, options)
    best = min((s for s in known.values() if s is not None), key=lambda s: s.cost, default=None)
    proven = solve(explored.problem, time_limit=options.seconds, gap=options.gap, cutoff=best)
    totals = {key: None if s is None else s.cost for key, s in known.items()}
    if strategy is optimal:
        return proven, totals
    try:
        answer = strategy(explored, options)
    except RewriteError:
        raise
    except Exception as error:
        raise RewriteError(f"strategy `{name}` failed: {type(error).__name__}: {error}") from error
    if answer is None:
        raise RewriteError(
            f"strategy `{name}` finds no placement: it sends a value where no link leads back; try `optimal`"
        )
    found = audited(name, explored.problem, answer)
    return replace(found, bound=proven.bound, status="optimal" if found.cost == proven.bound else "feasible"), totals


def _settle(explored: Explored, solution: Solution, total: Costs, options: Options) -> Solution:
    """The bound for the cost that is reported: where copies of one value share a hop, that cost is less than the sum of
    their paths, and the bound must allow for it everywhere."""
    if total.total == solution.cost:
        return solution
    assert total.total < solution.cost, f"rebuilt cost {total.total} is not the solution's {solution.cost}"
    problem, machine = explored.problem, explored.machine
    last = {}
    for (value, source, destination), cost in problem.copies.items():
        kind = explored.classes[value].type
        assert not isinstance(kind, tuple)
        path = machine.paths(machine.size(kind))[problem.devices[source], problem.devices[destination]]
        last[value, source, destination] = path[-1].cost if len(path) > 1 else cost
    relaxed = solve(replace(problem, copies=last), time_limit=options.seconds, gap=options.gap)
    status = "optimal" if relaxed.bound == total.total else "feasible"
    return replace(solution, cost=total.total, bound=min(relaxed.bound, total.total), status=status)


def check_allowed(allow: Sequence[str]) -> None:
    """Raises RewriteError where `allow` names anything but kinds of rewrites."""
    for label in allow:
        if label not in LABELS:
            raise RewriteError(f"--allow takes {', '.join(LABELS)}; found `{label}`")


def _check(
    machine: Machine,
    terms: Terms,
    objective: str,
    mapping: Mapping[str, str],
    fallback: str,
    pins: Mapping[str, str],
    allow: Sequence[str],
) -> None:
    if objective not in OBJECTIVES:
        raise RewriteError(f"objective `{objective}` is not one of: {', '.join(OBJECTIVES)}")
    check_allowed(allow)
    places = {target.name for target in machine.targets} | {device.name for device in machine.devices}
    used = {node.op for node in terms.nodes}
    for op in mapping:
        if op not in used and find_operator(op) is None:
            hint = did_you_mean(op, used)
            raise RewriteError(f"--map: there is no operator `{op}`" + (f"; {hint}" if hint else ""))
    asked = {
        "--map": [*mapping.values()],
        "--fallback": [fallback],
        "--pin": [*pins.values(), *terms.pins.values()],
    }
    for option, wanted in asked.items():
        for place_ in wanted:
            if place_ not in places:
                hint = did_you_mean(place_, places)
                raise RewriteError(
                    f"{option}: no target or device is called `{place_}`; there are {', '.join(sorted(places))}"
                    + (f"; {hint}" if hint else "")
                )
    names = {value.name for value in terms.values}
    for name in pins:
        if name not in names:
            hint = did_you_mean(name, names)
            raise RewriteError(f"--pin: the model has no value `{name}`" + (f"; {hint}" if hint else ""))
