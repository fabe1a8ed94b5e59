"""Recipes of contractions, windows, normalisations, quantisation, recurrent networks and transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rewrite_engine import operators
from rewrite_engine.graph.terms import ABSENT
from rewrite_engine.testing.strategies.growing import FLOATS, Applied, Growing, Refused

Recipe = Callable[[Growing, operators.Operator], Applied]
REAL = FLOATS[:3]


def _image(g: Growing, dtypes: tuple[str, ...] = REAL) -> tuple[int, tuple[int, ...]]:
    """A batch of images with known sizes, none of them 0."""
    x = g.value(dtypes, 4, 3, known=True)
    sizes = g.sizes(x)
    if 0 in sizes:
        raise Refused
    return x, sizes


def _kernel(g: Growing, sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(min(g.choices.one_of((1, 2, 3)), size) for size in sizes)


def _conv(g: Growing, op: operators.Operator) -> Applied:
    x, (_, channels, *space) = _image(g)
    group = g.choices.one_of((1, channels))
    kernel = _kernel(g, tuple(space))
    dtype, out = g.dtype(x), group * g.choices.one_of((1, 2))
    bias = ABSENT if g.choices.chance(50) else g.weight(dtype, out)
    attributes: dict[str, object] = {"group": group}
    if g.choices.chance(40):
        attributes["pads"] = (1,) * (2 * len(kernel))
    elif g.choices.chance(20):
        attributes["auto_pad"] = "SAME_UPPER"
    if g.choices.chance(30):
        attributes["strides"] = (2,) * len(kernel)
    return Applied((x, g.weight(dtype, out, channels // group, *kernel), bias), attributes)


def _conv_transpose(g: Growing, op: operators.Operator) -> Applied:
    x, (_, channels, *space) = _image(g)
    weight = g.weight(g.dtype(x), channels, g.choices.one_of((1, 2)), *_kernel(g, tuple(space)))
    return Applied((x, weight), {"strides": (g.choices.one_of((1, 2)),) * len(space)})


def _conv_integer(g: Growing, op: operators.Operator) -> Applied:
    x, (_, channels, *space) = _image(g, ("uint8", "int8"))
    zero = ABSENT if g.choices.chance(50) else g.constant(np.array(1), g.dtype(x))
    return Applied((x, g.weight("int8", 2, channels, *_kernel(g, tuple(space))), zero), {})


def _deform_conv(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float16"), shape=(1, 2, 3, 3))
    dtype = g.dtype(x)
    return Applied((x, g.weight(dtype, 2, 2, 1, 1), g.weight(dtype, 1, 2, 3, 3)), {})


def _pool(g: Growing, op: operators.Operator) -> Applied:
    x, (_, _, *space) = _image(g)
    attributes: dict[str, object] = {"kernel_shape": _kernel(g, tuple(space))}
    if g.choices.chance(40):
        attributes["strides"] = (2,) * len(space)
    return Applied((x,), attributes, 1 + (op.name == "MaxPool" and g.choices.chance(20)))


def _global(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(REAL, 4, 3),), {})


def _lrn(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32", "float16"), 4),), {"size": g.choices.one_of((1, 3))})


def _max_unpool(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float16"), shape=(1, 1, 2, 2))
    return Applied(
        (x, g.constant(np.array([0, 2, 8, 10], np.int64).reshape(1, 1, 2, 2))),
        {"kernel_shape": (2, 2), "strides": (2, 2)},
    )


def _roi_align(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float64"), 4, known=True)
    return Applied((x, g.weight(g.dtype(x), 2, 4), g.ints(0, 0)), {"output_height": 2, "output_width": 2})


def _max_roi_pool(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float64"), 4, known=True)
    return Applied((x, g.constant(np.zeros((2, 5)), g.dtype(x))), {"pooled_shape": (1, 2)})


def _resize(g: Growing, op: operators.Operator) -> Applied:
    x, sizes = _image(g, ("float32", "float16"))
    mode = {"mode": g.choices.one_of(("nearest", "linear"))}
    if g.choices.chance(50):
        return Applied((x, ABSENT, ABSENT, g.ints(*sizes[:2], *(2 * size for size in sizes[2:]))), dict(mode))
    scales = g.constant(np.array([1, 1, *[2] * (len(sizes) - 2)], np.float32))
    return Applied((x, ABSENT, scales), dict(mode))


def _grid_sample(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float64"), 4, known=True)
    return Applied((x, g.weight(g.dtype(x), g.sizes(x)[0], 2, 3, 2)), {"mode": g.choices.one_of(("linear", "nearest"))})


def _affine_grid(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32", "float64"), shape=(1, 2, 3)), g.ints(1, 1, 2, 2)), {})


def _matmul(g: Growing, op: operators.Operator) -> Applied:
    a = g.value(("float32", "float16", "int32", "float64"), 2, 3, 1)
    inner = g.shape(a)[-1]
    if not isinstance(inner, int):
        raise Refused
    if g.choices.chance(30) and len(g.shape(a)) == 2:
        return Applied((a, g.value((g.dtype(a),), shape=(inner, 2))), {})
    return Applied((a, g.weight(g.dtype(a), inner, g.choices.one_of((2, 3)))), {})


def _matmul_integer(g: Growing, op: operators.Operator) -> Applied:
    a = g.value(("uint8", "int8"), 2, 3, known=True)
    zero = ABSENT if g.choices.chance(50) else g.constant(np.array(1), g.dtype(a))
    return Applied((a, g.weight("int8", g.sizes(a)[-1], 2), zero), {})


def _gemm(g: Growing, op: operators.Operator) -> Applied:
    a = g.value(("float32", "float16", "float64"), 2, known=True)
    flip_a, flip_b = g.choices.pick(2), g.choices.pick(2)
    inner, out = g.sizes(a)[0 if flip_a else 1], g.choices.one_of((2, 3))
    b = g.weight(g.dtype(a), *((out, inner) if flip_b else (inner, out)))
    c = ABSENT if g.choices.chance(40) else g.weight(g.dtype(a), out)
    return Applied((a, b, c), {"transA": flip_a, "transB": flip_b, "alpha": g.choices.one_of((1.0, 0.5))})


def _einsum(g: Growing, op: operators.Operator) -> Applied:
    a = g.value(("float32", "float16", "float64"), 2, known=True)
    equation = g.choices.one_of(("ij,jk->ik", "ij,jk->ki", "ij,jk"))
    return Applied((a, g.weight(g.dtype(a), g.sizes(a)[1], 2)), {"equation": equation})


def _attention(g: Growing, op: operators.Operator) -> Applied:
    q = g.value(("float32", "float16"), shape=(1, 2, 3, 4))
    k, v = (g.value((g.dtype(q),), shape=(1, 2, 3, 4)) for _ in range(2))
    mask = g.weight(g.dtype(q), 3, 3) if g.choices.chance(40) else ABSENT
    return Applied((q, k, v, mask), {"is_causal": g.choices.pick(2)})


def _rotary(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float16"), shape=(1, 2, 3, 4))
    dtype = g.dtype(x)
    return Applied((x, g.weight(dtype, 1, 3, 2), g.weight(dtype, 1, 3, 2)), {})


def _layer_norm(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float16", "float64"), 2, 3, 4, known=True)
    last = g.sizes(x)[-1]
    operands = [x, g.weight(g.dtype(x), last)]
    if op.name == "LayerNormalization" and g.choices.chance(60):
        operands.append(g.weight(g.dtype(x), last))
    return Applied(tuple(operands), {"axis": -1})


def _batch_norm(g: Growing, op: operators.Operator) -> Applied:
    x, sizes = _image(g)
    dtype = g.dtype(x)
    operands = [g.constant(np.ones(sizes[1]), dtype) for _ in range(4)]
    return Applied((x, *operands), {"epsilon": g.choices.one_of((1e-5, 1e-3))})


def _channel_norm(g: Growing, op: operators.Operator) -> Applied:
    x, sizes = _image(g)
    attributes: dict[str, object] = {"num_groups": 1} if op.name == "GroupNormalization" else {}
    return Applied((x, g.weight(g.dtype(x), sizes[1]), g.weight(g.dtype(x), sizes[1])), attributes)


def _mean_variance(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32",), 4),), {})


def _dropout(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float16", "float64"), 2, 1, 3)
    return Applied((x,), {}, 1 + g.choices.chance(30))


def _quantize(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32", "float16"), 2, 3, 4)
    zero = ABSENT if g.choices.chance(30) else g.constant(np.array(3), g.choices.one_of(("uint8", "int8")))
    return Applied((x, g.constant(np.array(0.5), g.dtype(x)), zero), {})


def _dequantize(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("uint8", "int8", "int32"), 2, 3, 4)
    zero = ABSENT if g.choices.chance(50) or g.dtype(x) == "int32" else g.constant(np.array(3), g.dtype(x))
    return Applied((x, g.constant(np.array(0.5, np.float32)), zero), {})


def _dynamic(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32",), 2, 3, 1),), {}, 3)


def _codes(g: Growing, *shape: int) -> tuple[int, int, int]:
    """Quantised weights, their scale and zero point."""
    return g.weight("int8", *shape), g.constant(np.array(0.25, np.float32)), g.constant(np.array(0, np.int8))


def _qlinear_matmul(g: Growing, op: operators.Operator) -> Applied:
    a = g.value(("uint8", "int8"), 2, 3, known=True)
    scale, zero = g.constant(np.array(0.5, np.float32)), g.constant(np.array(1), g.dtype(a))
    return Applied((a, scale, zero, *_codes(g, g.sizes(a)[-1], 2), scale, zero), {})


def _qlinear_conv(g: Growing, op: operators.Operator) -> Applied:
    x, (_, channels, *space) = _image(g, ("uint8", "int8"))
    scale, zero = g.constant(np.array(0.5, np.float32)), g.constant(np.array(1), g.dtype(x))
    return Applied((x, scale, zero, *_codes(g, 2, channels, *_kernel(g, tuple(space))), scale, zero), {})


def _recurrent(gates: int) -> Recipe:
    def recipe(g: Growing, op: operators.Operator) -> Applied:
        x = g.value(("float32", "float16"), 3, known=True)
        hidden, dtype = 2, g.dtype(x)
        weights = (g.weight(dtype, 1, gates * hidden, g.sizes(x)[2]), g.weight(dtype, 1, gates * hidden, hidden))
        bias = ABSENT if g.choices.chance(50) else g.weight(dtype, 1, 2 * gates * hidden)
        return Applied((x, *weights, bias), {"hidden_size": hidden}, 1 + g.choices.pick(len(op.outputs)))

    return recipe


def _det(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32", "float64"), shape=g.choices.one_of(((2, 2), (1, 3, 3)))),), {})


def _dft(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32", "float64"), shape=(1, 4, 1)),), {"onesided": g.choices.pick(2)})


def _stft(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(("float32",), shape=(1, 8, 1))
    step, length = g.constant(np.array(2, np.int64)), g.constant(np.array(4, np.int64))
    return Applied((x, step, ABSENT, length), {"onesided": 1})


def _col2im(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32", "float16"), shape=(1, 4, 4)), g.ints(3, 3), g.ints(2, 2)), {})


def _loss(g: Growing, op: operators.Operator) -> Applied:
    scores = g.value(("float32", "float64"), 2, known=True)
    labels = g.constant(np.zeros(g.sizes(scores)[0], np.int64))
    return Applied((scores, labels), {"reduction": g.choices.one_of(("mean", "sum", "none"))})


def _suppression(g: Growing, op: operators.Operator) -> Applied:
    boxes, scores = g.value(("float32",), shape=(1, 3, 4)), g.value(("float32",), shape=(1, 2, 3))
    return Applied((boxes, scores, g.constant(np.array(2, np.int64))), {})


LAYERS: Mapping[str, Recipe] = {
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), _global),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), _channel_norm),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_norm),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _loss),
    "AffineGrid": _affine_grid,
    "Attention": _attention,
    "BatchNormalization": _batch_norm,
    "Col2Im": _col2im,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "DFT": _dft,
    "DeformConv": _deform_conv,
    "DequantizeLinear": _dequantize,
    "Det": _det,
    "Dropout": _dropout,
    "DynamicQuantizeLinear": _dynamic,
    "Einsum": _einsum,
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "GridSample": _grid_sample,
    "LRN": _lrn,
    "LSTM": _recurrent(4),
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "MaxRoiPool": _max_roi_pool,
    "MaxUnpool": _max_unpool,
    "MeanVarianceNormalization": _mean_variance,
    "NonMaxSuppression": _suppression,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
    "RNN": _recurrent(1),
    "Resize": _resize,
    "RoiAlign": _roi_align,
    "RotaryEmbedding": _rotary,
    "STFT": _stft,
}
