"""Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.expr import Expr, cast, const, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    integer,
    optional,
    required,
    text,
    working_dtype,
    zero,
)
from rewrite_engine.loops.operators.normalisation import softmax


def _likelihood(b: Builder, scores: Tensor, target: Tensor, weight: Tensor | None, attributes: Attributes) -> Tensor:
    """-weight[target] * scores[target] per position, reduced as told; positions whose target is ignored weigh 0."""
    working = working_dtype(scores.dtype)
    ignored = integer(attributes, "ignore_index") if "ignore_index" in attributes else None

    b.require_positions(target, 0, scores.shape[1] - 1, ignored=ignored)

    def weigh(*i: Expr) -> Expr:
        factor = const(1, working) if weight is None else weight.lift([cast(target[i], "index")])
        return factor if ignored is None else select(target[i].eq(ignored), zero(factor), factor)

    weights = b.compute(target.shape, weigh)

    def loss(*i: Expr) -> Expr:
        score = scores.lift([i[0], cast(target[i], "index"), *i[1:]])
        return select(weights[i].eq(0), zero(score), -score * weights[i])

    losses = b.compute(target.shape, loss)
    reduction = text(attributes, "reduction")
    if reduction == "none":
        return b.map(lambda v: v, losses, dtype=scores.dtype)
    total = b.reduce(losses, range(losses.rank), "sum", None, False)
    if reduction == "sum":
        return b.map(lambda v: v, total, dtype=scores.dtype)
    share = b.reduce(weights, range(weights.rank), "sum", None, False)
    return b.map(lambda t, s: t / s, total, share, dtype=scores.dtype)


def _negative_log_likelihood(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [_likelihood(b, required(inputs, 0), required(inputs, 1), optional(inputs, 2), attributes)]


def _softmax_cross_entropy(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    scores = required(inputs, 0)
    logarithms = softmax(b, scores, 1, scores.dtype, logarithm=True)
    return [_likelihood(b, logarithms, required(inputs, 1), optional(inputs, 2), attributes), logarithms]


LOSSES: Mapping[str, OperatorCompute] = {
    "NegativeLogLikelihoodLoss": _negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": _softmax_cross_entropy,
}
"""Operator -> compute."""
