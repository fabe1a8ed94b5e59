"""Exact algebra over a prime field: floats are elements of Z_p for p = 2^31 - 1, integers and truth values stay.

Sums, products and quotients are exact; each transcendental function is one random function, the same on both sides. Two
different polynomials of degree d agree at a random point with probability at most d / p (Schwartz, Zippel).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite_engine.loops.arithmetic import COMBINE_UFUNCS, apply, convert, element
from rewrite_engine.loops.dtypes import is_float, numpy_dtype
from rewrite_engine.testing.verify.elements import Array, Integers, expect_finite
from rewrite_engine.testing.verify.interpreter import Undecided

PRIME = (1 << 31) - 1
HALF = (PRIME + 1) // 2
FUNCTIONS = frozenset(
    {"exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
     "atanh", "tanh", "erf", "pow", "atan2", "fmod"}
)  # fmt: skip


def inverse(value: Array) -> Array:
    """1 / value; 0 for 0."""
    result, base, exponent = np.ones_like(value), value % PRIME, PRIME - 2
    while exponent:
        if exponent & 1:
            result = result * base % PRIME
        base = base * base % PRIME
        exponent >>= 1
    return result


def is_simple(value: float) -> bool:
    """Whether a number is one that files write exactly: few bits, so that rounding has not changed it."""
    if not np.isfinite(value):
        return True
    fraction = Fraction(value)
    return fraction.denominator <= 4096 and abs(fraction.numerator) < 1 << 24


class Field(Integers):
    """The algebra. `rounded` is set where a constant was not exact, `random` where a function was not a polynomial."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rounded = self.random = self.divided = False
        self.degree = 1

    def floats(self, wide: Array) -> Array:
        expect_finite(wide)
        return np.array([self._element(v) for v in wide.reshape(-1)], np.int64).reshape(wide.shape)

    def _element(self, value: float) -> int:
        fraction = Fraction(value)
        self.rounded |= not is_simple(value)
        return fraction.numerator * pow(fraction.denominator, -1, PRIME) % PRIME

    def cast(self, value: Array, source: str, target: str) -> Array:
        if is_float(source) and is_float(target):
            return value
        if is_float(target):
            return np.asarray(value).astype(np.int64) % PRIME
        if is_float(source):
            raise Undecided(f"a cast to {target}")
        return convert(np.asarray(value), target)

    def apply(self, op: str, args: Sequence[Array], dtype: str, source: str) -> Array:
        if op == "select":
            return np.where(args[0], args[1], args[2])
        if not is_float(source):
            return apply(op, [np.asarray(a) for a in args], dtype)
        match op:
            case "add":
                return (args[0] + args[1]) % PRIME
            case "sub":
                return (args[0] - args[1]) % PRIME
            case "mul":
                self.degree += 1
                return args[0] * args[1] % PRIME
            case "neg":
                return np.asarray(-args[0] % PRIME)
            case "div":
                self.degree += 1
                self.divided = True
                return self._divide(args[0], args[1])
            case "pow":
                return self._power(args[0], args[1])
            case "isnan" | "isinf":
                return np.zeros(np.shape(args[0]), np.bool_)
            case _ if op in FUNCTIONS:
                return self._function(op, args)
            case _:
                raise Undecided(f"`{op}` needs an order")

    def _divide(self, a: Array, b: Array) -> Array:
        if np.any(b == 0):
            raise Undecided("a division by zero")
        return a * inverse(b) % PRIME

    def _power(self, a: Array, b: Array) -> Array:
        exponents = set(np.asarray(b).reshape(-1).tolist())
        if len(exponents) == 1:
            exponent = exponents.pop()
            if exponent <= 16 or exponent >= PRIME - 16:
                power = exponent if exponent <= 16 else exponent - PRIME
                base = a if power >= 0 else self._divide(np.ones_like(a), a)
                self.degree += abs(power)
                result = np.ones_like(a)
                for _ in range(abs(power)):
                    result = result * base % PRIME
                return np.broadcast_to(result, np.broadcast_shapes(a.shape, b.shape))
            if exponent in (HALF, PRIME - HALF):
                root = self._function("sqrt", [a])
                return root if exponent == HALF else self._divide(np.ones_like(root), root)
        return self._function("pow", [a, b])

    def _function(self, name: str, args: Sequence[Array]) -> Array:
        self.random = True
        mixed = np.uint64(zlib.crc32(name.encode()) + (self.seed << 32))
        total = np.broadcast_to(np.asarray(mixed), np.broadcast_shapes(*(np.shape(a) for a in args)))
        for arg in args:
            total = _mix(total ^ np.asarray(arg).astype(np.uint64))
        return (total % np.uint64(PRIME)).astype(np.int64)

    def combine(self, how: str, value: Array, axes: tuple[int, ...], dtype: str) -> Array:
        if not is_float(dtype):
            return np.asarray(COMBINE_UFUNCS[how].reduce(value, axis=axes, dtype=numpy_dtype(dtype)))
        if how == "sum":
            return np.asarray(value.sum(axis=axes, dtype=np.int64) % PRIME)
        if how == "prod":
            flat = np.moveaxis(value, axes, range(len(axes))).reshape(
                -1, *[n for k, n in enumerate(value.shape) if k not in axes]
            )
            result = np.ones(flat.shape[1:], np.int64)
            for part in flat:
                result = result * part % PRIME
            self.degree += len(flat)
            return result
        raise Undecided(f"`{how}` needs an order")

    def take(self, value: Array, indices: tuple[Array, ...]) -> Array:
        return np.asarray(value[indices])

    def put(self, shape: tuple[int, ...], indices: tuple[Array, ...], value: Array, dtype: str, init: Any) -> Array:
        kept = np.int64 if is_float(dtype) else numpy_dtype(dtype)
        found = np.zeros(shape, kept) if init is None else np.array(init)
        found[indices] = value
        return found

    def spread(self, value: Array, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(np.asarray(value), shape)

    def input(self, array: Array, dtype: str, random: np.random.Generator) -> Array:
        """A run-time input: random elements for floats, `array` itself for integers."""
        if is_float(dtype):
            return np.asarray(random.integers(1, PRIME, array.shape, dtype=np.int64))
        return array

    def differ(self, a: Array, b: Array) -> bool:
        """Whether two results are certainly not the same."""
        return not np.array_equal(a, b)


def _mix(x: Array) -> Array:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


__all__ = ["PRIME", "Field", "element", "is_simple"]
