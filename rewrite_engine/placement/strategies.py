"""How the choice is made: strategies take an explored problem and return a solution with a lower bound.

`Optimal` is exact; `Priority`, `Largest`, `Dp`, `OpMap` and `Single` are the baselines everybody knows. Baselines
choose among the kernels that compute the model's operators as they were given, a composite before its parts; of a
declared operator that nothing runs as it is, among those of its body. `STRATEGIES` says what each is called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from rewrite_engine import plugins
from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice, Kernel, Problem, Solution
from rewrite_engine.egraph.regions import merged
from rewrite_engine.egraph.supply import supply
from rewrite_engine.pause import collector_paused
from rewrite_engine.placement.choosing import choose
from rewrite_engine.placement.given import Given, given_of
from rewrite_engine.placement.ranks import by_largest_sets, by_map, by_order, by_target
from rewrite_engine.placement.shortest import shortest


@dataclass(frozen=True, slots=True)
class Options:
    """What strategies may be told: `order` by --targets, `mapping` by --map; `seconds` and `gap` limit the search."""

    order: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    fallback: str = "host"
    seconds: float | None = None
    gap: float = 0.0


class Strategy(Protocol):
    """A strategy: the kernels that run, in their regions, or None when it finds no placement.

    What it returns is audited: its cost and copies are computed again, and the bound is the engine's own. So the
    choices alone will do; `egraph.regions.merge_regions` makes regions of a list of kernels, and `egraph.audit.audit`
    says what a choice costs and what is wrong with it.
    """

    def __call__(self, explored: Explored, options: Options, /) -> Solution | Sequence[Choice] | None: ...


class BuiltIn:
    """What the strategies of this file share: what an instance says goes before the options."""

    __slots__ = ()

    def told(self, options: Options) -> Options:
        """The options with this strategy's own in their place."""
        return options


@dataclass(frozen=True, slots=True)
class Optimal(BuiltIn):
    """The placement of least cost over the e-graph as explored, never worse than a baseline.

    `time_limit` is in seconds; it and `gap` go before those of `place`.
    """

    time_limit: float | None = None
    gap: float | None = None

    @property
    def name(self) -> str:
        return "optimal"

    def told(self, options: Options) -> Options:
        seconds = options.seconds if self.time_limit is None else self.time_limit
        return replace(options, seconds=seconds, gap=options.gap if self.gap is None else self.gap)

    def __call__(self, explored: Explored, options: Options, /) -> Solution:
        options = self.told(options)
        known = [s for s in baselines(explored, options).values() if s is not None]
        cutoff = min(known, key=lambda s: s.cost, default=None)
        return solve(explored.problem, time_limit=options.seconds, gap=options.gap, cutoff=cutoff)


class Baseline(BuiltIn):
    """A strategy that chooses kernels one after the other; regions are formed of them as well as single joins can."""

    __slots__ = ()

    def kernels(self, explored: Explored, options: Options, given: Given) -> list[int] | None:
        """The kernels, in an order in which they can run; None where some value cannot be served."""
        raise NotImplementedError

    def __call__(self, explored: Explored, options: Options, /) -> Solution | None:
        return self.answer(explored, self.told(options), given_of(explored))

    def answer(self, explored: Explored, options: Options, given: Given) -> Solution | None:
        """The solution, where `given_of(explored)` is known already."""
        chosen = self.kernels(explored, options, given)
        if chosen is None:
            return None
        checked = merged(explored.problem, chosen)
        return None if checked.problems else Solution(checked.choices, checked.copies, checked.cost, 0, "feasible")


@dataclass(frozen=True, slots=True)
class Priority(Baseline):
    """Every operator goes to the first target of the order that can run it, in as large a kernel as can be.

    Targets that `order` leaves out come after it. An empty order is that of `targets`, else all but the host.
    """

    order: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "priority"

    def kernels(self, explored: Explored, options: Options, given: Given) -> list[int] | None:
        return choose(explored, by_order(explored, options.order), given)

    def told(self, options: Options) -> Options:
        return replace(options, order=tuple(self.order) or options.order)


