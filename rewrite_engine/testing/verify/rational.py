"""Exact algebra over small rationals: everything that has an order, with ties and boundaries; NaN where nothing is.

Floats are fractions (or an infinity, or NaN). Transcendental functions are random functions, the same on both sides.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite_engine.loops.arithmetic import COMBINE_UFUNCS, apply, convert
from rewrite_engine.loops.dtypes import is_float, is_integer, limits, numpy_dtype
from rewrite_engine.testing.verify.elements import Array, Objects
from rewrite_engine.testing.verify.field import FUNCTIONS, is_simple
from rewrite_engine.testing.verify.interpreter import Undecided

NAN = math.nan


def _exact(value: float) -> Any:
    return Fraction(value) if math.isfinite(value) else value


def _objects(array: Array) -> Array:
    found = np.empty(array.shape, object)
    flat = found.reshape(-1)
    for k, value in enumerate(array.reshape(-1).tolist()):
        flat[k] = _exact(float(value)) if not isinstance(value, int) else Fraction(value)
    return flat.reshape(array.shape)


def _is_nan(a: Any) -> bool:
    return isinstance(a, float) and a != a


def _finite(value: Any) -> Any:
    """Fractions stay; what float arithmetic with an infinity gave stays; anything else became inexact."""
    if isinstance(value, float) and math.isfinite(value):
        return Fraction(value)
    return value


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def total(a: Any, b: Any) -> Any:
        if _is_nan(a) or _is_nan(b):
            return NAN
        return _finite(function(a, b))

    return total


def _divide(a: Any, b: Any) -> Any:
    if isinstance(b, float):  # infinite
        return NAN if isinstance(a, float) else Fraction(0)
    return NAN if b == 0 else (a / b if not isinstance(a, float) else a * (1 if b > 0 else -1))


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: NAN if _is_nan(a) else a if isinstance(a, float) else Fraction(function(a))


_SCALAR: Mapping[str, Callable[..., Any]] = {
    "add": _binary(lambda a, b: a + b),
    "sub": _binary(lambda a, b: a - b),
    "mul": _binary(lambda a, b: a * b if not (a == 0 or b == 0) or not isinstance(a + b, float) else NAN),
    "div": _binary(_divide),
    "min": _binary(min),
    "max": _binary(max),
    "neg": lambda a: -a,
    "abs": lambda a: abs(a),
    "sign": lambda a: a if _is_nan(a) else Fraction((a > 0) - (a < 0)),
    "floor": _unary(math.floor),
    "ceil": _unary(math.ceil),
    "round": _unary(round),
    "trunc": _unary(math.trunc),
    "mod": _binary(lambda a, b: NAN if b == 0 or isinstance(a, float) or isinstance(b, float) else a % b),
    "lt": lambda a, b: not (_is_nan(a) or _is_nan(b)) and a < b,
    "le": lambda a, b: not (_is_nan(a) or _is_nan(b)) and a <= b,
    "eq": lambda a, b: not (_is_nan(a) or _is_nan(b)) and a == b,
    "isnan": _is_nan,
    "isinf": lambda a: isinstance(a, float) and math.isinf(a),
}
_UFUNCS = {name: np.frompyfunc(f, f.__code__.co_argcount, 1) for name, f in _SCALAR.items()}
_TO_BOOL = frozenset({"lt", "le", "eq", "isnan", "isinf"})
_LIMITS: Mapping[str, Callable[[bool], Any]] = {
    "exp": lambda positive: math.inf if positive else Fraction(0),
    "erf": lambda positive: Fraction(1 if positive else -1),
    "tanh": lambda positive: Fraction(1 if positive else -1),
    "sqrt": lambda positive: math.inf if positive else NAN,
    "log": lambda positive: math.inf if positive else NAN,
}


class Rational(Objects):
    """The algebra; `rounded` and `random` as in `field.Field`."""

    zero = Fraction(0)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rounded = self.random = self.undefined = False

    def floats(self, wide: Array) -> Array:
        self.rounded |= not all(is_simple(v) for v in wide.reshape(-1).tolist())
        return _objects(wide)

    def cast(self, value: Array, source: str, target: str) -> Array:
        if is_float(source) and is_float(target):
            return value
        if is_float(target):
            return _objects(np.asarray(value))
        if not is_float(source):
            return convert(np.asarray(value), target)
        flat = np.asarray(value, object).reshape(-1).tolist()
        if target == "bool":
            return np.array([v != 0 for v in flat], np.bool_).reshape(np.shape(value))
        low, high = limits(target) if is_integer(target) else (0, 0)
        if any(isinstance(v, float) or not low <= v <= high for v in flat):
            raise Undecided(f"a value beyond {target}")
        return np.array([math.trunc(v) for v in flat]).astype(numpy_dtype(target)).reshape(np.shape(value))

    def apply(self, op: str, args: Sequence[Array], dtype: str, source: str) -> Array:
        if op == "select":
            return np.where(np.asarray(args[0], np.bool_), args[1], args[2])
        if not is_float(source):
            return apply(op, [np.asarray(a) for a in args], dtype)
        if op == "pow":
            return self._power(*args)
        if op in FUNCTIONS:
            return self._function(op, args)
        if op not in _UFUNCS:
            raise Undecided(f"`{op}` has no exact form here")
        with np.errstate(all="ignore"):
            found = np.asarray(_UFUNCS[op](*args))
        return found.astype(np.bool_) if op in _TO_BOOL else found

    def _power(self, a: Array, b: Array) -> Array:
        exponents = set(np.asarray(b, object).reshape(-1).tolist())
        if len(exponents) == 1:
            exponent = exponents.pop()
            shape = np.broadcast_shapes(np.shape(a), np.shape(b))
            if isinstance(exponent, Fraction) and exponent.denominator == 1 and abs(exponent) <= 16:
                power = int(exponent)
                raise_ = np.frompyfunc(
                    lambda x: NAN if isinstance(x, float) or (x == 0 and power < 0) else Fraction(x) ** power, 1, 1
                )
                return np.broadcast_to(np.asarray(raise_(a)), shape)
            if exponent in (Fraction(1, 2), Fraction(-1, 2)):
                root = self._function("sqrt", [np.broadcast_to(np.asarray(a, object), shape)])
                return root if exponent > 0 else np.asarray(_UFUNCS["div"](np.asarray(Fraction(1)), root))
        return self._function("pow", [a, b])

    def _function(self, name: str, args: Sequence[Array]) -> Array:
        self.random = True

        def one(*values: Any) -> Any:
            if any(_is_nan(v) for v in values):
                return NAN
            if any(isinstance(v, float) for v in values):
                if len(values) == 1 and name in _LIMITS:
                    return _LIMITS[name](values[0] > 0)
                raise Undecided(f"{name} of an infinity")
            text = f"{self.seed} {name} {' '.join(f'{v.numerator}/{v.denominator}' for v in values)}"
            number = Fraction(zlib.crc32(text.encode()) % 2039 + 1, 8)
            return number

        return np.asarray(np.frompyfunc(one, len(args), 1)(*args))

    def combine(self, how: str, value: Array, axes: tuple[int, ...], dtype: str) -> Array:
        if not is_float(dtype):
            return np.asarray(COMBINE_UFUNCS[how].reduce(value, axis=axes, dtype=numpy_dtype(dtype)))
        moved = np.moveaxis(value, axes, range(len(axes)))
        flat = moved.reshape(-1, *moved.shape[len(axes) :])
        op = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}[how]
        total = flat[0]
        with np.errstate(all="ignore"):
            for part in flat[1:]:
                total = _UFUNCS[op](total, part)
        found = np.empty(moved.shape[len(axes) :], object)
        found[...] = total
        return found

    def input(self, array: Array, dtype: str, random: np.random.Generator, pool: Sequence[float] = ()) -> Array:
        """A run-time input: small numbers with ties, among them those that the rule names and their neighbours."""
        if not is_float(dtype):
            return array
        numbers = [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, *(v for n in pool for v in (n - 1, n, n + 1))]
        drawn = random.choice(np.asarray([n for n in numbers if math.isfinite(n)]), array.shape)
        return _objects(np.asarray(drawn))

    def differ(self, a: Array, b: Array) -> bool:
        """Whether two results are certainly not the same: at an element where both are defined."""
        for one, other in zip(np.asarray(a).reshape(-1).tolist(), np.asarray(b).reshape(-1).tolist(), strict=True):
            if _is_nan(one) or _is_nan(other):
                self.undefined |= _is_nan(one) != _is_nan(other)
            elif one != other:
                return True
        return False
