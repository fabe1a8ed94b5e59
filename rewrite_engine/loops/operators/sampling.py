"""Reads at computed positions: GridSample, RoiAlign, DeformConv, and AffineGrid that makes the positions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.expr import Expr, add, call, cast, const, lor, maximum, minimum, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    clamp,
    host_integers,
    integer,
    integers,
    number,
    optional,
    required,
    text,
    working_dtype,
    zero,
)
from rewrite_engine.loops.operators.contractions import add_bias, window_sizes


def interpolated(
    b: Builder,
    x: Tensor,
    lead: Sequence[Expr],
    position: Sequence[Expr],
    join: Callable[[Expr, Expr], Expr] = add,
) -> Expr:
    """x at `lead` and a fractional position in its last axes: the elements around, weighed linearly; 0 outside."""
    base = [call("floor", p) for p in position]
    terms = []
    for corner in itertools.product((0, 1), repeat=len(position)):
        indices = [cast(f + float(bit), "index") for f, bit in zip(base, corner, strict=True)]
        value = b.load_padded(x, [*lead, *indices], 0)
        for p, f, bit in zip(position, base, corner, strict=True):
            share = p - f
            value = value * cast(share if bit else 1.0 - share, value.dtype)
        terms.append(value)
    return reduce(join, terms)


# ---- GridSample -----------------------------------------------------------------------------------------------------


def _reflected(v: Expr, size: int, align: bool) -> Expr:
    """The position mirrored at the borders until it is within."""
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    span = high - low
    if span == 0:
        return zero(v)
    distance = call("abs", v - low)
    folded = call("mod", distance, 2 * span)
    return clamp(minimum(folded, 2 * span - folded) + low, 0, size - 1)


def _grid_sample(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, grid = required(inputs, 0), required(inputs, 1)
    mode, padding = text(attributes, "mode"), text(attributes, "padding_mode")
    align, spatial = bool(integer(attributes, "align_corners")), x.rank - 2
    if mode == "cubic":
        return _grid_sample_cubic(b, x, grid, padding, align)

    def coordinate(i: Sequence[Expr], axis: int) -> Expr:
        return _grid_coordinate(grid, i, axis, x.shape[2 + axis], align, spatial)

    def element(*i: Expr) -> Expr:
        position = [_bordered(coordinate(i, d), x.shape[2 + d], padding, align) for d in range(spatial)]
        if mode == "nearest":
            indices = [cast(call("round", p), "index") for p in position]
            return cast(b.load_padded(x, [*i[:2], *indices], 0), x.dtype)
        return cast(interpolated(b, x, i[:2], position), x.dtype)

    return [b.compute([*x.shape[:2], *grid.shape[1:-1]], element)]


def _grid_coordinate(grid: Tensor, i: Sequence[Expr], axis: int, size: int, align: bool, spatial: int) -> Expr:
    """The position along a spatial axis, from -1 .. 1; the grid's last axis holds the axes in reverse."""
    v = grid.lift([i[0], *i[2:], spatial - 1 - axis])
    return (v + 1.0) * ((size - 1) / 2) if align else ((v + 1.0) * size - 1.0) * 0.5


def _bordered(v: Expr, size: int, padding: str, align: bool) -> Expr:
    if padding == "border":
        return clamp(v, 0, size - 1)
    return _reflected(v, size, align) if padding == "reflection" else v


def _grid_sample_cubic(b: Builder, x: Tensor, grid: Tensor, padding: str, align: bool) -> list[Tensor]:
    """Over the 4 elements around along each of two axes; each of them is padded, not the position."""
    spatial = x.rank - 2
    if spatial != 2:
        raise Unsupported(f"GridSample with cubic interpolation of {spatial} spatial axes")

    def tap(*i: Expr) -> Expr:
        outer, taps = i[:-2], i[-2:]
        value_at, weights = [], []
        for d in range(2):
            size = x.shape[2 + d]
            v = _grid_coordinate(grid, outer, d, size, align, spatial)
            base = call("floor", v)
            offset = cast(taps[d], v.dtype) - 1.0
            value_at.append(cast(_bordered(base + offset, size, padding, align), "index"))
            weights.append(_cubic_weight(call("abs", v - base - offset)))
        value = b.load_padded(x, [*outer[:2], *value_at], 0)
        return value * cast(weights[0] * weights[1], value.dtype)

    return [b.compute([*x.shape[:2], *grid.shape[1:-1]], tap, [4, 4], "sum", x.dtype)]


def _cubic_weight(distance: Expr, a: float = -0.75) -> Expr:
    near = (distance * (a + 2) - (a + 3)) * distance * distance + 1.0
    far = ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a
    return select(distance <= 1.0, near, far)


# ---- AffineGrid -----------------------------------------------------------------------------------------------------


