"""Variants as egglog rules: a find rule that stores the match and asks a question, and an apply rule that builds.

A question is a row of interned integers (attributes, types, constants). Python answers each once, with rows of
integers; the apply rule joins match and answer. Variants with the same find rule share its matches and questions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.candidates import Rows, Way, ways
from rewrite_engine.egraph.encode import Encoding, Table
from rewrite_engine.egraph.fused import kernel_inputs, kernel_table
from rewrite_engine.language.core import ABSENT, CoreRule, Facts, PatternNode, Template, Variant
from rewrite_engine.language.lower import choose, expand_rest
from rewrite_engine.operators.types import TensorType

REST_LIMIT = 32  # further inputs beyond what the model itself has, that rules may build into one operator
MOST_WAYS = 2000  # in which one rule may match: tables of its operators


@dataclass(slots=True, eq=False)
class Consumer:
    """One variant of one rule over fixed tables; `accepted` maps each question that holds to its answer row."""

    index: int
    rule: CoreRule
    variant: Variant
    shape: Shape
    accepted: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    @property
    def relation(self) -> str:
        return f"ok.{self.index}"


@dataclass(slots=True, eq=False)
class Shape:
    """A find rule. `slots` are the V columns of its matches; `columns` name the integers of its questions."""

    index: int
    slots: int
    nodes: int
    columns: tuple[str, ...]
    consumers: list[Consumer] = field(default_factory=list)
    asked: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def match(self) -> str:
        return f"m.{self.index}"

    @property
    def ask(self) -> str:
        return f"ask.{self.index}"

    def pattern(self) -> str:
        """The row of a match in a rule body."""
        return f"({self.match} {' '.join([*(f's{i}' for i in range(self.slots)), *self.columns])})"


@dataclass(slots=True, eq=False)
class Compiler:
    """Keeps the shapes and consumers of one phase: `find` for rules, `fuse` for composites and named patterns."""

    encoding: Encoding
    phase: str
    first_consumer: int = 0
    first_shape: int = 0
    shapes: dict[tuple[str, tuple[str, ...]], Shape] = field(default_factory=dict)
    consumers: list[Consumer] = field(default_factory=list)
    open: list[CoreRule] = field(default_factory=list)  # rules that are compiled for what the e-graph has only
    _rules: list[CoreRule] = field(default_factory=list)
    _widest: int = -1  # the most inputs of an operator; known when the first rules are
    _by_op: dict[str, list[Table]] = field(default_factory=dict)
    _indexed: int = 0  # tables that are in it
    _done: set[tuple[object, ...]] = field(default_factory=set)
    _count: dict[str, int] = field(default_factory=dict)

    def add(self, rules: Sequence[CoreRule]) -> None:
        """Compiles every variant whose operators have tables, again as long as the rules themselves add tables."""
        if self._widest < 0:
            self._widest = max((t.inputs for t in self.encoding.tables), default=0) + REST_LIMIT
        self.open += [r for r in rules if r not in self.open and any(_waits(r, v) for v in r.variants)]
        self._rules += rules
        self._compile(self._rules)

    def _compile(self, rules: Sequence[CoreRule]) -> None:
        """Compiles those rules; where that declares tables, which any rule may read, all of them."""
        rows = Rows(self.encoding.session.freeze()) if self.open else None
        known = len(self.encoding.tables)
        while text := [part for rule in rules for part in self._rule(rule, rows)]:
            self.encoding.session.run("\n".join(text))
            if len(self.encoding.tables) > known:
                known, rules = len(self.encoding.tables), self._rules

    def grow(self) -> None:
        """Compiles what has become possible for rules that wait for it."""
        if self.open:
            self._compile(self.open)

    def _rule(self, rule: CoreRule, rows: Rows | None) -> Iterator[str]:
        for variant in rule.variants:
            for way in self._ways(variant, rows if _waits(rule, variant) else None):
                key = (rule.name, variant.index, way.tables, tuple(way.present.items()))
                if key in self._done or any(t.inputs > self._widest for t in way.tables):
                    continue
                self._done.add(key)
                self._count[rule.name] = self._count.get(rule.name, 0) + 1
                if self._count[rule.name] > MOST_WAYS and any(node.choices for node in variant.nodes):
                    raise RewriteError(
                        f"{rule.span}: `{rule.name}` matches more than {MOST_WAYS} different sequences of operators in "
                        f"this model; lower `most` of its chain, or give it fewer operators"
                    )
                chosen = {j: way.tables[j].op for j, node in enumerate(variant.nodes) if node.choices}
                settled = choose(variant, chosen) if chosen else variant
                settled = expand_rest(settled, way.present) if way.present else settled
                yield from self._consumer(rule, settled, way.tables)

    def _ways(self, variant: Variant, rows: Rows | None) -> Iterator[Way]:
        """Every choice of tables for the pattern's nodes; with the rows at hand, only those that the e-graph has."""
        fitting = []
        for node in variant.nodes:
            fitting.append([table for table in self._tables(node.choices or (node.op,)) if _fits(node, table)])
            if not fitting[-1]:
                return
        if rows is not None:
            yield from ways(variant, fitting, rows, self.encoding.session.integer)
            return
        for chosen in itertools.product(*fitting):
            counts = {
                j: (True,) * (table.inputs - len(node.inputs))
                for j, (node, table) in enumerate(zip(variant.nodes, chosen, strict=True))
                if node.rest is not None
            }
            yield Way(chosen, counts)

    def _tables(self, operators: tuple[str, ...]) -> list[Table]:
        """The tables of these operators, in order."""
        if self._indexed != len(self.encoding.tables):
            self._by_op.clear()
            for table in sorted(self.encoding.tables):
                self._by_op.setdefault(table.op, []).append(table)
            self._indexed = len(self.encoding.tables)
        if len(operators) == 1:
            return self._by_op.get(operators[0], [])
        return sorted(table for op in operators for table in self._by_op.get(op, ()))

    def _consumer(self, rule: CoreRule, variant: Variant, tables: Sequence[Table]) -> Iterator[str]:
        body, columns = find_body(variant, tables)
        same = (body, columns)  # what is asked may differ where what is found does not: a constant, or its elements
        shape = self.shapes.get(same)
        if shape is None:
            index = self.first_shape + len(self.shapes)
            shape = self.shapes[same] = Shape(index, len(variant.slots), len(variant.nodes), columns)
            key = " ".join(columns)
            yield f"(relation {shape.match} ({'V ' * shape.slots}{'i64 ' * len(columns)}))"
            yield f"(relation {shape.ask} ({'i64 ' * len(columns)}))"
            yield f"(rule ({body}) ({shape.pattern()} ({shape.ask} {key})) :ruleset {self.phase})"
        consumer = Consumer(self.first_consumer + len(self.consumers), rule, variant, shape)
        shape.consumers.append(consumer)
        self.consumers.append(consumer)
        yield from self._apply(consumer)

    def _apply(self, consumer: Consumer) -> Iterator[str]:
        rule, variant, shape = consumer.rule, consumer.variant, consumer.shape
        if rule.kind == "rule":
            assert variant.template is not None
            columns, actions, tables = _build(variant, variant.template)
        elif rule.kind == "composite":
            columns, actions, tables = _fuse(rule, variant)
        else:
            return
        yield from filter(None, (self.encoding.declare(table) for table in tables))
        yield f"(relation {consumer.relation} ({'i64 ' * (len(shape.columns) + len(columns))}))"
        answer = " ".join([*shape.columns, *columns])
        yield f"(rule ({shape.pattern()} ({consumer.relation} {answer})) ({' '.join(actions)}) :ruleset apply)"


