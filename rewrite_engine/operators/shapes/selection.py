"""Result shapes of operators that pick elements by data, resize, or make new tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rewrite_engine.operators.calls import Call, Shape, Shapes
from rewrite_engine.operators.types import Dimension


def _gather(call: Call) -> Shapes:
    shape, indices = call.shape(0), call.shape(1)
    if shape is None or indices is None:
        return [None]
    axis = call.axis(call.attributes["axis"], len(shape))
    return [shape[:axis] + indices + shape[axis + 1 :]]


def _gather_elements(call: Call) -> Shapes:
    shape, indices = call.shape(0), call.shape(1)
    if shape is not None and indices is not None and len(shape) != len(indices):
        raise call.fail("data and indices differ in rank")
    return [indices]


def _gather_nd(call: Call) -> Shapes:
    shape, indices, batch = call.shape(0), call.shape(1), call.attributes["batch_dims"]
    if shape is None or indices is None or not indices or not isinstance(indices[-1], int):
        return [None]
    if batch + indices[-1] > len(shape):
        raise call.fail(f"indices of {indices[-1]} axes behind {batch} batch axes for data of rank {len(shape)}")
    return [indices[:-1] + shape[batch + indices[-1] :]]


def _compress(call: Call) -> Shapes:
    shape, axis, condition = call.shape(0), call.attributes.get("axis"), call.constant(1)
    count = None if condition is None else int(np.count_nonzero(condition))
    if axis is None:
        return [(count,)]
    return [None if shape is None else (*shape[:axis], count, *shape[axis + 1 :])]


def _resize(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is None:
        return [None]
    axes = call.axes(call.attributes["axes"], len(shape))
    result: list[Dimension] = [None if i in axes else d for i, d in enumerate(shape)]
    scales, sizes = call.constant(2), call.ints(3)
    if sizes:
        if len(sizes) != len(axes):
            raise call.fail(f"{len(sizes)} sizes for {len(axes)} axes")
        for axis, size in zip(axes, _fitted(call, shape, axes, sizes), strict=True):
            result[axis] = size
    elif scales is not None and scales.size and not call.given(3):
        if scales.size != len(axes):
            raise call.fail(f"{scales.size} scales for {len(axes)} axes")
        if not all(0 < scale < math.inf for scale in scales.reshape(-1)):
            raise call.fail(f"scales {scales.reshape(-1).tolist()} are not all positive numbers")
        roi = call.constant(1)
        cropped = call.attributes["coordinate_transformation_mode"] == "tf_crop_and_resize"
        for i, (axis, scale) in enumerate(zip(axes, scales.reshape(-1), strict=True)):
            dim, extent = shape[axis], 1.0
            if cropped:
                if roi is None:
                    continue
                call.counted(call.label(1), roi.reshape(-1), 2 * len(axes))
                extent = float(roi.reshape(-1)[i + len(axes)]) - float(roi.reshape(-1)[i])
            if isinstance(dim, int):
                with np.errstate(over="ignore", invalid="ignore"):
                    scaled = np.float32(dim * extent) * np.float32(scale)
                if not np.isfinite(scaled):
                    raise call.fail(f"axis {axis} of size {dim} has no size after scaling by {scale}")
                result[axis] = math.floor(scaled)
            elif scale == 1 and extent == 1:
                result[axis] = dim
    return [tuple(result)]


def _fitted(call: Call, shape: Shape, axes: Sequence[int], sizes: Sequence[int]) -> Sequence[Dimension]:
    """The sizes under `keep_aspect_ratio_policy`: one scale for all axes, unless it is "stretch"."""
    policy = call.attributes["keep_aspect_ratio_policy"]
    if policy == "stretch":
        return sizes
    dims = [shape[a] for a in axes]
    known = [d for d in dims if isinstance(d, int) and d > 0]
    if len(known) != len(dims):
        return [None] * len(sizes)
    pick = min if policy == "not_larger" else max
    scale = pick(s / d for s, d in zip(sizes, known, strict=True))
    return [math.floor(scale * d + 0.5) for d in known]


def _shape(call: Call) -> Shapes:
    shape, attributes = call.shape(0), call.attributes
    return [(None,) if shape is None else (max(attributes["end"] - attributes["start"], 0),)]


def _range(call: Call) -> Shapes:
    start, limit, delta = (call.constant(i) for i in range(3))
    if start is None or limit is None or delta is None:
        return [(None,)]
    for position, value in enumerate((start, limit, delta)):
        call.counted(call.label(position), value.reshape(-1), 1)
        if not np.all(np.isfinite(value)):
            raise call.fail(f"{call.label(position)} is not finite")
    first, last, step = (v.reshape(-1)[0].item() for v in (start, limit, delta))
    if step == 0:
        raise call.fail("delta is 0")
    if all(isinstance(v, int) for v in (first, last, step)):
        return [(max(-((first - last) // step), 0),)]
    return [(max(math.ceil((last - first) / step), 0),)]


def _of_shape(position: int) -> Callable[[Call], Shapes]:
    """The result has the shape that the operand spells."""

    def shapes(call: Call) -> Shapes:
        wanted = call.ints(position)
        if wanted is not None and any(d < 0 for d in wanted):
            raise call.fail(f"the shape {list(wanted)} has a negative size")
        return [call.unknown_of_rank(position) if wanted is None else wanted]

    return shapes


def _constant(call: Call) -> Shapes:
    for name, value in call.attributes.items():
        if name == "value":
            return [tuple(np.shape(value))]
        if name.startswith("value_"):
            return [(len(value),) if isinstance(value, tuple) else ()]
    return [None]


def _one_hot(call: Call) -> Shapes:
    shape, depth = call.shape(0), call.one(1)
    if shape is None:
        return [None]
    axis = call.axis(call.attributes["axis"], len(shape) + 1)
    return [(*shape[:axis], depth, *shape[axis:])]


def _top_k(call: Call) -> Shapes:
    shape, k = call.shape(0), call.one(1)
    if shape is None:
        return [None, None]
    axis = call.axis(call.attributes["axis"], len(shape))
    size = shape[axis]
    if k is not None and isinstance(size, int) and not 0 <= k <= size:
        raise call.fail(f"k is {k}, axis {axis} has {size}")
    result = (*shape[:axis], k, *shape[axis + 1 :])
    return [result, result]


def _non_zero(call: Call) -> Shapes:
    shape = call.shape(0)
    return [(None if shape is None else max(len(shape), 1), None)]


def _unique(call: Call) -> Shapes:
    shape, axis = call.shape(0), call.attributes.get("axis")
    first: Shape | None = (None,)
    if axis is not None:
        first = None if shape is None else (*shape[:axis], None, *shape[axis + 1 :])
    return [first, (None,), (None,), (None,)]


def _col2im(call: Call) -> Shapes:
    shape, image, block = call.expect_rank(0, 3), call.ints(1), call.ints(2)
    sizes: Shape | None = image if image is not None else call.unknown_of_rank(1)
    if sizes is None:
        return [None]
    if shape is None:
        return [(None, None, *sizes)]
    channels = None if block is None else call.divided(shape[1], math.prod(block), "columns' rows")
    return [(shape[0], channels, *sizes)]


def _of_attribute(call: Call) -> Shapes:
    return [tuple(call.attributes["shape"])]


def _affine_grid(call: Call) -> Shapes:
    size = call.ints(1)
    if size is not None and len(size) not in (4, 5):
        raise call.fail(f"{call.label(1)} has {len(size)} elements, expected 4 or 5")
    return [None if size is None else (size[0], *size[2:], len(size) - 2)]


def _vector_of(call: Call) -> Shapes:
    return [(call.one(0),)]


def _mel_weights(call: Call) -> Shapes:
    bins, length = call.one(0), call.one(1)
    return [(None if length is None else length // 2 + 1, bins)]


SELECTION: Mapping[str, Callable[[Call], Shapes]] = {
    "AffineGrid": _affine_grid,
    "BlackmanWindow": _vector_of,
    "Col2Im": _col2im,
    "Compress": _compress,
    "Constant": _constant,
    "ConstantOfShape": _of_shape(0),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "HammingWindow": _vector_of,
    "HannWindow": _vector_of,
    "ImageDecoder": lambda call: [(None, None, 1 if call.attributes["pixel_format"] == "Grayscale" else 3)],
    "MelWeightMatrix": _mel_weights,
    "NonMaxSuppression": lambda call: [(None, 3)],
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "OptionalHasElement": lambda call: [()],
    "RandomNormal": _of_attribute,
    "RandomUniform": _of_attribute,
    "Range": _range,
    "Resize": _resize,
    "SequenceLength": lambda call: [()],
    "Shape": _shape,
    "Size": lambda call: [()],
    "TopK": _top_k,
    "Unique": _unique,
}
