"""Placement alternatives as e-nodes: who can run each e-node at what cost, and how values get where they are read.

In: a saturated e-graph. Out: the same e-graph with a class per placed value:
`PV(v, t)` v computed by target t; `IV(v, t)` readable inside a region of t; `OV(v, d)` written to memory d by a
computation or given there; `AV(v, d)` present in memory d. Every wrapper carries its class's full identity, so that no
two are ever merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite_engine.egraph.encode import ABSENT_TYPE, Encoding, Table
from rewrite_engine.egraph.fused import FusedKernel
from rewrite_engine.language.core import ABSENT, Answer, CoreRule, Facts, Slot, Variant
from rewrite_engine.language.lower import expand_rest
from rewrite_engine.language.meaning import refusal
from rewrite_engine.machine import HOST, Machine, Offer
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType

PLACE = """
(sort P) (sort I) (sort O) (sort A)
(constructor PV (V i64) P :unextractable) (constructor IV (V i64) I :unextractable)
(constructor OV (V i64) O :unextractable) (constructor AV (V i64) A :unextractable)
(constructor Stay (P) I) (constructor Enter (i64 A) I) (constructor Exit (P) O) (constructor Given (V i64) O)
(constructor Here (O) A) (constructor Copy (O i64) A) (constructor Load (V i64) A) (constructor RunOut (i64 I i64) P)
(relation target (i64 i64)) (relation tensor (i64)) (relation link (i64 i64 i64)) (relation given (i64 i64))
(relation wanted (i64 i64))
(rule ((wanted i d) (= v (Ref i))) ((AV v d)) :ruleset place)
(rule ((given i d) (= v (Ref i))) ((union (OV v d) (Given v d))) :ruleset place)
(rule ((= i (IV v t)) (= p (PV v t))) ((union i (Stay p))) :ruleset place)
(rule ((= i (IV v t)) (target t d) (= y (ty v)) (tensor y)) ((union i (Enter t (AV v d)))) :ruleset place)
(rule ((= p (PV v t)) (target t d) (= y (ty v)) (tensor y)) ((union (OV v d) (Exit p))) :ruleset place)
(rule ((= a (AV v d)) (= o (OV v d))) ((union a (Here o))) :ruleset place)
(rule ((= a (AV v d)) (= o (OV v s)) (= y (ty v)) (link y s d)) ((union a (Copy o d))) :ruleset place)
(rule ((= a (AV v d)) (= c (cv v)) (>= c 0)) ((union a (Load v d))) :ruleset place)
(rule ((= v (Out u k)) (= p (PV u t))) ((union (PV v t) (RunOut t (IV u t) k))) :ruleset place)
"""


Form = tuple[CoreRule, Variant]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked of every e-node of a table, and the forms of `supports` that may answer it.

    `positions` gives for each input the first input that must be the same value; ABSENT where it must not be there.
    """

    relation: str
    table: Table
    positions: tuple[int, ...]
    reads_values: bool
    forms: tuple[Form, ...]
    host: bool  # whether the host's roofline answers too: it runs everything
    meaning: CoreRule | None  # of a declared operator: the host runs its body, unless the meaning does not hold
    swaps: bool  # whether operands of a commutative operator are tried in either order
    declared: Mapping[Variant, Variant]  # each form as it was before its rest was expanded

    @property
    def names(self) -> list[str]:
        return ["(Absent)" if p == ABSENT else f"s{p}" for p in self.positions]

    @property
    def present(self) -> list[int]:
        return [k for k, p in enumerate(self.positions) if p == k]

    @property
    def columns(self) -> list[str]:
        constants = [f"{'c' if self.reads_values else 'k'}{k}" for k in self.present]
        return ["a", "tv", *(f"t{k}" for k in self.present), *constants]

    @property
    def body(self) -> str:
        inputs = " ".join(self.names)
        if self.table.either and self.swaps:
            parts = [f"({self.table.view} {inputs} a v)"]
        else:
            parts = [f"(= v ({self.table.symbol} {inputs} a))"]
        parts.append("(= tv (ty v))")
        for k in self.present:
            parts.append(
                f"(= t{k} (ty s{k})) (= c{k} (cv s{k}))" + ("" if self.reads_values else f" (= k{k} (min 0 c{k}))")
            )
        return " ".join(parts)


