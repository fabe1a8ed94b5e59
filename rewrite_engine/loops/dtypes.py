"""Element types by name: their NumPy types, which are floating point, which are computed in float32, identities."""

from __future__ import annotations

import functools
import math

import numpy as np

INDEX = "index"
"""The type of iterators and index arithmetic: exact integers, int64 once they are data."""

LOW_PRECISION = frozenset(
    {"float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
     "float4_e2m1fn"}
)  # fmt: skip
"""Floats that are computed and accumulated in float32 and rounded at every operator boundary."""

SMALL_INTEGERS = frozenset({"int2", "uint2", "int4", "uint4"})
"""Integers narrower than a byte: each has one of its own, and they are wrapped where they are computed."""

PACKED = SMALL_INTEGERS | {"float4_e2m1fn"}
"""Several elements to a byte in a file; here each has a byte of its own."""

_ML_DTYPES = (LOW_PRECISION - {"float16"}) | SMALL_INTEGERS


@functools.cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The NumPy type called `name` (an ml_dtypes one where NumPy has none); "index" is int64."""
    if name == INDEX:
        return np.dtype(np.int64)
    if name in _ML_DTYPES:
        import ml_dtypes

        special: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
        return special
    return np.dtype(name)


@functools.cache
def is_float(name: str) -> bool:
    """Whether values of this type are floating point."""
    return name in LOW_PRECISION or name in ("float32", "float64")


@functools.cache
def is_integer(name: str) -> bool:
    """Whether values of this type are integers ("index" included, bool not)."""
    return name == INDEX or name.startswith(("int", "uint"))


@functools.cache
def limits(name: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    bits = 64 if name == INDEX else int(name.removeprefix("u").removeprefix("int"))
    return (0, (1 << bits) - 1) if name.startswith("uint") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def identity(combine: str, dtype: str) -> bool | int | float:
    """The value that an empty reduction has: 0 for sum, 1 for prod, the type's lowest for max, and so on."""
    if combine in ("sum", "prod"):
        return {"sum": 0, "prod": 1}[combine]
    if combine in ("and", "or"):
        return combine == "and"
    if combine not in ("max", "min"):
        raise ValueError(f"combine {combine!r} has no identity")
    if dtype == "bool":
        return combine == "min"
    if is_float(dtype):
        return -math.inf if combine == "max" else math.inf
    return limits(dtype)[0 if combine == "max" else 1]
