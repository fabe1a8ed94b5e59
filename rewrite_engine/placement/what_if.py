"""What faster links, smaller launches or more memory would buy: the cost of the best placement after each change.

In: an explored graph, its best placement and how to search. Out: a `WhatIf`. The e-graph is explored once; each change
makes another problem of it, and the search for that starts from the placement at hand, which is never dearer than it
was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from rewrite_engine.diagnostics import LimitReached, RewriteError
from rewrite_engine.egraph.extract.ladder import Clock
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.graph.placed import PlacedGraph
from rewrite_engine.graph.terms import Terms
from rewrite_engine.language.core import LinkSpec, RuleSet
from rewrite_engine.machine import Machine
from rewrite_engine.placement.memory_limits import too_small
from rewrite_engine.placement.objectives import Objective, Search
from rewrite_engine.placement.objectives import find as find_objective
from rewrite_engine.placement.place import Placement, fitted, place
from rewrite_engine.placement.rebuild import costs as costs_of
from rewrite_engine.placement.rebuild import rebuild
from rewrite_engine.placement.sharing import copies_on
from rewrite_engine.placement.strategies import Optimal, Options, name_of

SCHEMA = "rewrite_engine/what_if/1"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the machine, and the cost of the best placement found with it.

    `kind` is "link", "launch" or "memory"; `name` the link (`a <-> b`, or `a -> b`), the target or the device; `before`
    and `after` the launch in picoseconds or the memory in bytes, None for links. `bound` is a lower bound of `cost`.
    """

    kind: str
    name: str
    before: int | None
    after: int | None
    cost: int
    bound: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What each change would save of `cost`, the most first. Costs are in `unit`; `bound` is one of `cost`."""

    cost: int
    bound: int
    unit: str
    objective: str
    changes: tuple[Change, ...]

    def saved(self, change: Change) -> int:
        """What is saved by a change."""
        return self.cost - change.cost

    def exact(self, change: Change) -> bool:
        """Whether what is saved is proven: the cost before and the cost after are the least."""
        return self.bound == self.cost and change.bound == change.cost

    def __str__(self) -> str:
        head = ("what if", "cost", "saved", "")
        rows = [(_said(c), *self._amounts(c), "" if self.exact(c) else "not proven") for c in self.changes]
        if not rows:
            return "what if    nothing to change: no link, no launch, no memory that is limited"
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(4)]
        return "\n".join(
            f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip()
            for row in (head, *rows)
        )

    def _amounts(self, change: Change) -> tuple[str, str]:
        scale, unit = 10**6, "us" if self.unit == "ps" else "uJ"
        share = self.saved(change) / self.cost if self.cost else 0.0
        return f"{change.cost / scale:,.3f} {unit}", f"{self.saved(change) / scale:,.3f} {unit} ({share:.1%})"

    def to_json(self) -> dict[str, object]:
        """The table for machines."""
        return {
            "schema": SCHEMA,
            "objective": self.objective,
            "unit": self.unit,
            "cost": self.cost,
            "bound": self.bound,
            "changes": [
                {"kind": c.kind, "name": c.name, "before": c.before, "after": c.after, "cost": c.cost,
                 "bound": c.bound, "saved": self.saved(c), "exact": self.exact(c)}
                for c in self.changes
            ],
        }  # fmt: skip


def what_if(terms: Terms, rules: RuleSet, **options: Any) -> tuple[Placement, WhatIf]:
    """Places a graph, then tells what changes of the machine would save; `options` are those of `place`.

    Each link at twice its rate (what it costs for no bytes stays), each launch at half, each limited memory at twice
    its size; with `energy` memories alone, since the others are times. `time_limit` is that of each search. Raises
    RewriteError as `place` does, and for a strategy other than `optimal`.
    """
    strategy = options.get("strategy", "optimal")
    if strategy != "optimal" and not isinstance(strategy, Optimal):
        raise RewriteError(f"what-if compares placements of least cost: leave out the strategy `{name_of(strategy)}`")
    if isinstance(strategy, Optimal):
        limits = strategy.told(Options(seconds=options.get("time_limit"), gap=options.get("gap", 0.0)))
        options |= {"time_limit": limits.seconds, "gap": limits.gap}
    heard: list[tuple[Explored, Solution]] = []
    placement = place(terms, rules, observe=lambda explored, found: heard.append((explored, found)), **options)
    explored, solution = heard[0]
    aim = find_objective(options.get("objective", "latency"))
    search = Search(options.get("time_limit"), options.get("gap", 0.0), options.get("seed", 0))
    cost = placement.costs.total
    found = []
    for kind, name, before, after, changed in _changes(explored):
        least, bound = _least(changed, solution, aim, search)
        found.append(Change(kind, name, before, after, min(least, cost), min(bound, least, cost)))
    found.sort(key=lambda change: change.cost)
    return placement, WhatIf(cost, placement.bound, placement.unit, aim.name, tuple(found))


def _changes(explored: Explored) -> Iterator[tuple[str, str, int | None, int | None, Explored]]:
    """(kind, name, before, after, the graph on the changed machine), in the machine's own order."""
    machine, problem = explored.machine, explored.problem
    if machine.unit == "ps":
        for name, pairs in _links(machine.links).items():
            faster = _Faster(
                machine.devices, machine.targets, machine.links, machine.scope, machine.free, machine.unit,
                machine.measured, machine.bindable, {}, pairs,
            )  # fmt: skip
            copies = replace(problem, copies=copies_on(explored, faster))
            yield "link", name, None, None, replace(explored, machine=faster, problem=copies)
        for number, target in enumerate(machine.targets):
            if target.launch:
                half = target.launch // 2
                targets = list(machine.targets)
                targets[number] = replace(target, launch=half)
                infos = list(problem.targets)
                infos[number] = replace(infos[number], launch=half)
                changed = replace(problem, targets=tuple(infos))
                smaller = replace(machine, targets=tuple(targets))
                yield "launch", target.name, target.launch, half, replace(explored, machine=smaller, problem=changed)
    for number, device in enumerate(machine.devices):
        if device.memory is not None:
            devices = list(machine.devices)
            devices[number] = replace(device, memory=2 * device.memory)
            larger = replace(machine, devices=tuple(devices))
            yield "memory", device.name, device.memory, 2 * device.memory, replace(explored, machine=larger)


