"""One step of an optimizer (domain ai.onnx.preview.training): new parameters and states, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.expr import Expr, call, cast, const, select
from rewrite_engine.loops.operators.common import Attributes, Operands, OperatorCompute, number, required, text

Step = Callable[[Builder, Tensor, Tensor, list[Tensor], Attributes], list[Tensor]]
"""The rate R and the count T, then x, its gradient and its states: the new x and states."""


def _optimizer(states: int, step: Step) -> OperatorCompute:
    """Inputs R, T, every x, every gradient, every state by kind; outputs every x and every state by kind."""

    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        rate, count = required(inputs, 0), required(inputs, 1)
        many = (len(inputs) - 2) // (2 + states)
        columns = [[required(inputs, 2 + kind * many + k) for kind in range(2 + states)] for k in range(many)]
        rows = [step(b, rate, count, column, attributes) for column in columns]
        return [row[kind] for kind in range(1 + states) for row in rows]

    return compute


def _number(attributes: Attributes, name: str, default: float) -> float:
    return number(attributes, name) if name in attributes else default


def _gradient(v: Expr, g: Expr, attributes: Attributes) -> Expr:
    """The gradient of the loss with its square norm added."""
    return g + v * _number(attributes, "norm_coefficient", 0.0)


def _scalar(t: Tensor, dtype: str) -> Expr:
    return cast(t[(0,) * t.rank], dtype)


def _momentum(b: Builder, rate: Tensor, count: Tensor, column: list[Tensor], attributes: Attributes) -> list[Tensor]:
    x, g, v = column
    alpha, beta = number(attributes, "alpha"), number(attributes, "beta")
    nesterov = text(attributes, "mode") == "nesterov"

    def velocity(*i: Expr) -> Expr:
        scale = select(cast(_scalar(count, "float64"), x.dtype) > 0, beta, const(1, x.dtype))
        return v[i] * alpha + _gradient(x[i], g[i], attributes) * scale

    new = b.compute(x.shape, velocity)

    def moved(*i: Expr) -> Expr:
        step = _gradient(x[i], g[i], attributes) + new[i] * alpha if nesterov else new[i]
        return x[i] - _scalar(rate, x.dtype) * step

    return [b.compute(x.shape, moved), new]


def _adagrad(b: Builder, rate: Tensor, count: Tensor, column: list[Tensor], attributes: Attributes) -> list[Tensor]:
    x, g, h = column
    decay, epsilon = _number(attributes, "decay_factor", 0.0), _number(attributes, "epsilon", 1e-6)

    def total(*i: Expr) -> Expr:
        gradient = _gradient(x[i], g[i], attributes)
        return h[i] + gradient * gradient

    new = b.compute(x.shape, total)

    def moved(*i: Expr) -> Expr:
        shrunk = _scalar(rate, x.dtype) / (_scalar(count, x.dtype) * decay + 1.0)
        return x[i] - shrunk * _gradient(x[i], g[i], attributes) / (call("sqrt", new[i]) + epsilon)

    return [b.compute(x.shape, moved), new]


def _adam(b: Builder, rate: Tensor, count: Tensor, column: list[Tensor], attributes: Attributes) -> list[Tensor]:
    x, g, v, h = column
    alpha, beta = _number(attributes, "alpha", 0.9), _number(attributes, "beta", 0.999)
    epsilon, after = _number(attributes, "epsilon", 1e-6), _number(attributes, "norm_coefficient_post", 0.0)

    def mean(*i: Expr) -> Expr:
        return v[i] * alpha + _gradient(x[i], g[i], attributes) * (1 - alpha)

    def square(*i: Expr) -> Expr:
        gradient = _gradient(x[i], g[i], attributes)
        return h[i] * beta + gradient * gradient * (1 - beta)

    first, second = b.compute(x.shape, mean), b.compute(x.shape, square)

    def moved(*i: Expr) -> Expr:
        steps = _scalar(count, x.dtype)
        unbias = call("sqrt", 1.0 - call("pow", const(beta, x.dtype), steps)) / (
            1.0 - call("pow", const(alpha, x.dtype), steps)
        )
        adapted = select(steps > 0, _scalar(rate, x.dtype) * unbias, _scalar(rate, x.dtype))
        stepped = x[i] - adapted * first[i] / (call("sqrt", second[i]) + epsilon)
        return stepped * (1 - after)

    return [b.compute(x.shape, moved), first, second]


TRAINING: Mapping[str, OperatorCompute] = {
    "ai.onnx.preview.training::Adagrad": _optimizer(1, _adagrad),
    "ai.onnx.preview.training::Adam": _optimizer(2, _adam),
    "ai.onnx.preview.training::Momentum": _optimizer(1, _momentum),
}
"""Operator -> compute."""
