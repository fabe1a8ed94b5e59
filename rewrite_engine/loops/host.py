"""Operators on whole tensors that are not loop nests: data-dependent order, by name, in NumPy."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rewrite_engine.loops.arithmetic import Array
from rewrite_engine.loops.dtypes import LOW_PRECISION

Attributes = Mapping[str, bool | int | float | str]


def _sort(inputs: Sequence[Array], attributes: Attributes) -> list[Array]:
    """Values and int64 positions of x sorted along `axis` (stable; NaN counts as the largest); `count` first of each.

    Attributes: axis, count, largest (descending).
    """
    (x,) = inputs
    axis, count = int(attributes["axis"]), int(attributes["count"])
    keys = x.astype(np.float32) if x.dtype.name in LOW_PRECISION else x
    if attributes["largest"]:
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis, kind="stable")
    kept = np.take(order, range(count), axis)
    return [np.take_along_axis(x, kept, axis), kept.astype(np.int64)]


def _determinant(inputs: Sequence[Array], attributes: Attributes) -> list[Array]:
    """Of the matrices of the last two axes."""
    (x,) = inputs
    wide = x.astype(np.float64)
    return [np.asarray(np.linalg.det(wide)).astype(x.dtype)]


def _onnx(inputs: Sequence[Array], attributes: Attributes) -> list[Array]:
    """An operator through ONNX Runtime. Attributes: operator (its name), model (of this one node, in base64)."""
    from rewrite_engine.graph.foreign import run_node_model

    content = base64.b64decode(str(attributes["model"]))
    return [np.asarray(array) for array in run_node_model(content, inputs, str(attributes["operator"]))]


HOST_OPERATORS: Mapping[str, Callable[[Sequence[Array], Attributes], list[Array]]] = {
    "determinant": _determinant,
    "onnx": _onnx,
    "sort": _sort,
}
"""By name: a function of the input arrays and the attributes that returns the output arrays."""