def _least(explored: Explored, known: Solution, aim: Objective, search: Search) -> tuple[int, int]:
    """The cost of the best placement found, the one known included, and a lower bound."""
    machine = explored.machine

    def measured(graph: PlacedGraph) -> int:
        if not aim.additive:
            return aim.measure(graph, machine)
        return costs_of(graph, {target.name: target.launch for target in machine.targets}).total

    now = measured(rebuild(explored, known, "model"))
    clock = Clock(search.seconds)
    found = aim.solve(explored, search, [known])
    graph = rebuild(explored, found, "model")
    if too_small(graph, machine):
        try:
            found = fitted(explored, found, aim, "model", lambda: search, clock.left)
        except LimitReached:
            return now, min(found.bound, now)
        graph = rebuild(explored, found, "model")
        if too_small(graph, machine):
            return now, min(found.bound, now)
    return min(now, measured(graph)), found.bound


def _links(links: Sequence[LinkSpec]) -> Mapping[str, frozenset[tuple[str, str]]]:
    """The links by name; one that goes both ways is one link."""
    pairs = dict.fromkeys((link.source, link.destination) for link in links)
    found: dict[str, frozenset[tuple[str, str]]] = {}
    for a, b in pairs:
        if (b, a) not in pairs:
            found[f"{a} -> {b}"] = frozenset({(a, b)})
        elif f"{b} <-> {a}" not in found:
            found[f"{a} <-> {b}"] = frozenset({(a, b), (b, a)})
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Faster(Machine):
    """A machine where what some links cost for bytes, beyond what they cost for none, is half."""

    faster: frozenset[tuple[str, str]] = frozenset()

    def _link(self, link: LinkSpec, size: int) -> Fraction:
        cost = Machine._link(self, link, size)
        if (link.source, link.destination) not in self.faster:
            return cost
        idle = Machine._link(self, link, 0)
        return idle + (cost - idle) / 2


def _said(change: Change) -> str:
    if change.kind == "link":
        return f"link {change.name}: rate x 2"
    if change.kind == "launch":
        return f"{change.name}.launch: {(change.before or 0) / 10**6:g} us -> {(change.after or 0) / 10**6:g} us"
    return f"{change.name}.memory: {change.before} -> {change.after} bytes"
