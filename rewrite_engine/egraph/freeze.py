"""The explored e-graph as a placement problem, with the way back from every kernel to the operators it stands for.

Classes are numbered by what they are (values of the model first, then by structure), never by egglog's own order: the
same input gives the same problem in every process and version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.egraph.compile import Compiler, Consumer
from rewrite_engine.egraph.encode import Encoding, Table, ValueType
from rewrite_engine.egraph.fused import FusedKernel, kernel_inputs
from rewrite_engine.egraph.operator_graph import OperatorGraph, model_operators, operator_graph
from rewrite_engine.egraph.pins import pinned_kernels
from rewrite_engine.egraph.problem import Kernel, Problem, Read, TargetInfo
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.language.core import CoreRule, Variant
from rewrite_engine.machine import Machine, Offer
from rewrite_engine.operators.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class ENode:
    """What a kernel of the problem computes: an operator, a composite (`fused`), or one result (`result`) of a tuple.

    `inputs` are classes, ABSENT for an input that is not there; `slots` the classes that a composite's match bound.
    """

    op: str
    value: int
    inputs: tuple[int, ...]
    attributes: Mapping[str, object]
    offer: Offer
    outputs: int = 1
    fused: FusedKernel | None = None
    slots: tuple[int, ...] = ()
    result: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ClassInfo:
    """A class: the values of the model in it (indices, ascending), its type, and its elements when it is a constant."""

    values: tuple[int, ...]
    type: ValueType
    constant: np.ndarray | None


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A rule or pattern that held: the classes of the variant's slots; `form` has those of lists and chains, too."""

    rule: CoreRule
    variant: int
    form: Variant
    roots: tuple[int, ...]
    slots: tuple[int, ...]
    computed: tuple[int, ...]  # classes of the slots that pattern nodes compute


@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """A frozen e-graph. `enodes[p]` is what a kernel with payload p computes.

    `matches` are those of rules and named patterns and composites.
    """

    problem: Problem
    terms: Terms
    machine: Machine
    enodes: tuple[ENode, ...]
    classes: tuple[ClassInfo, ...]
    class_of: tuple[int, ...]  # value of the model -> class
    covers: Mapping[int, tuple[str, ...]]  # payload -> first outputs of the model's operators it stands for
    matches: tuple[Match, ...]
    saturation: str  # "complete" | "nodes" | "iterations" | "time"
    rounds: int
    size: int  # e-nodes
    graph: OperatorGraph | None = None  # every operator in it, where a trace was asked for


def freeze(
    encoding: Encoding,
    compilers: Sequence[Compiler],
    machine: Machine,
    offers: Sequence[Offer],
    pins: Mapping[str, str],
    saturation: str,
    rounds: int,
    trace: bool = False,
) -> Explored:
    """Reads the whole e-graph; with `trace`, its operators too."""
    graph = _Graph(encoding, encoding.session.freeze())
    matches, rows = _matches(graph, compilers)
    enodes, kernels = _kernels(graph, offers, rows)
    terms = encoding.terms
    class_of = tuple(graph.refs[i] for i in range(len(terms.values)))
    original = model_operators(graph)
    covers, originals = _coverage(graph, enodes, original, matches)
    names = tuple(_name(graph, number) for number in range(len(graph.classes)))
    pins_of = {class_of[i]: pins[v.name] for i, v in enumerate(terms.values) if v.name in pins}
    kernels = pinned_kernels(kernels, enodes, machine, pins_of, names)
    roots = [(class_of[i], graph.wanted[i]) for i in dict.fromkeys(terms.outputs)]
    device = {d.name: k for k, d in enumerate(machine.devices)}
    problem = Problem(
        devices=tuple(device.name for device in machine.devices),
        targets=tuple(TargetInfo(t.name, device[t.device], t.launch) for t in machine.targets),
        values=len(graph.classes),
        kernels=tuple(kernels),
        given=frozenset(graph.given),
        resident=frozenset(number for number, info in enumerate(graph.classes) if info.constant is not None),
        copies=graph.copies(machine),
        roots=tuple(dict.fromkeys(roots)),
        solo=frozenset(number for number, info in enumerate(graph.classes) if isinstance(info.type, tuple)),
        names=names,
        originals=frozenset(originals),
    )
    return Explored(
        problem, terms, machine, tuple(enodes), tuple(graph.classes), class_of, covers, tuple(matches), saturation,
        rounds, graph.size, operator_graph(graph, original) if trace else None,
    )  # fmt: skip


