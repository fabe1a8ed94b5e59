"""What algebras have in common: integers as they are, and arrays whose elements are objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite_engine.loops.dtypes import is_float, numpy_dtype

Array = np.ndarray[Any, Any]


class Integers:
    """Integers and truth values are arrays of their dtype."""

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


def boxed(element: Any, dtype: Any) -> Array:
    """An array of no axes."""
    found = np.empty((), dtype)
    found[()] = element
    return found


__all__ = ["Array", "Integers", "Objects", "boxed"]
