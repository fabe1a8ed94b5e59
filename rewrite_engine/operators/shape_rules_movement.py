"""Result shapes of operators that move, select, join or make elements: one function each, in one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rewrite_engine.operators.calls import Call, Shape, product, quotient, total
from rewrite_engine.operators.types import Dimension

Shapes = Sequence[Shape | None]


def unknown_of_rank(call: Call, position: int) -> Shape | None:
    """Unknown dimensions, as many as the operand (a vector of sizes) has elements."""
    shape = call.shape(position)
    count = shape[0] if shape is not None and len(shape) == 1 else None
    return (None,) * count if isinstance(count, int) else None


def _reshape(call: Call) -> Shapes:
    shape, wanted = call.shape(0), call.ints(1)
    if wanted is None:
        return [unknown_of_rank(call, 1)]
    if wanted.count(-1) > 1 or any(d < -1 for d in wanted):
        raise call.fail(f"the shape {list(wanted)} may hold one -1 and sizes")
    copies = not call.attributes["allowzero"]
    result: list[Dimension] = []
    for i, dim in enumerate(wanted):
        if dim == 0 and copies:
            if shape is not None and i >= len(shape):
                raise call.fail(f"the shape {list(wanted)} copies dimension {i}, which input 0 does not have")
            result.append(None if shape is None else shape[i])
        else:
            result.append(None if dim == -1 else dim)
    if shape is None:
        return [tuple(result)]
    rest = [d for d, w in zip(result, wanted, strict=True) if w != -1]
    ratio = quotient(shape, rest)
    if -1 in wanted:
        if isinstance(ratio, float):
            raise call.fail(f"the elements do not divide into the shape {list(wanted)}")
        result[wanted.index(-1)] = ratio
    elif isinstance(ratio, float) or (isinstance(ratio, int) and ratio != 1 and product(shape) != product(rest)):
        raise call.fail(f"the number of elements changes under the shape {list(wanted)}")
    return [tuple(result)]


def _flatten(call: Call) -> Shapes:
    shape, axis = call.shape(0), call.attributes["axis"]
    if shape is None:
        return [(None, None)]
    if not 0 <= axis <= len(shape):
        raise call.fail(f"axis {axis} is outside [-{len(shape)}, {len(shape)}]")
    return [(product(shape[:axis]), product(shape[axis:]))]


def _squeeze(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is None:
        return [None]
    if not call.given(1):
        unclear = any(not isinstance(d, int) for d in shape)
        return [None if unclear else tuple(d for d in shape if d != 1)]
    axes = call.ints(1)
    if axes is None:
        return [None]
    gone = call.axes(axes, len(shape))
    for axis in gone:
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise call.fail(f"axis {axis} has size {shape[axis]}, only 1 can be squeezed")
    return [tuple(d for i, d in enumerate(shape) if i not in gone)]


def _unsqueeze(call: Call) -> Shapes:
    shape, axes = call.shape(0), call.ints(1)
    if shape is None or axes is None:
        return [None]
    rank = len(shape) + len(axes)
    new, rest = set(call.axes(axes, rank)), iter(shape)
    return [tuple(1 if i in new else next(rest) for i in range(rank))]


def _transpose(call: Call) -> Shapes:
    shape, perm = call.shape(0), call.attributes.get("perm", ())
    if shape is None:
        return [(None,) * len(perm) if "perm" in call.attributes else None]
    if sorted(perm) != list(range(len(shape))):
        raise call.fail(f"perm {list(perm)} is no permutation of {len(shape)} axes")
    return [tuple(shape[p] for p in perm)]


def _expand(call: Call) -> Shapes:
    wanted = call.ints(1)
    if wanted is not None:
        return [call.broadcast([call.shape(0), wanted])]
    shape, rank = call.shape(0), unknown_of_rank(call, 1)
    return [None if shape is None or rank is None else (None,) * max(len(shape), len(rank))]


def _tile(call: Call) -> Shapes:
    shape, repeats = call.shape(0), call.ints(1)
    if shape is None:
        return [unknown_of_rank(call, 1)]
    if repeats is None:
        return [(None,) * len(shape)]
    if len(repeats) != len(shape):
        raise call.fail(f"{len(repeats)} repeats for {len(shape)} axes")
    return [tuple(product((d, r)) for d, r in zip(shape, repeats, strict=True))]


def _slice(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is None:
        return [None]
    starts, ends, axes, steps = (call.ints(i) for i in (1, 2, 3, 4))
    if call.given(3) and axes is None:
        return [(None,) * len(shape)]
    if axes is None:
        count = len(starts) if starts is not None else len(ends) if ends is not None else None
        if count is None:
            count = len(unknown_of_rank(call, 1) or shape)
        axes = tuple(range(count))
    result = list(shape)
    for i, axis in enumerate(call.axes(axes, len(shape))):
        known = starts is not None and ends is not None and not (call.given(4) and steps is None)
        if not known:
            result[axis] = None
            continue
        step = steps[i] if steps is not None else 1
        if step == 0:
            raise call.fail("a step is 0")
        result[axis] = _sliced(shape[axis], starts[i], ends[i], step)  # type: ignore[index]
    return [tuple(result)]


def _sliced(size: Dimension, start: int, end: int, step: int) -> Dimension:
    if not isinstance(size, int):
        return size if start == 0 and step == 1 and end >= 2**31 - 1 else None
    return len(range(*slice(max(start, -size), end, step).indices(size)))


def _pad(call: Call) -> Shapes:
    shape, pads, axes = call.shape(0), call.ints(1), call.ints(3)
    if shape is None:
        return [None]
    if pads is None or (call.given(3) and axes is None):
        return [(None,) * len(shape)]
    places = tuple(range(len(shape))) if axes is None else call.axes(axes, len(shape))
    if len(pads) != 2 * len(places):
        raise call.fail(f"{len(pads)} pads for {len(places)} axes, expected {2 * len(places)}")
    result = list(shape)
    for i, axis in enumerate(places):
        dim = result[axis] = total((result[axis], pads[i] + pads[i + len(places)]))
        if isinstance(dim, int) and dim < 0:
            raise call.fail(f"axis {axis} would have size {dim}")
    return [tuple(result)]


def _concat(call: Call) -> Shapes:
    shapes = [call.shape(i) for i in range(len(call.inputs))]
    known = [s for s in shapes if s is not None]
    if not known:
        return [None]
    rank = len(known[0])
    if any(len(s) != rank for s in known):
        raise call.fail("inputs differ in rank")
    axis = call.axis(call.attributes["axis"], rank)
    result = list(known[0])
    for shape in known[1:]:
        for i in range(rank):
            if i != axis:
                result[i] = call.same(result[i], shape[i], f"sizes of axis {i}")
    result[axis] = total(s[axis] for s in known) if len(known) == len(shapes) else None
    return [tuple(result)]


def _split(call: Call) -> Shapes:
    shape, sizes = call.shape(0), call.ints(1)
    if shape is None:
        return [None] * call.n_outputs
    axis = call.axis(call.attributes["axis"], len(shape))
    size = shape[axis]
    pieces = call.attributes.get("num_outputs", call.n_outputs)
    if sizes is not None:
        if len(sizes) != call.n_outputs:
            raise call.fail(f"split {list(sizes)} has {len(sizes)} sizes for {call.n_outputs} outputs")
        if isinstance(size, int) and sum(sizes) != size:
            raise call.fail(f"split {list(sizes)} adds up to {sum(sizes)}, axis {axis} has {size}")
        parts: list[Dimension] = list(sizes)
    elif call.given(1) or not isinstance(size, int) or pieces < 1:
        parts = [None] * call.n_outputs
    else:
        each = -(-size // pieces)
        parts = [min(each, max(size - each * i, 0)) for i in range(pieces)]
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def _depth_to_space(call: Call) -> Shapes:
    shape, block = call.expect_rank(0, 4), call.attributes["blocksize"]
    if shape is None:
        return [(None,) * 4]
    n, c, h, w = shape
    return [(n, _divided(call, c, block * block, "channels"), _times(h, block), _times(w, block))]


def _space_to_depth(call: Call) -> Shapes:
    shape, block = call.expect_rank(0, 4), call.attributes["blocksize"]
    if shape is None:
        return [(None,) * 4]
    n, c, h, w = shape
    return [(n, _times(c, block * block), _divided(call, h, block, "height"), _divided(call, w, block, "width"))]


def _times(dim: Dimension, factor: int) -> Dimension:
    return product((dim, factor))


def _divided(call: Call, dim: Dimension, divisor: int, what: str) -> Dimension:
    if isinstance(dim, int):
        if dim % divisor:
            raise call.fail(f"{what} {dim} are not a multiple of {divisor}")
        return dim // divisor
    return dim if divisor == 1 else None


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
        roi = call.constant(1)
        cropped = call.attributes["coordinate_transformation_mode"] == "tf_crop_and_resize"
        for i, (axis, scale) in enumerate(zip(axes, scales.reshape(-1), strict=True)):
            dim, extent = shape[axis], 1.0
            if cropped:
                if roi is None:
                    continue
                extent = float(roi.reshape(-1)[i + len(axes)]) - float(roi.reshape(-1)[i])
            if isinstance(dim, int):
                result[axis] = math.floor(np.float32(dim * extent) * np.float32(scale))
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


def _center_crop_pad(call: Call) -> Shapes:
    shape, wanted = call.shape(0), call.ints(1)
    if shape is None:
        return [None]
    axes = call.axes(call.attributes["axes"], len(shape))
    result = list(shape)
    for i, axis in enumerate(axes):
        result[axis] = None if wanted is None else wanted[i]
    return [tuple(result)]


def _shape(call: Call) -> Shapes:
    shape, attributes = call.shape(0), call.attributes
    return [(None,) if shape is None else (max(attributes["end"] - attributes["start"], 0),)]


def _range(call: Call) -> Shapes:
    start, limit, delta = (call.constant(i) for i in range(3))
    if start is None or limit is None or delta is None:
        return [(None,)]
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
        return [unknown_of_rank(call, position) if wanted is None else wanted]

    return shapes


def _constant(call: Call) -> Shapes:
    for name, value in call.attributes.items():
        if name == "value":
            return [tuple(np.shape(value))]
        if name.startswith("value_"):
            return [(len(value),) if isinstance(value, tuple) else ()]
    return [None]


def _one_hot(call: Call) -> Shapes:
    shape, depth = call.shape(0), call.ints(1)
    if shape is None:
        return [None]
    axis = call.axis(call.attributes["axis"], len(shape) + 1)
    return [(*shape[:axis], depth[0] if depth else None, *shape[axis:])]


def _top_k(call: Call) -> Shapes:
    shape, k = call.shape(0), call.ints(1)
    if shape is None:
        return [None, None]
    axis = call.axis(call.attributes["axis"], len(shape))
    size = shape[axis]
    if k and isinstance(size, int) and not 0 <= k[0] <= size:
        raise call.fail(f"k is {k[0]}, axis {axis} has {size}")
    result = (*shape[:axis], k[0] if k else None, *shape[axis + 1 :])
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
    sizes: Shape | None = image if image is not None else unknown_of_rank(call, 1)
    if sizes is None:
        return [None]
    if shape is None:
        return [(None, None, *sizes)]
    channels = None if block is None else _divided(call, shape[1], math.prod(block), "columns' rows")
    return [(shape[0], channels, *sizes)]


def _of_attribute(call: Call) -> Shapes:
    wanted: Any = call.attributes["shape"]
    return [tuple(wanted)]


MOVEMENT_SHAPES: Mapping[str, Callable[[Call], Shapes]] = {
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "Compress": _compress,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _of_shape(0),
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonMaxSuppression": lambda call: [(None, 3)],
    "NonZero": _non_zero,
    "OptionalHasElement": lambda call: [()],
    "OneHot": _one_hot,
    "Pad": _pad,
    "RandomNormal": _of_attribute,
    "RandomUniform": _of_attribute,
    "Range": _range,
    "Reshape": _reshape,
    "Resize": _resize,
    "SequenceLength": lambda call: [()],
    "Shape": _shape,
    "Size": lambda call: [()],
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
}
