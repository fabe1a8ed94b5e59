"""Result shapes of operators that move elements: views, transposition, slicing, padding, joining and splitting."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewrite_engine.operators.calls import Call, Shapes, product, quotient, total
from rewrite_engine.operators.types import Dimension


def _reshape(call: Call) -> Shapes:
    shape, wanted = call.shape(0), call.ints(1)
    if wanted is None:
        return [call.unknown_of_rank(1)]
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
    shape, rank = call.shape(0), call.unknown_of_rank(1)
    return [None if shape is None or rank is None else (None,) * max(len(shape), len(rank))]


def _tile(call: Call) -> Shapes:
    shape, repeats = call.shape(0), call.ints(1)
    if shape is None:
        return [call.unknown_of_rank(1)]
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
        known = starts if starts is not None else ends if ends is not None else call.unknown_of_rank(1)
        axes = tuple(range(len(shape if known is None else known)))
    for position, given in ((1, starts), (2, ends), (4, steps)):
        if given is not None:
            call.counted(call.label(position), given, len(axes))
    places, result = call.axes(axes, len(shape)), list(shape)
    if starts is None or ends is None or (call.given(4) and steps is None):
        return [tuple(None if axis in places else dim for axis, dim in enumerate(shape))]
    for axis, start, end, step in zip(places, starts, ends, steps or (1,) * len(axes), strict=True):
        if step == 0:
            raise call.fail("a step is 0")
        result[axis] = _sliced(shape[axis], start, end, step)
    return [tuple(result)]


def _sliced(size: Dimension, start: int, end: int, step: int) -> Dimension:
    if not isinstance(size, int):
        return size if start == 0 and step == 1 and end >= 2**31 - 1 else None
    first, last, step = slice(max(start, -size), end, step).indices(size)
    return max(-((first - last) // step), 0)


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
    elif pieces < call.n_outputs:
        raise call.fail(f"num_outputs is {pieces} for {call.n_outputs} outputs")
    elif call.given(1) or not isinstance(size, int):
        parts = [None] * call.n_outputs
    else:
        each = -(-size // pieces)
        parts = [min(each, max(size - each * i, 0)) for i in range(call.n_outputs)]
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def _depth_to_space(call: Call) -> Shapes:
    shape, block = call.expect_rank(0, 4), call.attributes["blocksize"]
    if shape is None:
        return [(None,) * 4]
    n, c, h, w = shape
    return [(n, call.divided(c, block * block, "channels"), _times(h, block), _times(w, block))]


def _space_to_depth(call: Call) -> Shapes:
    shape, block = call.expect_rank(0, 4), call.attributes["blocksize"]
    if shape is None:
        return [(None,) * 4]
    n, c, h, w = shape
    return [(n, _times(c, block * block), call.divided(h, block, "height"), call.divided(w, block, "width"))]


def _times(dim: Dimension, factor: int) -> Dimension:
    return product((dim, factor))


def _center_crop_pad(call: Call) -> Shapes:
    shape, wanted = call.shape(0), call.ints(1)
    if shape is None:
        return [None]
    axes = call.axes(call.attributes["axes"], len(shape))
    result = list(shape)
    if wanted is not None:
        call.counted(call.label(1), wanted, len(axes))
    for i, axis in enumerate(axes):
        result[axis] = None if wanted is None else wanted[i]
    return [tuple(result)]


MOVEMENT: Mapping[str, Callable[[Call], Shapes]] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