def questions(encoding: Encoding, rules: Sequence[CoreRule]) -> list[Question]:
    """The questions about every operator table, each with the forms that may answer it."""
    by_op: dict[str, list[Form]] = defaultdict(list)
    for rule in rules:
        if rule.kind == "supports":
            for variant in rule.variants:
                by_op[variant.nodes[0].op].append((rule, variant))
    defined = {rule.defines: rule for rule in rules if rule.defines}
    found = []
    for table in sorted(encoding.tables):
        if table.fused:
            continue
        plain = tuple(range(table.inputs))
        meaning = defined.get(table.op)
        groups: dict[tuple[int, ...], list[Form]] = {plain: []}
        declared: dict[Variant, Variant] = {}
        swaps = any(variant.nodes[0].rest != "*" for _, variant in by_op[table.op])
        for rule, variant in by_op[table.op]:
            form = _fit(variant, table)
            if form is not None:
                inputs = form.nodes[0].inputs
                positions = tuple(ABSENT if slot == ABSENT else inputs.index(slot) for slot in inputs)
                groups.setdefault(positions, []).append((rule, form))
                declared[form] = variant
        for number, (positions, forms) in enumerate(groups.items()):
            host = positions == plain
            reads = any(slot.reads_value for _, form in forms for slot in form.slots) or (host and meaning is not None)
            name = f"{table.symbol}.{number}"
            found.append(Question(name, table, positions, reads, tuple(forms), host, meaning, swaps, declared))
    return found


def _fit(variant: Variant, table: Table) -> Variant | None:
    """The form over this table, its rest expanded; None when the number of inputs or results does not fit."""
    node = variant.nodes[0]
    if len(node.outputs) > 1 and table.outputs < len(node.outputs):
        return None
    if node.rest is None:
        return variant if table.inputs == len(node.inputs) else None
    if table.inputs < len(node.inputs):
        return None
    return expand_rest(variant, {0: table.inputs - len(node.inputs)})


