"""What changed between two placements of one model, by effect.

In: the contents of two placement.json files. Out: a `Comparison`: totals, operators that run elsewhere or at another
cost, copies that came and went; `lines` for people, `to_json` for programs. Costs are in the placements' own unit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.placement.reuse import read_json

SCHEMA = "rewrite_engine/comparison/1"
PARTS = ("total", "kernels", "copies", "launches", "bound")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel ran, by which rule, at what cost, and the operators that it covers."""

    target: str
    rule: str
    cost: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Operators that the same kernels cover, before and after: `effect` is what their kernels cost more now."""

    nodes: tuple[str, ...]
    old: tuple[Place, ...]
    new: tuple[Place, ...]
    effect: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that came (`effect` > 0), went, or costs something else."""

    value: str
    source: str
    destination: str
    old: int | None
    new: int | None
    effect: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """`costs` are (old, new) by part, `regions` the numbers of regions by target; changes come by effect."""

    unit: str
    costs: Mapping[str, tuple[int, int]]
    status: tuple[str, str]
    strategy: tuple[str, str]
    operators: int
    changes: tuple[Change, ...]
    copies: tuple[Copy, ...]
    regions: Mapping[str, tuple[int, int]]
    rules: tuple[str, ...]  # rule files that differ

    @property
    def equal(self) -> bool:
        """Whether everything runs in the same place at the same cost."""
        parts = all(old == new for part, (old, new) in self.costs.items() if part != "bound")
        return parts and not self.changes and not self.copies and not self._moved_regions

    @property
    def _moved_regions(self) -> dict[str, tuple[int, int]]:
        return {target: (old, new) for target, (old, new) in self.regions.items() if old != new}

    def to_json(self) -> dict[str, object]:
        """The comparison as plain values."""
        return {
            "schema": SCHEMA,
            "unit": self.unit,
            "equal": self.equal,
            "cost": {part: {"old": old, "new": new} for part, (old, new) in self.costs.items()},
            "status": {"old": self.status[0], "new": self.status[1]},
            "strategy": {"old": self.strategy[0], "new": self.strategy[1]},
            "operators": [asdict(change) for change in self.changes],
            "copies": [asdict(copy) for copy in self.copies],
            "regions": {target: {"old": old, "new": new} for target, (old, new) in self.regions.items()},
            "rules": list(self.rules),
        }

    def lines(self) -> list[str]:
        """The comparison for people."""
        old, new = self.costs["total"]
        ratio = f" ({(new - old) / old:+.2%})" if old else ""
        lines = [f"compared   {self.status[0]} ({self.strategy[0]}) -> {self.status[1]} ({self.strategy[1]})"]
        if self.rules:
            lines.append(f"rules      changed: {', '.join(self.rules)}")
        if self.equal:
            return [*lines, f"total      {self._amount(new)}: the placements are equal", *self._bound()]
        lines.append(f"total      {self._amount(old)} -> {self._amount(new)}{ratio}")
        for part in PARTS[1:-1]:
            before, after = self.costs[part]
            if before != after:
                lines.append(f"  {part:<9}{self._amount(before)} -> {self._amount(after)}")
        lines += self._bound()
        count = len({node for change in self.changes for node in change.nodes})
        lines.append(f"operators  {count} of {self.operators} changed")
        for change in self.changes:
            lines.append(f"  {self._signed(change.effect)}  {_names(change.nodes)}")
            for mark, places in (("was", change.old), ("now", change.new)):
                lines += [f"{'':>16}  {mark} {self._place(place)}" for place in places] or [f"{'':>16}  {mark} nowhere"]
        came = sum(copy.old is None for copy in self.copies)
        went = sum(copy.new is None for copy in self.copies)
        lines.append(f"copies     {came} added, {went} gone")
        for copy in self.copies:
            mark = "+" if copy.old is None else "-" if copy.new is None else "="
            lines.append(f"  {self._signed(copy.effect)}  {mark} `{copy.value}` {copy.source} -> {copy.destination}")
        for target, (before, after) in self._moved_regions.items():
            lines.append(f"regions    {target}: {before} -> {after}")
        return lines

    def _bound(self) -> list[str]:
        old, new = self.costs["bound"]
        return [] if old == new else [f"bound      {self._amount(old)} -> {self._amount(new)}"]

    def _place(self, place: Place) -> str:
        size = f", with {len(place.nodes) - 1} more" if len(place.nodes) > 1 else ""
        return f"{place.target} by {place.rule}: {self._amount(place.cost)}{size}"

    def _amount(self, value: int) -> str:
        return f"{value / 10**6:,.3f} {'us' if self.unit == 'ps' else 'uJ'}"

    def _signed(self, value: int) -> str:
        return f"{value / 10**6:>+13,.3f} {'us' if self.unit == 'ps' else 'uJ'}"