def _waits(rule: CoreRule, variant: Variant) -> bool:
    """Whether only what the e-graph has is compiled: choices of operators, and lists in rules, which build lists of
    other lengths, so that all that could be would be as many ways as there are pairs of lengths."""
    lists = rule.kind == "rule" and any(node.rest is not None for node in variant.nodes)
    return lists or any(node.choices for node in variant.nodes)


def _fits(node: PatternNode, table: Table) -> bool:
    """Whether a table of the node's operator has its inputs and results."""
    if table.fused:
        return False
    if len(node.outputs) > 1 and table.outputs < len(node.outputs):
        return False
    return table.inputs >= len(node.inputs) if node.rest is not None else table.inputs == len(node.inputs)


def find_body(variant: Variant, tables: Sequence[Table]) -> tuple[str, tuple[str, ...]]:
    """The body of the find rule, and the columns of its question: a<node>, t<slot>, c<slot>, k<slot>, r<slot>.

    The last operators come first: egglog 13 joins in the order of the text where sizes do not decide, and from the
    inputs on that is quadratic in the size of the model.
    """
    body = [
        part
        for j, (node, table) in reversed([*enumerate(zip(variant.nodes, tables, strict=True))])
        for part in _node(j, node, table)
    ]
    columns = [f"a{j}" for j in range(len(variant.nodes))]
    for i, slot in enumerate(variant.slots):
        body.append(f"(= t{i} (ty s{i}))")
        columns.append(f"t{i}")
        if slot.constant or slot.reads_value or slot.asks_constant:
            body.append(f"(= c{i} (cv s{i}))")
        if slot.constant:
            body.append(f"(>= c{i} 0)")
        if slot.reads_value:
            columns.append(f"c{i}")
        elif slot.asks_constant:
            body.append(f"(= k{i} (min 0 c{i}))")
            columns.append(f"k{i}")
        if slot.asks_readers:
            body.append(f"(= r{i} (rd s{i}))")
            columns.append(f"r{i}")
    return " ".join(body), tuple(columns)


