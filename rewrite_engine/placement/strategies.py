"""How the choice is made: strategies take an explored problem and return a solution with a lower bound.

`optimal` is exact; `priority`, `largest`, `op-map` and `single:<target>` are the baselines everybody knows. Baselines
choose among the kernels that compute the model's operators as they were given, a composite before its parts; of a
declared operator that nothing runs as it is, among those of its body.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from rewrite_engine import plugins
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice, Kernel, Problem, Solution
from rewrite_engine.egraph.regions import merged
from rewrite_engine.egraph.supply import supply
from rewrite_engine.pause import collector_paused
from rewrite_engine.placement.given import Given, given_of


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


def optimal(explored: Explored, options: Options) -> Solution:
    """The placement of least cost over the e-graph as explored, never worse than a baseline."""
    known = [s for s in baselines(explored, options).values() if s is not None]
    cutoff = min(known, key=lambda s: s.cost, default=None)
    return solve(explored.problem, time_limit=options.seconds, gap=options.gap, cutoff=cutoff)


def priority(explored: Explored, options: Options) -> Solution | None:
    """Every operator goes to the first target of the order that can run it, in as large a kernel as can be."""
    return _solution(explored, by_order(explored, options.order))


def by_order(explored: Explored, targets: Sequence[str]) -> Rank:
    """The ranking of `priority`: these targets in this order (without any, all but the host), then the others."""
    names = [target.name for target in explored.problem.targets]
    order = list(targets) or [name for name in names if name != "host"]
    rank = {names.index(name): k for k, name in enumerate(order) if name in names}
    return lambda kernel: rank.get(kernel.target, len(rank) + kernel.target)


def single(target: str) -> Callable[[Explored, Options], Solution | None]:
    """Everything on one target; the host runs what it cannot."""

    def strategy(explored: Explored, options: Options) -> Solution | None:
        return _solution(explored, by_target(explored, target))

    return strategy


def by_target(explored: Explored, target: str) -> Rank:
    """The ranking of `single`: the target, else the host."""
    names = [t.name for t in explored.problem.targets]
    only = {names.index(target): 0, 0: 1}
    return lambda kernel: only.get(kernel.target)


def largest(explored: Explored, options: Options) -> Solution | None:
    """The largest connected set of operators that one target supports goes to it first, then the next largest."""
    given = given_of(explored)
    return _solution(explored, _largest_sets(explored, given), given)


def op_map(explored: Explored, options: Options) -> Solution | None:
    """Operators go where a map says (a target or a device), the others to the fallback.

    A composite is used where all its operators go to its target. What cannot run where it should goes to the fallback,
    or to whatever target can run it.
    """
    return _solution(explored, by_map(explored, options.mapping, options.fallback))


def by_map(explored: Explored, mapping: Mapping[str, str], fallback_place: str) -> Rank:
    """The ranking of `op-map`: operators go to the target or device that the map names, others to the fallback."""
    problem = explored.problem
    machine = explored.machine
    fallback = machine.targets_at(fallback_place)
    wanted = {op: machine.targets_at(place) for op, place in mapping.items()}
    whole: dict[int, set[str]] = defaultdict(set)  # value of several results -> operators that compute it
    for kernel in problem.kernels:
        if kernel.value in problem.solo:
            whole[kernel.value] |= _operators(explored, kernel)

    def rank(kernel: Kernel) -> int | None:
        node = explored.enodes[kernel.payload]
        ops = _operators(explored, kernel) if node.result is None else whole[node.inputs[0]]
        if all(kernel.target in wanted.get(op, fallback) for op in ops):
            return 0
        if node.fused is not None:
            return None
        return 1 if kernel.target in fallback else 2

    return rank


def _operators(explored: Explored, kernel: Kernel) -> set[str]:
    """The operators that a kernel computes."""
    node = explored.enodes[kernel.payload]
    return {node.op} if node.fused is None else {inner.op for inner in node.fused.variant.nodes}


STRATEGIES: Mapping[str, Strategy] = {
    "optimal": optimal,
    "priority": priority,
    "largest": largest,
    "op-map": op_map,
}
"""By name; `single:<target>` is made by `find`."""


def find(name: str, problem: Problem) -> Strategy:
    """The strategy of that name: built in, or of an installed package; an unknown one is a RewriteError."""
    names = [target.name for target in problem.targets]
    kind, _, target = name.partition(":")
    if kind == "single":
        if target not in names:
            raise RewriteError(f"strategy `single` needs one of the targets: {', '.join(f'single:{n}' for n in names)}")
        return single(target)
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
    ranks = {"priority": by_order(explored, options.order), "largest": _largest_sets(explored, given)}
    if options.mapping:
        ranks["op-map"] = by_map(explored, options.mapping, options.fallback)
    for target in explored.problem.targets:
        ranks[f"single:{target.name}"] = by_target(explored, target.name)
    return {name: _solution(explored, rank, given) for name, rank in ranks.items()}


Rank = Callable[[Kernel], int | None]  # preference, smaller first; None: never


def _solution(explored: Explored, rank: Rank, given: Given | None = None) -> Solution | None:
    chosen = choose(explored, rank, given)
    if chosen is None:
        return None
    checked = merged(explored.problem, chosen)
    if checked.problems:
        return None
    return Solution(checked.choices, checked.copies, checked.cost, 0, "feasible")


def choose(explored: Explored, rank: Rank, given: Given | None = None) -> list[int] | None:
    """Serves demands, consumers first: each value by the best-ranked target from which all its readers are reached.

    The kernels, in an order in which they can run, or None where some value cannot be served. `given` is what
    `given_of` says of `explored`, where that is known already.
    """
    problem = explored.problem
    order, _, candidates = given or given_of(explored)
    demands: dict[int, set[int]] = defaultdict(set)  # value -> devices where it is read
    inside: dict[int, set[int]] = defaultdict(set)  # tuple value -> targets that read it
    for value, device in problem.roots:
        demands[value].add(device)
    chosen: list[int] = []
    for value in sorted(order, key=order.__getitem__, reverse=True):
        if value not in demands and value not in inside:
            continue
        if value in problem.resident or any(v == value for v, _ in problem.given):
            continue
        picked = _pick(explored, candidates.get(value, ()), demands.get(value, set()), inside.get(value, set()), rank)
        if picked is None:
            return None
        for k in picked:
            chosen.append(k)
            kernel = problem.kernels[k]
            for read in kernel.reads:
                if read.value in problem.solo:
                    inside[read.value].add(kernel.target)
                else:
                    device = problem.targets[kernel.target].device if read.device is None else read.device
                    demands[read.value].add(device)
    return chosen[::-1]


def _pick(
    explored: Explored, candidates: Sequence[int], devices: set[int], targets: set[int], rank: Rank
) -> list[int] | None:
    """The kernels that compute one value: one, or for a tuple one per target that reads it."""
    problem = explored.problem

    def key(k: int) -> tuple[int, int, int, int]:
        kernel = problem.kernels[k]
        place = rank(kernel)
        assert place is not None
        return (place, -len(explored.covers.get(kernel.payload, ())), kernel.cost, k)

    def fed(kernel: Kernel) -> bool:
        home = problem.targets[kernel.target].device
        needs = ((read.value, home if read.device is None else read.device) for read in kernel.reads)
        return all(_arrives(problem, value, device) for value, device in needs)

    def reaches(k: int) -> bool:
        kernel = problem.kernels[k]
        home = problem.targets[kernel.target].device
        return all(home == d or (kernel.value, home, d) in problem.copies for d in devices)

    able = sorted((k for k in candidates if rank(problem.kernels[k]) is not None and fed(problem.kernels[k])), key=key)
    if targets:
        best = [next((k for k in able if problem.kernels[k].target == t), None) for t in sorted(targets)]
        return None if None in best else [k for k in best if k is not None]
    found = next((k for k in able if reaches(k)), None)
    return None if found is None else [found]


def _arrives(problem: Problem, value: int, device: int) -> bool:
    """Whether a graph input can get to a device; others are computed where they have to be."""
    homes = [home for given, home in problem.given if given == value]
    return not homes or any(home == device or (value, home, device) in problem.copies for home in homes)


def _largest_sets(explored: Explored, given: Given) -> Rank:
    """Greedy assignment of connected supported sets, as a ranking."""
    problem, usable = explored.problem, given.usable
    supported: dict[int, set[int]] = defaultdict(set)
    reads: dict[int, set[int]] = defaultdict(set)
    for kernel in problem.kernels:
        if kernel.payload in usable and kernel.target != 0:
            supported[kernel.target].add(kernel.value)
        if kernel.payload in usable:
            reads[kernel.value].update(read.value for read in kernel.reads)
    assigned: dict[int, int] = {}
    parts: list[tuple[int, int, list[int]]] = []  # the largest first, of these that of the first target

    def add(target: int, values: Iterable[int]) -> None:
        for part in _components(values, reads):
            heapq.heappush(parts, (-len(part), target, sorted(part)))

    for target, values in sorted(supported.items()):
        add(target, values)
    while parts:
        _, target, part = heapq.heappop(parts)
        left = [value for value in part if value not in assigned]
        if len(left) == len(part):
            assigned |= dict.fromkeys(part, target)
        else:  # what is left of it is smaller, and waits for its turn
            add(target, left)
    return lambda kernel: 0 if assigned.get(kernel.value) == kernel.target else 1 + kernel.target


def _components(values: Iterable[int], reads: Mapping[int, set[int]]) -> list[frozenset[int]]:
    """Connected parts of a set of values, along reads."""
    left = set(values)
    neighbours: dict[int, set[int]] = defaultdict(set)
    for value in left:
        for other in reads.get(value, set()) & left:
            neighbours[value].add(other)
            neighbours[other].add(value)
    parts = []
    for start in sorted(left):
        if start not in left:
            continue
        part, stack = {start}, [start]
        while stack:
            for other in neighbours[stack.pop()]:
                if other not in part:
                    part.add(other)
                    stack.append(other)
        left -= part
        parts.append(frozenset(part))
    return parts
