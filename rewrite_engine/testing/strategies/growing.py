"""A graph that grows by one operator at a time, always valid: values to read, constants, and choices from few numbers.

In: a number for each operator that a strategy draws; it makes all choices of that operator, 0 the simplest of each, so
that what is drawn shrinks to simple graphs of few operators. Out: `Terms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from rewrite_engine import operators
from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.operators.types import Dimension, TensorType

Any_ = TypeVar("Any_")
Shape = tuple[Dimension, ...]
FLOATS = ("float32", "float16", "float64", "bfloat16")
WHOLE = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
PLAIN = ("float32", "int64", "bool", "float16", "int32", "uint8", "int8", "float64")
"""Dtypes of values, the simplest first."""
MOST_ELEMENTS = 4096
"""Elements of a value that an operator may make."""


class Refused(Exception):
    """The operator cannot be applied here; another is taken."""


class Choices:
    """Choices out of a drawn number: `pick(n)` is one of n, and the simplest of them once the number is used up."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def pick(self, count: int) -> int:
        """A number of at least 0 and less than `count`; 0 is the simplest."""
        self.number, found = divmod(self.number, count)
        return found

    def one_of(self, items: Sequence[Any_]) -> Any_:
        """One of these, the first the simplest."""
        return items[self.pick(len(items))]

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred; False is the simplest."""
        return self.pick(100) >= 100 - percent


@dataclass(frozen=True, slots=True)
class Applied:
    """An operator on values: what a recipe gives."""

    inputs: tuple[int, ...]
    attributes: dict[str, object]
    outputs: int = 1


class Growing:
    """The graph so far. Values are picked rather late ones, so that chains grow deep."""

    def __init__(
        self, choices: Choices, dtypes: Sequence[str] = PLAIN, dynamic: bool = False, deep: bool = False
    ) -> None:
        self.choices, self.dtypes, self.dynamic, self.deep = choices, tuple(dtypes), dynamic, deep
        self.values: list[Value] = []
        self.nodes: list[Term] = []
        self.inputs: list[int] = []
        self.read: set[int] = set()

    # ------------------------------------------------------------ values

    def add(self, name: str, kind: TensorType, constant: np.ndarray | None = None) -> int:
        """A value."""
        self.values.append(Value(f"{name}{len(self.values)}", kind, constant))
        return len(self.values) - 1

    def input(self, dtype: str, shape: Shape) -> int:
        """A graph input."""
        self.inputs.append(self.add("x", TensorType(dtype, shape)))
        return self.inputs[-1]

    def constant(self, array: np.ndarray, dtype: str | None = None) -> int:
        """A constant of these elements."""
        found = np.asarray(array)
        if dtype is not None:
            found = found.astype(numpy_dtype(dtype))
        return self.add("w", TensorType(dtype or str(found.dtype), found.shape), found)

    def ints(self, *numbers: int) -> int:
        """A constant vector of int64."""
        return self.constant(np.array(numbers, np.int64))

    def weight(self, dtype: str, *shape: int) -> int:
        """A constant, or rarely an input, of small numbers."""
        if self.choices.chance(10):
            return self.input(dtype, shape)
        size = int(np.prod(shape))
        if dtype == "bool":
            return self.constant((np.arange(size) % 2 == 0).reshape(shape))
        numbers = np.arange(size) % 5 if dtype in WHOLE else (np.arange(size) % 7 - 3) / 4
        return self.constant((numbers + (dtype in WHOLE)).reshape(shape), dtype)

    def shape(self, value: int) -> Shape:
        """The shape of a value, whose rank always is known."""
        return self.values[value].type.shape or ()

    def dtype(self, value: int) -> str:
        """The dtype of a value."""
        return self.values[value].type.dtype

    def fresh_shape(self, rank: int) -> Shape:
        """A shape of small sizes."""
        sizes = tuple(self.choices.one_of((2, 3, 1, 4)) for _ in range(rank))
        return ("N", *sizes[1:]) if self.dynamic and rank and self.choices.chance(30) else sizes

    def value(self, dtypes: Sequence[str], *ranks: int, known: bool = False, shape: Shape | None = None) -> int:
        """A value of one of these dtypes and ranks (any, where none is given): one that is there, or a new input.

        `known`: every size is a number. `shape`: exactly this one.
        """
        fitting = [
            index
            for index, value in enumerate(self.values)
            if value.constant is None and value.type.dtype in dtypes and self._fits(value.type, ranks, known, shape)
        ]
        if fitting and (self.deep or not self.choices.chance(15)):
            if self.deep:
                return fitting[-1]
            late = fitting[-4:][::-1]
            return self.choices.one_of(late) if self.choices.chance(70) else self.choices.one_of(fitting)
        allowed = (
            [dtype for dtype in self.dtypes if dtype in dtypes] or [d for d in PLAIN if d in dtypes] or list(dtypes)
        )
        dtype = allowed[0] if self.choices.chance(50) else self.choices.one_of(allowed)
        if shape is None:
            shape = self.fresh_shape(self.choices.one_of(ranks or (2, 3, 1, 4, 0)))
            if known:
                shape = tuple(2 if isinstance(size, str) else size for size in shape)
        return self.input(dtype, shape)

    @staticmethod
    def _fits(kind: TensorType, ranks: Sequence[int], known: bool, shape: Shape | None) -> bool:
        if kind.shape is None or (shape is not None and kind.shape != shape):
            return False
        return (not ranks or len(kind.shape) in ranks) and not (known and kind.numel is None) and None not in kind.shape

    def partner(self, value: int, dtype: str | None = None) -> int:
        """A value that broadcasts with another: one of the same shape, or a constant of fewer axes."""
        dtype, shape = dtype or self.dtype(value), self.shape(value)
        way = self.choices.pick(4)
        if way < 2:
            return self.value((dtype,), shape=shape)
        sizes = tuple(size if isinstance(size, int) else 1 for size in shape)
        return self.weight(dtype, *(sizes[-1:] if way == 2 else ()))

    def sizes(self, value: int) -> tuple[int, ...]:
        """The sizes of a value; refused where one is not known, or none."""
        shape = self.shape(value)
        sizes = tuple(size for size in shape if isinstance(size, int))
        if len(sizes) != len(shape):
            raise Refused
        return sizes

    def axis(self, value: int) -> int:
        """An axis of a value."""
        rank = len(self.shape(value))
        if not rank:
            raise Refused
        return self.choices.pick(rank) - (rank if self.choices.chance(30) else 0)

    # ------------------------------------------------------------ operators

    def apply(self, op: str, recipe: Callable[[Growing, operators.Operator], Applied]) -> bool:
        """Adds one operator; False, and nothing added, where its recipe finds nothing for it to read."""
        facts = operators.find(op)
        assert facts is not None
        before = len(self.values), len(self.inputs)
        try:
            found = recipe(self, facts)
            self._node(op, found)
        except (Refused, operators.TypeMismatch):
            del self.values[before[0] :], self.inputs[before[1] :]
            return False
        return True

    def _node(self, op: str, applied: Applied) -> None:
        inputs = list(applied.inputs)
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        types = [None if i == ABSENT else self.values[i].type for i in inputs]
        constants = [None if i == ABSENT else self.values[i].constant for i in inputs]
        effective = operators.effective_attributes(op, applied.attributes, types, constants)
        kinds = operators.infer_types(op, effective, types, constants, applied.outputs)
        if any(kind.dtype == "?" or (kind.numel or 0) > MOST_ELEMENTS for kind in kinds):
            raise Refused
        self.append(op, effective, tuple(inputs), kinds)

    def append(
        self, op: str, attributes: dict[str, object], inputs: tuple[int, ...], kinds: Sequence[TensorType]
    ) -> None:
        """A node whose results have these types."""
        outputs = tuple(self.add("v", kind) for kind in kinds)
        self.read.update(inputs)
        self.nodes.append(Term(op, attributes, inputs, outputs))

    def terms(self) -> Terms:
        """The graph; what nothing reads is an output."""
        ends = [o for node in self.nodes for o in node.outputs[:1] if o not in self.read]
        if self.nodes and not ends:
            ends = [self.nodes[-1].outputs[0]]
        used = self.read | set(ends) | {o for node in self.nodes for o in node.outputs}
        used.update(self.inputs)
        kept = [i for i in range(len(self.values)) if i in used]
        place = {ABSENT: ABSENT} | {old: new for new, old in enumerate(kept)}
        nodes = [
            Term(n.op, n.attributes, tuple(place[i] for i in n.inputs), tuple(place[o] for o in n.outputs))
            for n in self.nodes
        ]
        outputs = tuple(place[i] for i in ends or self.inputs)
        return Terms(tuple(self.values[i] for i in kept), tuple(nodes), tuple(place[i] for i in self.inputs), outputs)
