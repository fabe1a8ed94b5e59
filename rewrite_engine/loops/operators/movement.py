"""Movement: each output element is a copy of one input element, or a fill; index maps that readers inline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rewrite_engine.loops.build import Builder, Tensor, Unsupported, broadcast_indices
from rewrite_engine.loops.expr import Expr, cast, const, maximum, minimum, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    axes_from_front,
    host_integer,
    host_integers,
    inside,
    integer,
    integers,
    optional,
    replaced,
    required,
    text,
)

# ---- the same elements in the same order ----------------------------------------------------------------------------


def _reshape(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    shape = list(host_integers(b, required(inputs, 1)))
    if not integer(attributes, "allowzero"):
        shape = [x.shape[axis] if n == 0 else n for axis, n in enumerate(shape)]
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = x.size // max(known, 1)
    return [b.reshape(x, shape)]


def _flatten(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, axis = required(inputs, 0), integer(attributes, "axis")
    return [b.reshape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])]


def _squeeze(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, operand = required(inputs, 0), optional(inputs, 1)
    if operand is None:
        axes = [axis for axis, n in enumerate(x.shape) if n == 1]
    else:
        axes = axes_from_front(host_integers(b, operand), x.rank)
    return [b.reshape(x, [n for axis, n in enumerate(x.shape) if axis not in axes])]


def _unsqueeze(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, axes = required(inputs, 0), host_integers(b, required(inputs, 1))
    rank = x.rank + len(axes)
    ones = axes_from_front(axes, rank)
    sizes = iter(x.shape)
    return [b.reshape(x, [1 if axis in ones else next(sizes) for axis in range(rank)])]


# ---- other orders ---------------------------------------------------------------------------------------------------


def _transpose(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [b.transpose(required(inputs, 0), integers(attributes, "perm"))]


def _expand(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    shape = np.broadcast_shapes(x.shape, host_integers(b, required(inputs, 1)))
    return [b.move(x, shape, lambda *i: broadcast_indices(x, shape, i))]


def _tile(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, repeats = required(inputs, 0), host_integers(b, required(inputs, 1))
    shape = [n * count for n, count in zip(x.shape, repeats, strict=True)]
    return [b.move(x, shape, lambda *i: [v % max(n, 1) for v, n in zip(i, x.shape, strict=True)])]


def _slice(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    starts, ends = host_integers(b, required(inputs, 1)), host_integers(b, required(inputs, 2))
    axes_operand, steps_operand = optional(inputs, 3), optional(inputs, 4)
    axes = range(len(starts)) if axes_operand is None else axes_from_front(host_integers(b, axes_operand), x.rank)
    steps = [1] * len(starts) if steps_operand is None else host_integers(b, steps_operand)
    kept = [range(n) for n in x.shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        kept[axis] = range(*slice(start, end, step).indices(x.shape[axis]))
    return [b.move(x, [len(r) for r in kept], lambda *i: [v * r.step + r.start for v, r in zip(i, kept, strict=True)])]


def _concat(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [b.concat([required(inputs, i) for i in range(len(inputs))], integer(attributes, "axis"))]


def _split(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, operand, axis = required(inputs, 0), optional(inputs, 1), integer(attributes, "axis")
    if operand is not None:
        sizes = list(host_integers(b, operand))
    else:
        count = integer(attributes, "num_outputs")
        part = -(-x.shape[axis] // count)
        sizes = [part] * (count - 1) + [x.shape[axis] - part * (count - 1)]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return [_part(b, x, axis, start, size) for start, size in zip(starts, sizes, strict=True)]


def _part(b: Builder, x: Tensor, axis: int, start: int, size: int) -> Tensor:
    shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]
    return b.move(x, shape, lambda *i: replaced(i, axis, i[axis] + start))


def _depth_to_space(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, block = required(inputs, 0), integer(attributes, "blocksize")
    batch, depth, height, width = x.shape
    depth //= block * block
    if text(attributes, "mode") == "DCR":
        blocks, order = [batch, block, block, depth, height, width], [0, 3, 4, 1, 5, 2]
    else:
        blocks, order = [batch, depth, block, block, height, width], [0, 1, 4, 2, 5, 3]
    return [b.reshape(b.transpose(b.reshape(x, blocks), order), [batch, depth, height * block, width * block])]


def _space_to_depth(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, block = required(inputs, 0), integer(attributes, "blocksize")
    batch, depth, height, width = x.shape
    height, width = height // block, width // block
    blocks = b.reshape(x, [batch, depth, height, block, width, block])
    order = [0, 3, 5, 1, 2, 4] if attributes.get("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    return [b.reshape(b.transpose(blocks, order), [batch, depth * block * block, height, width])]


def _reverse_sequence(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, lengths = required(inputs, 0), required(inputs, 1)
    time, batch = integer(attributes, "time_axis"), integer(attributes, "batch_axis")

    b.require_positions(lengths, 0, x.shape[time])

    def source(*i: Expr) -> Sequence[Expr]:
        length = cast(lengths[i[batch]], "index")
        return replaced(i, time, select(i[time] < length, length - i[time] - 1, i[time]))

    return [b.move(x, x.shape, source)]


# ---- fills ----------------------------------------------------------------------------------------------------------


def _edge(position: Expr, size: int) -> Expr:
    return minimum(maximum(position, 0), size - 1)


def _wrap(position: Expr, size: int) -> Expr:
    return position % size


def _reflect(position: Expr, size: int) -> Expr:
    if size == 1:
        return const(0, "index")
    period = 2 * (size - 1)
    wrapped = position % period
    return minimum(wrapped, period - wrapped)


_BORDERS: Mapping[str, Callable[[Expr, int], Expr]] = {"edge": _edge, "reflect": _reflect, "wrap": _wrap}


def _pad(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, amounts = required(inputs, 0), host_integers(b, required(inputs, 1))
    value, axes_operand, mode = optional(inputs, 2), optional(inputs, 3), text(attributes, "mode")
    axes = range(x.rank) if axes_operand is None else axes_from_front(host_integers(b, axes_operand), x.rank)
    before, after = [0] * x.rank, [0] * x.rank
    for position, axis in enumerate(axes):
        before[axis], after[axis] = amounts[position], amounts[position + len(axes)]
    shape = [n + low + high for n, low, high in zip(x.shape, before, after, strict=True)]
    if mode != "constant" and 0 in x.shape and 0 not in shape:
        raise Unsupported(f"Pad with mode {mode} of an empty tensor")

    def source(*i: Expr) -> list[Expr]:
        return [v - low for v, low in zip(i, before, strict=True)]

    if mode == "constant":
        fill = const(0, x.dtype) if value is None else value[[0] * value.rank]
        return [b.compute(shape, lambda *i: inside_or(x, source(*i), fill))]
    border = _BORDERS[mode]
    return [b.move(x, shape, lambda *i: [border(v, n) for v, n in zip(source(*i), x.shape, strict=True)])]


def inside_or(x: Tensor, indices: Sequence[Expr], fill: Expr) -> Expr:
    """The element of x at `indices`, unchanged, or `fill` outside of x."""
    return select(inside(x, indices), x[indices], fill)


def _center_crop_pad(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, sizes = required(inputs, 0), host_integers(b, required(inputs, 1))
    shape, offsets = list(x.shape), [0] * x.rank
    for axis, size in zip(integers(attributes, "axes"), sizes, strict=True):
        shape[axis] = size
        surplus = x.shape[axis] - size
        offsets[axis] = surplus // 2 if surplus >= 0 else -(-surplus // 2)
    fill = const(0, x.dtype)
    return [b.compute(shape, lambda *i: inside_or(x, [v + o for v, o in zip(i, offsets, strict=True)], fill))]


def _trilu(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, operand, upper = required(inputs, 0), optional(inputs, 1), integer(attributes, "upper")
    diagonal = 0 if operand is None else host_integer(b, operand)

    def element(*i: Expr) -> Expr:
        above = i[-1] - i[-2]
        kept = const(diagonal, "index") <= above if upper else above <= diagonal
        return select(kept, x[i], const(0, x.dtype))

    return [b.compute(x.shape, element)]


def _dropout(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """At inference: the data, and a mask that keeps everything."""
    x, ratio, training = required(inputs, 0), optional(inputs, 1), optional(inputs, 2)
    if training is not None and bool(b.value(training)) and (ratio is None or float(b.value(ratio)) != 0):
        raise Unsupported("Dropout in training mode, which draws random numbers")
    return [b.move(x, x.shape, lambda *i: i), b.compute(x.shape, lambda *i: const(True, "bool"))]


MOVEMENT: Mapping[str, OperatorCompute] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Dropout": _dropout,
    "Expand": _expand,
    "Flatten": _flatten,
    "Pad": _pad,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
"""Operator -> compute."""
