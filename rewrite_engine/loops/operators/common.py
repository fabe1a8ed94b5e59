"""What the operator families share: the form of an operator's compute, and typed access to operands and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.dtypes import LOW_PRECISION
from rewrite_engine.loops.expr import Expr, const, land, le, lt, maximum, minimum
from rewrite_engine.operators.dtypes import dtype_name

Attributes = Mapping[str, object]
"""Effective attributes of one application of an operator."""

Operands = Sequence[Tensor | None]
"""Operands by position; None where an optional one is absent (trailing absent ones may be left out)."""

OperatorCompute = Callable[[Builder, Operands, Attributes], list[Tensor]]
"""Adds the computes of one operator to the builder and returns its outputs, as many as the operator can have."""


def required(inputs: Operands, position: int) -> Tensor:
    """The operand at `position`, which the operator's schema requires."""
    operand = optional(inputs, position)
    if operand is None:
        raise Unsupported(f"operand {position} is absent where one is required")
    return operand


def optional(inputs: Operands, position: int) -> Tensor | None:
    """The operand at `position`, or None when it is absent."""
    return inputs[position] if position < len(inputs) else None


def integer(attributes: Attributes, name: str) -> int:
    """An int attribute."""
    value = attributes[name]
    assert isinstance(value, int), f"{name}: expected an int, found {value!r}"
    return value


def integers(attributes: Attributes, name: str) -> tuple[int, ...]:
    """A list of ints."""
    value = attributes[name]
    assert isinstance(value, tuple), f"{name}: expected ints, found {value!r}"
    return value


def number(attributes: Attributes, name: str) -> float:
    """A float attribute."""
    value = attributes[name]
    assert isinstance(value, (int, float)), f"{name}: expected a number, found {value!r}"
    return float(value)


def text(attributes: Attributes, name: str) -> str:
    """A string attribute."""
    value = attributes[name]
    assert isinstance(value, str), f"{name}: expected a string, found {value!r}"
    return value


def dtype_attribute(attributes: Attributes, name: str, operator: str) -> str:
    """The dtype that an attribute names by its ONNX code. Raises `Unsupported` for those without computes."""
    dtype = dtype_name(attributes[name])
    if dtype in ("?", "string", "complex64", "complex128", "float8_e8m0fnu"):
        raise Unsupported(f"{operator} to {'a dtype of code ' + str(attributes[name]) if dtype == '?' else dtype}")
    return dtype


def host_integers(b: Builder, operand: Tensor) -> tuple[int, ...]:
    """The elements of a tensor of shapes, axes or sizes, in row-major order. Raises `NeedsValue` when unknown."""
    return tuple(int(v) for v in b.value(operand).reshape(-1))


def host_integer(b: Builder, operand: Tensor) -> int:
    """The one element of a tensor. Raises `NeedsValue` when it is unknown."""
    return int(b.value(operand).reshape(-1)[0])


def axes_from_front(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front."""
    return [axis + rank if axis < 0 else axis for axis in axes]


def working_dtype(dtype: str) -> str:
    """The dtype that elements are computed in: float32 for low-precision floats, else their own."""
    return "float32" if dtype in LOW_PRECISION else dtype


def along(b: Builder, vector: Tensor, rank: int, axis: int) -> Tensor:
    """A vector laid along one axis of tensors of that rank, so that it broadcasts with them."""
    return b.reshape(vector, [vector.shape[0] if a == axis else 1 for a in range(rank)])


def zero(like: Expr) -> Expr:
    """The constant 0 in the dtype of an expression."""
    return const(0, like.dtype)


def clamp(v: Expr, low: float, high: float) -> Expr:
    """The nearest value within low .. high; NaN stays NaN."""
    return minimum(maximum(v, const(low, v.dtype)), const(high, v.dtype))


def inside(x: Tensor, indices: Sequence[Expr]) -> Expr:
    """The condition that `indices` are those of an element of x."""
    return land(*(land(le(0, i), lt(i, n)) for i, n in zip(indices, x.shape, strict=True)))


def without(sequence: Sequence[Expr], position: int) -> tuple[Expr, ...]:
    """The sequence with the item at `position` left out."""
    return (*sequence[:position], *sequence[position + 1 :])


def replaced(sequence: Sequence[Expr], position: int, item: Expr) -> tuple[Expr, ...]:
    """The sequence with another item at `position`."""
    return (*sequence[:position], item, *sequence[position + 1 :])