class _Graph:
    """The frozen functions with classes numbered."""

    def __init__(self, encoding: Encoding, functions: Mapping[str, Any]) -> None:
        self.encoding = encoding
        self.functions = functions
        self.integer = encoding.session.integer
        number = self._number()
        self.number = number
        self.refs = {self.integer(row.inputs[0]): number[row.output] for row in self.rows("Ref")}
        members: dict[int, list[int]] = defaultdict(list)
        for index, found in sorted(self.refs.items()):
            if index < len(encoding.terms.values):
                members[found].append(index)
        kinds = {number[row.inputs[0]]: self.integer(row.output) for row in self.rows("ty")}
        constants = {number[row.inputs[0]]: self.integer(row.output) for row in self.rows("cv")}
        self.classes = [
            ClassInfo(
                tuple(members[k]),
                encoding.types[kinds[k]],
                encoding.constants[constants[k]] if constants.get(k, -1) >= 0 else None,
            )
            for k in range(len(set(number.values())))
        ]
        self.absent = {number[row.output] for row in self.rows("Absent")}
        self.size = sum(len(self.rows(table.symbol)) for table in encoding.tables)
        self.index = {value.name: i for i, value in enumerate(encoding.terms.values)}
        self.placed = {kind: self._placed(kind) for kind in "PIOA"}
        self.given = [self.placed["O"][row.output] for row in self.rows("Given")]
        self.wanted = {self.integer(row.inputs[0]): self.integer(row.inputs[1]) for row in self.rows("wanted")}

    def rows(self, name: str) -> Sequence[Any]:
        function = self.functions.get(name)
        return () if function is None else function.rows

    def _placed(self, kind: str) -> dict[Any, tuple[int, int]]:
        """Placement class -> (value, target or device); hash-consing must never have merged two of them."""
        found: dict[Any, tuple[int, int]] = {}
        for row in self.rows(f"{kind}V"):
            identity = (self.number[row.inputs[0]], self.integer(row.inputs[1]))
            assert found.setdefault(row.output, identity) == identity, f"{kind}V classes merged: {identity}"
        return found

    def _number(self) -> dict[Any, int]:
        """Every class of V gets a number: by the first value of the model in it, then by its least e-node."""
        first: dict[Any, int] = {}
        for row in self.rows("Ref"):
            index = self.integer(row.inputs[0])
            first[row.output] = min(index, first.get(row.output, index))
        number = {value: k for k, value in enumerate(sorted(first, key=lambda value: first[value]))}
        pending: list[tuple[Any, tuple[str, int], tuple[Any, ...]]] = []
        for name in ["Const", "Absent", "Out", *(table.symbol for table in self.encoding.tables)]:
            sorts = self.functions[name].input_sorts if name in self.functions else ()
            for row in self.rows(name):
                if row.output in number:
                    continue
                extra = [self.integer(v) for v, sort in zip(row.inputs, sorts, strict=True) if sort == "i64"]
                children = tuple(v for v, sort in zip(row.inputs, sorts, strict=True) if sort == "V")
                pending.append((row.output, (name, extra[0] if extra else 0), children))
        while pending:
            ready: dict[Any, tuple[Any, ...]] = {}
            rest = []
            for value, label, children in pending:
                if value in number:
                    continue
                if all(child in number for child in children):
                    key = (*label, *(number[child] for child in children))
                    ready[value] = min(key, ready.get(value, key))
                else:
                    rest.append((value, label, children))
            assert ready or not rest, "a class has no e-node that stands on numbered ones"
            for value in sorted(ready, key=lambda v: ready[v]):
                number[value] = len(number)
            pending = rest
        return number

    def operands(self, row: Any, table: Table, skip: int = 0) -> tuple[int, ...]:
        return tuple(self.number[value] for value in row.inputs[skip : skip + table.inputs])

    def copies(self, machine: Machine) -> dict[tuple[int, int, int], int]:
        """The cost of every copy that the e-graph offers: the cheapest path for the value's size."""
        found = {}
        names = [device.name for device in machine.devices]
        for row in self.rows("Copy"):
            value, source = self.placed["O"][row.inputs[0]]
            _, destination = self.placed["A"][row.output]
            kind = self.classes[value].type
            assert isinstance(kind, TensorType)
            path = machine.paths(machine.size(kind)).get((names[source], names[destination]))
            if path is not None:
                found[value, source, destination] = sum(hop.cost for hop in path)
        return dict(sorted(found.items()))


