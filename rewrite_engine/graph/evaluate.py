"""One operator on known values, at import: NumPy for shape arithmetic, ONNX's reference evaluator for the rest.

Only constant folding comes here; nothing that runs a placed model does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from rewrite_engine.graph.markers import IR_VERSION, OPSET
from rewrite_engine.graph.onnx_types import Array

Attributes = Mapping[str, object]
Inputs = Sequence[Array | None]

UNTRUSTED = frozenset({
    "AveragePool", "MaxPool", "LpPool", "MaxUnpool", "Resize", "GridSample", "RoiAlign", "DeformConv",
    "RNN", "GRU", "LSTM", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "BatchNormalization", "NonMaxSuppression",
    "Attention", "RotaryEmbedding", "Dropout", "ImageDecoder", "StringNormalizer", "TfIdfVectorizer",
})  # fmt: skip
"""Operators on which the reference evaluator is known to differ from the definition or from other runtimes (window
shapes, NaN, rounding) or that are too large to be worth it: never folded."""

QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
"""Never folded either: rules see quantised weights by these."""


def evaluate(node: onnx.NodeProto, inputs: Inputs) -> list[Array] | None:
    """The outputs of a node of the default domain on these inputs (None: absent); None where it cannot be computed."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    rule = _NUMPY.get(node.op_type)
    with np.errstate(all="ignore"):
        if rule is not None:
            try:
                answer = rule(attributes, inputs)
            except (ValueError, TypeError, IndexError, ZeroDivisionError):  # operands that do not fit: said later
                return None
            if answer is not None:
                return [np.asarray(answer)]
        return _reference(node, inputs)


def _reference(node: onnx.NodeProto, inputs: Inputs) -> list[Array] | None:
    from onnx.reference import ReferenceEvaluator

    present = dict(zip((n for n in node.input if n), (i for i in inputs if i is not None), strict=True))
    unknown = onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor())
    graph = helper.make_graph(
        [node],
        "one",
        [onnx.ValueInfoProto(name=name, type=unknown) for name in present],
        [onnx.ValueInfoProto(name=name, type=unknown) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    try:
        answers = iter(ReferenceEvaluator(model).run(None, present))
    except Exception:  # an operator or a dtype it does not have: the node stays
        return None
    return [np.asarray(next(answers)) if name else np.zeros(0) for name in node.output]


# ---- shape arithmetic; a rule answers None for what it leaves to the reference evaluator ----------------------------


def _elementwise(function: Callable[..., Array]) -> Callable[[Attributes, Inputs], Array | None]:
    def rule(attributes: Attributes, inputs: Inputs) -> Array | None:
        if any(i is None or i.dtype.kind not in "biuf" for i in inputs):
            return None
        answer = function(*inputs)
        return answer

    return rule


def _divide(a: Array, b: Array) -> Array:
    """Integers: exact, rounded towards zero."""
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    nonzero = np.where(b == 0, np.ones_like(b), b)
    quotient = np.floor_divide(a, nonzero)
    inexact = quotient * nonzero != a
    return np.asarray(quotient + (inexact & ((a < 0) != (nonzero < 0))).astype(a.dtype))


def _cast(attributes: Attributes, inputs: Inputs) -> Array | None:
    """Among integers and booleans, and from them to float32 and float64; other casts have rounding of their own."""
    to = attributes["to"]
    assert isinstance(to, int) and inputs[0] is not None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(to))
    if inputs[0].dtype.kind in "biu" and (dtype.kind in "biu" or dtype in (np.float32, np.float64)):
        return inputs[0].astype(dtype)
    return None


def _gather(attributes: Attributes, inputs: Inputs) -> Array | None:
    data, indices = inputs
    assert data is not None and indices is not None
    axis = int(attributes.get("axis", 0))  # type: ignore[call-overload]
    if indices.size and (indices.min() < -data.shape[axis] or indices.max() >= data.shape[axis]):
        return None
    return np.asarray(np.take(data, indices, axis=axis))


def _gather_elements(attributes: Attributes, inputs: Inputs) -> Array | None:
    data, indices = inputs
    assert data is not None and indices is not None
    axis = int(attributes.get("axis", 0)) % data.ndim  # type: ignore[call-overload]
    if indices.size and (indices.min() < -data.shape[axis] or indices.max() >= data.shape[axis]):
        return None
    window = tuple(slice(None) if a == axis else slice(size) for a, size in enumerate(indices.shape))
    return np.take_along_axis(data[window], indices.astype(np.int64), axis)


def _concat(attributes: Attributes, inputs: Inputs) -> Array | None:
    return np.concatenate([i for i in inputs if i is not None], axis=int(attributes["axis"]))  # type: ignore[call-overload]


def _unsqueeze(attributes: Attributes, inputs: Inputs) -> Array | None:
    data, axes = inputs
    assert data is not None and axes is not None
    return np.expand_dims(data, tuple(axes.reshape(-1).tolist()))


def _squeeze(attributes: Attributes, inputs: Inputs) -> Array | None:
    data = inputs[0]
    assert data is not None
    axes = inputs[1] if len(inputs) > 1 else None
    return np.squeeze(data, None if axes is None else tuple(axes.reshape(-1).tolist()))


def _slice(attributes: Attributes, inputs: Inputs) -> Array | None:
    data, starts, ends = inputs[:3]
    assert data is not None and starts is not None and ends is not None
    axes = inputs[3] if len(inputs) > 3 else None
    steps = inputs[4] if len(inputs) > 4 else None
    window = [slice(None)] * data.ndim
    which = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(which, starts.tolist(), ends.tolist(), strides, strict=True):
        size = data.shape[axis]
        low, high = (0, size) if step > 0 else (0, size - 1)
        start = min(max(start + size if start < 0 else start, low), high)
        end = end + size if end < 0 else end
        if step > 0:
            window[axis] = slice(start, min(max(end, 0), size), step)
        else:
            end = min(max(end, -1), size - 1)
            window[axis] = slice(start, None if end < 0 else end, step)
    return data[tuple(window)]


def _reshape(attributes: Attributes, inputs: Inputs) -> Array | None:
    data, shape = inputs
    assert data is not None and shape is not None
    sizes = shape.tolist()
    if not attributes.get("allowzero"):
        sizes = [data.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return data.reshape(sizes)


def _transpose(attributes: Attributes, inputs: Inputs) -> Array | None:
    assert inputs[0] is not None
    perm = attributes.get("perm")
    return np.transpose(inputs[0], None if perm is None else tuple(perm))  # type: ignore[arg-type]


def _expand(attributes: Attributes, inputs: Inputs) -> Array | None:
    data, shape = inputs
    assert data is not None and shape is not None
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape.tolist())))


