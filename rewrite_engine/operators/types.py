"""Tensor types: a dtype name and a shape whose dimensions are sizes, symbols or unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass

Dimension = int | str | None  # a size, a symbol (the same symbol is the same size), or unknown

ITEM_BITS = {
    "bool": 8, "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16,
    "int32": 32, "uint32": 32, "int64": 64, "uint64": 64, "float4_e2m1fn": 4, "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8, "float16": 16, "bfloat16": 16,
    "float32": 32, "float64": 64, "complex64": 64, "complex128": 128, "string": 64,
}  # fmt: skip
"""Size of one element in bits, by dtype name; a string counts as one 64-bit reference."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a value. `dtype` is a NumPy (or ml_dtypes) name or "?"; `shape` is None when the rank is unknown."""

    dtype: str
    shape: tuple[Dimension, ...] | None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def numel(self) -> int | None:
        """Number of elements, or None when a dimension is not a known size."""
        if self.shape is None or not all(isinstance(d, int) for d in self.shape):
            return None
        return math.prod(d for d in self.shape if isinstance(d, int))

    @property
    def bytes(self) -> int | None:
        """Size in bytes (sub-byte types packed, rounded up), or None when it is not known."""
        count, bits = self.numel, ITEM_BITS.get(self.dtype)
        return None if count is None or bits is None else (count * bits + 7) // 8

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ", ".join("_" if d is None else str(d) for d in self.shape)
        return f"{self.dtype}[{dims}]"