def _name(graph: _Graph, number: int) -> str:
    values, outputs = graph.classes[number].values, set(graph.encoding.terms.outputs)
    best = min(values, key=lambda i: (i not in outputs, i), default=None)
    return f"value.{number}" if best is None else graph.encoding.terms.values[best].name


Rows = Mapping[tuple[int, tuple[int, ...]], Sequence[tuple[int, ...]]]  # (shape, question) -> slot classes per match
_Matches = dict[tuple[tuple[int, ...], int | None], tuple[int, ...]]  # (operands, value computed) -> slot classes


def _matches(graph: _Graph, compilers: Sequence[Compiler]) -> tuple[list[Match], Rows]:
    rows: dict[tuple[int, tuple[int, ...]], list[tuple[int, ...]]] = defaultdict(list)
    matches = []
    for compiler in compilers:
        for shape in compiler.shapes.values():
            for row in graph.rows(shape.match):
                question = tuple(map(graph.integer, row.inputs[shape.slots :]))
                rows[shape.index, question].append(tuple(graph.number[v] for v in row.inputs[: shape.slots]))
        for consumer in compiler.consumers:
            matches += _held(consumer, rows)
    for found in rows.values():
        found.sort()
    return matches, rows


def _held(consumer: Consumer, rows: Rows) -> list[Match]:
    variant = consumer.variant
    computed = [o for node in variant.nodes for o in node.outputs if o != ABSENT]
    return [
        Match(
            consumer.rule,
            variant.index,
            variant,
            tuple(slots[r] for r in variant.roots),
            slots,
            tuple(slots[o] for o in computed),
        )
        for question in sorted(consumer.accepted)
        for slots in sorted(rows.get((consumer.shape.index, question), ()))
    ]


def _kernels(graph: _Graph, offers: Sequence[Offer], rows: Rows) -> tuple[list[ENode], list[Kernel]]:
    found: list[tuple[Kernel, ENode]] = []
    constant = {k for k, info in enumerate(graph.classes) if info.constant is not None} | graph.absent
    behind: dict[tuple[int, tuple[int, ...]], _Matches] = {}  # of a shape and a question

    def reads(children: Sequence[Any], sorts: Sequence[str]) -> tuple[Read, ...]:
        operands = dict.fromkeys(
            Read(graph.placed[sort][child][0], graph.placed[sort][child][1] if sort == "A" else None)
            for child, sort in zip(children, sorts, strict=True)
        )
        return tuple(read for read in operands if read.value not in constant)

    def operand(child: Any, sort: str) -> int:
        value = graph.placed[sort][child][0]
        return ABSENT if value in graph.absent else value

    for table in sorted(graph.encoding.tables):
        name = f"Run.{table.symbol}"
        sorts = graph.functions[name].input_sorts[2:-1] if name in graph.functions else ()
        for row in graph.rows(name):
            value, target = graph.placed["P"][row.output]
            offer = offers[graph.integer(row.inputs[1])]
            children = row.inputs[2:-1]
            inputs = tuple(operand(child, sort) for child, sort in zip(children, sorts, strict=True))
            payload = graph.encoding.attributes[graph.integer(row.inputs[-1])]
            if isinstance(payload, FusedKernel):
                question = (payload.shape, payload.question)
                if question not in behind:
                    behind[question] = _first_matches(payload.variant, rows.get(question, ()))
                slots = behind[question][inputs, value if table.outputs == 1 else None]
                attributes = payload.attributes
                node = ENode(table.op, value, inputs, attributes, offer, table.outputs, payload, slots)
            else:
                assert isinstance(payload, Mapping)
                node = ENode(table.op, value, inputs, payload, offer, table.outputs)
            if any(read.value == value for read in reads(children, sorts)):
                continue  # a value from itself: Relu(Relu(x)) and Relu(x) share a class
            found.append((Kernel(value, target, offer.cost, reads(children, sorts), 0), node))
    free = Offer("", 0, "formula")
    needs = _needs([kernel for kernel, _ in found])
    for row in graph.rows("RunOut"):
        value, target = graph.placed["P"][row.output]
        whole = graph.placed["I"][row.inputs[1]][0]
        if value in needs.get(whole, ()):
            continue  # a value from itself: x and the first result of Dropout(x) share a class
        node = ENode("", value, (whole,), {}, free, 1, None, (), graph.integer(row.inputs[2]))
        found.append((Kernel(value, target, 0, (Read(whole),), 0), node))
    found.sort(key=lambda pair: (pair[0], pair[1].op, pair[1].offer.rule, pair[1].inputs, pair[1].slots))
    kernels = [Kernel(k.value, k.target, k.cost, k.reads, payload) for payload, (k, _) in enumerate(found)]
    return [node for _, node in found], kernels


