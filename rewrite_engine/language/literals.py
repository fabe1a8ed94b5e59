"""The dtype of a constant that is written without one: what the operator's schema asks for where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rewrite_engine.language import values
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.language.values import Array, EvaluationError
from rewrite_engine.operators import Operator
from rewrite_engine.operators.dtypes import array_dtype, is_float
from rewrite_engine.operators.types import TensorType

WHOLE = ("int64", "int32", "uint8", "int8", "uint16", "int16", "uint32", "uint64")
"""Dtypes of a whole number where several are allowed, the likeliest first."""


def schema_dtypes(operator: Operator | None, position: int, types: Sequence[TensorType | None]) -> tuple[str, ...]:
    """The dtypes that the schema leaves for an input, the likeliest first; empty where it says nothing.

    `types` are those of all inputs, None for one that is absent or not known yet.
    """
    formal = operator.input(position) if operator is not None else None
    if operator is None or formal is None:
        return ()
    for other, known in enumerate(types):
        same = operator.input(other)
        if other == position or same is None or same.mixed or same.type != formal.type:
            continue
        if known is not None and known.dtype != "?":
            return (known.dtype,)
    first = types[0] if position > 0 else None
    if first is not None and first.dtype in formal.dtypes:
        return (first.dtype, *(dtype for dtype in formal.dtypes if dtype != first.dtype))
    return formal.dtypes


def stated_dtype(array: Array, allowed: Sequence[str]) -> str:
    """The dtype that the file gives a constant, by `cast` or `full`; `EvaluationError` where it cannot stand."""
    dtype = array_dtype(array)
    if allowed and dtype not in allowed:
        raise EvaluationError(f"the constant is {dtype}, but what stands there is one of {', '.join(sorted(allowed))}")
    return dtype


def likely_dtype(array: Array, allowed: Sequence[str]) -> str:
    """The dtype in which a constant stands where the schema allows these (any, where there are none)."""
    if len(allowed) == 1:
        return allowed[0]
    floating = array.dtype.kind == "f" or is_float(array.dtype.name)
    usual = ("float32", "float64") if floating else ("bool",) if array.dtype.kind == "b" else WHOLE
    if allowed and is_float(allowed[0]):
        usual = (allowed[0], *usual)
    for dtype in usual:
        if (not allowed or dtype in allowed) and (dtype not in WHOLE or _holds(array, dtype)):
            return dtype
    if not allowed:
        return "int64"
    return allowed[0] if floating == is_float(allowed[0]) else next((d for d in allowed if is_float(d)), allowed[0])


def _holds(array: Array, dtype: str) -> bool:
    if array.dtype.kind not in "iu" or not array.size:
        return True
    limits = np.iinfo(dtype)
    return limits.min <= int(array.min()) and int(array.max()) <= limits.max


def convert(array: Array, dtype: str) -> Array:
    """The elements in another dtype; `EvaluationError` where an integer dtype cannot hold them exactly."""
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return np.ascontiguousarray(array) if array.ndim else array
    with np.errstate(all="ignore"):
        result: Array = array.astype(target)
    if not is_float(dtype) and array.dtype.kind in "iuf" and dtype not in ("bool", "string"):
        wide: Any = np.int64 if array.dtype.kind in "iu" and dtype != "uint64" else np.float64
        if not np.array_equal(result.astype(wide), array.astype(wide)):
            raise EvaluationError(f"{values.show(array)} does not fit {dtype}")
    return result
