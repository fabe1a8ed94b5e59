"""Arithmetic and comparison of values: element by element on lists and constants, exact on numbers, checked on units.

Every function takes evaluated operands and returns a value; what has no meaning raises `EvaluationError`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite_engine.language import units
from rewrite_engine.language.units import Quantity, UnitMismatch
from rewrite_engine.language.values import (
    Array,
    EvaluationError,
    Unknown,
    ValueSet,
    View,
    conjunction,
    disjunction,
    dtype_code,
    negation,
    numpy_value,
    plain,
    show,
    wide,
)
from rewrite_engine.operators.types import ITEM_BITS

Number = int | float | Fraction
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.mod,
}  # fmt: skip
_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_HOLDS_FOR_EQUALS = {"==": True, "!=": False, "<=": True, ">=": True, "<": False, ">": False}


def binary(symbol: str, left: object, right: object) -> object:
    """`left symbol right` for + - * / // %."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return _unknown(symbol, left, right)
    left, right = plain(left), plain(right)
    if isinstance(left, (int, float, Fraction)) and isinstance(right, (int, float, Fraction)):
        return _numbers(symbol, left, right)
    if isinstance(left, Quantity) or isinstance(right, Quantity):
        if isinstance(left, tuple) or isinstance(right, tuple):
            return _lists(symbol, left, right)
        return _quantities(symbol, left, right)
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _arrays(symbol, left, right)
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _lists(symbol, left, right)
    raise EvaluationError(f"{show(left)} {symbol} {show(right)} has no meaning")


def _unknown(symbol: str, left: object, right: object) -> object:
    """Arithmetic on an unknown: unknown, but the same unknown each time it is computed from the same keys."""
    listed = any(isinstance(value, Unknown) and value.listed for value in (left, right))
    for one, other in ((left, right), (right, left)):
        if isinstance(one, tuple) and isinstance(other, Unknown) and not listed:  # a list stays a list of unknowns
            pairs = [(item, other) if one is left else (other, item) for item in one]
            return tuple(binary(symbol, a, b) for a, b in pairs)
    first = left if isinstance(left, Unknown) else right
    assert isinstance(first, Unknown)
    keys = (_key(left), _key(right))
    key = None if None in keys else (symbol, *(sorted(keys, key=repr) if symbol in "+*" else keys))
    return Unknown(first.reason, key, first.dimension, listed)


def _key(value: object) -> object:
    if isinstance(value, Unknown):
        return value.key
    return ("number", Fraction(value)) if isinstance(value, (int, Fraction)) else None


def _numbers(symbol: str, left: Number, right: Number) -> object:
    if isinstance(left, float) != isinstance(right, float):
        left, right = float(left), float(right)
    if right == 0 and symbol in ("/", "//", "%"):
        raise EvaluationError(f"{show(left)} {symbol} 0 has no value")
    if symbol != "/":
        return _PLAIN[symbol](left, right)
    if isinstance(left, float) or isinstance(right, float):
        return float(left) / float(right)
    return _whole(Fraction(left) / Fraction(right))


def _whole(value: Fraction) -> int | Fraction:
    return int(value) if value.denominator == 1 else value


def exact(value: object) -> Fraction:
    """A number, without rounding; `EvaluationError` for what is none, or is infinite or not a number."""
    value = plain(value)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    if isinstance(value, float) and np.isfinite(value):
        return Fraction(value)
    raise EvaluationError(f"expected a finite number, found {show(value)}")


def as_quantity(value: object) -> Quantity:
    """A quantity, or a plain number as one without a dimension."""
    return value if isinstance(value, Quantity) else Quantity(exact(value), units.NUMBER)


def _quantities(symbol: str, left: object, right: object) -> object:
    one, other = as_quantity(left), as_quantity(right)
    try:
        if symbol in ("+", "-"):
            dimension, amount = units.add(one.dimension, other.dimension), _PLAIN[symbol](one.amount, other.amount)
        elif symbol == "*":
            dimension, amount = units.multiply(one.dimension, other.dimension), one.amount * other.amount
        elif other.amount == 0:
            raise EvaluationError(f"{show(left)} {symbol} 0 has no value")
        elif symbol == "/":
            dimension, factor = units.divide(one.dimension, other.dimension)
            amount = one.amount * factor / other.amount
        else:
            if other.dimension != units.NUMBER:
                units.expect(one.dimension, other.dimension)
            whole = symbol == "//" and one.dimension == other.dimension
            dimension = units.NUMBER if whole else one.dimension
            amount = Fraction(_PLAIN[symbol](one.amount, other.amount))
    except UnitMismatch as mismatch:
        raise EvaluationError(str(mismatch)) from None
    return _whole(amount) if dimension == units.NUMBER else Quantity(amount, dimension)