def _constant_of_shape(attributes: Attributes, inputs: Inputs) -> Array | None:
    assert inputs[0] is not None
    value = attributes.get("value")
    fill = onnx.numpy_helper.to_array(value) if value is not None else np.zeros(1, np.float32)  # type: ignore[arg-type]
    return np.full(tuple(inputs[0].tolist()), fill.reshape(()), fill.dtype)


def _range(attributes: Attributes, inputs: Inputs) -> Array | None:
    start, limit, delta = inputs
    assert start is not None and limit is not None and delta is not None
    if start.dtype.kind not in "iu":
        return None
    return np.arange(int(start), int(limit), int(delta), dtype=start.dtype)


_NUMPY: Mapping[str, Callable[[Attributes, Inputs], Array | None]] = {
    "Add": _elementwise(np.add),
    "And": _elementwise(np.logical_and),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _elementwise(_divide),
    "Equal": _elementwise(np.equal),
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Greater": _elementwise(np.greater),
    "GreaterOrEqual": _elementwise(np.greater_equal),
    "Identity": lambda attributes, inputs: inputs[0],
    "Less": _elementwise(np.less),
    "LessOrEqual": _elementwise(np.less_equal),
    "Max": lambda attributes, inputs: _fold_pairs(np.maximum, inputs),
    "Min": lambda attributes, inputs: _fold_pairs(np.minimum, inputs),
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Not": _elementwise(np.logical_not),
    "Or": _elementwise(np.logical_or),
    "Range": _range,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _elementwise(np.where),
}


def _fold_pairs(function: Callable[[Array, Array], Array], inputs: Inputs) -> Array | None:
    if any(i is None or i.dtype.kind not in "biuf" for i in inputs):
        return None
    first, *others = (i for i in inputs if i is not None)
    for other in others:
        first = function(first, other)
    return first