def _needs(kernels: Sequence[Kernel]) -> dict[int, frozenset[int]]:
    """The values that every kernel of a value reads."""
    needs: dict[int, frozenset[int]] = {}
    for kernel in kernels:
        read = frozenset(r.value for r in kernel.reads)
        needs[kernel.value] = needs.get(kernel.value, read) & read
    return needs


def _first_matches(variant: Variant, rows: Sequence[tuple[int, ...]]) -> _Matches:
    """The first match behind each e-node of a composite, by what it reads, with and without what it computes."""
    read = kernel_inputs(variant)
    found: _Matches = {}
    for slots in rows:
        inputs = tuple(slots[i] for i in read)
        found.setdefault((inputs, slots[variant.roots[0]]), slots)
        found.setdefault((inputs, None), slots)
    return found


def _coverage(
    graph: _Graph,
    enodes: Sequence[ENode],
    original: Mapping[tuple[str, tuple[int, ...], int], Sequence[str]],
    matches: Sequence[Match],
) -> tuple[dict[int, tuple[str, ...]], list[int]]:
    """Per payload the operators of the model it stands for, and which payloads compute them as they were given."""
    names_of: dict[int, set[str]] = defaultdict(set)  # class -> the model's operators that compute it
    for names in original.values():
        for name in names:
            names_of[graph.refs[graph.index[name]]].add(name)
    behind: dict[int, set[int]] = defaultdict(set)  # root class -> classes computed by the left-hand sides of its rules
    for match in matches:
        if match.rule.kind == "rule":
            for root in match.roots:
                behind[root].update(match.computed)
    order = {name: k for k, name in enumerate(n for names in original.values() for n in names)}
    covers, originals = {}, []
    for payload, node in enumerate(enodes):
        if node.result is not None:
            originals.append(payload)
            continue
        exact = _exact(graph, node, original)
        if exact is not None:
            originals.append(payload)
            found = set(exact)
        else:
            inner = node.fused.computed(node.slots) if node.fused is not None else (node.value,)
            found = {name for k in _closure(inner, behind) for name in names_of[k]}
        covers[payload] = tuple(sorted(found, key=order.__getitem__))
    return covers, originals


def _closure(start: Sequence[int], behind: Mapping[int, set[int]]) -> list[int]:
    seen, stack = set(start), list(start)
    while stack:
        for k in behind.get(stack.pop(), ()):
            if k not in seen:
                seen.add(k)
                stack.append(k)
    return sorted(seen)


def _exact(
    graph: _Graph, node: ENode, original: Mapping[tuple[str, tuple[int, ...], int], Sequence[str]]
) -> list[str] | None:
    """The model's operators that this e-node is, or None when a rule made some of it."""
    if node.fused is None:
        key = (node.op, node.inputs, graph.encoding.attribute_id(node.attributes))
        return list(original[key]) if key in original else None
    names: list[str] = []
    for inner, attributes in zip(node.fused.variant.nodes, node.fused.node_attributes, strict=True):
        inputs = tuple(ABSENT if i == ABSENT else node.slots[i] for i in inner.inputs)
        number = graph.encoding.attribute_id(attributes)
        found = original.get((inner.op, inputs, number)) or original.get((inner.op, inputs[::-1], number))
        if found is None:
            return None
        names += found
    return names
