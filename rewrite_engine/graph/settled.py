"""Inputs that are given one value for good: they become constants of the model, and what they decide is folded.

In: a checked `ModelProto`, which is changed, and values by name.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.graph.onnx_types import proto_type


def settle_inputs(model: onnx.ModelProto, origin: str, values: Mapping[str, object]) -> None:
    """Makes the inputs named in `values` (numbers, truth values, lists of them, arrays) constants.

    Raises `RewriteError` for a name that no input has, and for a value that does not fit the input's dtype and shape.
    """
    graph = model.graph
    inputs = {info.name: info for info in graph.input}
    defaults = {tensor.name for tensor in graph.initializer}
    for name, value in values.items():
        if name not in inputs:
            known = sorted(inputs.keys() - defaults)
            hint = did_you_mean(name, known) or (
                f"its inputs are {', '.join(f'`{k}`' for k in known)}" if known else ""
            )
            raise RewriteError(f"{origin}: there is no input `{name}` to give a value" + (f"; {hint}" if hint else ""))
        array = _fitting(f"{origin}: input `{name}`", value, inputs[name].type)
        graph.input.remove(inputs[name])
        for tensor in [tensor for tensor in graph.initializer if tensor.name == name]:
            graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(array, name))


def _fitting(where: str, value: object, type_: onnx.TypeProto) -> np.ndarray:
    """The value as the input holds it; one number fills a shape that is known."""
    kind = proto_type(type_)
    if kind.dtype == "?" or kind.dtype == "string":
        raise RewriteError(f"{where} is no tensor of numbers: it can be given no value")
    try:
        given = np.asarray(value)
        with np.errstate(all="ignore"):
            array = given.astype(helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type))
    except (TypeError, ValueError, OverflowError):
        raise RewriteError(f"{where}: expected {kind.dtype}, found {value!r}") from None
    whole = not kind.dtype.startswith(("float", "bfloat"))
    if given.dtype.kind not in "biuf" or (whole and not np.array_equal(array.astype(given.dtype), given)):
        raise RewriteError(f"{where}: expected {kind.dtype}, found {value!r}")
    if array.ndim == 0 and kind.shape and all(isinstance(n, int) for n in kind.shape):
        array = np.full([int(n or 0) for n in kind.shape], array)
    fits = kind.shape is None or (
        len(kind.shape) == array.ndim
        and all(not isinstance(n, int) or n == size for n, size in zip(kind.shape, array.shape, strict=True))
    )
    if not fits:
        raise RewriteError(f"{where}: expected {kind}, found a value of the shape {list(array.shape)}")
    return array


__all__ = ["settle_inputs"]