@dataclass(frozen=True, slots=True)
class Largest(Baseline):
    """The largest connected set of operators that one target supports goes to it first, then the next largest."""

    @property
    def name(self) -> str:
        return "largest"

    def kernels(self, explored: Explored, options: Options, given: Given) -> list[int] | None:
        return choose(explored, by_largest_sets(explored, given), given)


@dataclass(frozen=True, slots=True)
class Dp(Baseline):
    """The shortest path through the operators, as if the graph were a tree: see `placement.shortest`."""

    @property
    def name(self) -> str:
        return "dp"

    def kernels(self, explored: Explored, options: Options, given: Given) -> list[int] | None:
        return shortest(explored, given)


@dataclass(frozen=True, slots=True)
class OpMap(Baseline):
    """Operators go where a map says (a target or a device), the others to the fallback.

    A composite is used where all its operators go to its target. What cannot run where it should goes to the fallback,
    or to whatever target can run it. Without a map of its own, it is that of `mapping` and `fallback` of `place`.
    """

    mapping: Mapping[str, str] | None = None
    fallback: str | None = None

    @property
    def name(self) -> str:
        return "op-map"

    def kernels(self, explored: Explored, options: Options, given: Given) -> list[int] | None:
        return choose(explored, by_map(explored, options.mapping, options.fallback), given)

    def told(self, options: Options) -> Options:
        mapping = options.mapping if self.mapping is None else self.mapping
        return replace(options, mapping=mapping, fallback=self.fallback or options.fallback)


@dataclass(frozen=True, slots=True)
class Single(Baseline):
    """Everything on one target; the host runs what it cannot."""

    target: str

    @property
    def name(self) -> str:
        return f"single:{self.target}"

    def kernels(self, explored: Explored, options: Options, given: Given) -> list[int] | None:
        return choose(explored, by_target(explored, self.target), given)


STRATEGIES: Mapping[str, Callable[..., Strategy]] = {
    "optimal": Optimal,
    "priority": Priority,
    "largest": Largest,
    "dp": Dp,
    "op-map": OpMap,
    "single": Single,
}
"""What the command line calls them; a `single` is followed by its target: `single:npu`."""


def find(name: str) -> Strategy:
    """The strategy of that name: built in, or of an installed package; an unknown one is a RewriteError."""
    kind, _, target = name.partition(":")
    if kind == "single":
        return STRATEGIES[kind](target)
    if name in STRATEGIES:
        return STRATEGIES[name]()
    found = plugins.load(plugins.STRATEGIES, name)
    if found is None:
        names = [known for known in STRATEGIES if known != "single"]
        raise plugins.unknown(plugins.STRATEGIES, name, (*names, "single:<target>"))
    strategy = found() if isinstance(found, type) else found
    if not callable(strategy):
        plugin = plugins.find(plugins.STRATEGIES, name)
        raise RewriteError(f"the {plugin}: expected a callable of (explored, options), found {strategy!r}")
    return cast(Strategy, strategy)


def check(strategy: Strategy, options: Options, targets: Sequence[str]) -> None:
    """Raises RewriteError for targets that there are not. What maps and pins name is checked with the model."""
    if isinstance(strategy, Single) and strategy.target not in targets:
        raise RewriteError(f"strategy `single` needs one of the targets: {', '.join(f'single:{n}' for n in targets)}")
    for name in options.order:
        if name not in targets:
            hint = did_you_mean(name, targets)
            raise RewriteError(
                f"strategy `{name_of(strategy)}`: no target is called `{name}`; there are {', '.join(targets)}"
                + (f"; {hint}" if hint else "")
            )


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
    everyone: list[Priority | Largest | Dp | OpMap | Single] = [Priority(), Largest(), Dp()]
    everyone += [OpMap()] if options.mapping else []
    everyone += [Single(target.name) for target in explored.problem.targets]
    return {strategy.name: strategy.answer(explored, options, given) for strategy in everyone}
