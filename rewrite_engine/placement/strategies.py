"""How the choice is made: strategies take an explored problem and return a solution with a lower bound.

`Optimal` is exact; the others are the baselines everybody knows. Baselines choose among the kernels that compute the
model's operators as they were given, a composite before its parts; of a declared operator that nothing runs as it is,
among those of its body.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast, runtime_checkable

from rewrite_engine import plugins
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice, Kernel, Problem, Solution
from rewrite_engine.egraph.supply import supply
from rewrite_engine.pause import collector_paused
from rewrite_engine.placement.choosing import solution
from rewrite_engine.placement.given import given_of
from rewrite_engine.placement.ranks import by_map, by_order, by_target, largest_sets
from rewrite_engine.placement.shortest_paths import shortest_paths


@dataclass(frozen=True, slots=True)
class Options:
    """What strategies may be told: `order` by --targets, `mapping` by --map; `seconds` and `gap` limit the search."""

    order: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    fallback: str = "host"
    seconds: float | None = None
    gap: float = 0.0


@runtime_checkable
class Strategy(Protocol):
    """A strategy: the kernels that run, in their regions, or None when it finds no placement.

    What it returns is audited: its cost and copies are computed again, and the bound is the engine's own. So the
    choices alone will do; `egraph.regions.merge_regions` makes regions of a list of kernels, and `egraph.audit.audit`
    says what a choice costs and what is wrong with it.
    """

    def __call__(self, explored: Explored, options: Options, /) -> Solution | Sequence[Choice] | None: ...


@dataclass(frozen=True, slots=True)
class Optimal:
    """The placement of least cost over the e-graph as explored, never worse than a baseline."""

    name: str = "optimal"

    def __call__(self, explored: Explored, options: Options, /) -> Solution:
        known = [s for s in baselines(explored, options).values() if s is not None]
        cutoff = min(known, key=lambda s: s.cost, default=None)
        return solve(explored.problem, time_limit=options.seconds, gap=options.gap, cutoff=cutoff)


@dataclass(frozen=True, slots=True)
class Priority:
    """Every operator goes to the first target of the order that can run it, in as large a kernel as can be.

    `order` are names of targets (None: those of --targets; none: all but the host, in the order of the rule files).
    """

    order: tuple[str, ...] | None = None
    name: str = "priority"

    def __call__(self, explored: Explored, options: Options, /) -> Solution | None:
        order = options.order if self.order is None else _known(self.order, explored.problem)
        return solution(explored, by_order(explored, order))


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest connected set of operators that one target supports goes to it first, then the next largest."""

    name: str = "largest"

    def __call__(self, explored: Explored, options: Options, /) -> Solution | None:
        given = given_of(explored)
        return solution(explored, largest_sets(explored, given), given)


@dataclass(frozen=True, slots=True)
class ShortestPath:
    """Each operator goes where the cheapest way to it ends, as if the model were a tree: see `shortest_paths`."""

    name: str = "dp"

    def __call__(self, explored: Explored, options: Options, /) -> Solution | None:
        given = given_of(explored)
        return solution(explored, shortest_paths(explored, given), given)


@dataclass(frozen=True, slots=True)
class OpMap:
    """Operators go where a map says (a target or a device), the others to the fallback.

    A composite is used where all its operators go to its target. What cannot run where it should goes to the fallback,
    or to whatever target can run it. Without a `mapping` it is that of --map, with its --fallback.
    """

    mapping: Mapping[str, str] | None = None
    fallback: str = "host"
    name: str = "op-map"

    def __call__(self, explored: Explored, options: Options, /) -> Solution | None:
        if self.mapping is None:
            return solution(explored, by_map(explored, options.mapping, options.fallback))
        return solution(explored, by_map(explored, self.mapping, self.fallback))


@dataclass(frozen=True, slots=True)
class Single:
    """Everything on one target; the host runs what it cannot."""

    target: str

    @property
    def name(self) -> str:
        return f"single:{self.target}"

    def __call__(self, explored: Explored, options: Options, /) -> Solution | None:
        (target,) = _known((self.target,), explored.problem)
        return solution(explored, by_target(explored, target))


STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy for strategy in (Optimal(), Priority(), Largest(), ShortestPath(), OpMap())
}
"""By name; `single:<target>` is made by `find`."""


def _known(names: Sequence[str], problem: Problem) -> tuple[str, ...]:
    """The names of targets. Raises RewriteError for one that there is not."""
    there = [target.name for target in problem.targets]
    for name in names:
        if name not in there:
            raise RewriteError(f"unknown target `{name}`; there are {', '.join(there)}")
    return tuple(names)


def find(name: str, problem: Problem) -> Strategy:
    """The strategy of that name: built in, or of an installed package; an unknown one is a RewriteError."""
    names = [target.name for target in problem.targets]
    kind, _, target = name.partition(":")
    if kind == "single":
        if target not in names:
            raise RewriteError(f"strategy `single` needs one of the targets: {', '.join(f'single:{n}' for n in names)}")
        return Single(target)
    if name in STRATEGIES:
        return STRATEGIES[name]
    found = plugins.load(plugins.STRATEGIES, name)
    if found is None:
        raise plugins.unknown(plugins.STRATEGIES, name, (*STRATEGIES, "single:<target>"))
    strategy = found() if isinstance(found, type) else found
    if not callable(strategy):
        plugin = plugins.find(plugins.STRATEGIES, name)
        raise RewriteError(f"the {plugin}: expected a callable of (explored, options), found {strategy!r}")
    return cast(Strategy, strategy)


def name_of(strategy: str | Strategy) -> str:
    """What a strategy is called in reports: its name, or that of the function."""
    if isinstance(strategy, str):
        return strategy
    named = getattr(strategy, "name", None) or getattr(strategy, "__name__", None)
    return str(named or type(strategy).__name__)


def audited(name: str, problem: Problem, found: Solution | Sequence[Choice]) -> Solution:
    """A strategy's answer with the cost and the copies that it really has.

    Raises RewriteError where it is none, or breaks a rule of placements.
    """
    choices = found.choices if isinstance(found, Solution) else found
    where = f"strategy `{name}`"
    if not isinstance(choices, Sequence) or not all(isinstance(choice, Choice) for choice in choices):
        raise RewriteError(f"{where}: expected a Solution, a list of Choice or None, found {found!r:.200}")
    for choice in choices:
        if not 0 <= choice.kernel < len(problem.kernels):
            raise RewriteError(f"{where}: there are {len(problem.kernels)} kernels, found a choice of {choice.kernel}")
    checked = audit(problem, choices)
    if checked.problems:
        more = f" (and {len(checked.problems) - 3} more)" if len(checked.problems) > 3 else ""
        raise RewriteError(f"{where} returned no placement: {'; '.join(checked.problems[:3])}{more}")
    choices = tuple(choices) if _can_run(problem, choices) else checked.choices
    return Solution(choices, checked.copies, checked.cost, 0, "feasible")


def _can_run(problem: Problem, choices: Sequence[Choice]) -> bool:
    """Whether choices stand in an order in which they can run, region by region, regions numbered from 0."""
    regions: dict[int, list[Kernel]] = defaultdict(list)
    for choice in choices:
        regions[choice.region].append(problem.kernels[choice.kernel])
    if [c.region for c in choices] != [n for n, region in enumerate(regions.values()) for _ in region]:
        return False
    if supply(problem, list(regions.values())).order != tuple(range(len(regions))):
        return False
    for region in regions.values():
        place = {kernel.value: position for position, kernel in enumerate(region)}
        if any(place.get(read.value, -1) >= place[kernel.value] for kernel in region for read in kernel.reads):
            return False
    return True


@collector_paused()
def baselines(explored: Explored, options: Options) -> dict[str, Solution | None]:
    """The placements of the strategies that everybody knows; None where one finds none."""
    given = given_of(explored)
    ranks = {
        "priority": by_order(explored, options.order),
        "largest": largest_sets(explored, given),
        "dp": shortest_paths(explored, given),
    }
    if options.mapping:
        ranks["op-map"] = by_map(explored, options.mapping, options.fallback)
    for target in explored.problem.targets:
        ranks[f"single:{target.name}"] = by_target(explored, target.name)
    return {name: solution(explored, rank, given) for name, rank in ranks.items()}
