"""Recipes of operators that move, pick, reduce and make elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rewrite_engine import operators
from rewrite_engine.graph.terms import ABSENT
from rewrite_engine.operators.dtypes import DTYPE_CODES
from rewrite_engine.testing.strategies.growing import FLOATS, PLAIN, Applied, Growing, Refused

Recipe = Callable[[Growing, operators.Operator], Applied]
SUMMED = ("float32", "int64", "float16", "int32", "float64")


def _unary(dtypes: tuple[str, ...], *ranks: int, outputs: int = 1, known: bool = False) -> Recipe:
    return lambda g, _: Applied((g.value(dtypes, *ranks, known=known),), {}, outputs)


def _on_axis(dtypes: tuple[str, ...], **more: object) -> Recipe:
    def recipe(g: Growing, op: operators.Operator) -> Applied:
        x = g.value(dtypes, 2, 3, 1, 4)
        return Applied((x,), {"axis": g.axis(x), **more})

    return recipe


def _reduce(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(SUMMED, 2, 3, 1, 4)
    attributes: dict[str, object] = {"keepdims": 1 - g.choices.pick(2)}
    if g.choices.chance(25):
        return Applied((x,), attributes)
    return Applied((x, g.ints(g.axis(x))), attributes)


def _arg(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(SUMMED, 2, 3, 1, 4)
    return Applied((x,), {"axis": g.axis(x), "keepdims": 1 - g.choices.pick(2)})


def _transpose(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, 4)
    left, perm = list(range(len(g.shape(x)))), []
    while left:
        perm.append(left.pop(g.choices.pick(len(left)) * -1 - 1 if g.choices.chance(90) else 0))
    return Applied((x,), {"perm": tuple(perm)} if g.choices.chance(80) else {})


def _reshape(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN)
    shape = g.shape(x)
    wanted = g.choices.one_of(((-1,), (*[0] * len(shape[:1]), -1), (1, -1), (*[0] * len(shape), 1)))
    return Applied((x, g.ints(*wanted)), {})


def _unsqueeze(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 1, 3, 0)
    return Applied((x, g.ints(g.choices.pick(len(g.shape(x)) + 1))), {})


def _squeeze(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, 4)
    ones = [axis for axis, size in enumerate(g.shape(x)) if size == 1]
    if not ones:
        x = g.value(PLAIN, shape=(1, 3))
        ones = [0]
    return Applied((x, g.ints(g.choices.one_of(ones))), {})


def _expand(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, known=True)
    return Applied((x, g.ints(g.choices.one_of((2, 1)), *g.sizes(x))), {})


def _tile(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, 1)
    return Applied((x, g.ints(*(g.choices.one_of((1, 2)) for _ in g.shape(x)))), {})


def _slice(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, 1, 4)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    if not isinstance(size, int) or size < 1:
        raise Refused
    step = g.choices.one_of((1, 2, -1))
    start, end = (0, size) if step > 0 else (size - 1, -size - 1)
    return Applied((x, g.ints(start), g.ints(end - (size > 1 and step == 1)), g.ints(axis), g.ints(step)), {})


def _pad(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float16", "int64", "int32", "float64"), 2, 3, 1, 4)
    pads = [g.choices.pick(2) for _ in range(2 * len(g.shape(x)))]
    fill = ABSENT if g.choices.chance(60) else g.constant(np.array(1), g.dtype(x))
    mode = g.choices.one_of(("constant", "edge")) if fill == ABSENT else "constant"
    return Applied((x, g.ints(*pads), fill), {"mode": mode})


def _concat(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, 1, 4)
    axis = g.axis(x)
    rest = [g.value((g.dtype(x),), shape=g.shape(x)) for _ in range(g.choices.pick(3))]
    return Applied((x, *rest), {"axis": axis})


def _split(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, 1, 4, known=True)
    axis = g.axis(x)
    size = g.sizes(x)[axis]
    pieces = g.choices.one_of((2, 1, 3))
    if size < pieces:
        raise Refused
    if g.choices.chance(40):
        return Applied((x, g.ints(*[1] * (pieces - 1), size - pieces + 1)), {"axis": axis}, pieces)
    return Applied((x,), {"axis": axis, "num_outputs": pieces}, pieces)


def _gather(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, 1)
    index = g.constant(np.zeros(g.choices.one_of(((2,), (), (1, 2))), np.int64))
    return Applied((x, index), {"axis": g.axis(x)})


def _gather_elements(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 1, 3, known=True)
    return Applied((x, g.constant(np.zeros(g.sizes(x), np.int64))), {"axis": g.axis(x)})


def _scatter_elements(g: Growing, op: operators.Operator) -> Applied:
    found = _gather_elements(g, op)
    x = found.inputs[0]
    return Applied((*found.inputs, g.weight(g.dtype(x), *g.sizes(x))), found.attributes)


def _gather_nd(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(PLAIN, 2, 3), g.constant(np.zeros((2, 1), np.int64))), {})


def _scatter_nd(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "int64", "float16"), 2, 3, known=True)
    return Applied((x, g.constant(np.zeros((1, 1), np.int64)), g.weight(g.dtype(x), 1, *g.sizes(x)[1:])), {})


def _compress(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 1, 3, known=True)
    axis = g.axis(x) % len(g.shape(x))
    return Applied((x, g.constant(np.arange(g.sizes(x)[axis]) % 2 == 0)), {"axis": axis})


def _trilu(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "int64", "bool", "float16"), 2, 3)
    offset = ABSENT if g.choices.chance(50) else g.constant(np.array(1, np.int64))
    return Applied((x, offset), {"upper": g.choices.pick(2)})


def _reverse(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN, 2, 3, known=True)
    time, batch = g.sizes(x)[:2]
    return Applied((x, g.ints(*[min(1, time)] * batch)), {"time_axis": 0, "batch_axis": 1})


def _top_k(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "int64", "float16"), 2, 1, 3, known=True)
    axis = g.axis(x)
    count = min(g.choices.one_of((1, 2)), g.sizes(x)[axis])
    return Applied((x, g.ints(count)), {"axis": axis, "largest": 1 - g.choices.pick(2)}, 2)


def _cum_sum(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "int64", "float64"), 2, 1, 3)
    axis = g.constant(np.array(g.axis(x), np.int64))
    return Applied((x, axis), {"exclusive": g.choices.pick(2), "reverse": g.choices.pick(2)})


def _one_hot(g: Growing, op: operators.Operator) -> Applied:
    dtype = g.choices.one_of(("float32", "int64"))
    return Applied((g.value(("int64", "int32"), 1, 2), g.ints(3), g.constant(np.array([0, 1]), dtype)), {"axis": -1})


def _range(g: Growing, op: operators.Operator) -> Applied:
    dtype = g.choices.one_of(("int64", "float32"))
    numbers = (0, g.choices.one_of((3, 5, 1)), 1)
    return Applied(tuple(g.constant(np.array(n), dtype) for n in numbers), {})


def _center_crop_pad(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "int64"), 2, 3)
    return Applied((x, g.ints(*(g.choices.one_of((2, 3, 4)) for _ in g.shape(x)))), {})


def _blocks(name: str) -> Recipe:
    def recipe(g: Growing, op: operators.Operator) -> Applied:
        shape = (1, 4, 2, 2) if name == "DepthToSpace" else (1, 2, 4, 2)
        attributes: dict[str, object] = {"blocksize": 2}
        if name == "DepthToSpace":
            attributes["mode"] = g.choices.one_of(("DCR", "CRD"))
        return Applied((g.value(("float32", "float16"), shape=shape),), attributes)

    return recipe


def _random(like: bool) -> Recipe:
    def recipe(g: Growing, op: operators.Operator) -> Applied:
        dtype = DTYPE_CODES[g.choices.one_of(("float32", "float16", "float64"))]
        if like:
            return Applied((g.value(("float32", "float64", "int64"), 2, 1, 3),), {"dtype": dtype})
        return Applied((), {"dtype": dtype, "shape": (g.choices.one_of((2, 3)), 3)})

    return recipe


def _window(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.constant(np.array(g.choices.one_of((4, 7)), np.int64)),), {"periodic": g.choices.pick(2)})


def _mel(g: Growing, op: operators.Operator) -> Applied:
    whole = tuple(g.constant(np.array(n, np.int64)) for n in (4, 16, 8000))
    return Applied((*whole, *(g.constant(np.array(n, np.float32)) for n in (0, 4000))), {})


def _unique(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32", "int64"), 1, 2),), {}, 4)


def _constant(g: Growing, op: operators.Operator) -> Applied:
    return Applied((), {"value": np.full((g.choices.one_of((2, 1)), 3), g.choices.pick(4), np.float32)})


_REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]

ARRAYS: Mapping[str, Recipe] = {
    **{f"Reduce{kind}": _reduce for kind in _REDUCTIONS},
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _on_axis(("float32", "float16", "float64"))),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _window),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Bernoulli": _unary(FLOATS[:3], 2, 1, 3),
    "CenterCropPad": _center_crop_pad,
    "Compress": _compress,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": lambda g, _: Applied((g.ints(2, g.choices.one_of((3, 1))),), {}),
    "CumSum": _cum_sum,
    "DepthToSpace": _blocks("DepthToSpace"),
    "Expand": _expand,
    "EyeLike": _unary(("float32", "int64"), 2),
    "Flatten": _on_axis(PLAIN),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Identity": _unary(PLAIN),
    "LpNormalization": _on_axis(("float32", "float16", "float64"), p=2),
    "MelWeightMatrix": _mel,
    "Multinomial": lambda g, _: Applied((g.value(("float32", "float16"), 2),), {"sample_size": 2}),
    "NonZero": _unary(PLAIN, 2, 1, 3),
    "OneHot": _one_hot,
    "Pad": _pad,
    "RandomNormal": _random(like=False),
    "RandomNormalLike": _random(like=True),
    "RandomUniform": _random(like=False),
    "RandomUniformLike": _random(like=True),
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _unary(PLAIN),
    "Size": _unary(PLAIN),
    "Slice": _slice,
    "SpaceToDepth": _blocks("SpaceToDepth"),
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
}
