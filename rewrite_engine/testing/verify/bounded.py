"""Floats with a bound: float64 values beside how far rounding in the program's own types can be from them.

Every operation adds its rounding (half a unit in the last place, a few for functions) and carries the errors of its
operands, through a comparison too. Where no bound is known the error is infinite. Two programs of one function compute
results that lie within the sum of their errors of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.loops.arithmetic import COMBINE_UFUNCS, OPERATIONS, convert
from rewrite_engine.loops.dtypes import is_float, is_integer, limits, numpy_dtype
from rewrite_engine.testing.verify.field import is_simple
from rewrite_engine.testing.verify.interpreter import Undecided

Array = np.ndarray[Any, Any]

DOUBLE = 2.0**-53
UNITS: Mapping[str, tuple[float, float, float]] = {
    "float64": (2.0**-53, 2.0**-1074, 1.7976931348623157e308),
    "float32": (2.0**-24, 2.0**-150, 3.4028234663852886e38),
    "float16": (2.0**-11, 2.0**-25, 65504.0),
    "bfloat16": (2.0**-8, 2.0**-134, 3.3895313892515355e38),
}
"""Half a unit in the last place relative to the value, the same of the smallest numbers, and the largest number."""

ULPS: Mapping[str, float] = {"exp": 4, "log": 4, "log1p": 4, "tanh": 6, "erf": 16, "pow": 8, "sin": 4, "cos": 4,
                             "tan": 6, "sqrt": 1}  # fmt: skip
"""How many half units a function of the mathematical library may be off; others 8."""

_MONOTONE = frozenset(
    {"exp", "log", "log1p", "sqrt", "erf", "tanh", "sinh", "asinh", "acosh", "atanh", "asin", "acos", "atan", "floor",
     "ceil", "round", "trunc", "sign"}
)  # fmt: skip
_BOUNDED_SLOPE = frozenset({"sin", "cos", "abs", "neg"})


@dataclass(frozen=True, slots=True)
class Bound:
    """`center` and how far the computed value may be from it; for truth values, where it is not certain."""

    center: Array
    error: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(np.broadcast_shapes(np.shape(self.center), np.shape(self.error)))


class Bounded:
    """The algebra. With `real`, types do not round: the error is that of float64, and of constants that are rounded."""

    def __init__(self, real: bool) -> None:
        self.real = real

    def _unit(self, dtype: str) -> tuple[float, float, float]:
        if self.real:
            return UNITS["float64"]
        if dtype not in UNITS:
            raise Undecided(f"rounding of {dtype}")
        unit, least, most = UNITS[dtype]
        return unit + DOUBLE, least, most

    def _rounded(self, center: Array, error: Array, dtype: str, ulps: float = 1) -> Bound:
        unit, least, most = self._unit(dtype)
        with np.errstate(all="ignore"):
            error = error + ulps * (unit * (np.abs(center) + error) + least)
            beyond = ~(np.abs(center) + error <= most)
            error = np.where(beyond, np.inf, error)
        return Bound(center, error)

    def constant(self, value: Any, dtype: str) -> Bound:
        array = np.asarray(value)
        if not is_float(dtype):
            return self.embed(array, dtype)
        wide = array.astype(np.float64)
        exact = np.array([is_simple(v) for v in wide.reshape(-1).tolist()], np.bool_).reshape(wide.shape)
        if dtype not in UNITS:
            raise Undecided(f"rounding of {dtype}")
        with np.errstate(all="ignore"):
            error = np.where(exact, 0.0, UNITS[dtype][0] * np.abs(wide))
        return Bound(wide, np.where(np.isfinite(wide), error, 0.0))

    def given(self, array: Array, dtype: str, literal: tuple[Array, float] | None = None) -> Bound:
        """An input, exactly what it is; or a literal: the number written, and half a unit in its last digit."""
        if not is_float(dtype):
            return self.embed(array, dtype)
        wide = np.asarray(array).astype(np.float64)
        if literal is None:
            return Bound(wide, np.zeros(wide.shape))
        written, last = literal
        center = np.broadcast_to(np.asarray(written, np.float64), wide.shape)
        with np.errstate(all="ignore"):
            error = last + (0.0 if self.real else np.abs(wide - center))
        return Bound(center, np.where(np.isfinite(center), error, 0.0))

    def known(self, array: Array, precise: Array | None, dtype: str) -> Bound:
        """A constant that the rule computed: `precise` is the same in float64."""
        if precise is None:
            return self.constant(array, dtype)
        wide = array.astype(np.float64)
        with np.errstate(all="ignore"):
            error = 64 * DOUBLE * np.abs(precise)
            error = error + (np.float64(0) if self.real else np.abs(wide - precise))
        return Bound(precise, np.where(np.isfinite(precise), error, np.inf))

    def embed(self, array: Array, dtype: str) -> Bound:
        plain = np.asarray(array)
        if dtype == "bool":
            return Bound(plain.astype(np.bool_), np.zeros(plain.shape, np.bool_))
        return Bound(plain.astype(numpy_dtype(dtype)), np.zeros(plain.shape))

    def plain(self, value: Bound) -> Array:
        if np.any(value.error):
            raise Undecided("an index that is computed in floats")
        return np.asarray(value.center)

    def cast(self, value: Bound, source: str, target: str) -> Bound:
        if is_float(source) and is_float(target):
            if self.real:
                return value
            narrower = UNITS.get(target, (1,))[0] > UNITS.get(source, (0,))[0]
            return self._rounded(value.center, value.error, target) if narrower else value
        if is_float(target):
            if source == "bool":
                return Bound(value.center.astype(np.float64), value.error.astype(np.float64))
            return self._rounded(value.center.astype(np.float64), value.error, target)
        if is_float(source):
            return self._to_integer(value, target)
        if target == "bool":
            return Bound(value.center != 0, (value.error > 0) & (np.abs(value.center) <= value.error))
        if source == "bool":
            return Bound(convert(value.center, target), value.error.astype(np.float64))
        return Bound(convert(value.center, target), value.error)

    def _to_integer(self, value: Bound, target: str) -> Bound:
        with np.errstate(all="ignore"):
            if target == "bool":
                return Bound(value.center != 0, (value.error > 0) & (np.abs(value.center) <= value.error))
            low, high = limits(target) if is_integer(target) else (0, 0)
            below, above = np.trunc(value.center - value.error), np.trunc(value.center + value.error)
            center = np.trunc(value.center)
            error = np.maximum(above - center, center - below)
            unsure = ~((below >= low) & (above <= high))
            error = np.where(unsure, np.inf, error)
            return Bound(convert(np.where(np.isfinite(center), center, 0), target), error)

    def apply(self, op: str, args: Sequence[Bound], dtype: str, source: str) -> Bound:
        if op == "select":
            return _select(*args)
        if not is_float(source):
            return self._integers(op, args, dtype)
        with np.errstate(all="ignore"):
            if op in _COMPARES:
                return _compare(op, *args)
            if op in ("isnan", "isinf"):
                found = np.isnan(args[0].center) if op == "isnan" else np.isinf(args[0].center)
                return Bound(found, np.isinf(args[0].error))
            center, error = _carried(op, args)
            if op in ("neg", "abs", "min", "max", "floor", "ceil", "round", "trunc", "sign"):
                return Bound(center, np.where(np.isfinite(center), error, np.inf))
            ulps = 1.0 if op in ("add", "sub", "mul", "div") else ULPS.get(op, 8)
            return self._rounded(center, np.where(np.isfinite(center), error, np.inf), dtype, ulps)

    def _integers(self, op: str, args: Sequence[Bound], dtype: str) -> Bound:
        """Integers and truth values: exact where the operands are; else nothing is known of the result."""
        with np.errstate(all="ignore"):
            center = np.asarray(OPERATIONS[op](*[a.center for a in args])).astype(numpy_dtype(dtype))
        unsure = np.zeros(center.shape, np.bool_)
        for arg in args:
            unsure = unsure | (arg.error > 0)
        if dtype == "bool":
            return Bound(center, unsure)
        if op in ("add", "sub"):
            return Bound(center, np.asarray(args[0].error + args[1].error, np.float64))
        if op in ("min", "max"):
            return Bound(center, np.asarray(np.maximum(args[0].error, args[1].error), np.float64))
        return Bound(center, np.where(unsure, np.inf, 0.0))

    def combine(self, how: str, value: Bound, axes: tuple[int, ...], dtype: str) -> Bound:
        center, error = np.asarray(value.center), np.broadcast_to(value.error, np.shape(value.center))
        if not is_float(dtype):
            total = np.asarray(COMBINE_UFUNCS[how].reduce(center, axis=axes, dtype=numpy_dtype(dtype)))
            unsure = np.any(error > 0, axis=axes)
            if how in ("sum", "max", "min") and dtype != "bool":
                return Bound(total, np.sum(error, axis=axes))
            return Bound(total, unsure if dtype == "bool" else np.where(unsure, np.inf, 0.0))
        count = int(np.prod([center.shape[axis] for axis in axes]))
        unit, least, most = self._unit(dtype)
        with np.errstate(all="ignore"):
            if how == "sum":
                total = np.sum(center, axis=axes)
                size = np.sum(np.abs(center) + error, axis=axes)
                bound = np.sum(error, axis=axes) + count * unit * size + count * least
                within = np.isfinite(total) & (size <= most)  # in any order: no part of the sum overflows
                return self._rounded(total, np.where(within, bound, np.inf), dtype, 0)
            if how == "prod":
                total = np.prod(center, axis=axes)
                grown = np.prod(np.abs(center) + error, axis=axes) - np.prod(np.abs(center), axis=axes)
                return self._rounded(total, grown, dtype, 2 * count)
            total = np.max(center, axis=axes) if how == "max" else np.min(center, axis=axes)
            return Bound(total, np.where(np.isfinite(total), np.max(error, axis=axes), np.inf))

    def take(self, value: Bound, indices: tuple[Array, ...]) -> Bound:
        return Bound(
            np.asarray(value.center[indices]), np.asarray(np.broadcast_to(value.error, value.center.shape)[indices])
        )

    def put(self, shape: tuple[int, ...], indices: tuple[Array, ...], value: Bound, dtype: str, init: Any) -> Bound:
        center = np.zeros(shape, np.float64 if is_float(dtype) else numpy_dtype(dtype))
        error: Array = np.zeros(shape, np.bool_ if dtype == "bool" else np.float64)
        if init is not None:
            center[...], error[...] = init.center, init.error
        center[indices], error[indices] = value.center, value.error
        return Bound(center, error)

    def spread(self, value: Bound, shape: tuple[int, ...]) -> Bound:
        return Bound(np.broadcast_to(value.center, shape), np.broadcast_to(value.error, shape))


_COMPARES = frozenset({"lt", "le", "eq"})


def _compare(op: str, a: Bound, b: Bound) -> Bound:
    found = {"lt": np.less, "le": np.less_equal, "eq": np.equal}[op](a.center, b.center)
    error = a.error + b.error
    unsure = (error > 0) & ~(np.abs(a.center - b.center) > error)
    return Bound(found, unsure)


def _select(condition: Bound, a: Bound, b: Bound) -> Bound:
    with np.errstate(all="ignore"):
        center = np.where(condition.center, a.center, b.center)
        error = np.where(condition.center, a.error, b.error)
        if not np.any(condition.error):
            return Bound(center, error)
        if center.dtype == np.bool_:
            either = error | (a.center != b.center) | a.error | b.error
            return Bound(center, np.where(condition.error, either, error))
        apart = np.abs(np.asarray(a.center, np.float64) - b.center) + a.error + b.error
        apart = np.where(np.isnan(apart), np.inf, apart)
        return Bound(center, np.where(condition.error, apart, error))


def _carried(op: str, args: Sequence[Bound]) -> tuple[Array, Array]:
    """The float64 result, and how far the errors of the operands carry."""
    a = args[0]
    x, e = a.center, a.error
    if len(args) == 2:
        y, f = args[1].center, args[1].error
        match op:
            case "add" | "sub":
                return (x + y if op == "add" else x - y), e + f
            case "mul":
                return x * y, _product(x, f) + _product(y, e) + _product(e, f)
            case "div":
                quotient = x / y
                room = np.abs(y) - f
                return quotient, np.where(room > 0, (e + np.abs(quotient) * f) / room, np.inf)
            case "min" | "max":
                return (np.minimum if op == "min" else np.maximum)(x, y), np.maximum(e, f)
            case "pow":
                return _power(x, e, y, f)
            case _:
                center = np.asarray(OPERATIONS[op](x, y))
                return center, np.where((e > 0) | (f > 0), np.inf, 0.0)
    function: Callable[..., Any] = OPERATIONS[op]
    center = np.asarray(function(x))
    if op in _BOUNDED_SLOPE:
        return center, e
    if op in _MONOTONE:
        low, high = x - e, x + e
        if op in ("sqrt", "log"):
            low = np.maximum(low, 0)
        spread = np.maximum(np.abs(np.asarray(function(high)) - center), np.abs(center - np.asarray(function(low))))
        lost = np.isinf(e) | np.isnan(spread)  # of what may be NaN, no end of the range is a bound
        return center, np.where(e == 0, 0.0, np.where(lost, np.inf, spread))
    if op == "cosh":
        return center, np.where(e == 0, 0.0, np.sinh(np.abs(x) + e) * e)
    return center, np.where(e == 0, 0.0, np.inf)


def _product(x: Array, e: Array) -> Array:
    """|x| * e; 0 where there is no error, even beside an infinity."""
    return np.where(e == 0, 0.0, np.where(x == 0, np.where(np.isinf(e), np.inf, 0.0), np.abs(x) * e))


def _power(x: Array, e: Array, y: Array, f: Array) -> tuple[Array, Array]:
    center = np.power(x, y)
    if not np.any(f) and np.all(y == np.round(y)):
        rising = np.abs(y) * np.power(np.abs(x) + e, np.maximum(y - 1, 0)) * e
        falling = np.where(np.abs(x) > e, np.abs(np.power(np.abs(x) - e, y) - np.power(np.abs(x), y)), np.inf)
        return center, np.where(e == 0, 0.0, np.where(y >= 0, rising, falling))
    ends = [(s, t) for s in (1, -1) for t in (1, -1)]
    corners = [np.abs(np.power(np.maximum(x + s * e, 0), y + t * f) - center) for s, t in ends]
    apart = np.max(np.stack(np.broadcast_arrays(*corners)), axis=0)
    unsure = ((x - e < 0) | np.isnan(center)) & ((e > 0) | (f > 0))
    return center, np.where(unsure, np.inf, apart)