def _affine_grid(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    theta, size = required(inputs, 0), host_integers(b, required(inputs, 1))
    align, spatial = bool(integer(attributes, "align_corners")), len(size) - 2
    dtype = working_dtype(theta.dtype)

    def unit(index: Expr, n: int) -> Expr:
        v = cast(index, dtype)
        if not align:
            return (v * 2.0 + 1.0) / float(n) - 1.0
        return v * (2 / (n - 1)) - 1.0 if n > 1 else const(-1, dtype)

    def element(*i: Expr) -> Expr:
        n, row = i[0], i[-1]
        terms = [theta.lift([n, row, d]) * unit(i[spatial - d], size[1 + spatial - d]) for d in range(spatial)]
        return cast(reduce(add, [*terms, theta.lift([n, row, spatial])]), theta.dtype)

    return [b.compute([size[0], *size[2:], spatial], element)]


# ---- RoiAlign -------------------------------------------------------------------------------------------------------


def _roi_align(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, rois, batch = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    mode, samples = text(attributes, "mode"), integer(attributes, "sampling_ratio")
    if samples <= 0:
        raise Unsupported("RoiAlign with a sampling_ratio that follows the size of each region")
    bins = (integer(attributes, "output_height"), integer(attributes, "output_width"))
    half_pixel = text(attributes, "coordinate_transformation_mode") == "half_pixel"
    scale, sizes = number(attributes, "spatial_scale"), x.shape[2:]
    b.require_positions(batch, 0, x.shape[0] - 1)

    def corner(r: Expr, k: int) -> Expr:
        return rois.lift([r, k]) * scale - (0.5 if half_pixel else 0.0)

    def position(r: Expr, axis: int, cell: Expr, sample: Expr) -> Expr:
        start, end = corner(r, 1 - axis), corner(r, 3 - axis)  # a region is x1, y1, x2, y2
        length = end - start if half_pixel else maximum(end - start, 1.0)
        step = cast(cell, start.dtype) + (cast(sample, start.dtype) + 0.5) / float(samples)
        return start + length / float(bins[axis]) * step

    def tap(r: Expr, c: Expr, *rest: Expr) -> Expr:
        places = [position(r, axis, rest[axis], rest[2 + axis]) for axis in range(2)]
        outside = lor(*(lor(p < -1.0, p > float(n)) for p, n in zip(places, sizes, strict=True)))
        clamped = [clamp(p, 0, n - 1) for p, n in zip(places, sizes, strict=True)]
        value = interpolated(b, x, [cast(batch[r], "index"), c], clamped, maximum if mode == "max" else add)
        return select(outside, zero(value), value)

    def average(total: Expr, *_: Expr) -> Expr:
        return total / float(samples * samples)

    shape, combine = [rois.shape[0], x.shape[1], *bins], "max" if mode == "max" else "sum"
    return [b.compute(shape, tap, [samples, samples], combine, x.dtype, None if mode == "max" else average)]


# ---- DeformConv -----------------------------------------------------------------------------------------------------


def _deform_conv(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """A convolution whose taps are moved by `offset` (per group of channels, tap and axis) and weighed by `mask`."""
    x, w, offset = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    bias, mask = optional(inputs, 3), optional(inputs, 4)
    groups, offset_groups = integer(attributes, "group"), integer(attributes, "offset_group")
    strides, dilations, pads = (integers(attributes, name) for name in ("strides", "dilations", "pads"))
    (filters, depth), kernel, spatial = w.shape[:2], w.shape[2:], x.rank - 2
    counts = window_sizes(attributes, x.shape[2:], kernel)
    offsets = b.reshape(offset, [x.shape[0], offset_groups, *kernel, spatial, *counts])
    masks = None if mask is None else b.reshape(mask, [x.shape[0], offset_groups, *kernel, *counts])

    def product(*i: Expr) -> Expr:
        n, m, *rest = i
        windows, c, taps = rest[:spatial], rest[spatial], rest[spatial + 1 :]
        channel = m // (filters // groups) * depth + c
        part = channel // (x.shape[1] // offset_groups)
        position = []
        for d in range(spatial):
            moved = offsets.lift([n, part, *taps, d, *windows])
            position.append(moved + cast(windows[d] * strides[d] + taps[d] * dilations[d] - pads[d], moved.dtype))
        value = interpolated(b, x, [n, channel], position)
        if masks is not None:
            value = value * masks.lift([n, part, *taps, *windows])
        return value * w.lift([m, c, *taps])

    shape = [x.shape[0], filters, *counts]
    y = b.compute(shape, product, [depth, *kernel], "sum", working_dtype(x.dtype))
    return [add_bias(b, y, bias, x.dtype)]


SAMPLING: Mapping[str, OperatorCompute] = {
    "AffineGrid": _affine_grid,
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
"""Operator -> compute."""