def _node(j: int, node: PatternNode, table: Table) -> list[str]:
    inputs = " ".join("(Absent)" if i == ABSENT else f"s{i}" for i in node.inputs)
    if table.outputs > 1:
        body = [f"(= u{j} ({table.symbol} {inputs} a{j}))"]
        return body + [f"(= s{o} (Out u{j} {k}))" for k, o in enumerate(node.outputs) if o != ABSENT]
    if table.either:
        return [f"({table.view} {inputs} a{j} s{node.outputs[0]})"]
    return [f"(= s{node.outputs[0]} ({table.symbol} {inputs} a{j}))"]


def _build(variant: Variant, template: Template) -> tuple[list[str], list[str], list[Table]]:
    """Answer columns, actions and tables of a rule's right-hand side."""
    columns: list[str] = []
    actions: list[str] = []
    tables: list[Table] = []
    for k in range(template.constants):
        columns += [f"x{k}", f"xt{k}"]
        actions.append(f"(let k{k}_ (Const x{k})) (set (ty k{k}_) xt{k}) (set (cv k{k}_) x{k}) (set (rd k{k}_) 0)")

    def reference(ref: tuple[str | int, ...]) -> str:
        if ref[0] == "slot":
            return f"s{ref[1]}"
        if ref[0] == "constant":
            return f"k{ref[1]}_"
        if ref[0] == "absent":
            return "(Absent)"
        assert ref[0] == "node" and isinstance(ref[1], int)
        return f"h{ref[1]}" if template.nodes[ref[1]].outputs == 1 else f"h{ref[1]}_{ref[2]}"

    for j, node in enumerate(template.nodes):
        table = Table(node.op, len(node.inputs), node.outputs)
        tables.append(table)
        columns += [f"n{j}", f"nt{j}"]
        inputs = " ".join(map(reference, node.inputs))
        actions.append(f"(let h{j} ({table.symbol} {inputs} n{j})) (set (ty h{j}) nt{j}) {_fresh(f'h{j}')}")
        if node.outputs > 1:
            for k in range(node.outputs):
                columns.append(f"nt{j}_{k}")
                actions.append(f"(let h{j}_{k} (Out h{j} {k})) (set (ty h{j}_{k}) nt{j}_{k}) {_fresh(f'h{j}_{k}')}")
    for slot, ref in zip(variant.roots, template.roots, strict=True):
        actions.append(f"(union s{slot} {reference(ref)})")
    return columns, actions, tables


def _fresh(name: str) -> str:
    return f"(set (cv {name}) -1) (set (rd {name}) 0)"


def _fuse(rule: CoreRule, variant: Variant) -> tuple[list[str], list[str], list[Table]]:
    """A composite's e-node beside the pattern's root; with several results, a tuple and its projections."""
    table = kernel_table(rule, variant)
    inputs = " ".join(f"s{i}" for i in kernel_inputs(variant))
    if table.outputs == 1:
        return ["n0"], [f"(union s{variant.roots[0]} ({table.symbol} {inputs} n0))"], [table]
    actions = [f"(let h ({table.symbol} {inputs} n0)) (set (ty h) nt) {_fresh('h')}"]
    actions += [f"(union s{slot} (Out h {k}))" for k, slot in enumerate(variant.roots)]
    return ["n0", "nt"], actions, [table]


def facts(encoding: Encoding, consumer: Consumer, question: tuple[int, ...]) -> Facts | None:
    """What a question says, in the language's terms; None where a value is not there or is not a tensor."""
    shape, variant = consumer.shape, consumer.variant
    known = dict(zip(shape.columns, question, strict=True))
    types: list[TensorType] = []
    constants, is_constant, readers, is_output = [], [], [], []
    for i in range(shape.slots):
        kind = encoding.types[known[f"t{i}"]]
        if not isinstance(kind, TensorType) or known[f"t{i}"] == encoding.absent_type:
            return None
        types.append(kind)
        number = known.get(f"c{i}", known.get(f"k{i}", -1))
        constants.append(encoding.constants[number] if f"c{i}" in known and number >= 0 else None)
        is_constant.append(number >= 0 or variant.slots[i].constant)
        readers.append(known.get(f"r{i}", 0) // 2)
        is_output.append(known.get(f"r{i}", 0) % 2 == 1)
    attributes = tuple(encoding.attributes[known[f"a{j}"]] for j in range(shape.nodes))
    return Facts(
        types=tuple(types),
        constants=tuple(constants),
        is_constant=tuple(is_constant),
        attributes=attributes,  # type: ignore[arg-type]
        readers=tuple(readers),
        is_output=tuple(is_output),
    )
