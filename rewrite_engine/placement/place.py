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
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.explore import DEFAULT_LIMITS, Limits, explore
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.extract.ladder import Clock
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.graph.declared import infer_declared
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.graph.terms import Terms
from rewrite_engine.language.core import RuleSet
from rewrite_engine.language.evaluate import profiles
from rewrite_engine.machine import NOTHING_MEASURED, Machine, build
from rewrite_engine.operators import find as find_operator
from rewrite_engine.placement.memory_limits import fit, roomy, too_small
from rewrite_engine.placement.objectives import Objective, PricedCosts, Search, exact_of
from rewrite_engine.placement.objectives import find as find_objective
from rewrite_engine.placement.rebuild import Costs, rebuild
from rewrite_engine.placement.rebuild import costs as costs_of
from rewrite_engine.placement.strategies import (
    BuiltIn,
    Optimal,
    Options,
    Strategy,
    audited,
    baselines,
    check,
    find,
    name_of,
)

LABELS = ("exact", "reassociates", "approximates")


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The chosen kernels, copies and regions. Costs, bound and baselines are in `unit`; `seconds` is per stage.

    `costs.total` is what the objective says; for `latency` and `energy` that is the sum of the parts beside it. A
    baseline is None where it finds no placement, or none that fits the memories.
    """

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
    unit: str = "ps"  # or "pJ"

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
    objective: str | Objective = "latency",
    seed: int = 0,
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
    exploring: Callable[..., Explored] = explore,
) -> Placement:
    """Places a graph on the machine of a rule set; every keyword is the command line's option of that name.

    `observe` is told the e-graph, with all its operators, and the kernels chosen from it; `explain` listens there.

    `exploring` stands in for `explore`, where an e-graph is known already, see `placement.sharing`.

    `costs` is a table of measurements for `cost profile("key")`, or the file that holds it, see `rewrite_engine.costs`.
    `strategy` is a name (of a plug-in, too) or a strategy itself, see `strategies.Strategy`; what it says itself goes
    before these keywords. `objective` likewise, see `objectives.Objective`. `seed` is that of searches that are not
    exact.
    Raises RewriteError for an unknown target, strategy, objective, kind of rewrite or pinned value, and when nothing
    can be placed (the message names the value and why).
    """
    measured = costs if isinstance(costs, Mapping) else read_costs(costs)
    aim = find_objective(objective)
    machine = aim.machine(build(rules, measured).restrict(targets) if targets else build(rules, measured))
    terms = infer_declared(terms, rules.meanings)
    chosen = find(strategy) if isinstance(strategy, str) else strategy
    options = Options(tuple(targets), mapping, fallback, time_limit, gap)
    options = chosen.told(options) if isinstance(chosen, BuiltIn) else options
    time_limit, gap = options.seconds, options.gap
    check(chosen, options, [target.name for target in machine.targets])
    _check(machine, terms, options.mapping, options.fallback, pins, allow)
    if not 0 <= gap < 1 or (time_limit is not None and not time_limit >= 0):
        raise RewriteError(
            f"expected a gap of at least 0 and less than 1, and a time limit of at least 0, in seconds; "
            f"found {gap} and {time_limit}"
        )
    seconds: dict[str, float] = {}
    explored = exploring(
        terms, rules.without_patterns() if observe is None else rules.rules, machine, allow=allow, limits=limits,
        pins=pins, clock=seconds.__setitem__, trace=observe is not None,
    )  # fmt: skip
    machine = explored.machine
    started, clock, strategy = time.perf_counter(), Clock(time_limit), name_of(strategy)
    solution, known = _choose(explored, chosen, strategy, options, aim, seed)
    seconds["extract"] = time.perf_counter() - started
    started = time.perf_counter()
    graph = rebuild(explored, solution, name)
    if isinstance(chosen, Optimal) and too_small(graph, machine):
        fitting = [
            replace(one.solution, cost=one.summed if aim.additive else one.cost) for one in known.values() if one
        ]
        solution = fitted(
            explored, solution, aim, name, lambda: Search(clock.part(0.25).left(), gap, seed), clock.left, fitting
        )
        graph = rebuild(explored, solution, name)
    launches = {target.name: target.launch for target in machine.targets}
    total = costs_of(graph, launches)
    if isinstance(chosen, Optimal) and aim.additive:  # where copies share hops, what is least before they do may not be
        least = min((one for one in known.values() if one is not None), key=lambda one: one.cost, default=None)
        if least is not None and least.cost < total.total:
            solution = replace(least.solution, bound=solution.bound)
            graph = rebuild(explored, solution, name)
            total = costs_of(graph, launches)
    if aim.additive:
        solution = _settle(explored, solution, total, replace(options, seconds=clock.left()))
    else:
        total = PricedCosts(total.kernels, total.copies, total.launches, aim.measure(graph, machine))
        solution = _priced(solution, total.total)
    if observe is not None:
        observe(explored, solution)
    seconds["rebuild"] = time.perf_counter() - started
    return Placement(
        graph, machine, total, solution.bound, solution.status, strategy, aim.name, explored.saturation,
        {key: None if one is None else one.cost for key, one in known.items()},
        {path: digest for path, (_, digest) in sorted(rules.sources.items())}, seconds,
        explored.size, len(explored.classes), explored.rounds,
        (*unmeasured(rules, graph), *_without_energy(graph), *_without_size(graph, machine)), aim.unit,
    )  # fmt: skip


def unmeasured(rules: RuleSet, graph: PlacedGraph) -> tuple[str, ...]:
    """Warnings for kernels that a measurement should cost and the roofline had to, one for each key and types."""
    keys = {rule.name: profiles(rule) for rule in rules.without_patterns() if rule.target is not None}
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
    explored: Explored, strategy: Strategy, name: str, options: Options, aim: Objective, seed: int
) -> tuple[Solution, dict[str, _Known | None]]:
    """The strategy's solution with a lower bound, and the baselines, None where one has no answer or does not fit the
    memories."""
    known = baselines(explored, options)
    others = [s for s in known.values() if s is not None]
    seconds = options.seconds
    if seconds is not None and not aim.additive and any(d.memory is not None for d in explored.machine.devices):
        seconds /= 2  # fitting into memory takes time as well
    proven = aim.solve(explored, Search(seconds, options.gap, seed), others)
    ample = roomy(explored)
    priced = {key: None if s is None else _known(explored, s, aim, name, ample) for key, s in known.items()}
    if isinstance(strategy, Optimal):
        return proven, priced
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
    return _priced(replace(found, bound=proven.bound), aim.price(explored, found)), priced


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A baseline, what its graph costs by the objective, and what it would where no copies shared hops."""

    solution: Solution
    cost: int
    summed: int