def with_rest(variant: Variant, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Variant:
    """The form over an operator some of whose remaining inputs are absent; a bare one has all results, too."""
    node = variant.nodes[0]
    form = expand_rest(variant, {0: [kind is not None for kind in inputs[len(node.inputs) :]]})
    if node.rest != "*":
        return form
    slots, results = list(form.slots), list(node.outputs)
    for kind in outputs[len(results) :]:
        results.append(ABSENT if kind == ABSENT_TYPE else len(slots))
        slots += [] if kind == ABSENT_TYPE else [Slot(f"$result[{len(results) - 1}]")]
    spread = replace(form.nodes[0], outputs=tuple(results))
    return replace(form, slots=tuple(slots), nodes=(spread,))


def program(encoding: Encoding, asked: Sequence[Question]) -> str:
    """Asks about every e-node and builds `Run` e-nodes from the answers."""
    text = [PLACE]
    for table in sorted(encoding.tables):
        host = host_positions(table)
        sorts = " ".join("A" if k in host else "I" for k in range(table.inputs))
        text.append(f"(constructor Run.{table.symbol} (i64 i64 {sorts} i64) P)")
    for question in asked:
        text.append(_ask(question.relation, question.table, question.body, question.names, question.columns))
    for table in sorted(t for t in encoding.tables if t.fused):
        names = [f"s{k}" for k in range(table.inputs)]
        text.append(_ask(table.symbol, table, f"(= v ({table.symbol} {' '.join(names)} a))", names, ["a"]))
    return "\n".join(text)


def _ask(relation: str, table: Table, body: str, names: Sequence[str], columns: Sequence[str]) -> str:
    host, kinds, row = host_positions(table), "i64 " * len(columns), " ".join(columns)
    reads = " ".join(f"(AV {name} 0)" if k in host else f"(IV {name} t)" for k, name in enumerate(names))
    return (
        f"(relation ask.{relation} ({kinds}))\n(relation can.{relation} ({kinds}i64 i64))\n"
        f"(rule ({body}) ((ask.{relation} {row})) :ruleset ask)\n"
        f"(rule ({body} (can.{relation} {row} t w)) "
        f"((union (PV v t) (Run.{table.symbol} t w {reads} a))) :ruleset place)"
    )


def host_positions(table: Table) -> frozenset[int]:
    """The operands that are read on the host whatever runs the kernel: shapes, axes and sizes."""
    if table.fused:
        return frozenset(table.host)
    facts = find(table.op)
    return frozenset() if facts is None else facts.host_inputs


@dataclass(slots=True, eq=False)
class Capabilities:
    """Answers capability questions with rows (target, offer); offers are interned."""

    encoding: Encoding
    machine: Machine
    offers: list[Offer]

    def answer(self, question: Question, row: tuple[int, ...]) -> list[tuple[int, int]]:
        """Which targets run an e-node, each at its cheapest offer."""
        known = dict(zip(question.columns, row, strict=True))
        best: dict[int, Offer] = {}
        results = self.encoding.types[known["tv"]]
        outputs = results if isinstance(results, tuple) else (results,)
        types = [self.encoding.types[known[f"t{p}"]] if p != ABSENT else ABSENT_TYPE for p in question.positions]
        attributes = self.encoding.attributes[known["a"]]
        assert isinstance(attributes, Mapping)
        inputs = [t if isinstance(t, TensorType) and t != ABSENT_TYPE else None for t in types]
        work = (question.table.op, attributes, inputs, outputs)
        names = {target.name: k for k, target in enumerate(self.machine.targets)}
        for rule, form in question.forms:
            index = names.get(rule.target or "")
            if None in inputs or len(outputs) > 1:
                declared = question.declared[form]
                form = with_rest(declared, inputs, outputs) if declared.nodes[0].rest is not None else form
            facts = None if index is None else self._facts(form, question, known, inputs, outputs, attributes)
            found = None if facts is None else self.machine.ask(rule, form, facts)
            if index is not None and isinstance(found, Answer):
                offer = self.machine.offer(index, rule.name, found, [work], inputs, outputs)
                if index not in best or offer.cost < best[index].cost:
                    best[index] = offer
        costed = any(offer.source == "formula" for t, offer in best.items() if t == 0)
        if question.host and not costed and not self._has_meaning(question, known, attributes, inputs, len(outputs)):
            best[0] = self.machine.offer(0, HOST, Answer(), [work], inputs, outputs)
        rows = []
        for index, offer in sorted(best.items()):
            rows.append((index, len(self.offers)))
            self.offers.append(offer)
        return rows

    def _has_meaning(
        self,
        question: Question,
        known: Mapping[str, int],
        attributes: Mapping[str, object],
        inputs: Sequence[TensorType | None],
        n_outputs: int,
    ) -> bool:
        """Whether a rule leads from the operator to its body, which the host runs instead."""
        if question.meaning is None:
            return False
        numbers = [known[f"c{k}"] if kind is not None else -1 for k, kind in enumerate(inputs)]
        constants = [self.encoding.constants[number] if number >= 0 else None for number in numbers]
        return not refusal(question.meaning, attributes, inputs, constants, n_outputs)

    def fused(self, row: tuple[int, ...]) -> list[tuple[int, int]]:
        """The one target that runs a composite's e-node."""
        kernel = self.encoding.attributes[row[0]]
        assert isinstance(kernel, FusedKernel)
        for index, target in enumerate(self.machine.targets):
            if target.name == kernel.rule.target:
                self.offers.append(kernel.offer)
                return [(index, len(self.offers) - 1)]
        return []

    def _facts(
        self,
        form: Variant,
        question: Question,
        known: Mapping[str, int],
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        attributes: Mapping[str, object],
    ) -> Facts | None:
        """The form's slots filled from the question; None where a written input is absent."""
        node = form.nodes[0]
        types: list[TensorType] = [ABSENT_TYPE] * len(form.slots)
        constants = [None] * len(form.slots)  # type: list[object]
        constant = [False] * len(form.slots)
        for k, slot in enumerate(node.inputs):
            if slot == ABSENT:
                continue
            kind, position = inputs[k], question.positions[k]
            if kind is None:
                return None
            number = known[f"c{position}"] if question.reads_values else known[f"k{position}"]
            if form.slots[slot].constant and number < 0:
                return None
            types[slot], constant[slot] = kind, number >= 0
            if question.reads_values and number >= 0 and form.slots[slot].reads_value:
                constants[slot] = self.encoding.constants[number]
        for k, slot in enumerate(node.outputs):
            if slot != ABSENT:
                types[slot] = outputs[k]
        return Facts(tuple(types), tuple(constants), tuple(constant), (attributes,))  # type: ignore[arg-type]
