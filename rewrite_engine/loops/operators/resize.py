"""Resize: separable; along each axis an output element is a weighted sum of input elements, by a table.

The tables (positions and weights of the taps of every output element) are constants, made here in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.dtypes import is_float
from rewrite_engine.loops.expr import Expr, call, cast, const, lor, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    host_integers,
    integer,
    integers,
    number,
    optional,
    replaced,
    required,
    text,
    working_dtype,
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis that is resized: from `size` to `out` elements; `scale` is out/size before rounding.

    `start` and `end` are its part of the region of interest, in 0 .. 1.
    """

    axis: int
    size: int
    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0


# ---- where an output element lies in the input ----------------------------------------------------------------------


def _align_corners(i: Array, axis: _Axis) -> Array:
    length = axis.size * axis.scale
    return i * 0 if length == 1 else i * ((axis.size - 1) / (length - 1))


def _crop(i: Array, axis: _Axis) -> Array:
    last = axis.size - 1
    if axis.out > 1:
        return axis.start * last + i * (axis.end - axis.start) * last / (axis.out - 1)
    return 0.5 * (axis.start + axis.end) * last + i * 0


def _half_pixel_symmetric(i: Array, axis: _Axis) -> Array:
    offset = axis.size / 2 * (1 - axis.out / (axis.size * axis.scale))
    return offset + (i + 0.5) / axis.scale - 0.5


_POSITIONS: Mapping[str, Callable[[Array, _Axis], Array]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda i, axis: i / axis.scale,
    "half_pixel": lambda i, axis: (i + 0.5) / axis.scale - 0.5,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda i, axis: (i + 0.5) / axis.scale - 0.5 if axis.size * axis.scale > 1 else i * 0,
    "tf_crop_and_resize": _crop,
    "tf_half_pixel_for_nn": lambda i, axis: (i + 0.5) / axis.scale,
}

_NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda c: np.floor(c + 0.5),
    "round_prefer_floor": lambda c: np.ceil(c - 0.5),
}


# ---- which elements it takes, with which weights --------------------------------------------------------------------


def _taps(position: Array, axis: _Axis, attributes: Attributes) -> tuple[Array, Array]:
    """Positions and weights, both [out, taps], of linear or cubic interpolation; positions may lie outside."""
    cubic, antialias = text(attributes, "mode") == "cubic", bool(integer(attributes, "antialias"))
    squeeze = min(axis.scale, 1.0) if antialias else 1.0  # a filter as wide as the output's pixels when shrinking
    reach = (2 if cubic else 1) / squeeze
    count = math.ceil(2 * reach) + (1 if antialias else 0)
    first = np.floor(position) - (math.ceil(reach) - 1)
    taps = first[:, None] + np.arange(count)
    distance = np.abs(taps - position[:, None]) * squeeze
    weights = _cubic(distance, number(attributes, "cubic_coeff_a")) if cubic else np.maximum(1 - distance, 0)
    exclude = bool(integer(attributes, "exclude_outside"))
    if exclude:
        weights = np.where((taps < 0) | (taps >= axis.size), 0, weights)
    if exclude or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return taps, weights


