"""Terms as integer facts: everything that is not a value is interned, and every operator gets a table per arity.

In: `Terms`. Out: a loaded e-graph in an `Encoding`, which also keeps the interned types, attribute sets and constants.
Operators with several results are values of tuple type with `Out` projections.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from rewrite_engine.egraph.session import Session
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType

ABSENT_TYPE = TensorType("absent", ())
ValueType = TensorType | tuple[TensorType, ...]  # a tuple: the results of an operator that has several

SCHEMA = """
(sort V)
(constructor Ref (i64) V :unextractable)              ; a value of the model -> its class
(constructor Const (i64) V)                           ; a constant by identity: equal constants are one value
(constructor Absent () V)                             ; an optional input that is not there
(constructor Out (V i64) V)                           ; one result of an operator that has several
(function ty (V) i64 :merge (min old new))            ; interned type
(function cv (V) i64 :merge (max old new))            ; interned constant, or -1
(function rd (V) i64 :merge (max old new))            ; readers in the model, twice, plus 1 where it is an output
(relation val (i64 i64 i64 i64)) (relation none (i64))
(ruleset load) (ruleset view) (ruleset find) (ruleset apply) (ruleset fuse) (ruleset offer)
(ruleset ask) (ruleset place)
(rule ((val i t c r)) ((set (ty (Ref i)) t) (set (cv (Ref i)) c) (set (rd (Ref i)) r)) :ruleset load)
(rule ((val i t c r) (>= c 0)) ((union (Ref i) (Const c))) :ruleset load)
(rule ((none i)) ((union (Ref i) (Absent))) :ruleset load)
"""

Item = TypeVar("Item")


class Interner(Generic[Item]):
    """Numbers items by a hashable key, in the order in which they first appear."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._ids: dict[Hashable, int] = {}

    def __call__(self, key: Hashable, item: Item) -> int:
        if key not in self._ids:
            self._ids[key] = len(self.items)
            self.items.append(item)
        return self._ids[key]

    def __getitem__(self, index: int) -> Item:
        return self.items[index]


@dataclass(frozen=True, slots=True, order=True)
class Table:
    """The constructor of an operator, or (`fused`) of a composite, with so many inputs and results.

    `host` are the inputs of a composite that are read on the host.
    """

    op: str
    inputs: int
    outputs: int = 1
    fused: bool = False
    host: tuple[int, ...] = ()

    @property
    def symbol(self) -> str:
        name = re.sub(r"[^A-Za-z0-9]", lambda mark: f"_{'' if mark[0] == '_' else f'{ord(mark[0]):x}'}_", self.op)
        host = "".join(f".h{k}" for k in self.host)
        return f"{'fused.' if self.fused else ''}{name}.{self.inputs}.{self.outputs}{host}"

    @property
    def either(self) -> bool:
        """Whether its two operands may be swapped."""
        facts = None if self.fused else find(self.op)
        return self.inputs == 2 and self.outputs == 1 and facts is not None and facts.commutative

    @property
    def view(self) -> str:
        """The relation with both orders of the operands: (left, right, attributes, result)."""
        return f"either.{self.symbol}"

    def declaration(self) -> str:
        text = f"(constructor {self.symbol} ({'V ' * self.inputs}i64) V)"
        if self.either:
            text += (
                f"\n(relation {self.view} (V V i64 V))"
                f"\n(rule ((= o ({self.symbol} x y a))) (({self.view} x y a o) ({self.view} y x a o)) :ruleset view)"
                f"\n(rule ((= o ({self.symbol} x y a)) (= p ({self.symbol} y x a))) ((union o p)) :ruleset view)"
            )
        return text


@dataclass(slots=True, eq=False)
class Encoding:
    """A loaded e-graph with what its integers mean."""

    session: Session
    terms: Terms
    types: Interner[ValueType] = field(default_factory=Interner)
    attributes: Interner[object] = field(default_factory=Interner)
    constants: Interner[np.ndarray] = field(default_factory=Interner)
    tables: set[Table] = field(default_factory=set)
    symbols: dict[str, Table] = field(default_factory=dict)
    absent_type: int = -1

    def type_id(self, value_type: ValueType) -> int:
        return self.types(value_type, value_type)

    def attribute_id(self, attributes: Mapping[str, object]) -> int:
        return self.attributes(("attributes", attribute_key(attributes)), attributes)

    def constant_id(self, array: np.ndarray) -> int:
        return self.constants(constant_key(array), array)

    def tensor_type(self, index: int) -> TensorType:
        found = self.types[index]
        assert isinstance(found, TensorType)
        return found

    def declare(self, table: Table) -> str:
        """The declaration of a table, empty when it is there already."""
        if table in self.tables:
            return ""
        clash = self.symbols.setdefault(table.symbol, table)
        assert clash == table, f"{clash} and {table} share a symbol"
        self.tables.add(table)
        return table.declaration()


