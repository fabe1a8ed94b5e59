"""How operands that fit an operator are drawn: a sampler per operator or family, in a table.

A sampler settles the open shapes, the numbers that the operator reads as shapes or axes, and attributes. What it draws
may still be refused by type inference; then it is asked again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from rewrite_engine.testing.verify.draws import chance, choice, shuffled
from rewrite_engine.testing.verify.node_draft import NodeDraft, joined
from rewrite_engine.testing.verify.window_samplers import (
    attention,
    conv,
    pool,
    qlinear_conv,
    qlinear_matmul,
    quantise,
    rotary,
)

Sampler = Callable[[NodeDraft], None]


def pointwise(d: NodeDraft) -> None:
    """Operands that broadcast together, whichever of them are settled."""
    for position in range(len(d.present)):
        if not d.open(position):
            continue
        known = joined(d.shapes)
        if known is None:
            d.shape(position)
        else:
            d.partner(position, known)


def first_alone(d: NodeDraft) -> None:
    """Any shape; further operands like it."""
    known = d.shape(0)
    for position in range(1, len(d.present)):
        d.settle(position, known)


def _scalars(d: NodeDraft) -> None:
    d.shape(0)
    for position in range(1, len(d.present)):
        d.settle(position, ())


def _matmul(d: NodeDraft) -> None:
    if d.open(0) and d.open(1):
        d.shape(0, least=1)
    if d.open(1):
        x = d.shape(0)
        wanted = d.ranks[1] or 2
        batch = x[: max(len(x) - 2, 0)] if d.ranks[1] is None and chance(d.source, 2) else x[:-2][2 - wanted :][:]
        if d.ranks[1] is None and len(x) < 3 and chance(d.source, 4):
            batch = (d.size(),)  # of the right side alone
        d.settle(1, (*(batch if wanted > 2 or d.ranks[1] is None else ()), x[-1] if x else 1, d.size()))
    elif d.open(0):
        y = d.shape(1)
        inner = y[-2] if len(y) > 1 else (y[0] if y else 1)
        wanted = d.ranks[0] or choice(d.source, (2, 3, 4))
        batch = y[:-2] if len(y) > 2 else tuple(d.size() for _ in range(max(wanted - 2, 0)))
        d.settle(0, (*batch, d.size(), inner))


def _gemm(d: NodeDraft) -> None:
    a = d.attribute("transA", d.source.integer(0, 1))
    b = d.attribute("transB", d.source.integer(0, 1))
    for name in ("alpha", "beta"):
        d.attribute(name, choice(d.source, (1.0, 1.0, 0.5, 2.0)))
    x, y = d.shapes[0], d.shapes[1]
    rows, columns = d.size(), d.size()
    inner = x[1 - a] if x is not None and len(x) == 2 else y[b] if y is not None and len(y) == 2 else d.size()
    d.settle(0, (inner, rows) if a else (rows, inner))
    d.settle(1, (columns, inner) if b else (inner, columns))
    x, y = d.shapes[0], d.shapes[1]
    if d.open(2) and x is not None and y is not None and len(x) == len(y) == 2:
        m, n = x[a], y[1 - b]
        d.settle(2, choice(d.source, ((n,), (m, n), (m, 1), (1, n), (), (1,))))


def _per_channel(d: NodeDraft) -> None:
    x = d.shape(0, least=2)
    for position in range(1, len(d.present)):
        d.settle(position, (x[1] if len(x) > 1 else 1,))


def _normalised(d: NodeDraft) -> None:
    x = d.shape(0, least=1)
    axis = d.axis(len(x))
    for position in range(1, len(d.present)):
        d.settle(position, x[axis:] if axis < len(x) else ())


def _transpose(d: NodeDraft) -> None:
    perm = d.attributes.get("perm")
    rank = len(perm) if isinstance(perm, tuple) else None
    x = d.shapes[0]
    if x is None:
        if rank is not None and d.ranks[0] is None:
            d.ranks[0] = rank
        x = d.shape(0)
    if perm is None:
        order = list(range(len(x)))
        d.attribute("perm", tuple(shuffled(d.source, order) if not chance(d.source, 4) else reversed(order)))


def _reshape(d: NodeDraft) -> None:
    x = d.shape(0)
    if not d.open(1):
        return
    source, size = d.source, math.prod(x)
    kind = source.integer(0, 6)
    if d.result_rank is not None and source.integer(0, 7):
        target: list[int] = _of_rank(d, list(x), d.result_rank)
    elif kind == 0:
        target = list(x)
    elif kind == 1:
        target = [*x, 1] if chance(source, 2) else [1, *x]
    elif kind == 2:
        target = shuffled(source, x)
    elif kind == 3 and len(x) > 1:
        at = source.integer(0, len(x) - 2)
        target = [*x[:at], x[at] * x[at + 1], *x[at + 2 :]]
    elif kind == 4 and len(x) > 0:
        at = source.integer(0, len(x) - 1)
        divisor = choice(source, [k for k in range(1, x[at] + 1) if x[at] % k == 0] or [1])
        target = [*x[:at], divisor, x[at] // divisor, *x[at + 1 :]]
    else:
        target = [size]
    if target and size and chance(source, 3):
        target[source.integer(0, len(target) - 1)] = -1
    d.whole(1, target)


def _of_rank(d: NodeDraft, x: list[int], rank: int) -> list[int]:
    """The sizes merged or split, at some place each time, until there are so many."""
    source = d.source
    while len(x) > max(rank, 1):
        at = source.integer(0, len(x) - 2)
        x[at : at + 2] = [x[at] * x[at + 1]]
    while len(x) < rank:
        at = source.integer(0, len(x))
        size = x[at] if at < len(x) else 1
        divisors = [k for k in range(1, size + 1) if size % k == 0] or [1]
        divisor = choice(source, divisors)
        x[at : at + 1] = [divisor, size // divisor] if at < len(x) else [1]
    return x


def _axes(d: NodeDraft, rank: int, only: list[int] | None = None) -> list[int]:
    """Some axes, each once, counted from either end."""
    pool = list(range(rank)) if only is None else only
    kept = [axis for axis in pool if chance(d.source, 2)] or pool[:1]
    return [axis - rank if chance(d.source, 4) else axis for axis in kept]


def _reduce(d: NodeDraft) -> None:
    known = d.values[1] if d.there(1) else None
    if d.open(0) and known is not None and d.ranks[0] is None:
        least = max([*(int(a) + 1 if a >= 0 else -int(a) for a in known.reshape(-1)), 0])
        x = d.shape(0, least=min(least, 5))
    else:
        x = d.shape(0)
    d.attribute("keepdims", d.source.integer(0, 1))
    if d.there(1):
        d.whole(1, _axes(d, len(x)))


def _squeeze(d: NodeDraft) -> None:
    if d.open(0):
        x = [1 if chance(d.source, 2) else n for n in d.shape(0, least=1)]
        d.shapes[0] = tuple(x)
    x = list(d.shape(0))
    ones = [axis for axis, n in enumerate(x) if n == 1]
    d.whole(1, _axes(d, len(x), ones) if ones else [])


def _unsqueeze(d: NodeDraft) -> None:
    x = d.shape(0, most=4)
    new = 1 if chance(d.source, 2) or len(x) > 3 else 2
    rank = len(x) + new
    d.whole(1, sorted(shuffled(d.source, range(rank))[:new]))


def _flatten(d: NodeDraft) -> None:
    x = d.shape(0)
    d.attribute("axis", d.source.integer(-len(x), len(x)))


def _expand(d: NodeDraft) -> None:
    x = d.shape(0)
    source = d.source
    target = [d.size() if n == 1 and chance(source, 2) else (1 if chance(source, 4) else n) for n in x]
    if chance(source, 3) and len(target) < 5:
        target = [d.size(), *target]
    d.whole(1, target)


def _tile(d: NodeDraft) -> None:
    d.whole(1, [choice(d.source, (1, 1, 2)) for _ in d.shape(0)])


def _concat(d: NodeDraft) -> None:
    known = next((shape for shape in d.shapes if shape is not None), None)
    base = list(known if known is not None else d.shape(0, least=1))
    axis = d.axis(len(base))
    for position in range(len(d.present)):
        other = list(base)
        if base and -len(base) <= axis < len(base):
            other[axis] = choice(d.source, (base[axis], d.size()))
        d.settle(position, other)


def _split(d: NodeDraft) -> None:
    x = d.shape(0, least=1)
    axis = d.axis(len(x))
    if not -len(x) <= axis < len(x):
        return
    if not d.there(1):
        d.attribute("num_outputs", d.n_outputs)
        return
    left, parts = x[axis], []
    for index in range(d.n_outputs):
        parts.append(left if index == d.n_outputs - 1 else d.source.integer(0, left))
        left -= parts[-1]
    d.whole(1, parts)


def _slice(d: NodeDraft) -> None:
    x = d.shape(0, least=1)
    source = d.source
    known = next((value.size for value in d.values[1:] if value is not None), None)
    axes = [axis for axis in range(len(x)) if chance(source, 2)] or [0]
    if known is not None:
        axes = shuffled(source, range(max(len(x), known)))[:known]
    if d.there(3) and d.values[3] is not None:
        axes = [int(a) for a in d.values[3].reshape(-1)]
    elif not d.there(3):
        axes = list(range(known if known is not None else min(source.integer(1, 2), len(x))))
    starts, ends, steps = [], [], []
    for axis in axes:
        n = x[axis] if -len(x) <= axis < len(x) else 1
        kind = source.integer(0, 4)
        step = choice(source, (1, 1, 2, -1)) if d.there(4) else 1
        if kind <= 1:
            window = (0, choice(source, (n, 9999))) if step > 0 else (n - 1, -n - 1)
        elif kind == 2:
            cut = source.integer(0, n)
            window = (cut, n) if step > 0 else (cut, 0)
        elif kind == 3:
            cut = source.integer(0, n)
            window = (0, cut) if step > 0 else (n - 1, cut - n - 1)
        else:
            window = (source.integer(-n, n), source.integer(-n - 1, n))
        starts.append(window[0])
        ends.append(window[1])
        steps.append(step)
    d.whole(1, starts)
    d.whole(2, ends)
    if d.there(3):
        d.whole(3, axes)
    if d.there(4):
        d.whole(4, steps)


def _pad(d: NodeDraft) -> None:
    x = d.shape(0)
    source = d.source
    axes = None
    if d.there(3):
        if d.values[3] is None:
            d.whole(3, _axes(d, len(x)) if x else [])
        axes = d.values[3]
    count = len(x) if axes is None else axes.size
    kind = source.integer(0, 6)
    if kind == 0:
        pads = [0] * (2 * count)
    elif kind == 1 and count:  # a shift: what is added on one side is cut off on the other
        at, by = source.integer(0, count - 1), choice(source, (1, -1))
        pads = [0] * (2 * count)
        pads[at], pads[at + count] = by, -by
    elif kind <= 4:  # spatial axes only
        pads = [choice(source, (0, 1, 2)) if k % max(count, 1) > 1 or axes is not None else 0 for k in range(2 * count)]
    elif kind == 5:
        pads = [choice(source, (0, 0, 1)) for _ in range(2 * count)]
    else:
        pads = [choice(source, (0, 0, 1, 2, -1)) for _ in range(2 * count)]
    d.whole(1, pads)
    d.settle(2, ())
    d.attribute("mode", choice(source, ("constant", "constant", "edge", "reflect")))


def _gather(d: NodeDraft) -> None:
    x = d.shape(0, least=1)
    d.axis(len(x))
    if d.open(1):
        d.shape(1, most=2)


def _where(d: NodeDraft) -> None:
    pointwise(d)


def _clip(d: NodeDraft) -> None:
    _scalars(d)


def _cast(d: NodeDraft) -> None:
    d.shape(0)
    d.attribute("to", choice(d.source, (1, 10, 11, 7, 6, 9, 3, 16)))


def _softmax(d: NodeDraft) -> None:
    d.axis(len(d.shape(0, least=1)))


def _dropout(d: NodeDraft) -> None:
    _scalars(d)
    if d.there(2) and d.values[2] is None:
        d.values[2] = np.asarray(bool(d.source.integer(0, 1)))


def _top(d: NodeDraft) -> None:
    x = d.shape(0, least=1)
    axis = d.axis(len(x))
    d.whole(1, [d.source.integer(0, x[axis] if -len(x) <= axis < len(x) else 0)])


_REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]

SAMPLERS: Mapping[str, Sampler] = {
    "Attention": attention,
    "AveragePool": pool,
    "BatchNormalization": _per_channel,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": conv,
    "ConvTranspose": lambda d: conv(d, transposed=True),
    "DequantizeLinear": quantise,
    "Dropout": _dropout,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "InstanceNormalization": _per_channel,
    "LayerNormalization": _normalised,
    "LogSoftmax": _softmax,
    "MatMul": _matmul,
    "MaxPool": pool,
    "Pad": _pad,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantise,
    "RMSNormalization": _normalised,
    "Reshape": _reshape,
    "RotaryEmbedding": rotary,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    **{f"Reduce{name}": _reduce for name in _REDUCTIONS},
}


OTHERWISE: Mapping[str, Mapping[str, tuple[object, ...]]] = {
    "Attention": {"is_causal": (1,), "softcap": (2.0,)},
    "AveragePool": {"count_include_pad": (1,), "ceil_mode": (1,)},
    "BatchNormalization": {"training_mode": (1,), "epsilon": (0.5, 0.25)},
    "Elu": {"alpha": (0.5,)},
    "Gelu": {"approximate": ("tanh",)},
    "HardSigmoid": {"alpha": (0.25,), "beta": (0.25,)},
    "LayerNormalization": {"epsilon": (0.5, 0.25)},
    "LeakyRelu": {"alpha": (0.5, 2.0)},
    "MaxPool": {"ceil_mode": (1,)},
    "QuantizeLinear": {"saturate": (0,)},
    "RMSNormalization": {"epsilon": (0.5, 0.25)},
    "RotaryEmbedding": {"interleaved": (1,)},
}
"""Values of attributes that are not the default, which are drawn now and then."""


def sample(d: NodeDraft) -> None:
    """Settles what is open, by the table; pointwise operators broadcast, others take operands of one shape."""
    facts = d.facts
    sampler = SAMPLERS.get(d.op)
    if sampler is None:
        sampler = pointwise if facts is not None and facts.pointwise and len(d.present) > 1 else first_alone
    sampler(d)
    for name, others in OTHERWISE.get(d.op, {}).items():
        if name not in d.attributes and chance(d.source, 4):
            d.attributes[name] = choice(d.source, others)
    for position in range(len(d.present)):
        if d.open(position):
            d.shape(position)
