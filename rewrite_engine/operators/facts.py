"""The operator table: what each ONNX operator takes, gives and means at opset 23, read from the committed `facts.json`.

Needs no onnx. The file is read once, at the first question; each operator is built when it is first asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Formal:
    """An input or output of an operator. `type` is a type variable ("T") or a fixed type ("int64", "seq(tensor(..))").

    `kind` is "single", "optional" or "variadic"; the members of a variadic one share their type unless `mixed`.
    `dtypes` are the dtype names allowed; types that are not tensors appear as the schema spells them.
    """

    name: str
    kind: str
    type: str
    dtypes: tuple[str, ...]
    mixed: bool = False

    def allows(self, dtype: str) -> bool:
        """Whether a tensor of this dtype may stand here; an unknown dtype ("?") may."""
        return dtype == "?" or dtype in self.dtypes


_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int, np.integer, np.bool_),
    "float": (int, float, np.integer, np.floating),
    "string": (str, bytes),
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute by its schema. `type` is int, float, string, tensor, graph, ints, ...; no default is None."""

    name: str
    type: str
    required: bool
    default: object = None

    def fits(self, value: object) -> bool:
        """Whether a value is of the attribute's kind; tensors, graphs and the like are not looked at."""
        if self.type in _KINDS:
            return isinstance(value, _KINDS[self.type])
        one = _KINDS.get(self.type.removesuffix("s"))
        return one is None or (isinstance(value, tuple | list) and all(isinstance(item, one) for item in value))


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its schema and the facts of `traits`, where each is explained."""

    name: str
    domain: str
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: Mapping[str, Attribute]
    min_inputs: int
    max_inputs: int | None  # None: any number
    min_outputs: int
    max_outputs: int | None
    commutative: bool = False
    pointwise: bool = False
    movement: bool = False
    view: bool = False
    random: bool = False
    host_inputs: frozenset[int] = frozenset()
    axis_attributes: Mapping[str, int] = field(default_factory=dict)

    def input(self, position: int) -> Formal | None:
        """The formal of an operand, counting a variadic one as often as needed; None beyond the last."""
        return _at(self.inputs, position)

    def output(self, position: int) -> Formal | None:
        """The formal of a result, counting a variadic one as often as needed; None beyond the last."""
        return _at(self.outputs, position)


def find(op: str) -> Operator | None:
    """The operator called `op` ("Conv"), or None when the table does not have it (other domains, unknown names).

    >>> find("Conv").max_inputs, find("Add").commutative, find("Slice").host_inputs == {1, 2, 3, 4}
    (3, True, True)
    """
    return _build(op) if op in _table()["operators"] else None


def names() -> tuple[str, ...]:
    """Every operator of the table, in alphabetical order."""
    return tuple(_table()["operators"])


def _at(formals: tuple[Formal, ...], position: int) -> Formal | None:
    if position < len(formals):
        return formals[position]
    return formals[-1] if formals and formals[-1].kind == "variadic" else None


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("rewrite_engine.operators").joinpath("facts.json").read_bytes())
    return table


@cache
def _build(name: str) -> Operator:
    row = _table()["operators"][name]
    least, most, least_out, most_out = row["arity"]
    facts = {f: True for f in ("commutative", "pointwise", "movement", "view", "random") if f in row}
    return Operator(
        name=name,
        domain="",
        inputs=tuple(_formal(f, row["types"]) for f in row["inputs"]),
        outputs=tuple(_formal(f, row["types"]) for f in row["outputs"]),
        attributes=MappingProxyType({a: _attribute(a, *v) for a, v in row["attributes"].items()}),
        min_inputs=least,
        max_inputs=most,
        min_outputs=least_out,
        max_outputs=most_out,
        host_inputs=frozenset(row.get("host_inputs", ())),
        axis_attributes=MappingProxyType(row.get("axis_attributes", {})),
        **facts,
    )


def _formal(row: list[str], variables: Mapping[str, int]) -> Formal:
    name, kind, type_ = row[:3]
    dtypes = tuple(_table()["sets"][variables[type_]]) if type_ in variables else (type_,)
    return Formal(name, kind, type_, dtypes, mixed=len(row) > 3)


def _attribute(name: str, type_: str, required: bool, default: object = None) -> Attribute:
    return Attribute(name, type_, required, tuple(default) if isinstance(default, list) else default)
