"""Normalisation: softmax and its kin, batch, layer, group, instance and RMS normalisation, LRN, Lp."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.expr import Expr, call, cast, const, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    along,
    dtype_attribute,
    integer,
    integers,
    number,
    optional,
    required,
    working_dtype,
    zero,
)


def softmax(b: Builder, x: Tensor, axis: int, dtype: str, logarithm: bool = False) -> Tensor:
    """exp(x - max) / sum of the same, along one axis, as `dtype`; or its logarithm."""
    working = working_dtype(x.dtype)
    top = b.reduce(x, [axis], "max", dtype=working)
    if logarithm:
        total = b.reduce(b.map(lambda v, m: call("exp", v - m), x, top, dtype=working), [axis], "sum")
        return b.map(lambda v, m, s: v - m - call("log", s), x, top, total, dtype=dtype)
    powers = b.map(lambda v, m: call("exp", v - m), x, top, dtype=working)
    return b.map(lambda v, s: v / s, powers, b.reduce(powers, [axis], "sum"), dtype=dtype)


def _softmax(logarithm: bool) -> OperatorCompute:
    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        x = required(inputs, 0)
        return [softmax(b, x, integer(attributes, "axis"), x.dtype, logarithm)]

    return compute


# ---- statistics over axes -------------------------------------------------------------------------------------------


def _mean(b: Builder, x: Tensor, axes: Sequence[int], each: Callable[[Expr], Expr] | None = None) -> Tensor:
    """The mean along axes (kept with size 1) of each(x), in the dtype of computation."""
    count = max(math.prod(x.shape[axis] for axis in axes), 1)
    return b.reduce(x, axes, "sum", each, True, lambda total: total / count, working_dtype(x.dtype))


def _inverse_deviation(b: Builder, centred: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """1 / sqrt(mean of squares + epsilon)."""
    squares = _mean(b, centred, axes, lambda v: v * v)
    return b.map(lambda v: 1.0 / call("sqrt", v + epsilon), squares)


def _scaled(b: Builder, x: Tensor, factor: Tensor, scale: Tensor | None, bias: Tensor | None, dtype: str) -> Tensor:
    """x * factor * scale + bias."""

    def formula(v: Expr, f: Expr, *parameters: Expr) -> Expr:
        rest = list(parameters)
        y = v * f
        if scale is not None:
            y = y * cast(rest.pop(0), y.dtype)
        return y + cast(rest.pop(0), y.dtype) if bias is not None else y

    return b.map(formula, x, factor, *(t for t in (scale, bias) if t is not None), dtype=dtype)


def normalised(
    b: Builder, x: Tensor, axes: Sequence[int], epsilon: float, scale: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over `axes`; the result, the mean, the inverse deviation."""
    working = working_dtype(x.dtype)
    mean = _mean(b, x, axes)
    centred = b.map(lambda v, m: v - m, x, mean, dtype=working)
    inverse = _inverse_deviation(b, centred, axes, epsilon)
    return _scaled(b, centred, inverse, scale, bias, x.dtype), mean, inverse