def _known(explored: Explored, solution: Solution, aim: Objective, name: str, ample: bool) -> _Known | None:
    """None where it does not fit, unless memories are `ample`. A graph costs less than the solution where copies of one
    value share hops."""
    shared = len({value for value, _, _ in solution.copies}) < len(solution.copies)
    if ample and not (aim.additive and shared):
        cost = aim.price(explored, solution)
        return _Known(solution, cost, cost)
    graph = rebuild(explored, solution, name)
    if too_small(graph, explored.machine):
        return None
    return _Known(solution, aim.measure(graph, explored.machine), _price(explored, aim, solution))


def fitted(
    explored: Explored, solution: Solution, aim: Objective, name: str, search: Callable[[], Search],
    left: Callable[[], float | None], known: Sequence[Solution] = (),
) -> Solution:  # fmt: skip
    """What is found by an objective that fits the memories, instead of a solution that does not: see `fit`."""

    def built(one: Solution) -> PlacedGraph:
        return rebuild(explored, one, name)

    def price(one: Solution) -> int:
        return _price(explored, aim, one) if aim.additive else aim.measure(built(one), explored.machine)

    def solved(priced: Explored) -> Solution:
        return aim.solve(priced, search(), ())

    exact = exact_of(explored, aim)
    return fit(explored, solution, solved, built, price, aim.additive, exact, left, known)


def _price(explored: Explored, aim: Objective, solution: Solution) -> int:
    """What an answer to a changed problem costs in the real one."""
    return aim.price(explored, replace(solution, cost=audit(explored.problem, solution.choices).cost))


def _priced(solution: Solution, cost: int) -> Solution:
    """The solution at what it costs by the objective; a bound that is higher was one of another price."""
    bound = min(solution.bound, cost)
    status = "optimal" if bound == cost else "limit" if solution.status == "limit" else "feasible"
    return replace(solution, cost=cost, bound=bound, status=status)


def _without_energy(graph: PlacedGraph) -> tuple[str, ...]:
    """A warning where energies are asked for that no rule gives."""
    silent = dict.fromkeys(s.rule for s in graph.steps if isinstance(s, KernelCall) and s.cost_source == "none")
    if not silent:
        return ()
    shown = ", ".join(f"`{rule}`" for rule in list(silent)[:3]) + (" and others" if len(silent) > 3 else "")
    return (
        f"{shown} have no energy and count as 0 pJ; give the capabilities an `energy`, such as `energy macs * 2pJ`",
    )


def open_sizes(graph: PlacedGraph, machine: Machine) -> tuple[str, ...]:
    """The values of which a size follows from the data: that of no input can be bound, and theirs is not known."""
    return () if machine.bindable != () else tuple(name for name, kind in graph.types.items() if kind.numel is None)


def without_rank(graph: PlacedGraph) -> str:
    """What to do about the inputs of which the model does not even say the rank; empty where there are none."""
    names = [f"`{name}`" for name in graph.inputs if graph.types[name].shape is None]
    if not names:
        return ""
    which = f"input {names[0]}" if len(names) == 1 else f"inputs {', '.join(names[:3])}"
    return f"the model gives no shape to its {which}: declare one in the model; sizes that are names can be bound"


def _without_size(graph: PlacedGraph, machine: Machine) -> tuple[str, ...]:
    """A warning where sizes follow from the data."""
    names = open_sizes(graph, machine)
    if not names or machine.free:
        return ()
    if mend := without_rank(graph):
        return (f"{mend}; until then sizes count as 1 in costs, and memory is not planned",)
    shown = ", ".join(f"`{name}`" for name in names[:3]) + (" and others" if len(names) > 3 else "")
    return (f"sizes of {shown} follow from the data: they count as 1 in costs, and memory is not planned",)


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
    mapping: Mapping[str, str],
    fallback: str,
    pins: Mapping[str, str],
    allow: Sequence[str],
) -> None:
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
