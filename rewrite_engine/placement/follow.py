"""The kernels of a placement file found among those that the rules allow, edits included.

In: rows of the file and an explored problem. Out: choices in the file's order and regions. A kernel is found by target,
rule and nodes; one whose target was changed is looked for on the new target, as one kernel or as several. What cannot
be followed is one RewriteError that names the file, the kernel and the next step.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice
from rewrite_engine.egraph.regions import merge_regions


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel of the file; `nodes` are the operators of the model that it covers, `rewritten` where rules made it."""

    id: str
    target: str
    device: str
    rule: str
    region: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cost: int
    rewritten: bool

    @property
    def known_as(self) -> str:
        return f"kernel `{self.id}`"


class Following:
    """The rows of a file found among the kernels of an explored problem."""

    def __init__(self, where: str, rows: Sequence[Row], explored: Explored) -> None:
        self.where, self.rows = where, rows
        self.explored, self.problem = explored, explored.problem
        self.targets = {target.name: number for number, target in enumerate(self.problem.targets)}
        self.by_nodes: dict[tuple[int, frozenset[str]], list[int]] = defaultdict(list)  # (target, covers) -> kernels
        self.of_value: dict[tuple[int, int], list[int]] = defaultdict(list)  # (target, value) -> kernels
        self.results: dict[tuple[int, int], list[int]] = defaultdict(list)  # (target, tuple) -> its projections
        self.rule_of = [explored.enodes[kernel.payload].offer.rule for kernel in self.problem.kernels]
        for number, kernel in enumerate(self.problem.kernels):
            node = explored.enodes[kernel.payload]
            if node.result is not None:
                self.results[kernel.target, node.inputs[0]].append(number)
            else:
                self.by_nodes[kernel.target, self.covers(number)].append(number)
                self.of_value[kernel.target, kernel.value].append(number)
        for projections in self.results.values():
            projections.sort(key=lambda k: explored.enodes[self.problem.kernels[k].payload].result or 0)
        self.nodes = {name for _, covers in self.by_nodes for name in covers}

    def covers(self, number: int) -> frozenset[str]:
        return frozenset(self.explored.covers.get(self.problem.kernels[number].payload, ()))

    def error(self, row: Row, message: str) -> RewriteError:
        return RewriteError(f"{self.where}: {row.known_as}: {message}")

    # ------------------------------------------------------------ all rows

    def choices(self) -> Sequence[Choice]:
        """The kernels in the file's order and regions; regions that lost a kernel to another target are formed anew."""
        rows = self.rows
        for row in rows:
            self._names(row)
        kept = {number: self._kept(row) for number, row in enumerate(rows)}
        outside = frozenset(v for k in kept.values() if k is not None for v in self._values(k))
        found: list[tuple[Row, list[int]]] = []
        homes: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            homes[row.region].add(row.target)
        moved = {region for region, found in homes.items() if len(found) > 1}
        for number, row in enumerate(rows):
            kernel = kept[number]
            if kernel is None:
                moved.add(row.region)
                found.append((row, self._moved(row, outside)))
            else:
                found.append((row, [kernel]))
        self._twice(found)
        found = [(row, [k for kernel in kernels for k in (kernel, *self._results(kernel))]) for row, kernels in found]
        found = self._needed(found)
        self._complete(found)
        numbers: dict[str, int] = {}
        choices = []
        for row, kernels in found:
            for kernel in kernels:
                apart = f"{row.region} {kernel}" if row.region in moved else row.region
                choices.append(Choice(kernel, numbers.setdefault(apart, len(numbers))))
        if moved:
            return self._formed(choices, {numbers[name] for name in numbers if name.split(" ")[0] in moved})
        self._hold(choices, {number: name for name, number in numbers.items()})
        return choices

    def _names(self, row: Row) -> None:
        """Targets, devices, rules and nodes that there are."""
        if row.target not in self.targets:
            raise self.error(row, f"there is no target `{row.target}`{_known(row.target, self.targets)}")
        rules = set(self.rule_of) | {match.rule.name for match in self.explored.matches}
        if row.rule not in rules:
            raise self.error(row, f"no kernel here comes from a rule `{row.rule}`{_known(row.rule, rules)}")
        for name in row.nodes:
            if name not in self.nodes:
                raise self.error(row, f"the model has no operator that computes `{name}`{_known(name, self.nodes)}")
        devices = {self.problem.devices[t.device]: t.name for t in self.problem.targets}
        if row.device not in devices:
            raise self.error(row, f"there is no device `{row.device}`{_known(row.device, devices)}")

    def _kept(self, row: Row) -> int | None:
        """The kernel of a row as it stands; None where its target was changed."""
        target = self.targets[row.target]
        here = [k for k in self.by_nodes.get((target, frozenset(row.nodes)), ()) if self.rule_of[k] == row.rule]
        device = self.problem.devices[self.problem.targets[target].device]
        if here:
            if row.device != device:
                raise self.error(
                    row, f"target `{row.target}` computes on `{device}`, found device `{row.device}`; change the target"
                )
            return min(here, key=lambda k: (*self._unlike(row, k), k))
        if any(
            rule == row.rule and k.target == target for rule, k in zip(self.rule_of, self.problem.kernels, strict=True)
        ):
            raise self.error(
                row, f"rule `{row.rule}` does not match {_list(row.nodes)} on `{row.target}` in this model"
            )
        return None

    def _unlike(self, row: Row, kernel: int) -> tuple[int, int]:
        """How far a kernel is from what a row says of operands, results, operator and cost."""
        names = self.problem.names
        node = self.explored.enodes[self.problem.kernels[kernel].payload]
        reads = list(dict.fromkeys(names[value] for value in node.inputs if value >= 0))
        makes = [names[value] for value in self._values(kernel)]
        unlike = sum(not any(_is(name, base) for base in makes) for name in row.outputs)
        unlike += sum(not _is(name, base) for name, base in zip(row.inputs, reads, strict=False))
        unlike += abs(len(row.inputs) - len(reads))
        unlike += row.rewritten == (self.problem.kernels[kernel].payload in self.problem.originals)
        unlike += node.fused is None and f".{node.op.rsplit('::', 1)[-1]}." not in row.id
        return unlike, abs(self.problem.kernels[kernel].cost - row.cost)

    def _values(self, kernel: int) -> list[int]:
        """What a kernel computes: one value, or the results of a tuple."""
        chosen = self.problem.kernels[kernel]
        results = self.results.get((chosen.target, chosen.value), ())
        return [self.problem.kernels[k].value for k in results] or [chosen.value]

    def _results(self, kernel: int) -> list[int]:
        chosen = self.problem.kernels[kernel]
        return self.results.get((chosen.target, chosen.value), []) if chosen.value in self.problem.solo else []

    # ------------------------------------------------------------ edits

    def _moved(self, row: Row, outside: frozenset[int]) -> list[int]:
        """The kernels of the row's target that compute what the row's kernel computed where it was.

        `outside` are values that other rows compute.
        """
        before = [
            k
            for k, rule in enumerate(self.rule_of)
            if rule == row.rule and self.covers(k) == frozenset(row.nodes) and not self._is_projection(k)
        ]
        if not before:
            raise self.error(row, f"rule `{row.rule}` does not match {_list(row.nodes)} in this model")
        was = self.problem.kernels[min(before, key=lambda k: (*self._unlike(row, k), k))]
        target, within = self.targets[row.target], frozenset(row.nodes)
        stop = {read.value for read in was.reads} | self.problem.resident | {v for v, _ in self.problem.given}
        wanted, chosen, seen = [was.value], list[int](), set[int]()
        while wanted:
            value = wanted.pop()
            if value in seen:
                continue
            seen.add(value)
            able = [k for k in self.of_value.get((target, value), ()) if self.covers(k) <= within]
            if not able:
                raise self._unable(row, value)
            reads = {k: {read.value for read in self.problem.kernels[k].reads} for k in able}
            best = min(able, key=lambda k: (
                len(reads[k] - stop), self.problem.kernels[k].payload not in self.problem.originals,
                -len(self.covers(k)), self.problem.kernels[k].cost, k,
            ))  # fmt: skip
            chosen.append(best)
            for read in reads[best] - stop:
                whole = self._whole(target, read)
                wanted.append(read if whole is None else whole)
        return chosen[::-1]

    def _is_projection(self, kernel: int) -> bool:
        return self.explored.enodes[self.problem.kernels[kernel].payload].result is not None

    def _whole(self, target: int, value: int) -> int | None:
        """The tuple that a value is a result of, where no kernel computes it alone."""
        if self.of_value.get((target, value)):
            return None
        return next((whole for (t, whole), results in self.results.items() if t == target and any(
            self.problem.kernels[k].value == value for k in results)), None)  # fmt: skip

    def _unable(self, row: Row, value: int) -> RewriteError:
        able = [name for name, t in self.targets.items() if self.of_value.get((t, value))]
        name = self.problem.names[value]
        return self.error(
            row,
            f"target `{row.target}` cannot compute `{name}` of {_list(row.nodes)}: no capability of it applies; "
            f"it can be computed by {', '.join(able)}",
        )

    # ------------------------------------------------------------ what must hold

    def _twice(self, found: Sequence[tuple[Row, Sequence[int]]]) -> None:
        seen: dict[tuple[int, int], Row] = {}
        for row, kernels in found:
            for number in kernels:
                kernel = self.problem.kernels[number]
                other = seen.setdefault((kernel.value, kernel.target), row)
                if other is not row:
                    raise self.error(
                        row,
                        f"covers {_list(row.nodes)}, which kernel `{other.id}` computes on `{row.target}` too; "
                        f"leave one of them out",
                    )

    def _needed(self, found: list[tuple[Row, list[int]]]) -> list[tuple[Row, list[int]]]:
        """Without results of tuples that nothing reads; a kernel that nothing reads from is an error."""
        read: dict[int, set[int]] = defaultdict(set)  # value -> targets that read it
        for _, kernels in found:
            for k in kernels:
                kernel = self.problem.kernels[k]
                if not self._is_projection(k):
                    for r in kernel.reads:
                        read[r.value].add(kernel.target)
        roots = {value for value, _ in self.problem.roots}
        kept = []
        for row, kernels in found:
            mine = [
                k for k in kernels
                if not self._is_projection(k) or self.problem.kernels[k].value in roots | read.keys()
            ]  # fmt: skip
            for k in mine:
                value = self.problem.kernels[k].value
                if value not in roots and value not in read and value not in self.problem.solo:
                    name = self.problem.names[value]
                    raise self.error(row, f"nothing reads `{name}`, which it computes; leave it out, or what covers it")
            kept.append((row, mine))
        return kept

    def _complete(self, found: Sequence[tuple[Row, Sequence[int]]]) -> None:
        """Every value that is read is computed by some row."""
        made = {self.problem.kernels[k].value for _, kernels in found for k in kernels}
        there = made | self.problem.resident | {value for value, _ in self.problem.given}
        for row, kernels in found:
            for k in kernels:
                for read in self.problem.kernels[k].reads:
                    if read.value not in there:
                        raise self.error(row, f"reads `{self.problem.names[read.value]}`, {_NOBODY}")
        for value, _ in self.problem.roots:
            if value not in there:
                name = self.problem.names[value]
                raise RewriteError(f"{self.where}: the model's output `{name}` is one {_NOBODY}")

    def _hold(self, choices: Sequence[Choice], names: Mapping[int, str]) -> None:
        """The regions as the file has them; raises RewriteError with the first rule that they break."""
        problems = audit(self.problem, choices).problems
        if problems:
            text = re.sub(r"\bregion (\d+)\b", lambda m: f"region `{names[int(m[1])]}`", problems[0])
            text = re.sub(r"(?<=[:-] )(\d+)(?= \(`)", lambda m: f"`{names[int(m[1])]}`", text)
            raise RewriteError(f"{self.where}: {text}")

    def _formed(self, choices: Sequence[Choice], single: set[int]) -> Sequence[Choice]:
        """Regions around what was moved, formed anew from single kernels (a tuple stays with its results)."""
        kernels = [choice.kernel for choice in choices]
        whole: dict[tuple[int, int], int] = {}
        start: list[Choice] = []
        for choice in choices:
            kernel = self.problem.kernels[choice.kernel]
            region = choice.region
            for read in kernel.reads:
                if read.value in self.problem.solo and choice.region in single:
                    region = whole.get((read.value, kernel.target), region)
            whole[kernel.value, kernel.target] = region
            start.append(Choice(choice.kernel, region))
        try:
            formed = merge_regions(self.problem, kernels, start)
        except RewriteError as error:
            raise RewriteError(f"{self.where}: {error}") from error
        self._hold(formed, {number: str(number) for number in range(len(formed))})
        return formed


_NOBODY = "that no kernel of the file computes; a kernel was left out: put it back, or place the model anew"


def _is(name: str, base: str) -> bool:
    """Whether a value of the placed graph is the model's value of that name: itself, or one on another device."""
    return name == base or name.startswith(f"{base}.on.")


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _known(name: str, names: Iterable[str]) -> str:
    known = sorted(names)
    hint = did_you_mean(name, known)
    return f"; {hint}" if hint else f"; there are {', '.join(known[:8])}{', …' if len(known) > 8 else ''}"