def _cubic(distance: Array, a: float) -> Array:
    """Keys' kernel (https://doi.org/10.1109/TASSP.1981.1163711)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


# ---- the operator ---------------------------------------------------------------------------------------------------


def _axes(b: Builder, inputs: Operands, attributes: Attributes) -> list[_Axis]:
    """The axes named, with their new sizes from the operand `scales` or `sizes`."""
    x, roi, scales, sizes = required(inputs, 0), optional(inputs, 1), optional(inputs, 2), optional(inputs, 3)
    named = integers(attributes, "axes")
    old = [x.shape[axis] for axis in named]
    if scales is not None and scales.size:
        factors = [float(s) for s in b.value(scales)]
        new = [math.floor(n * s) for n, s in zip(old, factors, strict=True)]
    elif sizes is not None:
        new = list(host_integers(b, sizes))
        factors = [m / n if n else 1.0 for m, n in zip(new, old, strict=True)]
        policy = text(attributes, "keep_aspect_ratio_policy")
        if policy != "stretch":
            common = min(factors) if policy == "not_larger" else max(factors)
            factors = [common] * len(named)
            new = [math.floor(n * common + 0.5) for n in old]
    else:
        raise Unsupported("Resize without scales and sizes")
    region = (
        [float(v) for v in b.value(roi)] if roi is not None and roi.size else [0.0] * len(named) + [1.0] * len(named)
    )
    return [_Axis(axis, old[k], new[k], factors[k], region[k], region[k + len(named)]) for k, axis in enumerate(named)]


def _resize(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    mode, transform = text(attributes, "mode"), text(attributes, "coordinate_transformation_mode")
    cropping = transform == "tf_crop_and_resize"
    y, outside = x, {}
    for axis in _axes(b, inputs, attributes):
        if axis.size == axis.out and axis.scale == 1 and not cropping:
            continue
        position = _POSITIONS[transform](np.arange(axis.out, dtype=np.float64), axis)
        if cropping:
            outside[axis.axis] = b.constant((position < 0) | (position > axis.size - 1))
        if mode == "nearest":
            chosen = np.clip(_NEAREST[text(attributes, "nearest_mode")](position), 0, axis.size - 1).astype(np.int64)
            y = _pick(b, y, axis, chosen)
        else:
            y = _interpolate(b, y, axis, *_taps(position, axis, attributes))
    if outside:
        y = _extrapolate(b, y, outside, number(attributes, "extrapolation_value"))
    if y is x:
        return [b.move(x, x.shape, lambda *i: i)]
    if y.dtype == x.dtype:
        return [y]
    rounds = bool(integer(attributes, "antialias")) and not is_float(x.dtype)  # else integers are truncated
    return [b.map(lambda v: call("round", v) if rounds else v, y, dtype=x.dtype)]


def _pick(b: Builder, x: Tensor, axis: _Axis, chosen: Array) -> Tensor:
    shape = [*x.shape[: axis.axis], axis.out, *x.shape[axis.axis + 1 :]]
    factor = axis.out // axis.size if axis.size and axis.out % axis.size == 0 else 0
    if factor and np.array_equal(chosen, np.arange(axis.out) // factor):  # a repeat: arithmetic instead of a table
        return b.move(x, shape, lambda *i: replaced(i, axis.axis, i[axis.axis] // factor))
    table = b.constant(chosen)
    return b.move(x, shape, lambda *i: replaced(i, axis.axis, cast(table[i[axis.axis]], "index")))


def _interpolate(b: Builder, x: Tensor, axis: _Axis, taps: Array, weights: Array) -> Tensor:
    working = working_dtype(x.dtype) if is_float(x.dtype) else "float32"
    table = b.constant(np.clip(taps, 0, axis.size - 1).astype(np.int64))
    factors = b.constant(weights, working)
    shape = [*x.shape[: axis.axis], axis.out, *x.shape[axis.axis + 1 :]]

    def term(*i: Expr) -> Expr:
        *outer, tap = i
        here = outer[axis.axis]
        source = replaced(outer, axis.axis, cast(table[here, tap], "index"))
        return cast(x[source], working) * factors[here, tap]

    return b.compute(shape, term, [taps.shape[1]], "sum")


def _extrapolate(b: Builder, x: Tensor, outside: Mapping[int, Tensor], value: float) -> Tensor:
    def element(*i: Expr) -> Expr:
        beyond = lor(*(mask[i[axis]] for axis, mask in outside.items()))
        return select(beyond, const(value, x.dtype), x[i])

    return b.compute(x.shape, element)


RESIZE: Mapping[str, OperatorCompute] = {"Resize": _resize}
"""Operator -> compute."""
