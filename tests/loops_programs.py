"""Random small programs for the tests of the loops room, and running them in the two ways there are."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from rewrite_engine.loops import execute
from rewrite_engine.loops.build import Builder, Tensor, normalized
from rewrite_engine.loops.build_scan import scan
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.expr import call, maximum, minimum, select

MOST_ELEMENTS = 96

UNARY = {
    "relu": lambda v: maximum(v, 0),
    "clip": lambda v: minimum(maximum(v, -1), 2),
    "negate": lambda v: 0 - v,
    "tanh": lambda v: call("tanh", v),
    "square": lambda v: v * v,
    "gelu": lambda v: v * 0.5 * (1 + call("erf", v * 0.7071067811865476)),
    "leaky": lambda v: select(v < 0, v * 0.25, v),
    "half": lambda v: v / 2,
}
BINARY = {
    "add": lambda u, v: u + v,
    "sub": lambda u, v: u - v,
    "mul": lambda u, v: u * v,
    "max": maximum,
    "where": lambda u, v: select(u < v, u, v + v),
}


def run(program: Program, inputs: list[np.ndarray], how=execute) -> list[np.ndarray]:
    """The outputs of a program, into arrays that held garbage."""
    outputs = [
        np.full(program.tensors[n].shape, 77).astype(numpy_dtype(program.tensors[n].dtype)) for n in program.outputs
    ]
    how.run(program, inputs, outputs)
    return outputs


def elements(program: Program, seed: int, with_nan: bool = False) -> list[np.ndarray]:
    """Input arrays: quarters in -3 .. 3 (some NaN), small integers."""
    rng = np.random.default_rng(seed)
    arrays = []
    for name in program.inputs:
        shape, dtype = program.tensors[name]
        values = rng.integers(-12, 13, shape) / 4.0
        if with_nan and dtype.startswith(("float", "bfloat")):
            values = np.where(rng.random(shape) < 0.1, np.nan, values)
        arrays.append(np.asarray(values).astype(numpy_dtype(dtype)))
    return arrays


def assert_close(found: list[np.ndarray], expected: list[np.ndarray], tolerance: float = 1e-5) -> None:
    """Equal shapes, types and (to rounding) elements, NaN where NaN is."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        wide = [x.astype(np.float64) if x.dtype.kind not in "iub" else x for x in (a, b)]
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


@st.composite
def programs(draw, dtypes=("float32", "float64", "float16", "bfloat16", "int32"), kinds=None, most=8) -> Program:
    """A program of a few random steps (of `kinds`, by default all) over one or two inputs of one type."""
    builder = Builder()
    dtype = draw(st.sampled_from(dtypes))
    sizes = st.sampled_from((0, 1, 2, 3, 4, 6) if draw(st.integers(0, 9)) == 0 else (1, 2, 3, 4, 6))
    shapes = st.lists(sizes, min_size=0, max_size=3).filter(lambda shape: math.prod(shape) <= MOST_ELEMENTS)
    tensors = [builder.input(draw(shapes), dtype) for _ in range(draw(st.integers(1, 2)))]
    for _ in range(draw(st.integers(1, most))):
        step = draw(st.sampled_from(kinds or STEPS))
        made = step(draw, builder, draw(st.sampled_from(tensors[-2:])), tensors)
        if made is not None:
            tensors.append(made)
    outputs = draw(st.lists(st.sampled_from(tensors[-3:]), min_size=1, max_size=3))
    return builder.program(outputs)


def _unary(draw, builder: Builder, x: Tensor, _) -> Tensor:
    names = sorted(UNARY if x.dtype not in ("int32", "int64") else ("relu", "clip", "negate", "half"))
    return builder.map(UNARY[draw(st.sampled_from(names))], x)


def _binary(draw, builder: Builder, x: Tensor, tensors) -> Tensor | None:
    y = draw(st.sampled_from(tensors))
    try:
        if math.prod(np.broadcast_shapes(x.shape, y.shape)) > MOST_ELEMENTS or x.dtype != y.dtype:
            return None
    except ValueError:
        return None
    return builder.map(BINARY[draw(st.sampled_from(sorted(BINARY)))], x, y)


