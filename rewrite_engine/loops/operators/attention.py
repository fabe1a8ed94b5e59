"""Attention: scaled dot products of queries and keys, softmax, weighted sums of values; rotary position embedding."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rewrite_engine.loops.build import Builder, Tensor, Unsupported, broadcast_indices
from rewrite_engine.loops.dtypes import is_float
from rewrite_engine.loops.expr import Expr, call, cast, const, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    dtype_attribute,
    integer,
    number,
    optional,
    required,
    working_dtype,
    zero,
)


def _attention(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """Outputs: Y, present key, present value, and the scores in the state that `qk_matmul_output_mode` asks for."""
    query, heads = required(inputs, 0), integer(attributes, "q_num_heads")
    q = split_heads(b, query, heads)
    k, v = (split_heads(b, required(inputs, i), integer(attributes, "kv_num_heads")) for i in (1, 2))
    past_key, past_value = optional(inputs, 4), optional(inputs, 5)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        k, v = b.concat([past_key, k], 2), b.concat([past_value, v], 2)

    scores = _scores(b, q, k, number(attributes, "scale"))
    capped = _soft_capped(b, scores, number(attributes, "softcap"))
    biased, blocked = _biased(b, capped, optional(inputs, 3), bool(integer(attributes, "is_causal")), past)
    precise = (
        dtype_attribute(attributes, "softmax_precision", "Attention") if "softmax_precision" in attributes else None
    )
    if precise is not None and not is_float(precise):
        raise Unsupported(f"Attention with a softmax_precision of {precise}")
    weights = _weights(b, biased, blocked, precise or query.dtype, query.dtype)
    output = _weighted_sum(b, weights, v, query.dtype)
    if query.rank == 3:
        output = b.reshape(b.transpose(output, [0, 2, 1, 3]), [*query.shape[:2], heads * v.shape[3]])

    stages = (scores, capped, biased, weights)
    shown = stages[integer(attributes, "qk_matmul_output_mode")]
    return [output, k, v, b.map(lambda s: s, shown, dtype=query.dtype)]


def split_heads(b: Builder, x: Tensor, heads: int) -> Tensor:
    """[batch, length, heads * size] as [batch, heads, length, size]; a tensor that has four axes stays as it is."""
    if x.rank == 4:
        return x
    batch, length, width = x.shape
    return b.transpose(b.reshape(x, [batch, length, heads, width // heads]), [0, 2, 1, 3])


def _scores(b: Builder, q: Tensor, k: Tensor, scale: float) -> Tensor:
    """q . k * scale, [batch, query heads, queries, keys]; query heads share key heads in equal consecutive groups."""
    if scale < 0:
        raise Unsupported(f"Attention with a negative scale ({scale:g}), whose root is taken")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise Unsupported(f"Attention with {q.shape[1]} query heads, no multiple of its {k.shape[1]} key heads")
    group = q.shape[1] // k.shape[1]
    root = math.sqrt(scale)

    def product(n: Expr, h: Expr, i: Expr, j: Expr, d: Expr) -> Expr:
        left = q.lift([n, h, i, d])
        return left * cast(k.lift([n, h // group, j, d]), left.dtype)

    def scaled(total: Expr, *_: Expr) -> Expr:
        return total * root * root

    shape = [*q.shape[:3], k.shape[2]]
    return b.compute(shape, product, [q.shape[3]], "sum", working_dtype(q.dtype), scaled)


def _soft_capped(b: Builder, scores: Tensor, cap: float) -> Tensor:
    return b.map(lambda s: call("tanh", s / cap) * cap, scores) if cap > 0 else scores


def _biased(b: Builder, scores: Tensor, mask: Tensor | None, causal: bool, past: int) -> tuple[Tensor, Tensor | None]:
    """The scores plus mask and causal bias; and, where there is a mask, the largest bias of each row.

    A boolean mask is 0 where true and -inf where false; a mask that is shorter than the keys ends in -inf.
    """
    if mask is None and not causal:
        return scores, None
    keys = scores.shape[-1]

    def causal_bias(i: Expr, j: Expr) -> Expr:
        return select(j <= i + past, const(0, scores.dtype), const(-math.inf, scores.dtype))

    if mask is None:
        return b.compute(scores.shape, lambda *i: scores[i] + causal_bias(i[-2], i[-1])), None

    shape = [*mask.shape[:-2], scores.shape[-2], keys]

    def bias(*i: Expr) -> Expr:
        assert mask is not None
        value = mask.lift(broadcast_indices(mask, [*shape[:-1], mask.shape[-1]] if mask.shape[-1] != 1 else shape, i))
        if mask.dtype == "bool":
            value = select(value, const(0, scores.dtype), const(-math.inf, scores.dtype))
        if mask.shape[-1] not in (1, keys):
            value = select(i[-1] < mask.shape[-1], value, const(-math.inf, value.dtype))
        value = cast(value, scores.dtype)
        return value + causal_bias(i[-2], i[-1]) if causal else value

    total = b.compute(shape, bias)
    return b.map(lambda s, t: s + t, scores, total), b.reduce(total, [total.rank - 1], "max")


def _weights(b: Builder, scores: Tensor, blocked: Tensor | None, precision: str, dtype: str) -> Tensor:
    """Softmax over the keys, computed in `precision`; a row that no key is allowed for is 0."""
    working = working_dtype(precision)
    logits = scores if scores.dtype == precision else b.map(lambda s: cast(cast(s, precision), working), scores)
    top = b.reduce(logits, [3], "max")
    powers = b.map(lambda s, t: call("exp", s - t), logits, top)
    total = b.reduce(powers, [3], "sum")
    if blocked is None:
        return b.map(lambda p, t: p / t, powers, total, dtype=dtype)

    def guarded(p: Expr, t: Expr, bias: Expr) -> Expr:
        share = p / t
        return select(bias.eq(-math.inf), zero(share), share)

    return b.map(guarded, powers, total, blocked, dtype=dtype)


def _weighted_sum(b: Builder, weights: Tensor, v: Tensor, dtype: str) -> Tensor:
    group = weights.shape[1] // v.shape[1]

    def product(n: Expr, h: Expr, i: Expr, d: Expr, j: Expr) -> Expr:
        weight = weights.lift([n, h, i, j])
        return weight * cast(v.lift([n, h // group, j, d]), weight.dtype)

    return b.compute([*weights.shape[:3], v.shape[3]], product, [v.shape[2]], "sum", dtype)


def _rotary_embedding(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    """Pairs of features turned by the angle of their position: halves apart, or neighbours when interleaved."""
    x, cosines, sines, positions = required(inputs, 0), required(inputs, 1), required(inputs, 2), optional(inputs, 3)
    heads = x.shape[1] if x.rank == 4 else integer(attributes, "num_heads")
    split = split_heads(b, x, heads)
    turned = integer(attributes, "rotary_embedding_dim") or split.shape[3]
    half, interleaved = turned // 2, bool(integer(attributes, "interleaved"))

    def angle(table: Tensor, n: Expr, s: Expr, pair: Expr) -> Expr:
        if positions is None:
            return table.lift([n, s, pair])
        return table.lift([cast(positions[n, s], "index"), pair])

    def element(n: Expr, h: Expr, s: Expr, d: Expr) -> Expr:
        if interleaved:
            pair, second = d // 2, (d % 2).eq(1)
            partner = select(second, d - 1, d + 1)
        else:
            second = const(half, "index") <= d
            pair = select(second, d - half, d)
            partner = select(second, d - half, d + half)
        here, other = split.lift([n, h, s, d]), split.lift([n, h, s, partner])
        cosine, sine = angle(cosines, n, s, pair), angle(sines, n, s, pair)
        rotated = select(second, sine * other + cosine * here, cosine * here - sine * other)
        return cast(select(d < turned, rotated, here), x.dtype)

    result = b.compute(split.shape, element)
    return [result if x.rank == 4 else b.reshape(b.transpose(result, [0, 2, 1, 3]), x.shape)]


ATTENTION: Mapping[str, OperatorCompute] = {
    "Attention": _attention,
    "RotaryEmbedding": _rotary_embedding,
}
"""Operator -> compute."""
