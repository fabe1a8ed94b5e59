"""Values that guards, costs and templates compute with: numbers, quantities, lists, constants, views, unknown.

Three-valued throughout: what rests on an unknown dimension is `Unknown`, with the reason that an explanation shows. Two
unknowns with the same key (the same symbol, or the same arithmetic on it) are equal, whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from rewrite_engine.language import units
from rewrite_engine.language.units import Quantity
from rewrite_engine.operators.dtypes import DTYPE_CODES
from rewrite_engine.operators.types import ITEM_BITS, TensorType

Array = np.ndarray[Any, Any]


class EvaluationError(Exception):
    """An expression that has no value for this match; the message says why, in the user's terms."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is not known at compile time. `key` identifies it where it is the same each time it is asked for."""

    reason: str
    key: object = None
    dimension: str | None = None  # the symbol on which it rests, where there is one
    listed: bool = False  # a list of unknown length, such as a shape of unknown rank


@dataclass(frozen=True, slots=True)
class ValueSet:
    """`{a, b}`: numbers, lists or dtype names."""

    items: tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """An operator of the match: effective attributes, what it reads and gives (None: absent or not looked at)."""

    op: str
    attributes: Mapping[str, object]
    inputs: tuple[View | None, ...]
    outputs: tuple[View | None, ...]
    index: int


class Maker(Protocol):
    """Whatever knows which operator of the match made a value."""

    def node_of(self, slot: int) -> NodeView | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A value of the match as expressions see it."""

    name: str
    type: TensorType
    constant: Array | None
    is_constant: bool
    maker: Maker | None = None
    slot: int = -1

    @property
    def node(self) -> NodeView | None:
        """The operator that made the value, when that is part of the pattern."""
        return None if self.maker is None else self.maker.node_of(self.slot)


def dimension(view: View, axis: int) -> object:
    """Size of one dimension of a value, or `Unknown` where it is a symbol or not known."""
    assert view.type.shape is not None
    size = view.type.shape[axis]
    if isinstance(size, int):
        return size
    if size is None:
        return Unknown(f"dimension {axis} of `{view.name}` is unknown")
    return Unknown(f"dimension `{size}` of `{view.name}` is unknown", ("dimension", size), size)


def shape(view: View) -> object:
    """The shape as a list, or `Unknown` when not even the rank is known."""
    if view.type.shape is None:
        return Unknown(f"the rank of `{view.name}` is unknown", listed=True)
    return tuple(dimension(view, axis) for axis in range(len(view.type.shape)))


def _size(view: View, known: int | None, what: str) -> object:
    if known is not None:
        return known
    if view.type.shape is None:
        return Unknown(f"the rank of `{view.name}` is unknown")
    unknown = [dimension(view, axis) for axis, d in enumerate(view.type.shape) if not isinstance(d, int)]
    if not unknown:
        return Unknown(f"the dtype of `{view.name}` is unknown")
    first = unknown[0]
    assert isinstance(first, Unknown)
    named = all(isinstance(u, Unknown) and u.key is not None for u in unknown)
    key = (what, view.type.dtype if what == "bytes" else "", view.type.shape) if named else None
    return Unknown(first.reason, key, first.dimension)


def _bytes(view: View) -> object:
    size = _size(view, view.type.bytes, "bytes")
    return Quantity(Fraction(size), units.BYTES) if isinstance(size, int) else size


def _dtype(view: View) -> object:
    return view.type.dtype if view.type.dtype != "?" else Unknown(f"the dtype of `{view.name}` is unknown")


def _rank(view: View) -> object:
    return Unknown(f"the rank of `{view.name}` is unknown") if view.type.shape is None else len(view.type.shape)


PROPERTIES: Mapping[str, Callable[[View], object]] = {
    "dtype": _dtype,
    "rank": _rank,
    "shape": shape,
    "numel": lambda view: _size(view, view.type.numel, "numel"),
    "bytes": _bytes,
    "inputs": lambda view: _node(view).inputs,
    "outputs": lambda view: _node(view).outputs,
}
"""What every value has, by name; these win over attributes of the same name."""


def _node(view: View) -> NodeView:
    node = view.node
    if node is None:
        raise EvaluationError(f"`{view.name}` is not the result of an operator in this match")
    return node


def attribute(view: View, name: str) -> object:
    """An effective attribute of the operator that made `view`; `Unknown` where the operator does not have it."""
    node = _node(view)
    if name not in node.attributes:
        return Unknown(f"`{view.name}` ({node.op}) has no attribute `{name}`")
    return node.attributes[name]


def member(value: object, name: str) -> object:
    """`value.name`."""
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, View):
        raise EvaluationError(f"{show(value)} has no `{name}`: only captured values do")
    found = PROPERTIES.get(name)
    return found(value) if found is not None else attribute(value, name)


def elements(view: View) -> Array:
    """The elements of a constant; an error that names the value where it is none."""
    if view.constant is None:
        raise EvaluationError(f"`{view.name}` is not a constant")
    return view.constant


def plain(value: object) -> object:
    """The value with a view replaced by its elements, and a NumPy scalar by a Python one."""
    if isinstance(value, View):
        return elements(value)
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "bifu" else float(value)
    return value


def wide(value: object) -> object:
    """A constant in the widest dtype of its kind, so that arithmetic neither wraps nor rounds on the way."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "bcOUS":
        return value
    if value.dtype.kind in "iu" or value.dtype.name in ("int4", "uint4", "int2", "uint2"):
        return value if value.dtype == np.uint64 else value.astype(np.int64)
    return value.astype(np.float64)