def attribute_key(value: object) -> Hashable:
    """A hashable identity for attribute values; subgraphs are equal only to themselves."""
    if isinstance(value, Mapping):
        return tuple((name, attribute_key(value[name])) for name in sorted(value))
    if isinstance(value, (tuple, list)):
        return tuple(map(attribute_key, value))
    if isinstance(value, np.ndarray):
        return constant_key(value)
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return (type(value).__name__, repr(value))
    return ("object", id(value))


def constant_key(array: np.ndarray) -> Hashable:
    """The identity of a constant: dtype, shape and elements, bit for bit."""
    raw: bytes | memoryview
    if array.dtype == object:
        raw = repr(array.tolist()).encode()
    else:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data  # large constants are not copied
    held = bytes(raw) if len(raw) <= 64 else hashlib.sha256(raw).digest()
    return ("constant", str(array.dtype), array.shape, held)


def load(session: Session, terms: Terms) -> Encoding:
    """Declares the tables that the terms need and loads the terms."""
    encoding = Encoding(session, terms)
    encoding.absent_type = encoding.type_id(ABSENT_TYPE)
    readers: dict[int, int] = defaultdict(int)
    rows: dict[Table, list[tuple[int, ...]]] = defaultdict(list)
    projections: list[tuple[int, int, int]] = []
    absent = len(terms.values)
    tuples: list[tuple[int, int]] = []
    for node in terms.nodes:
        inputs = tuple(absent if i == ABSENT else i for i in node.inputs)
        for i in set(node.inputs) - {ABSENT}:
            readers[i] += node.inputs.count(i)
        table = Table(node.op, len(inputs), len(node.outputs))
        result = node.outputs[0]
        if table.outputs > 1:
            result = absent + 1 + len(tuples)
            kinds = tuple(ABSENT_TYPE if o == ABSENT else terms.values[o].type for o in node.outputs)
            tuples.append((result, encoding.type_id(kinds)))
            projections += [(o, result, k) for k, o in enumerate(node.outputs) if o != ABSENT]
        rows[table].append((result, *inputs, encoding.attribute_id(node.attributes)))
    session.run(SCHEMA + "\n".join(_loader(encoding, table) for table in rows))
    outputs = set(terms.outputs)
    session.facts("val", _values(encoding, readers, outputs, tuples))
    session.facts("none", [(absent,)])
    for table, facts in rows.items():
        session.facts(f"raw.{table.symbol}", facts)
    if projections:
        session.run(
            "(relation proj (i64 i64 i64))\n(rule ((proj o u k)) ((union (Ref o) (Out (Ref u) k))) :ruleset load)"
        )
        session.facts("proj", projections)
    session.run_once("load")
    return encoding


def _loader(encoding: Encoding, table: Table) -> str:
    inputs = [f"i{k}" for k in range(table.inputs)]
    references = " ".join(f"(Ref {name})" for name in inputs)
    return (
        f"{encoding.declare(table)}\n(relation raw.{table.symbol} (i64 {'i64 ' * table.inputs}i64))\n"
        f"(rule ((raw.{table.symbol} o {' '.join(inputs)} a)) "
        f"((union (Ref o) ({table.symbol} {references} a))) :ruleset load)"
    )


def _values(
    encoding: Encoding, readers: Mapping[int, int], outputs: set[int], tuples: list[tuple[int, int]]
) -> list[tuple[int, int, int, int]]:
    rows = []
    for index, value in enumerate(encoding.terms.values):
        constant = -1 if value.constant is None else encoding.constant_id(value.constant)
        rows.append((index, encoding.type_id(value.type), constant, 2 * readers.get(index, 0) + (index in outputs)))
    rows.append((len(encoding.terms.values), encoding.absent_type, -1, 0))
    rows += [(index, kinds, -1, 0) for index, kinds in tuples]
    return rows
