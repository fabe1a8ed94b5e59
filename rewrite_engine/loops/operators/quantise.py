"""Quantisation: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and the QLinear operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.dtypes import is_float, is_integer, limits
from rewrite_engine.loops.expr import Expr, call, cast, maximum, minimum
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    clamp,
    dtype_attribute,
    integer,
    optional,
    required,
)
from rewrite_engine.loops.operators.contractions import convolve, matmul, per_axis, shifted


def quantised(v: Expr, scale: Expr, zero_point: Expr | None, dtype: str, saturate: bool = True) -> Expr:
    """v / scale + zero_point in `dtype`: rounded half to even and clamped for integers, converted for small floats."""
    ratio = v / scale
    if not is_integer(dtype):
        return cast(ratio, dtype, saturate)
    rounded = call("round", ratio)
    if zero_point is not None:
        rounded = rounded + cast(zero_point, rounded.dtype)
    return cast(cast(clamp(rounded, *limits(dtype)), "int32"), dtype)


def _parameter(parameter: Tensor, attributes: Attributes, i: Sequence[Expr]) -> Expr:
    """The element of a scale or zero point that goes with the element at i: per tensor, per axis, or per block."""
    if parameter.size == 1 and parameter.rank <= 1:
        return parameter[[0] * parameter.rank]
    axis, block = integer(attributes, "axis"), integer(attributes, "block_size")
    if block:
        return parameter[[index // block if position == axis else index for position, index in enumerate(i)]]
    return parameter[i[axis]]


def _quantize_linear(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, scale, zero_point = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    if zero_point is not None:
        dtype = zero_point.dtype
    elif integer(attributes, "output_dtype"):
        dtype = dtype_attribute(attributes, "output_dtype", "QuantizeLinear")
    else:
        dtype = "uint8"
    saturate = bool(integer(attributes, "saturate"))

    def element(*i: Expr) -> Expr:
        zero = _parameter(zero_point, attributes, i) if zero_point is not None else None
        step = cast(_parameter(scale, attributes, i), "float32")
        return quantised(cast(x[i], "float32"), step, zero, dtype, saturate)

    return [b.compute(x.shape, element)]


def _dequantize_linear(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, scale, zero_point = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    asked = integer(attributes, "output_dtype")
    dtype = dtype_attribute(attributes, "output_dtype", "DequantizeLinear") if asked else scale.dtype
    working = "float32" if is_float(x.dtype) else "int32"

    def element(*i: Expr) -> Expr:
        value = cast(x[i], working)
        if zero_point is not None:
            value = value - cast(_parameter(zero_point, attributes, i), working)
        return cast(cast(value, "float32") * cast(_parameter(scale, attributes, i), "float32"), dtype)

    return [b.compute(x.shape, element)]


def _dynamic_quantize_linear(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """To uint8, with the range of the data (and 0) on 0 .. 255."""
    x = required(inputs, 0)
    axes = range(x.rank)
    high = b.reduce(x, axes, "max", None, False, lambda v: maximum(v, 0.0))
    low = b.reduce(x, axes, "min", None, False, lambda v: minimum(v, 0.0))
    scale = b.map(lambda top, bottom: (top - bottom) / 255.0, high, low)

    def zero(bottom: Expr, s: Expr) -> Expr:
        return cast(cast(call("round", clamp(-bottom / s, 0, 255)), "int32"), "uint8")

    zero_point = b.map(zero, low, scale)
    return [b.map(lambda v, s, z: quantised(v, s, z, "uint8"), x, scale, zero_point), scale, zero_point]


# ---- QLinear operators ----------------------------------------------------------------------------------------------


def _requantised(b: Builder, total: Tensor, scales: tuple[Tensor, Tensor], scale: Tensor, zero_point: Tensor) -> Tensor:
    """An int32 sum of products, from the scales of its factors to the scale of the result."""

    def element(v: Expr, s: Expr, t: Expr, r: Expr, z: Expr) -> Expr:
        factor = cast(s, "float32") * cast(t, "float32")
        return quantised(cast(v, "float32") * factor, cast(r, "float32"), z, zero_point.dtype)

    return b.map(element, total, *scales, scale, zero_point, dtype=zero_point.dtype)


def _check_whole(op: str, *codes: Tensor) -> None:
    """Codes are summed as whole numbers; what sums of eight-bit floats are, ONNX does not say."""
    for tensor in codes:
        if not is_integer(tensor.dtype):
            raise Unsupported(f"{op} of {tensor.dtype}")


def _qlinear_matmul(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero_point = (required(inputs, k) for k in range(8))
    _check_whole("QLinearMatMul", x, y, zero_point)
    total = matmul(
        b,
        shifted(b, x, per_axis(b, x_zero, x.rank, -2)),
        shifted(b, y, per_axis(b, y_zero, y.rank, -1)),
    )
    left, right = per_axis(b, x_scale, total.rank, -2), per_axis(b, y_scale, total.rank, -1)
    return [_requantised(b, total, (left, right), scale, zero_point)]


def _qlinear_conv(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero_point = (required(inputs, k) for k in range(8))
    bias = optional(inputs, 8)
    _check_whole("QLinearConv", x, w, zero_point)
    total = convolve(b, shifted(b, x, x_zero), shifted(b, w, per_axis(b, w_zero, w.rank, 0)), attributes, "int32")
    if bias is not None:
        total = b.map(lambda v, c: v + c, total, per_axis(b, bias, total.rank, 1))
    return [_requantised(b, total, (x_scale, per_axis(b, w_scale, total.rank, 1)), scale, zero_point)]


QUANTISE: Mapping[str, OperatorCompute] = {
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": _dynamic_quantize_linear,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize_linear,
}
"""Operator -> compute."""