def _layer(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, scale, bias = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    axes = range(integer(attributes, "axis"), x.rank)
    y, mean, inverse = normalised(b, x, axes, number(attributes, "epsilon"), scale, bias)
    dtype = dtype_attribute(attributes, "stash_type", "LayerNormalization")
    return [y, *(t if t.dtype == dtype else b.map(lambda v: cast(v, dtype), t, dtype=dtype) for t in (mean, inverse))]


def _rms(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, scale = required(inputs, 0), required(inputs, 1)
    axes = range(integer(attributes, "axis"), x.rank)
    inverse = _inverse_deviation(b, x, axes, number(attributes, "epsilon"))
    return [_scaled(b, x, inverse, scale, None, x.dtype)]


def _instance(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    scale, bias = (along(b, required(inputs, k), x.rank, 1) for k in (1, 2))
    return [normalised(b, x, range(2, x.rank), number(attributes, "epsilon"), scale, bias)[0]]


def _group(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, groups = required(inputs, 0), integer(attributes, "num_groups")
    scale, bias = (along(b, required(inputs, k), x.rank, 1) for k in (1, 2))
    grouped = b.reshape(x, [x.shape[0], groups, math.prod(x.shape[1:]) // groups])
    working = working_dtype(x.dtype)
    mean = _mean(b, grouped, [2])
    centred = b.map(lambda v, m: v - m, grouped, mean, dtype=working)
    unit = b.map(lambda v, f: v * f, centred, _inverse_deviation(b, centred, [2], number(attributes, "epsilon")))
    return [b.map(lambda v, s, c: v * s + c, b.reshape(unit, x.shape), scale, bias, dtype=x.dtype)]


def _mean_variance(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [normalised(b, required(inputs, 0), integers(attributes, "axes"), 1e-9, None, None)[0]]


def _batch(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x = required(inputs, 0)
    epsilon = number(attributes, "epsilon")
    if integer(attributes, "training_mode"):
        return _batch_training(b, inputs, attributes)
    scale, bias, mean, variance = (along(b, required(inputs, k), x.rank, 1) for k in range(1, 5))

    def formula(v: Expr, s: Expr, c: Expr, m: Expr, r: Expr) -> Expr:
        deviation = cast(call("sqrt", r + epsilon), v.dtype)
        return (v - cast(m, v.dtype)) / deviation * cast(s, v.dtype) + cast(c, v.dtype)

    return [b.map(formula, x, scale, bias, mean, variance, dtype=x.dtype)]


def _batch_training(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """With the statistics of the batch itself, and the running ones moved towards them."""
    x, scale, bias = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    axes = [axis for axis in range(x.rank) if axis != 1]
    columns = [along(b, t, x.rank, 1) for t in (scale, bias)]
    y, mean, _ = normalised(b, x, axes, number(attributes, "epsilon"), columns[0], columns[1])
    variance = _mean(b, b.map(lambda v, m: v - m, x, mean, dtype=mean.dtype), axes, lambda v: v * v)
    momentum = number(attributes, "momentum")

    def moved(old: Tensor, new: Tensor) -> Tensor:
        def blend(v: Expr, w: Expr) -> Expr:
            return v * momentum + cast(w, v.dtype) * (1 - momentum)

        return b.map(blend, old, b.reshape(new, old.shape), dtype=old.dtype)

    return [y, moved(required(inputs, 3), mean), moved(required(inputs, 4), variance)]


# ---- norms ----------------------------------------------------------------------------------------------------------


def _lp(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """x / its Lp norm along an axis, and 0 where the norm is 0."""
    x, axis = required(inputs, 0), integer(attributes, "axis")
    working = working_dtype(x.dtype)
    if integer(attributes, "p") == 2:
        norm = b.reduce(x, [axis], "sum", lambda v: v * v, True, lambda total: call("sqrt", total), working)
    else:
        norm = b.reduce(x, [axis], "sum", lambda v: call("abs", v), True, None, working)
    return [b.map(lambda v, n: select(n.eq(0), zero(v), v / n), x, norm, dtype=x.dtype)]


def _local_response(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """x / (bias + alpha / size * sum of squares of the `size` channels around) ** beta."""
    x, size = required(inputs, 0), integer(attributes, "size")
    bias, share, beta = number(attributes, "bias"), number(attributes, "alpha") / size, number(attributes, "beta")

    def square(*i: Expr) -> Expr:
        n, c, *rest = i
        value = b.load_padded(x, [n, c + rest[-1] - (size - 1) // 2, *rest[:-1]], 0)
        return value * value

    squares = b.compute(x.shape, square, [size], "sum", working_dtype(x.dtype))
    return [
        b.map(
            lambda v, s: v / call("pow", s * share + bias, const(beta, s.dtype)),
            x,
            squares,
            dtype=x.dtype,
        )
    ]


NORMALISATION: Mapping[str, OperatorCompute] = {
    "BatchNormalization": _batch,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "LRN": _local_response,
    "LayerNormalization": _layer,
    "LogSoftmax": _softmax(logarithm=True),
    "LpNormalization": _lp,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": _rms,
    "Softmax": _softmax(logarithm=False),
}
"""Operator -> compute."""
