"""Pointwise operators: each output element is a formula of one element of every operand, under NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.dtypes import PACKED, is_float, numpy_dtype
from rewrite_engine.loops.expr import (
    Expr,
    add,
    bitcast,
    call,
    cast,
    div,
    eq,
    land,
    le,
    lor,
    lt,
    maximum,
    minimum,
    mul,
    select,
    sub,
)
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    clamp,
    dtype_attribute,
    integer,
    number,
    optional,
    required,
    text,
    zero,
)

Formula = Callable[[Expr, Attributes], Expr]


# ---- formulas of one element ----------------------------------------------------------------------------------------


def sigmoid(v: Expr) -> Expr:
    """1 / (1 + exp(-v))."""
    return 1.0 / (1.0 + call("exp", -v))


def softplus(v: Expr) -> Expr:
    """log(1 + exp(v)), in the form that neither overflows nor loses small values."""
    return maximum(v, zero(v)) + call("log1p", call("exp", -call("abs", v)))


def relu(v: Expr, attributes: Attributes) -> Expr:
    """max(v, 0)."""
    return maximum(v, zero(v))


def _elu(v: Expr, attributes: Attributes) -> Expr:
    return select(v < 0, (call("exp", v) - 1) * number(attributes, "alpha"), v)


def _celu(v: Expr, attributes: Attributes) -> Expr:
    alpha = number(attributes, "alpha")
    return maximum(v, zero(v)) + minimum((call("exp", v / alpha) - 1) * alpha, zero(v))


def _selu(v: Expr, attributes: Attributes) -> Expr:
    negative = (call("exp", v) - 1) * number(attributes, "alpha")
    return select(v <= 0, negative, v) * number(attributes, "gamma")


def _leaky_relu(v: Expr, attributes: Attributes) -> Expr:
    return select(v < 0, v * number(attributes, "alpha"), v)


def _thresholded_relu(v: Expr, attributes: Attributes) -> Expr:
    return select(v <= number(attributes, "alpha"), zero(v), v)


def _hard_sigmoid(v: Expr, attributes: Attributes) -> Expr:
    return clamp(v * number(attributes, "alpha") + number(attributes, "beta"), 0, 1)


def _hard_swish(v: Expr, attributes: Attributes) -> Expr:
    return v * clamp(v * (1 / 6) + 0.5, 0, 1)


def _shrink(v: Expr, attributes: Attributes) -> Expr:
    bias, lambd = number(attributes, "bias"), number(attributes, "lambd")
    w = v if is_float(v.dtype) else cast(v, "float64")
    return cast(select(w < -lambd, w + bias, select(w > lambd, w - bias, zero(w))), v.dtype)


def _gelu(v: Expr, attributes: Attributes) -> Expr:
    if text(attributes, "approximate") == "tanh":
        bell = call("tanh", (v + v * v * v * 0.044715) * math.sqrt(2 / math.pi))
    else:
        bell = call("erf", v * math.sqrt(0.5))
    return v * 0.5 * (1.0 + bell)


def _named(function: str) -> Formula:
    return lambda v, attributes: call(function, v)


_FUNCTIONS = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log"),
    *("Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh"),
)
"""Operators that are one function of the same name, in lower case."""

FORMULAS: Mapping[str, Formula] = {
    **{name: _named(name.lower()) for name in _FUNCTIONS},
    "BitwiseNot": _named("bit_not"),
    "Celu": _celu,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Identity": lambda v, attributes: v,
    "LeakyRelu": _leaky_relu,
    "Mish": lambda v, attributes: v * call("tanh", softplus(v)),
    "Neg": lambda v, attributes: -v,
    "Not": lambda v, attributes: ~v,
    "Reciprocal": lambda v, attributes: 1.0 / v,
    "Relu": relu,
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": lambda v, attributes: sigmoid(v),
    "Softplus": lambda v, attributes: softplus(v),
    "Softsign": lambda v, attributes: v / (1.0 + call("abs", v)),
    "ThresholdedRelu": _thresholded_relu,
}
"""Operators of one operand whose result has its dtype."""


def _unary(formula: Formula) -> OperatorCompute:
    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        return [b.map(lambda v: formula(v, attributes), required(inputs, 0))]

    return compute


def _is_nan(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [b.map(lambda v: call("isnan", v), required(inputs, 0), dtype="bool")]


def _is_inf(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    positive, negative = integer(attributes, "detect_positive"), integer(attributes, "detect_negative")

    def infinite(v: Expr) -> Expr:
        found = call("isinf", v)
        if not positive:
            found = land(found, v < 0)
        return found if negative else land(found, v > 0)

    return [b.map(infinite, required(inputs, 0), dtype="bool")]


# ---- two operands and more ------------------------------------------------------------------------------------------

Pair = Callable[[Expr, Expr], Expr]


def _binary(formula: Pair, dtype: str | None = None) -> OperatorCompute:
    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        return [b.map(formula, required(inputs, 0), required(inputs, 1), dtype=dtype)]

    return compute


def _call_pair(function: str) -> Pair:
    return lambda u, v: call(function, u, v)


def _power(u: Expr, v: Expr) -> Expr:
    """u ** v in the base's type; a float exponent of an integer base is computed in float64."""
    if u.dtype == v.dtype:
        return call("pow", u, v)
    working = u.dtype if is_float(u.dtype) or not is_float(v.dtype) else "float64"
    return cast(call("pow", cast(u, working), cast(v, working)), u.dtype)