def numpy_value(value: object) -> Any:
    """The value as NumPy computes with it: lists as arrays, exact fractions as floats. Raises on unknown parts."""
    value = plain(value)
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    if isinstance(value, tuple):
        parts = [numpy_value(item) for item in value]
        return np.array(parts) if parts else np.zeros(0, np.int64)
    if isinstance(value, Unknown):
        raise EvaluationError(value.reason)
    if isinstance(value, (np.ndarray, bool, int, float)):
        return value
    raise EvaluationError(f"expected a number or a constant, found {show(value)}")


# ---------------------------------------------------------------- truth


def truth(value: object) -> bool | Unknown:
    """The value as a condition."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Unknown):
        return value
    value = plain(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, np.ndarray) and value.size == 1:
        return bool(value.reshape(()))
    if isinstance(value, (tuple, np.ndarray)):
        raise EvaluationError(f"expected true or false, found {show(value)}; write all(…) or any(…)")
    raise EvaluationError(f"expected true or false, found {show(value)}")


def negation(value: object) -> bool | Unknown:
    """`not value`: the negation of unknown is unknown."""
    known = truth(value)
    return Unknown(known.reason, None, known.dimension) if isinstance(known, Unknown) else not known


def conjunction(parts: tuple[object, ...]) -> bool | Unknown:
    """True when all are; false when one is; else unknown, for the first unknown reason."""
    unknown: Unknown | None = None
    for part in parts:
        known = truth(part)
        if known is False:
            return False
        if isinstance(known, Unknown) and unknown is None:
            unknown = known
    return unknown if unknown is not None else True


def disjunction(parts: tuple[object, ...]) -> bool | Unknown:
    """False when all are; true when one is; else unknown, for the first unknown reason."""
    unknown: Unknown | None = None
    for part in parts:
        known = truth(part)
        if known is True:
            return True
        if isinstance(known, Unknown) and unknown is None:
            unknown = known
    return unknown if unknown is not None else False


# ---------------------------------------------------------------- indexing


def index(base: object, position: object) -> object:
    """`base[position]`; beyond the end it is unknown."""
    if isinstance(base, Unknown):
        return replace(base, listed=False)
    if isinstance(position, Unknown):
        return position
    base, position = plain(base), plain(position)
    if isinstance(position, np.ndarray) and position.size == 1:
        position = position.item()
    if isinstance(position, Fraction) and position.denominator == 1:
        position = int(position)
    if not isinstance(position, int) or isinstance(position, bool):
        raise EvaluationError(f"expected a whole number as index, found {show(position)}")
    if isinstance(base, (tuple, np.ndarray)):
        length = len(base) if isinstance(base, tuple) else (base.shape[0] if base.ndim else 0)
        if not -length <= position < length:
            return Unknown(f"index {position} is beyond the end of {show(base)}")
        found: object = base[position]
        if found is None:
            raise EvaluationError(f"index {position} names an absent value")
        return found
    raise EvaluationError(f"{show(base)} cannot be indexed")


def part(base: object, start: object, stop: object) -> object:
    """`base[start:stop]`; a missing bound is None."""
    for bound in (base, start, stop):
        if isinstance(bound, Unknown):
            return replace(bound, listed=True)
    base = plain(base)
    bounds = [None if bound is None else int(numpy_value(bound)) for bound in (start, stop)]
    if not isinstance(base, (tuple, np.ndarray)):
        raise EvaluationError(f"{show(base)} cannot be sliced")
    return base[bounds[0] : bounds[1]]


# ---------------------------------------------------------------- showing


def show(value: object) -> str:
    """The value as a message quotes it: short, in the user's spelling."""
    match value:
        case None:
            return "an absent value"
        case bool():
            return "true" if value else "false"
        case Unknown():
            return value.dimension or "unknown"
        case View():
            return f"`{value.name}`: {value.type}"
        case Quantity():
            return units.show(value)
        case Fraction():
            return str(value.numerator) if value.denominator == 1 else f"{float(value):.9g}"
        case float():
            return f"{value:.9g}"
        case str():
            return value if value in ITEM_BITS else f'"{value}"'
        case tuple():
            shown = [show(item) for item in value[:9]]
            return f"[{', '.join([*shown[:8], '…'] if len(shown) > 8 else shown)}]"
        case ValueSet():
            return f"{{{', '.join(show(item) for item in value.items[:12])}}}"
        case np.ndarray():
            if value.size <= 4:
                return show(_nested(value.tolist()))
            return f"a constant {value.dtype.name}{list(value.shape)}"
        case _:
            return str(value)


def _nested(value: object) -> object:
    return tuple(_nested(item) for item in value) if isinstance(value, list) else value


def dtype_code(value: object) -> object:
    """A dtype name as the integer that ONNX stores in an attribute; anything else unchanged."""
    return DTYPE_CODES.get(value, value) if isinstance(value, str) else value
