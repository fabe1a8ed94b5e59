"""Result shapes of reductions, normalisations, quantisation, recurrent networks, transforms and losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rewrite_engine.operators.calls import Call, Shape, Shapes
from rewrite_engine.operators.types import Dimension


def _reduce(call: Call) -> Shapes:
    shape, axes = call.shape(0), call.ints(1)
    if shape is None:
        return [None]
    keep = bool(call.attributes["keepdims"])
    if call.given(1) and axes is None:
        return [(None,) * len(shape) if keep else None]
    if not axes and call.attributes["noop_with_empty_axes"]:
        return [shape]
    return [_without(shape, call.axes(axes or range(len(shape)), len(shape)), keep)]


def _arg_reduce(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is None:
        return [None]
    axis = call.axis(call.attributes["axis"], len(shape))
    return [_without(shape, (axis,), bool(call.attributes["keepdims"]))]


def _without(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    if keep:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def same(count: int = 1) -> Callable[[Call], Shapes]:
    """Every result has the shape of input 0."""
    return lambda call: [call.shape(0)] * count


def _along_axis(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is not None:
        call.axis(call.attributes["axis"], len(shape))
    return [shape]


def _layer_norm(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is None:
        return [None] * 3
    axis = call.axis(call.attributes["axis"], len(shape))
    for position in (1, 2):
        if call.shape(position) is not None:
            call.broadcast_to(position, shape)
    reduced = (*shape[:axis], *(1 for _ in shape[axis:]))
    return [shape, reduced, reduced]


def _batch_norm(call: Call) -> Shapes:
    shape = call.shape(0)
    channels: Dimension = None
    if shape is not None:
        channels = shape[1] if len(shape) > 1 else 1
    for position in (1, 2, 3, 4):
        found = call.expect_rank(position, 1)
        if found is not None:
            channels = call.same(channels, found[0], f"channels and the size of {call.label(position)}")
    return [shape, (channels,), (channels,)]


def _channel_norm(call: Call) -> Shapes:
    shape = call.shape(0)
    for position in (1, 2):
        found = call.expect_rank(position, 1)
        if shape is not None and found is not None and len(shape) > 1:
            call.same(shape[1], found[0], f"channels and the size of {call.label(position)}")
    return [shape]


def _quantize(call: Call) -> Shapes:
    shape, scale = call.shape(0), call.shape(1)
    if shape is not None and scale is not None and len(scale) == 1 and scale[0] != 1 and len(shape) > 0:
        axis = call.axis(call.attributes["axis"], len(shape))
        call.same(shape[axis], scale[0], f"sizes of axis {axis} and of the scale")
    return [shape]


def _prelu(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is not None and call.shape(1) is not None:
        call.broadcast_to(1, shape)
    return [shape]


def _recurrent(call: Call) -> Shapes:
    x, state = call.expect_rank(0, 3) or (None,) * 3, call.expect_rank(2, 3)
    directions = 2 if call.attributes["direction"] == "bidirectional" else 1
    hidden = call.attributes.get("hidden_size", state[2] if state is not None else None)
    if call.attributes["layout"]:
        last: Shape = (x[0], directions, hidden)
        return [(x[0], x[1], directions, hidden), last, last]
    last = (directions, x[1], hidden)
    return [(x[0], directions, x[1], hidden), last, last]


def _dft(call: Call) -> Shapes:
    shape, length, axis = call.shape(0), call.one(1), call.one(2)
    if shape is None:
        return [None]
    if len(shape) < 2:
        raise call.fail(f"{call.label(0)} has rank {len(shape)}, expected at least 2")
    if call.given(2) and axis is None:
        return [(*(None for _ in shape[:-1]), 1 if call.attributes["onesided"] and call.attributes["inverse"] else 2)]
    place = call.axis(-2 if axis is None else axis, len(shape))
    size: Dimension = length if length is not None or call.given(1) else shape[place]
    if call.attributes["onesided"] and call.attributes["inverse"]:  # from half a spectrum to a real signal
        size = length if length is not None else (size - 1) * 2 if isinstance(size, int) else None
        return [(*shape[:place], size, *shape[place + 1 : -1], 1)]
    if call.attributes["onesided"]:
        size = size // 2 + 1 if isinstance(size, int) else None
    return [(*shape[:place], size, *shape[place + 1 : -1], 2)]


def _stft(call: Call) -> Shapes:
    signal, step, window, frame = call.expect_rank(0, 2, 3), call.one(1), call.expect_rank(2, 1), call.one(3)
    batch = signal[0] if signal is not None else None
    length: Dimension = frame if frame is not None else window[0] if window is not None else None
    if step is not None and step < 1:
        raise call.fail(f"{call.label(1)} is {step}, expected at least 1")
    if signal is None or step is None or not isinstance(length, int) or not isinstance(signal[1], int):
        return [(batch, None, None, 2)]
    bins = length // 2 + 1 if call.attributes["onesided"] else length
    return [(batch, (signal[1] - length) // step + 1, bins, 2)]


def _loss(call: Call) -> Shapes:
    whole = call.attributes["reduction"] != "none"
    return [() if whole else call.shape(1), call.shape(0)]


def _det(call: Call) -> Shapes:
    shape = call.shape(0)
    if shape is None:
        return [None]
    if len(shape) < 2:
        raise call.fail("input 0 is no matrix")
    call.same(shape[-1], shape[-2], "rows and columns")
    return [shape[:-2]]


def _multinomial(call: Call) -> Shapes:
    shape = call.expect_rank(0, 2) or (None,)
    return [(shape[0], call.attributes["sample_size"])]


def _tfidf(call: Call) -> Shapes:
    shape, width = call.shape(0), max(call.attributes["ngram_indexes"], default=-1) + 1
    return [None if shape is None else (*shape[:-1], width)]


def _string_split(call: Call) -> Shapes:
    shape = call.shape(0)
    return [None if shape is None else (*shape, None), shape]


def _lrn(call: Call) -> Shapes:
    size = call.attributes["size"]
    if isinstance(size, int) and size < 1:
        raise call.fail(f"size is {size}, expected at least 1")
    return [call.shape(0)]


_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_SAME_SHAPE = """
    Bernoulli CastLike Clip CumSum EyeLike GroupNormalization Identity MeanVarianceNormalization RandomNormalLike
    RandomUniformLike RegexFullMatch ReverseSequence RotaryEmbedding ScatterElements ScatterND Trilu