def _reshape(draw, builder: Builder, x: Tensor, _) -> Tensor:
    rest, shape = x.size, []
    while rest > 1 and len(shape) < 3:
        shape.append(draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0])))
        rest //= shape[-1]
    return builder.reshape(x, (*shape, rest))


def _transpose(draw, builder: Builder, x: Tensor, _) -> Tensor:
    return builder.transpose(x, draw(st.permutations(range(x.rank))))


def _slice(draw, builder: Builder, x: Tensor, _) -> Tensor:
    ranges = []
    for n in x.shape:
        start = draw(st.integers(0, max(n - 1, 0)))
        step = draw(st.sampled_from((1, 1, 2, -1)))
        ranges.append(range(start, n, step) if step > 0 else range(start, -1, -1) if n else range(0))
    return builder.move(
        x, [len(r) for r in ranges], lambda *i: [r.start + v * r.step for v, r in zip(i, ranges, strict=True)]
    )


def _pad(draw, builder: Builder, x: Tensor, _) -> Tensor | None:
    before = [draw(st.integers(-1, 2)) for _ in x.shape]
    shape = [max(n + b + draw(st.integers(-1, 2)), 0) for n, b in zip(x.shape, before, strict=True)]
    if math.prod(shape) > MOST_ELEMENTS:
        return None
    fill = draw(st.sampled_from((0, 1)))
    return builder.compute(
        shape, lambda *i: builder.load_padded(x, [v - b for v, b in zip(i, before, strict=True)], fill, lift=False)
    )


def _concat(draw, builder: Builder, x: Tensor, tensors) -> Tensor | None:
    if not x.rank or 2 * x.size > MOST_ELEMENTS:
        return None
    axis = draw(st.integers(0, x.rank - 1))
    y = builder.map(UNARY["negate"], x) if draw(st.booleans()) and x.dtype != "bool" else x
    return builder.concat([x, y], axis)


def _reduce(draw, builder: Builder, x: Tensor, _) -> Tensor:
    axes = draw(st.lists(st.integers(0, x.rank - 1), unique=True)) if x.rank else []
    combine = draw(st.sampled_from(("sum", "max", "min")))
    post = (lambda total: total / 4) if draw(st.booleans()) else None
    return builder.reduce(x, axes, combine, keepdims=draw(st.booleans()), post=post)


def _matmul(draw, builder: Builder, x: Tensor, tensors) -> Tensor | None:
    y = draw(st.sampled_from(tensors))
    if x.rank < 1 or y.rank < 1 or x.dtype != y.dtype:
        return None
    k = x.shape[-1]
    if y.shape[0] != k or x.size * y.size > 600 * max(k, 1):
        return None
    lead, tail = x.rank - 1, y.rank - 1
    body = lambda *i: x.lift([*i[:lead], i[-1]]) * y.lift([i[-1], *i[lead : lead + tail]])
    return builder.compute((*x.shape[:-1], *y.shape[1:]), body, (k,), "sum", dtype=x.dtype)


def _batched(draw, builder: Builder, x: Tensor, tensors) -> Tensor | None:
    """sum over k of x[b, m, k] * x[b, n, k]."""
    if x.rank != 3 or x.size * x.shape[1] > 300:
        return None
    b, m, k = x.shape
    body = lambda i, j, n, r: x.lift([i, j, r]) * x.lift([i, n, r])
    return builder.compute((b, m, m), body, (k,), "sum", dtype=x.dtype)


