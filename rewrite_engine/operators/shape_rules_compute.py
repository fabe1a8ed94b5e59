"""Result shapes of operators that compute: contractions, windows, reductions, normalisations, and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rewrite_engine.operators.calls import Call, Shape, product, total
from rewrite_engine.operators.types import Dimension

Shapes = Sequence[Shape | None]


# ---- contractions ---------------------------------------------------------------------------------------------------


def _matmul(left: int, right: int) -> Callable[[Call], Shapes]:
    """numpy.matmul of two operands."""

    def shapes(call: Call) -> Shapes:
        a, b = call.shape(left), call.shape(right)
        for position, shape in ((left, a), (right, b)):
            if shape == ():
                raise call.fail(f"{call.label(position)} is a scalar")
        if a is None or b is None:
            return [None]
        call.same(a[-1], b[-2] if len(b) > 1 else b[0], "columns of the left and rows of the right operand")
        batch = call.broadcast([a[:-2], b[:-2]])
        rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
        return [None if batch is None else batch + rows + columns]

    return shapes


def _gemm(call: Call) -> Shapes:
    a, b = call.expect_rank(0, 2) or (None, None), call.expect_rank(1, 2) or (None, None)
    rows, inner = reversed(a) if call.attributes["transA"] else a
    inner_too, columns = reversed(b) if call.attributes["transB"] else b
    call.same(inner, inner_too, "the dimensions that are summed over")
    if call.shape(2) is not None:
        _broadcast_to(call, 2, (rows, columns))
    return [(rows, columns)]


def _broadcast_to(call: Call, position: int, target: Shape) -> None:
    """Raises unless the operand broadcasts to the target without changing it."""
    shape = call.shape(position) or ()
    if len(shape) > len(target):
        raise call.fail(f"{call.label(position)} has more axes than the result")
    for dim, wanted in zip(reversed(shape), reversed(target), strict=False):
        if isinstance(dim, int) and isinstance(wanted, int) and dim not in (1, wanted):
            raise call.fail(f"{call.label(position)} does not broadcast to {list(target)}")


def _einsum(call: Call) -> Shapes:
    equation = str(call.attributes["equation"]).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(call.inputs):
        raise call.fail(f"equation {equation} has {len(terms)} operands")
    if any(call.shape(i) is None for i in range(len(terms))):
        return [None]
    sizes: dict[str, Dimension] = {}
    batches: list[Shape | None] = []
    for i, term in enumerate(terms):
        shape, named = call.shape(i) or (), len(term.replace("...", ""))
        if len(shape) < named or ("..." not in term and len(shape) != named):
            raise call.fail(f"{call.label(i)} has rank {len(shape)}, the equation says {term}")
        before = term.partition("...")[0]
        hidden = len(shape) - named
        batches.append(shape[len(before) : len(before) + hidden])
        dims = shape[: len(before)] + shape[len(before) + hidden :]
        for letter, dim in zip(term.replace("...", ""), dims, strict=True):
            known = sizes.get(letter, 1)  # a size of 1 broadcasts
            sizes[letter] = dim if known == 1 else known if dim == 1 else call.same(known, dim, f"sizes of {letter}")
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        right = ("..." if "..." in left else "") + "".join(c for c in sorted(sizes) if letters.count(c) == 1)
    missing = [c for c in right.replace("...", "") if c not in sizes]
    if missing:
        raise call.fail(f"equation {equation} has `{missing[0]}` on the right only")
    batch = call.broadcast(batches) or ()
    before, _, after = right.partition("...")
    middle = batch if "..." in right else ()
    return [tuple(sizes[c] for c in before) + middle + tuple(sizes[c] for c in after)]


def _attention(call: Call) -> Shapes:
    query, key, value = call.expect_rank(0, 3, 4), call.expect_rank(1, 3, 4), call.expect_rank(2, 3, 4)
    past = call.expect_rank(4, 4)
    if query is None or key is None or value is None:
        return [None] * 4
    if len(query) == 4:
        call.same(query[3], key[3], "head sizes of Q and K")
        heads, kv_heads, width, value_width = query[1], key[1], key[3], value[3]
        rows, columns = query[2], key[2]
        result: Shape = (query[0], heads, rows, value_width)
    else:
        heads, kv_heads = call.attributes.get("q_num_heads"), call.attributes.get("kv_num_heads")
        if heads is None or kv_heads is None:
            raise call.fail("Q of rank 3 needs the attributes q_num_heads and kv_num_heads")
        rows, columns = query[1], key[1]
        width, value_width = _over(key[2], kv_heads), _over(value[2], kv_heads)
        result = (query[0], rows, product((heads, value_width)))
    if past is not None:
        columns = total((past[2], columns))
    elif call.given(4):
        columns = None
    present = (query[0], kv_heads, columns)
    return [result, (*present, width), (*present, value_width), (query[0], heads, rows, columns)]


def _over(dim: Dimension, count: Dimension) -> Dimension:
    return dim // count if isinstance(dim, int) and isinstance(count, int) and count else None


# ---- windows --------------------------------------------------------------------------------------------------------


def _window_sizes(call: Call, sizes: Shape, kernel: Shape) -> Shape:
    """Spatial sizes of the result of a sliding window, by the effective attributes."""
    count = len(sizes)
    pads, auto = call.attributes.get("pads"), call.attributes.get("auto_pad", "NOTSET")
    strides = call.attributes.get("strides", (1,) * count)
    dilations = call.attributes.get("dilations", (1,) * count)
    for name, values, wanted in (
        ("strides", strides, count),
        ("dilations", dilations, count),
        ("pads", pads, 2 * count),
    ):
        if values is not None and len(values) != wanted:
            raise call.fail(f"attribute {name} has {len(values)} elements, expected {wanted}")
    if len(kernel) != count:
        raise call.fail(f"the kernel has {len(kernel)} spatial axes, the input {count}")
    up = bool(call.attributes.get("ceil_mode", 0))
    result: list[Dimension] = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        if not isinstance(k, int) or (auto == "NOTSET" and pads is None):
            result.append(None)
        elif auto == "NOTSET":
            reach = (k - 1) * dilations[i] + 1
            result.append(_steps(call, size, pads[i], pads[i + count], reach, strides[i], up))  # type: ignore[index]
        else:  # SAME of an unknown size
            result.append(size if strides[i] == 1 else None)
    return tuple(result)


def _steps(call: Call, size: Dimension, before: int, after: int, reach: int, stride: int, up: bool) -> Dimension:
    if not isinstance(size, int):
        return size if stride == 1 and before + after == reach - 1 else None
    span = size + before + after - reach
    if span < 0:
        raise call.fail(f"a window of {reach} is larger than the padded size {size + before + after}")
    steps = (-(-span // stride) if up else span // stride) + 1
    # The last window must start inside the input or the padding before it.
    return steps - 1 if up and (steps - 1) * stride >= size + before else steps


def _conv(data: int, weight: int, bias: int) -> Callable[[Call], Shapes]:
    def shapes(call: Call) -> Shapes:
        x, w = call.shape(data), call.shape(weight)
        for position, shape in ((data, x), (weight, w)):
            if shape is not None and len(shape) < 3:
                raise call.fail(f"{call.label(position)} has rank {len(shape)}, expected at least 3")
        if x is not None and w is not None and len(x) != len(w):
            raise call.fail(f"{call.label(weight)} has rank {len(w)}, expected {len(x)} as {call.label(data)}")
        group = call.attributes["group"]
        if w is not None:
            if isinstance(w[0], int) and w[0] % group:
                raise call.fail(f"{w[0]} output channels are not a multiple of group {group}")
            if x is not None and isinstance(w[1], int):
                call.same(x[1], w[1] * group, f"channels of the input and of the kernel, times group {group},")
            if call.shape(bias) is not None:
                call.same((call.expect_rank(bias, 1) or (None,))[0], w[0], "sizes of the bias and output channels")
        if x is None:
            return [None if w is None else (None, w[0], *(None for _ in w[2:]))]
        kernel = w[2:] if w is not None else call.attributes.get("kernel_shape", (None,) * (len(x) - 2))
        return [(x[0], w[0] if w is not None else None, *_window_sizes(call, x[2:], kernel))]

    return shapes


def _conv_transpose(call: Call) -> Shapes:
    x, w = call.shape(0), call.shape(1)
    if x is None or w is None:
        return [None]
    if len(x) < 3 or len(w) != len(x):
        raise call.fail(f"ranks {len(x)} and {len(w)}, expected equal ones of at least 3")
    call.same(x[1], w[0], "channels of the input and of the kernel")
    attributes, count = call.attributes, len(x) - 2
    channels = product((w[1], attributes["group"]))
    wanted = attributes.get("output_shape")
    if wanted is not None:
        return [(x[0], channels, *wanted[-count:])]
    result: list[Dimension] = []
    for i, (size, k) in enumerate(zip(x[2:], w[2:], strict=True)):
        if isinstance(size, int) and isinstance(k, int) and "pads" in attributes:
            reach = (k - 1) * attributes["dilations"][i] + 1
            pads = attributes["pads"][i] + attributes["pads"][i + count]
            result.append(attributes["strides"][i] * (size - 1) + attributes["output_padding"][i] + reach - pads)
        else:
            result.append(None)
    return [(x[0], channels, *result)]


def _pool(call: Call) -> Shapes:
    x = call.shape(0)
    if x is None:
        return [None, None]
    if len(x) < 3:
        raise call.fail(f"{call.label(0)} has rank {len(x)}, expected at least 3")
    result = (*x[:2], *_window_sizes(call, x[2:], call.attributes["kernel_shape"]))
    return [result, result]


def _global_pool(call: Call) -> Shapes:
    x = call.shape(0)
    if x is not None and len(x) < 3:
        raise call.fail(f"{call.label(0)} has rank {len(x)}, expected at least 3")
    return [None if x is None else (*x[:2], *(1 for _ in x[2:]))]


def _max_unpool(call: Call) -> Shapes:
    x, wanted, attributes = call.shape(0), call.ints(2), call.attributes
    if x is None or wanted is not None or call.given(2):
        return [wanted if wanted is not None or x is None else (None,) * len(x)]
    sizes: list[Dimension] = []
    for i, (size, k) in enumerate(zip(x[2:], attributes["kernel_shape"], strict=True)):
        pads = attributes["pads"][i] + attributes["pads"][i + len(x) - 2]
        sizes.append((size - 1) * attributes["strides"][i] - pads + k if isinstance(size, int) else None)
    return [(*x[:2], *sizes)]


def _roi_align(call: Call) -> Shapes:
    x, rois = call.expect_rank(0, 4) or (None,) * 4, call.expect_rank(1, 2) or (None,)
    return [(rois[0], x[1], call.attributes["output_height"], call.attributes["output_width"])]


def _max_roi_pool(call: Call) -> Shapes:
    x, rois = call.expect_rank(0, 4) or (None,) * 4, call.expect_rank(1, 2) or (None,)
    return [(rois[0], x[1], *call.attributes["pooled_shape"])]


def _grid_sample(call: Call) -> Shapes:
    x, grid = call.shape(0), call.shape(1)
    if x is None or grid is None:
        return [None]
    if len(x) != len(grid):
        raise call.fail(f"ranks of X and grid differ: {len(x)} and {len(grid)}")
    return [(call.same(x[0], grid[0], "batch sizes"), x[1], *grid[1:-1])]


def _affine_grid(call: Call) -> Shapes:
    size = call.ints(1)
    return [None if size is None else (size[0], *size[2:], len(size) - 2)]


# ---- reductions and normalisations ----------------------------------------------------------------------------------


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
            _broadcast_to(call, position, shape)
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
        _broadcast_to(call, 1, shape)
    return [shape]


# ---- recurrent networks, transforms, losses -------------------------------------------------------------------------


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
    shape, length, axis = call.shape(0), call.ints(1), call.ints(2)
    if shape is None:
        return [None]
    if call.given(2) and axis is None:
        return [(*(None for _ in shape[:-1]), 2)]
    place = call.axis(axis[0] if axis else -2, len(shape))
    size: Dimension = length[0] if length else None if call.given(1) else shape[place]
    if call.attributes["onesided"]:
        size = size // 2 + 1 if isinstance(size, int) else None
    return [(*shape[:place], size, *shape[place + 1 : -1], 2)]


def _stft(call: Call) -> Shapes:
    signal, step, window, frame = call.shape(0), call.ints(1), call.shape(2), call.ints(3)
    batch = signal[0] if signal is not None else None
    length: Dimension = frame[0] if frame else window[0] if window is not None else None
    if signal is None or not step or not isinstance(length, int) or not isinstance(signal[1], int):
        return [(batch, None, None, 2)]
    bins = length // 2 + 1 if call.attributes["onesided"] else length
    return [(batch, (signal[1] - length) // step[0] + 1, bins, 2)]


def _vector_of(call: Call) -> Shapes:
    size = call.ints(0)
    return [(size[0] if size else None,)]


def _mel_weights(call: Call) -> Shapes:
    bins, length = call.ints(0), call.ints(1)
    return [(length[0] // 2 + 1 if length else None, bins[0] if bins else None)]


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


_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_SAME_SHAPE = """
    Bernoulli CastLike Clip CumSum EyeLike GroupNormalization Identity LRN MeanVarianceNormalization RandomNormalLike
    RandomUniformLike RegexFullMatch ReverseSequence RotaryEmbedding ScatterElements ScatterND Trilu