"""


REDUCTION: Mapping[str, Callable[[Call], Shapes]] = {
    **dict.fromkeys(_SAME_SHAPE.split(), same()),
    **{f"Reduce{kind}": _reduce for kind in _REDUCTIONS.split()},
    "ArgMax": _arg_reduce,
    "ArgMin": _arg_reduce,
    "BatchNormalization": _batch_norm,
    "DFT": _dft,
    "DequantizeLinear": _quantize,
    "Det": _det,
    "Dropout": same(2),
    "LRN": _lrn,
    "DynamicQuantizeLinear": lambda call: [call.shape(0), (), ()],
    "GRU": _recurrent,
    "Hardmax": _along_axis,
    "InstanceNormalization": _channel_norm,
    "LSTM": _recurrent,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _along_axis,
    "LpNormalization": _along_axis,
    "Multinomial": _multinomial,
    "NegativeLogLikelihoodLoss": _loss,
    "PRelu": _prelu,
    "QuantizeLinear": _quantize,
    "RMSNormalization": _layer_norm,
    "RNN": _recurrent,
    "STFT": _stft,
    "Softmax": _along_axis,
    "SoftmaxCrossEntropyLoss": _loss,
    "StringConcat": lambda call: [call.broadcast([call.shape(0), call.shape(1)])],
    "StringSplit": _string_split,
    "TfIdfVectorizer": _tfidf,
}