def _window(draw, builder: Builder, x: Tensor, tensors) -> Tensor | None:
    """A window over the last axis: pooling, or a convolution whose weights are another tensor's elements."""
    if not x.rank or not x.size:
        return None
    taps, stride, pad = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, 1))
    n = (x.shape[-1] + 2 * pad - taps) // stride + 1
    if n < 1:
        return None
    shape = (*x.shape[:-1], n)
    at = lambda i: [*i[:-2], i[-2] * stride + i[-1] - pad]
    combine = draw(st.sampled_from(("sum", "max")))
    weights = draw(st.sampled_from(tensors))
    fits = weights.rank > 0 and weights.size > 0 and weights.shape[-1] >= taps
    if combine == "sum" and fits and weights.dtype == x.dtype:
        fixed = [0] * (weights.rank - 1)
        body = lambda *i: builder.load_padded(x, at(i), 0) * weights.lift([*fixed, i[-1]])
    else:
        body = lambda *i: builder.load_padded(x, at(i), -8 if combine == "max" else 0)
    return builder.compute(shape, body, (taps,), combine, dtype=x.dtype)


def _gather(draw, builder: Builder, x: Tensor, _) -> Tensor | None:
    if not x.rank or not x.size:
        return None
    axis = draw(st.integers(0, x.rank - 1))
    n = x.shape[axis]
    places = builder.constant(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=4)), np.int64))
    shape = (*x.shape[:axis], places.size, *x.shape[axis + 1 :])
    if math.prod(shape) > MOST_ELEMENTS:
        return None
    return builder.move(x, shape, lambda *i: [*i[:axis], normalized(places[i[axis]], n), *i[axis + 1 :]])


def _scatter(draw, builder: Builder, x: Tensor, _) -> Tensor | None:
    if not x.rank or not x.size:
        return None
    n = x.shape[0]
    places = builder.constant(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=3)), np.int64))
    shape = (places.size, *x.shape[1:])
    return builder.scatter(
        x, shape, lambda *i: [normalized(places[i[0]], n), *i[1:]],
        lambda *i: x[[0, *i[1:]]], draw(st.sampled_from(("set", "sum", "max"))),
    )  # fmt: skip


def _scan(draw, builder: Builder, x: Tensor, tensors) -> Tensor | None:
    """A few random steps in a scan: over elements of x or by count, ended by a condition or not, nested or not."""
    if x.dtype == "bool" or len(builder._outer) > 1:
        return None
    conditional = draw(st.integers(0, 3)) == 0
    sliced = [x] if x.rank and not conditional and draw(st.booleans()) else []
    count = x.shape[0] if sliced else draw(st.integers(0, 4))
    initial = [draw(st.sampled_from([t for t in tensors if t.dtype != "bool"]))] if draw(st.integers(0, 3)) else []
    if conditional:
        number = builder.constant(np.array(draw(st.integers(0, 4)), np.int64))
        initial = [builder.map(lambda v: v < 3, number), number, *initial]

    def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        own = [*(tensors[-1:] if draw(st.booleans()) else []), *parts, *now[2 * conditional :]] or [tensors[-1]]
        for _ in range(draw(st.integers(1, 3))):
            made = draw(st.sampled_from(STEPS))(draw, builder, draw(st.sampled_from(own)), own)
            own += [] if made is None else [made]
        following = []
        for before in now[2 * conditional :]:
            alike = [t for t in own if (t.shape, t.dtype) == (before.shape, before.dtype)]
            following.append(draw(st.sampled_from(alike)))
        if conditional:
            number = builder.map(lambda v: v + 1, now[1])
            following = [builder.map(lambda v: v < 3, number), number, *following]
            return following, []
        return following, [own[-1]] if own[-1].size * max(count, 1) <= MOST_ELEMENTS else []

    backwards = [draw(st.booleans())]
    finals, wholes = scan(builder, count, step, initial, sliced, backwards[: len(sliced)], conditional=conditional)
    return draw(st.sampled_from([*wholes, *finals[2 * conditional :], x]))


STEPS = (
    _unary, _unary, _binary, _binary, _reshape, _reshape, _transpose, _slice, _pad, _concat, _reduce, _matmul, _batched,
    _window, _window, _gather, _scatter, _scan,
)  # fmt: skip
MOVEMENTS = (_reshape, _transpose, _slice, _pad, _pad, _concat, _gather)
REDUCTIONS = (_reduce, _matmul, _batched, _window, _unary, _binary, _binary, _transpose, _reshape)
