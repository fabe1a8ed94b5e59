"""Dtype names and their codes in ONNX files (`TensorProto.DataType`), NumPy dtypes, and families of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPE_CODES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4_e2m1fn": 23, "float8_e8m0fnu": 24, "uint2": 25, "int2": 26,
}  # fmt: skip
"""Dtype name -> code, as the attribute `to` of Cast and `dtype` of EyeLike have it."""

_NAMES = {code: name for name, code in DTYPE_CODES.items()}


def dtype_name(code: object) -> str:
    """The dtype with an ONNX code, or "?" when there is none."""
    return _NAMES.get(code, "?") if isinstance(code, int) else "?"


def array_dtype(array: np.ndarray[Any, Any]) -> str:
    """The dtype name of an array's elements; text and objects are "string"."""
    return "string" if array.dtype.kind in "OUST" else array.dtype.name


def is_float(dtype: str) -> bool:
    """Whether it is a floating dtype of any width."""
    return dtype.startswith(("float", "bfloat"))
