"""What exact algebras have in common: integers as they are, and arrays whose elements are objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite_engine.loops.dtypes import is_float, numpy_dtype
from rewrite_engine.testing.verify.interpreter import Undecided

Array = np.ndarray[Any, Any]


class Integers:
    """Integers and truth values are arrays of their dtype; `floats` makes elements of numbers in double precision."""

    def constant(self, value: Any, dtype: str) -> Array:
        array = np.asarray(value)
        return self.floats(array.astype(np.float64)) if is_float(dtype) else array.astype(numpy_dtype(dtype))

    def floats(self, wide: Array) -> Array:
        raise NotImplementedError

    def embed(self, array: Array, dtype: str) -> Array:
        return np.asarray(array).astype(numpy_dtype(dtype))

    def plain(self, value: Array) -> Array:
        return np.asarray(value)


class Objects(Integers):
    """Floats are arrays of objects; `zero` is what a tensor holds before it is written."""

    zero: Any

    def take(self, value: Array, indices: tuple[Array, ...]) -> Array:
        found = value[indices]
        return found if isinstance(found, np.ndarray) else boxed(found, value.dtype)

    def put(self, shape: tuple[int, ...], indices: tuple[Array, ...], value: Array, dtype: str, init: Any) -> Array:
        kept: Any = object if is_float(dtype) or value.dtype == object else numpy_dtype(dtype)
        found = np.full(shape, self.zero, object) if kept is object else np.zeros(shape, kept)
        if init is not None:
            found[...] = init
        found[indices] = value[()]  # of no axes: the element, not the array that holds it
        return found

    def spread(self, value: Any, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(value if isinstance(value, np.ndarray) else boxed(value, object), shape)


def expect_finite(wide: Array) -> None:
    """Raises `Undecided` for constants that are infinite or NaN."""
    if not np.isfinite(wide).all():
        raise Undecided("a constant is not finite")


def boxed(element: Any, dtype: Any) -> Array:
    """An array of no axes."""
    found = np.empty((), dtype)
    found[()] = element
    return found


__all__ = ["Array", "Integers", "Objects", "boxed", "expect_finite"]
