"""Element types in C: how they are stored, computed, written as literals and converted."""

from __future__ import annotations

import math

import numpy as np

from rewrite_engine.loops.dtypes import INDEX, LOW_PRECISION, SMALL_INTEGERS, is_float, numpy_dtype

_STORED = {
    "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t", "bool": "uint8_t",
    INDEX: "int64_t", "int2": "int8_t", "int4": "int8_t", "uint2": "uint8_t", "uint4": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def stored(dtype: str) -> str:
    """The C type of an element in memory; low-precision floats are their bits."""
    return _STORED.get(dtype, "uint8_t")


def is_low(dtype: str) -> bool:
    """Whether elements are stored as bits of a float that is computed in float32."""
    return dtype in LOW_PRECISION


def is_wide_float(dtype: str) -> bool:
    """Whether elements are C floats."""
    return dtype in ("float32", "float64")


def is_unsigned(dtype: str) -> bool:
    """Whether elements are integers without a sign."""
    return dtype.startswith("uint")


def literal(value: object, dtype: str) -> str:
    """A constant as C of its stored type."""
    assert isinstance(value, (bool, int, float))
    if is_wide_float(dtype):
        if math.isnan(value):
            return "(-NAN)" if math.copysign(1, value) < 0 else "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "(-INFINITY)"
        text = float(value).hex() + ("f" if dtype == "float32" else "")
        return f"({text})" if text.startswith("-") else text
    if dtype == "bool":
        return "1" if value else "0"
    if is_low(dtype):
        bits = np.asarray(value).astype(numpy_dtype(dtype)).reshape(1)
        return str(int(bits.view(np.dtype(f"u{bits.itemsize}"))[0]))
    number = int(value)
    if dtype in ("int64", INDEX):
        return "INT64_MIN" if number == -(1 << 63) else f"{number}" if number >= 0 else f"({number})"
    if dtype == "uint64":
        return f"{number}u"
    if dtype == "int32":
        return "INT32_MIN" if number == -(1 << 31) else f"{number}" if number >= 0 else f"({number})"
    return f"(({stored(dtype)}){number})"


def lift(text: str, dtype: str) -> str:
    """The element in the type it is computed in."""
    return f"re_from_{dtype}({text})" if is_low(dtype) else text


def lower(text: str, dtype: str) -> str:
    """A computed element in the type it is stored in: rounded, wrapped."""
    if is_low(dtype):
        return f"re_to_{dtype}({text}, 1)"
    if dtype in SMALL_INTEGERS:
        return f"re_wrap_{dtype}({text})"
    if is_wide_float(dtype) or dtype in ("bool", INDEX):
        return text
    return f"(({stored(dtype)})({text}))"


def convert(text: str, source: str, target: str, saturate: bool) -> str:
    """A stored element of one type as a stored element of another."""
    source, target = ("int64" if dtype == INDEX else dtype for dtype in (source, target))
    if source == target:
        return text
    if target == "bool":
        return f"({lift(text, source)} != 0)"
    if is_low(source):
        return convert(lift(text, source), "float32", target, saturate)
    if is_low(target):
        if source == "float64" and target == "float16":
            return f"re_double_to_float16({text})"
        return f"re_to_{target}((float)({text}), {int(saturate)})"
    if is_wide_float(target):
        return f"(({stored(target)})({text}))"
    if not is_float(source):
        return f"re_wrap_{target}({text})" if target in SMALL_INTEGERS else f"(({stored(target)})({text}))"
    if target in SMALL_INTEGERS:
        return f"re_wrap_{target}(re_to_int32({text}))"
    if target in ("int32", "int64", "uint64"):
        return f"re_to_{target}({text})"
    return f"(({stored(target)}){'re_to_int64' if target == 'uint32' else 're_to_int32'}({text}))"