def _modulo(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    function = "fmod" if integer(attributes, "fmod") else "mod"
    return _binary(_call_pair(function))(b, inputs, attributes)


def _bit_shift(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    function = "shift_left" if text(attributes, "direction") == "LEFT" else "shift_right"
    return _binary(_call_pair(function))(b, inputs, attributes)


def _where(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    condition, then, otherwise = (required(inputs, i) for i in range(3))
    return [b.map(select, condition, then, otherwise, dtype=then.dtype)]


def _fold(formula: Pair, finish: Callable[[Expr, int], Expr] | None = None) -> OperatorCompute:
    """An operator of any number of operands, combined from the left."""

    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        operands = [required(inputs, i) for i in range(len(inputs))]

        def combined(*values: Expr) -> Expr:
            total = reduce(formula, values)
            return finish(total, len(values)) if finish is not None else total

        return [b.map(combined, *operands)]

    return compute


def _clip(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    low, high = optional(inputs, 1), optional(inputs, 2)

    def clipped(v: Expr, *limits: Expr) -> Expr:
        if low is not None:
            v = maximum(v, limits[0])
        return minimum(v, limits[-1]) if high is not None else v

    return [b.map(clipped, required(inputs, 0), *(t for t in (low, high) if t is not None))]


def _prelu(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [b.map(lambda u, v: select(u < 0, u * v, u), required(inputs, 0), required(inputs, 1))]


# ---- conversions ----------------------------------------------------------------------------------------------------


def _cast(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [_converted(b, required(inputs, 0), dtype_attribute(attributes, "to", "Cast"), attributes)]


def _cast_like(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [_converted(b, required(inputs, 0), required(inputs, 1).dtype, attributes)]


def _bit_cast(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    x, dtype = required(inputs, 0), dtype_attribute(attributes, "to", "BitCast")
    if numpy_dtype(dtype).itemsize != numpy_dtype(x.dtype).itemsize or {dtype, x.dtype} & PACKED:
        raise Unsupported(f"BitCast of {x.dtype} to {dtype}: they do not have the same width in memory")
    return [b.compute(x.shape, lambda *i: bitcast(x[i], dtype))]


def _converted(b: Builder, x: Tensor, dtype: str, attributes: Attributes) -> Tensor:
    saturate = bool(integer(attributes, "saturate"))
    return b.compute(x.shape, lambda *i: cast(x[i], dtype, saturate))


POINTWISE: Mapping[str, OperatorCompute] = {
    **{name: _unary(formula) for name, formula in FORMULAS.items()},
    "Add": _binary(add),
    "And": _binary(land, "bool"),
    "BitCast": _bit_cast,
    "BitShift": _bit_shift,
    "BitwiseAnd": _binary(_call_pair("bit_and")),
    "BitwiseOr": _binary(_call_pair("bit_or")),
    "BitwiseXor": _binary(_call_pair("bit_xor")),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Div": _binary(div),
    "Equal": _binary(eq, "bool"),
    "Greater": _binary(lambda u, v: lt(v, u), "bool"),
    "GreaterOrEqual": _binary(lambda u, v: le(v, u), "bool"),
    "IsInf": _is_inf,
    "IsNaN": _is_nan,
    "Less": _binary(lt, "bool"),
    "LessOrEqual": _binary(le, "bool"),
    "Max": _fold(maximum),
    "Mean": _fold(add, lambda total, count: total / count if count > 1 else total),
    "Min": _fold(minimum),
    "Mod": _modulo,
    "Mul": _binary(mul),
    "Or": _binary(lor, "bool"),
    "PRelu": _prelu,
    "Pow": _binary(_power),
    "Sub": _binary(sub),
    "Sum": _fold(add),
    "Where": _where,
    "Xor": _binary(_call_pair("xor"), "bool"),
}
"""Operator -> compute."""
