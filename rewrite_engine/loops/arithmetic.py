"""What each operation does to arrays of elements, and how elements are converted: the meaning of value expressions.

Float exceptions are silent and NaN goes through min and max; integer division truncates and x / 0 is 0; shifts past the
width give 0; integer powers with a negative exponent truncate the exact result; an integer overflow wraps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rewrite_engine.loops.dtypes import INDEX, SMALL_INTEGERS, is_float, is_integer, numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]


def convert(value: Array, dtype: str, saturate: bool = True) -> Array:
    """The elements as `dtype`. Floats become integers by truncation, and true where they are not 0 as bool.

    Integers keep the low bits that fit. What NumPy leaves to the processor is said here, as for C: a float becomes an
    int32 first (an int64 for uint32 and wider), and that is the least one where it is NaN or does not fit.
    """
    target = numpy_dtype(dtype)
    if value.dtype == target:
        return value
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return np.asarray(value != 0)
        if dtype.startswith(("float8", "float4")) and saturate:
            return _saturated(value.astype(np.float32), dtype).astype(target)
        if is_integer(dtype) and is_float(value.dtype.name):
            return _whole(value.astype(np.float64), dtype).astype(target)
        if dtype in SMALL_INTEGERS:
            return value.astype(np.int64).astype(target)
        return value.astype(target)


def _whole(wide: Array, dtype: str) -> Array:
    """float64 as the integers that they become before bits are cut off."""
    if dtype == "uint64":
        high = ~(wide < 2.0**63)  # NaN, too
        return _fitting(np.where(high, wide - 2.0**63, wide), np.int64).view(np.uint64) ^ (
            high.astype(np.uint64) << np.uint64(63)
        )
    return _fitting(wide, np.int64 if dtype in ("int64", "uint32") else np.int32)


def _fitting(wide: Array, kind: type[np.signedinteger[Any]]) -> Array:
    least = np.iinfo(kind).min
    inside = (np.trunc(wide) >= float(least)) & (np.trunc(wide) < -float(least))
    return np.where(inside, np.where(inside, wide, 0).astype(kind), least)


def _saturated(value: Array, dtype: str) -> Array:
    if dtype == "float8_e8m0fnu":
        low, high = 2.0**-127, 2.0**127
    else:
        import ml_dtypes

        info: Any = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
        low, high = float(info.min), float(info.max)
    return np.clip(value, low, high)


_ERF_TOP = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
            -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02)  # fmt: skip
_ERF_BOTTOM = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
               -1.42647390514189e-02)  # fmt: skip
_exact_erf = np.frompyfunc(math.erf, 1, 1)


def erf(value: Array) -> Array:
    """The error function; in float32 a rational approximation (of Eigen), within a few units in the last place."""
    if value.dtype != np.float32:
        return np.asarray(_exact_erf(value.astype(np.float64))).astype(value.dtype)
    x = np.clip(value, np.float32(-4), np.float32(4))
    square = x * x
    return x * _horner(_ERF_TOP, square) / _horner(_ERF_BOTTOM, square)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    total = x * x.dtype.type(coefficients[0])
    for coefficient in coefficients[1:-1]:
        total += x.dtype.type(coefficient)
        total *= x
    return np.asarray(total + x.dtype.type(coefficients[-1]))


def _divide(a: Array, b: Array) -> Array:
    if not np.issubdtype(a.dtype, np.integer):
        return np.asarray(np.true_divide(a, b))
    quotient = np.floor_divide(a, b)
    inexact = np.multiply(quotient, b) != a
    return np.where(b == 0, 0, quotient + (inexact & ((a < 0) != (b < 0)))).astype(a.dtype)


def _power(a: Array, b: Array) -> Array:
    if not np.issubdtype(b.dtype, np.signedinteger) or not np.issubdtype(a.dtype, np.integer):
        return np.asarray(np.power(a, b))
    odd_sign = np.where(b % 2 == 0, 1, a)
    reciprocal = np.where(np.abs(a) == 1, odd_sign, 0)
    return np.where(b < 0, reciprocal, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def _all(*conditions: Array) -> Array:
    return functools.reduce(np.logical_and, conditions)


def _any(*conditions: Array) -> Array:
    return functools.reduce(np.logical_or, conditions)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "imul": np.multiply, "div": _divide, "neg": np.negative,
    "min": np.minimum, "max": np.maximum, "lt": np.less, "le": np.less_equal, "eq": np.equal, "and": _all, "or": _any,
    "not": np.logical_not, "xor": np.logical_xor, "select": np.where, "exp": np.exp, "log": np.log, "log1p": np.log1p,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "tanh": np.tanh, "erf": erf, "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
    "abs": np.absolute, "sign": np.sign, "isnan": np.isnan, "isinf": np.isinf, "pow": _power, "mod": np.mod,
    "fmod": np.fmod, "atan2": np.arctan2, "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "bit_not": np.invert, "shift_left": np.left_shift, "shift_right": np.right_shift,
}  # fmt: skip
"""By the name of the node; entries that are NumPy ufuncs may write into an operand."""

COMBINE_UFUNCS: Mapping[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "and": np.logical_and,
    "or": np.logical_or,
}  # fmt: skip


def element(value: object, dtype: str) -> Array:
    """A constant as an array without axes."""
    return np.asarray(numpy_dtype(dtype).type(value))


def apply(op: str, args: list[Array], dtype: str, out: Array | None = None) -> Array:
    """The operation on arrays that broadcast together, as `dtype`; written into `out` when that is given."""
    if op == "bitcast":
        return np.ascontiguousarray(args[0]).reshape(args[0].shape).view(numpy_dtype(dtype))
    operation = OPERATIONS[op]
    with np.errstate(all="ignore"):
        result = np.asarray(operation(*args) if out is None else operation(*args, out=out))
    target = numpy_dtype(dtype)
    return result if result.dtype == target else result.astype(target)


def keeps_type(op: str, dtype: str) -> bool:
    """Whether the operation is a ufunc whose result has the operands' type, so that it may write into one of them."""
    return isinstance(OPERATIONS.get(op), np.ufunc) and (dtype in ("float32", "float64", INDEX) or not is_float(dtype))
