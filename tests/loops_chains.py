"""Programs of operators that are chains by rows: softmax, layer normalisation, attention."""

from __future__ import annotations

from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.expr import const, select
from rewrite_engine.loops.operators import operator_compute


def softmax(*shape: int) -> Program:
    """Along the last axis."""
    b = Builder()
    x = b.input(shape, "float32")
    return b.program(operator_compute("Softmax")(b, [x], {"axis": len(shape) - 1}))


def layer_norm(*shape: int) -> Program:
    """Over the last axis, with scale and bias."""
    b = Builder()
    operands = [b.input(shape, "float32"), b.input(shape[-1:], "float32"), b.input(shape[-1:], "float32")]
    attributes = {"axis": len(shape) - 1, "epsilon": 1e-5, "stash_type": 1}
    return b.program(operator_compute("LayerNormalization")(b, operands, attributes)[:1])


def attention(batch: int, heads: int, rows: int, keys: int, depth: int, causal: bool = False) -> Program:
    """Heads taken out of [batch, rows, heads * depth] and put back, with a mask above the diagonal or none."""
    b = Builder()
    q, k, v = (b.input((batch, n, heads * depth), "float32") for n in (rows, keys, keys))

    def by_head(x: Tensor) -> Tensor:
        return b.transpose(b.reshape(x, (batch, x.shape[1], heads, depth)), [0, 2, 1, 3])

    turned = b.transpose(by_head(k), [0, 1, 3, 2])
    (scores,) = operator_compute("MatMul")(b, [by_head(q), turned], {})
    if causal:
        hidden = const(float("-inf"), "float32")
        scores = b.compute(scores.shape, lambda n, h, i, j: select(i < j, hidden, scores[n, h, i, j]))
    scores = b.map(lambda s: s * 0.125, scores)
    (shares,) = operator_compute("Softmax")(b, [scores], {"axis": 3})
    (mixed,) = operator_compute("MatMul")(b, [shares, by_head(v)], {})
    return b.program([b.reshape(b.transpose(mixed, [0, 2, 1, 3]), (batch, rows, heads * depth))])