"""

COMPUTE_SHAPES: Mapping[str, Callable[[Call], Shapes]] = {
    **dict.fromkeys(_SAME_SHAPE.split(), same()),
    **{f"Reduce{kind}": _reduce for kind in _REDUCTIONS.split()},
    "AffineGrid": _affine_grid,
    "ArgMax": _arg_reduce,
    "ArgMin": _arg_reduce,
    "Attention": _attention,
    "AveragePool": _pool,
    "BatchNormalization": _batch_norm,
    "BlackmanWindow": _vector_of,
    "Conv": _conv(0, 1, 2),
    "ConvInteger": _conv(0, 1, -1),
    "ConvTranspose": _conv_transpose,
    "DFT": _dft,
    "DeformConv": _conv(0, 1, 3),
    "DequantizeLinear": _quantize,
    "Det": _det,
    "Dropout": same(2),
    "DynamicQuantizeLinear": lambda call: [call.shape(0), (), ()],
    "Einsum": _einsum,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalLpPool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "GridSample": _grid_sample,
    "HammingWindow": _vector_of,
    "HannWindow": _vector_of,
    "Hardmax": _along_axis,
    "ImageDecoder": lambda call: [(None, None, 1 if call.attributes["pixel_format"] == "Grayscale" else 3)],
    "InstanceNormalization": _channel_norm,
    "LSTM": _recurrent,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _along_axis,
    "LpNormalization": _along_axis,
    "LpPool": _pool,
    "MatMul": _matmul(0, 1),
    "MatMulInteger": _matmul(0, 1),
    "MaxPool": _pool,
    "MaxRoiPool": _max_roi_pool,
    "MaxUnpool": _max_unpool,
    "MelWeightMatrix": _mel_weights,
    "Multinomial": _multinomial,
    "NegativeLogLikelihoodLoss": _loss,
    "PRelu": _prelu,
    "QLinearConv": _conv(0, 3, 8),
    "QLinearMatMul": _matmul(0, 3),
    "QuantizeLinear": _quantize,
    "RMSNormalization": _layer_norm,
    "RNN": _recurrent,
    "RoiAlign": _roi_align,
    "STFT": _stft,
    "Softmax": _along_axis,
    "SoftmaxCrossEntropyLoss": _loss,
    "StringConcat": lambda call: [call.broadcast([call.shape(0), call.shape(1)])],
    "StringSplit": _string_split,
    "TfIdfVectorizer": _tfidf,
}
