"""Every match of rules, patterns, composites and capabilities in a model; for those without any, the nearest miss.

In: a model and rule files. Out: `Matches`. What matches is egglog's answer over the saturated e-graph, so matches of
what rules have made are among them; nothing is placed, and no cost is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import Span
from rewrite_engine.egraph.explore import DEFAULT_LIMITS, Limits, explore
from rewrite_engine.egraph.freeze import Explored, Match
from rewrite_engine.egraph.operator_graph import Applied
from rewrite_engine.egraph.trace import nearest
from rewrite_engine.graph.declared import infer_declared
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.language.core import CoreRule, RuleSet, Variant
from rewrite_engine.language.evaluate import plain_value
from rewrite_engine.language.program import Program
from rewrite_engine.machine import build
from rewrite_engine.operators import find
from rewrite_engine.placement.explain_miss import Entry, Miss, closest, miss_of
from rewrite_engine.placement.explain_words import Words
from rewrite_engine.placement.place import check_allowed

SHOWN = 8  # elements of a constant that a capture shows
ENTRIES, STEPS = 2000, 30_000
"""Places of a model at which the nearest miss of a rule is looked for, and the steps that this takes in all."""


@dataclass(frozen=True, slots=True)
class Capture:
    """A name of the rule and what it stands for: a value of the model, by name and type ("float32[1, 3, 8, 8]").

    `value` is "" for what rules made. `elements` are those of a constant with at most `SHOWN` of them. For a captured
    attribute, `type` says whose it is ("perm of Transpose") and `elements` is its value.
    """

    name: str
    value: str
    type: str
    constant: bool
    elements: Any = None


@dataclass(frozen=True, slots=True)
class MatchedOperator:
    """An operator in a match: by its first output, "" where rules made it; its effective attributes."""

    op: str
    name: str
    attributes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Matched:
    """One match: `nodes` in the pattern's order, operands before what reads them."""

    rule: str
    kind: str  # "rule" | "pattern" | "composite" | "supports"
    target: str
    span: Span
    nodes: tuple[MatchedOperator, ...]
    captures: tuple[Capture, ...]


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A rule that matches nowhere: the nearest miss, or None where the model has none of its operators `wanted`."""

    rule: str
    kind: str
    target: str
    span: Span
    wanted: tuple[str, ...]
    miss: Miss | None


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """All matches by rule, in the order of the files; rules without any; rules that `allow` leaves out, by name."""

    matches: tuple[Matched, ...]
    unmatched: tuple[Unmatched, ...]
    left_out: tuple[str, ...]
    saturation: str  # "complete" | "nodes" | "iterations" | "time"
    sources: Mapping[str, str]

    def __str__(self) -> str:
        from rewrite_engine.placement.match_text import text_of

        return text_of(self)


def match(terms: Terms, rules: RuleSet, **options: Any) -> Matches:
    """Every match in a graph. Of the options of `place`, `targets`, `allow` and `limits` make a difference."""
    rules = without_costs(rules)
    explored = can_run(terms, rules, **options)
    allow = options.get("allow", ("exact", "reassociates"))
    targets = {target.name for target in explored.machine.targets}
    asked = [r for r in rules.rules if not r.defines and (r.target is None or r.target in targets)]
    left_out = tuple(rule.name for rule in asked if rule.kind == "rule" and rule.label not in allow)
    finder = _Finder(explored, {path: text for path, (text, _) in rules.sources.items()})
    found: list[Matched] = []
    without: list[Unmatched] = []
    for rule in asked:
        if rule.name not in left_out:
            here = list(finder.matches(rule))
            found += here
            without += [] if here else [finder.unmatched(rule)]
    return Matches(tuple(found), tuple(without), left_out, explored.saturation, finder.words.sources)


def can_run(
    terms: Terms,
    rules: RuleSet,
    *,
    targets: Sequence[str] = (),
    allow: Sequence[str] = ("exact", "reassociates"),
    pins: Mapping[str, str] = {},
    limits: Limits = DEFAULT_LIMITS,
    **_: Any,
) -> Explored:
    """The e-graph of a model with all its operators, where nothing costs anything; `rules` are `without_costs`."""
    check_allowed(allow)
    machine = build(rules).restrict(targets) if targets else build(rules)
    terms = infer_declared(terms, rules.meanings)
    return explore(terms, rules.rules, machine.without_costs(), allow=allow, limits=limits, pins=pins, trace=True)


def without_costs(rules: RuleSet) -> RuleSet:
    """The rules without cost formulas, which may rest on dimensions that are not known; what matches is the same."""
    free = []
    for rule in rules.rules:
        variants = []
        for variant in rule.variants:
            assert isinstance(variant.program, Program)
            program = replace(variant.program, cost=None, energy=None, profile=None)
            variants.append(replace(variant, program=program))
        free.append(replace(rule, variants=tuple(variants)))
    return replace(rules, rules=tuple(free))


class _Finder:
    def __init__(self, explored: Explored, sources: Mapping[str, str]) -> None:
        assert explored.graph is not None
        self.explored, self.graph, self.words = explored, explored.graph, Words(explored, sources)
        self.held: dict[str, list[Match]] = defaultdict(list)
        for found in explored.matches:
            self.held[found.rule.name].append(found)
        self.of_op: dict[str, list[int]] = defaultdict(list)
        values = explored.terms.values
        self.terms = {next(values[o].name for o in t.outputs if o != ABSENT): t for t in explored.terms.nodes}
        for number, applied in enumerate(self.graph.operators):
            self.of_op[applied.op].append(number)

    def matches(self, rule: CoreRule) -> Iterator[Matched]:
        """The matches of a rule, those of the model's first operators first."""
        if rule.kind == "supports":
            yield from self._supported(rule)
            return
        found: dict[tuple[tuple[int, ...], tuple[int, ...]], Match] = {}
        for one in self.held[rule.name]:
            found.setdefault((self._laid(one), one.slots), one)  # variants may differ in what is written alone
        proper = {key: one for key, one in found.items() if not _reads_itself(one.form, key[0])}
        for (numbers, slots), one in sorted((proper or found).items(), key=lambda pair: (pair[0][0][::-1], pair[0][1])):
            yield self._matched(rule, one.form, numbers, dict(enumerate(slots)))

    def _supported(self, rule: CoreRule) -> Iterator[Matched]:
        """A capability's own answer about each operator that it names."""
        for variant in rule.variants:
            for number in self.of_op[variant.nodes[0].op]:
                attempt = nearest(self.explored, rule, variant, 0, number)
                if attempt is not None and attempt.holds:
                    yield self._matched(rule, attempt.variant, (number,), attempt.slots)

    def _laid(self, found: Match) -> tuple[int, ...]:
        """The operator at each node of a match: the first that reads and computes just what the match says."""
        numbers = []
        for pattern in found.form.nodes:
            inputs = tuple(ABSENT if slot == ABSENT else found.slots[slot] for slot in pattern.inputs)
            outputs = {k: found.slots[slot] for k, slot in enumerate(pattern.outputs) if slot != ABSENT}
            among = self.graph.makers[next(iter(outputs.values()))]
            fits = (k for k in among if _fits(self.graph.operators[k], pattern.op, inputs, outputs))
            numbers.append(next(fits))
        return tuple(numbers)

    def _matched(self, rule: CoreRule, form: Variant, numbers: Sequence[int], slots: Mapping[int, int]) -> Matched:
        operators = [self.graph.operators[number] for number in numbers]
        nodes = tuple(MatchedOperator(o.op, o.names[0] if o.names else "", o.attributes) for o in operators)
        names = self._names(form, operators, slots)
        captures = [
            self._capture(slot.name, slots[k], names.get(k, ""))
            for k, slot in enumerate(form.slots)
            if not slot.name.startswith("$")
        ]
        assert isinstance(form.program, Program)
        for name, node, attribute in form.program.captures:
            value = plain_value(operators[node].attributes.get(attribute))
            captures.append(Capture(name, "", f"{attribute} of {operators[node].op}", False, value))
        return Matched(rule.name, rule.kind, rule.target or "", rule.span, nodes, tuple(captures))

    def _names(self, form: Variant, operators: Sequence[Applied], slots: Mapping[int, int]) -> dict[int, str]:
        """What the model calls the values of slots, by its own operators: rules may have made values equal."""
        values = self.explored.terms.values
        read: dict[int, str] = {}
        computed: dict[int, str] = {}
        for pattern, applied in zip(form.nodes, operators, strict=True):
            if not applied.names:
                continue
            term = self.terms[applied.names[0]]
            pairs = zip(pattern.inputs, applied.inputs, strict=False)
            swapped = any(slot != ABSENT and slots[slot] != number for slot, number in pairs)
            given = term.inputs[::-1] if swapped else term.inputs
            for names, own, found in ((read, pattern.inputs, given), (computed, pattern.outputs, term.outputs)):
                for slot, value in zip(own, found, strict=False):
                    if slot != ABSENT and value != ABSENT:
                        names.setdefault(slot, values[value].name)
        return read | computed

    def _capture(self, name: str, number: int, value: str) -> Capture:
        info = self.explored.classes[number]
        value = value or (self.words.name(number) if info.values else "")
        elements = None
        if info.constant is not None and info.constant.size <= SHOWN:
            elements = np.asarray(info.constant).tolist()
        return Capture(name, value, str(info.type), info.constant is not None, elements)

    def unmatched(self, rule: CoreRule) -> Unmatched:
        """The nearest miss of a rule that matches nowhere."""
        wanted = {op: None for v in rule.variants for node in v.nodes for op in node.choices or (node.op,)}
        attempt = closest(self.explored, self._entries(rule), STEPS)
        miss = None if attempt is None else miss_of(self.words, attempt)
        return Unmatched(rule.name, rule.kind, rule.target or "", rule.span, tuple(wanted), miss)

    def _entries(self, rule: CoreRule) -> list[Entry]:
        """Each variant laid on the model by each of its nodes; large ones by their result and their rarest operator."""
        every: list[Entry] = []
        some: list[Entry] = []
        for variant in rule.variants:
            laid = [
                [(rule, variant, j, k) for op in node.choices or (node.op,) for k in self.of_op.get(op, ())]
                for j, node in enumerate(variant.nodes)
            ]
            every += [entry for entries in laid for entry in entries]
            some += [*laid[-1], *min((entries for entries in laid if entries), key=len, default=[])]
        return every if len(every) <= ENTRIES else some[:ENTRIES]


def _reads_itself(form: Variant, numbers: Sequence[int]) -> bool:
    """Whether an operator and one that reads its result are the same: rules have made its result and operand equal."""
    makers = {slot: j for j, node in enumerate(form.nodes) for slot in node.outputs if slot != ABSENT}
    return any(
        numbers[makers[slot]] == numbers[j]
        for j, node in enumerate(form.nodes)
        for slot in node.inputs
        if slot in makers
    )


def _fits(applied: Applied, op: str, inputs: tuple[int, ...], outputs: Mapping[int, int]) -> bool:
    facts = find(op)
    swaps = facts is not None and facts.commutative and len(inputs) == 2
    return (
        applied.op == op
        and all(k < len(applied.outputs) and applied.outputs[k] == value for k, value in outputs.items())
        and (applied.inputs == inputs or (swaps and applied.inputs == inputs[::-1]))
    )