def _arrays(symbol: str, left: object, right: object) -> object:
    one, other = wide(numpy_value(left)), wide(numpy_value(right))
    try:
        with np.errstate(all="ignore"):
            return _NUMPY[symbol](one, other)
    except (ValueError, TypeError) as error:
        raise EvaluationError(f"{show(left)} {symbol} {show(right)}: {error}") from None


def _lists(symbol: str, left: object, right: object) -> object:
    if isinstance(left, tuple) and isinstance(right, tuple):
        if symbol == "+" and (not left or not right or isinstance((*left, *right)[0], View | type(None))):
            return left + right  # `inputs + outputs`: lists of values are joined
        if len(left) != len(right):
            raise EvaluationError(f"lists of {len(left)} and {len(right)} elements do not go together under {symbol}")
        return tuple(binary(symbol, a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, tuple):
        return tuple(binary(symbol, item, right) for item in left)
    assert isinstance(right, tuple)
    return tuple(binary(symbol, left, item) for item in right)


def negative(value: object) -> object:
    """`-value`."""
    return binary("*", -1, value)


# ---------------------------------------------------------------- comparison


def compare(symbol: str, left: object, right: object) -> object:
    """`left symbol right` for == != <= >= < > in, not in. Lists are equal as wholes; else element by element."""
    if symbol in ("in", "not in"):
        found = contains(right, left)
        if symbol == "in":
            return found
        if isinstance(found, np.ndarray):
            return ~found
        return tuple(negation(item) for item in found) if isinstance(found, tuple) else negation(found)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return _compare_unknown(symbol, left, right)
    left, right = plain(left), plain(right)
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _compare_arrays(symbol, left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _compare_lists(symbol, left, right)
    if isinstance(left, tuple):
        return tuple(compare(symbol, item, right) for item in left)
    if isinstance(right, tuple):
        return tuple(compare(symbol, left, item) for item in right)
    return _compare_scalars(symbol, left, right)


def _compare_unknown(symbol: str, left: object, right: object) -> object:
    if isinstance(left, Unknown) and isinstance(right, Unknown) and left.key is not None and left.key == right.key:
        return _HOLDS_FOR_EQUALS[symbol]
    listed = any(isinstance(value, Unknown) and value.listed for value in (left, right))
    if isinstance(left, tuple) and not listed:
        return tuple(compare(symbol, item, right) for item in left)
    if isinstance(right, tuple) and not listed:
        return tuple(compare(symbol, left, item) for item in right)
    first = left if isinstance(left, Unknown) else right
    assert isinstance(first, Unknown)
    return Unknown(first.reason, None, first.dimension)


def _compare_arrays(symbol: str, left: object, right: object) -> object:
    one, other = numpy_value(left), numpy_value(right)
    with np.errstate(all="ignore"):
        try:
            if (isinstance(left, tuple) or isinstance(right, tuple)) and symbol in ("==", "!="):
                same = np.shape(one) == np.shape(other) and bool(np.all(one == other))
                return same == (symbol == "==")
            result = _ORDER[symbol](one, other)
        except (ValueError, OverflowError) as error:
            if symbol in ("==", "!="):
                return symbol == "!="  # shapes that do not broadcast, or a number the dtype cannot hold
            raise EvaluationError(f"{show(left)} {symbol} {show(right)}: {error}") from None
    return result if isinstance(result, np.ndarray) else bool(result)


def _compare_lists(symbol: str, left: tuple[object, ...], right: tuple[object, ...]) -> object:
    if symbol in ("==", "!="):
        if len(left) != len(right):
            return symbol == "!="
        same = conjunction(tuple(_all(compare("==", a, b)) for a, b in zip(left, right, strict=True)))
        return same if symbol == "==" else negation(same)
    if len(left) != len(right):
        raise EvaluationError(f"lists of {len(left)} and {len(right)} elements do not go together under {symbol}")
    return tuple(compare(symbol, a, b) for a, b in zip(left, right, strict=True))


def _all(value: object) -> object:
    """One truth value from what a comparison gave."""
    if isinstance(value, tuple):
        return conjunction(tuple(_all(item) for item in value))
    return bool(np.all(value)) if isinstance(value, np.ndarray) else value


def _compare_scalars(symbol: str, left: object, right: object) -> object:
    if isinstance(left, Quantity) or isinstance(right, Quantity):
        one, other = as_quantity(left), as_quantity(right)
        try:
            units.compare(one.dimension, other.dimension)
        except UnitMismatch as mismatch:
            raise EvaluationError(str(mismatch)) from None
        return bool(_ORDER[symbol](one.amount, other.amount))
    if isinstance(left, str) != isinstance(right, str):
        left, right = _dtype_against_code(left, right)
    numbers = isinstance(left, (int, float, Fraction)) and isinstance(right, (int, float, Fraction))
    if numbers and same_number(left, right):
        return _HOLDS_FOR_EQUALS[symbol]
    if symbol in ("==", "!="):
        if isinstance(left, ValueSet) or isinstance(right, ValueSet):
            raise EvaluationError(f"{show(left)} {symbol} {show(right)}: use `in` with a set")
        return bool(_ORDER[symbol](left, right))
    if not numbers:
        raise EvaluationError(f"{show(left)} {symbol} {show(right)} has no meaning")
    return bool(_ORDER[symbol](left, right))


def _dtype_against_code(left: object, right: object) -> tuple[object, object]:
    """`cast.to == float16`: an attribute holds the code of a dtype."""
    if isinstance(left, int) and isinstance(right, str) and right in ITEM_BITS:
        return left, dtype_code(right)
    if isinstance(right, int) and isinstance(left, str) and left in ITEM_BITS:
        return dtype_code(left), right
    return left, right


def same_number(left: Any, right: Any) -> bool:
    """Equal, or equal once the exact one is rounded to single precision, as ONNX stores float attributes."""
    if left == right:
        return True
    if isinstance(left, float) == isinstance(right, float):
        return False
    one, other = float(left), float(right)
    with np.errstate(over="ignore"):
        return one == other or bool(np.float32(one) == np.float32(other))


def contains(where: object, value: object) -> object:
    """`value in where`: a list or a constant on the left is looked up element by element, unless lists are members."""
    if isinstance(where, Unknown):
        return where
    members = where.items if isinstance(where, ValueSet) else plain(where)
    if isinstance(members, np.ndarray):
        members = tuple(members.ravel().tolist())
    if not isinstance(members, tuple):
        raise EvaluationError(f"expected a set or a list after `in`, found {show(where)}")
    value = plain(value)
    if isinstance(value, np.ndarray):
        found: Array = np.isin(value, np.array([numpy_value(item) for item in members]))
        return found
    if isinstance(value, tuple) and not any(isinstance(item, tuple) for item in members):
        return tuple(contains(where, item) for item in value)
    return disjunction(tuple(_all(compare("==", value, item)) for item in members))


def close(left: object, right: object, tolerance: float = 1e-5) -> object:
    """Whether all elements agree within a relative tolerance; shapes that do not broadcast do not agree."""
    for value in (left, right):
        if isinstance(value, Unknown):
            return value
        if isinstance(value, tuple) and any(isinstance(item, Unknown) for item in value):
            return next(item for item in value if isinstance(item, Unknown))
    one, other = (np.asarray(wide(numpy_value(value)), dtype=np.float64) for value in (left, right))
    try:
        return bool(np.all(np.isclose(one, other, rtol=tolerance, atol=1e-30, equal_nan=True)))
    except ValueError:
        return False


def broadcasts_into(left: object, right: object) -> bool | Unknown:
    """Whether a shape can be broadcast to another one without changing it."""
    for found in (left, right):
        if isinstance(found, Unknown):
            return found
    if not isinstance(left, tuple) or not isinstance(right, tuple):
        raise EvaluationError("expected two captured values or shapes")
    if len(left) > len(right):
        return False
    pairs = zip(reversed(left), reversed(right), strict=False)
    return conjunction(tuple(disjunction((compare("==", a, 1), compare("==", a, b))) for a, b in pairs))