def compare_file(path: str | Path, new: Mapping[str, Any]) -> Comparison:
    """What changed since the placement in a file. Raises RewriteError for one that is none, or of another model."""
    return compare(read_json(path), new, str(path))


def compare(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "placement") -> Comparison:
    """What changed from one placement.json to another. Raises RewriteError for two models, or two units of cost."""
    if old["model"]["sha256"] != new["model"]["sha256"]:
        raise RewriteError(
            f"{where}: made for another model: expected one with sha256 {new['model']['sha256'][:12]}…, found "
            f"{old['model'].get('name')} with {old['model']['sha256'][:12]}…"
        )
    if old.get("unit") != new["unit"]:
        raise RewriteError(
            f"{where}: its costs are in {old.get('unit')}, those to compare in {new['unit']}: give the same --objective"
        )
    costs = {part: (_cost(old, part, where), _cost(new, part, where)) for part in PARTS}
    before = {rule["path"]: rule["sha256"] for rule in old.get("rules", ())}
    after = {rule["path"]: rule["sha256"] for rule in new["rules"]}
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    counts = [Counter(region["target"] for region in side.get("regions", ())) for side in (old, new)]
    return Comparison(
        unit=new["unit"],
        costs=costs,
        status=(str(old.get("status")), new["status"]),
        strategy=(str(old.get("strategy")), new["strategy"]),
        operators=len({node for side in (old, new) for row in side["kernels"] for node in row["nodes"]}),
        changes=_changes(old["kernels"], new["kernels"]),
        copies=_copies(old.get("copies", ()), new["copies"]),
        regions={target: (counts[0][target], counts[1][target]) for target in sorted({*counts[0], *counts[1]})},
        rules=tuple(changed),
    )


def _cost(side: Mapping[str, Any], part: str, where: str) -> int:
    found = side.get("bound") if part == "bound" else (side.get("cost") or {}).get(part)
    if not isinstance(found, int):
        raise RewriteError(f"{where}: expected a whole number for {part}, found {found!r}")
    return found


def _changes(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> tuple[Change, ...]:
    """Operators joined by the kernels that cover them, where the kernels of the two sides are not the same."""
    sides = [[Place(r["target"], r["rule"], r["cost"], tuple(r["nodes"])) for r in rows] for rows in (old, new)]
    group: dict[str, str] = {}

    def find(node: str) -> str:
        while group.setdefault(node, node) != node:
            group[node] = group[group[node]]
            node = group[node]
        return node

    for place in (*sides[0], *sides[1]):
        for node in place.nodes[1:]:
            first, second = sorted((find(place.nodes[0]), find(node)))
            group[second] = first
    members: dict[str, tuple[list[Place], list[Place]]] = defaultdict(lambda: ([], []))
    for number, places in enumerate(sides):
        for place in places:
            members[find(place.nodes[0]) if place.nodes else ""][number].append(place)
    order = {node: k for k, node in enumerate(dict.fromkeys(n for p in (*sides[1], *sides[0]) for n in p.nodes))}
    changes = []
    for before, after in members.values():
        if Counter(before) != Counter(after):
            nodes = sorted({node for place in (*before, *after) for node in place.nodes}, key=lambda node: order[node])
            effect = sum(place.cost for place in after) - sum(place.cost for place in before)
            changes.append(Change(tuple(nodes), tuple(before), tuple(after), effect))
    return tuple(sorted(changes, key=lambda change: (-abs(change.effect), [order[node] for node in change.nodes])))


def _copies(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> tuple[Copy, ...]:
    sides = [{(row["value"], row["from"], row["to"]): row["cost"] for row in rows} for rows in (old, new)]
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        before, after = sides[0].get(key), sides[1].get(key)
        if before != after:
            found.append(Copy(*key, before, after, (after or 0) - (before or 0)))
    return tuple(sorted(found, key=lambda copy: (-abs(copy.effect), copy.value, copy.source, copy.destination)))


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:2])
    return f"{shown} and {len(names) - 2} more" if len(names) > 2 else shown
