"""How much an operator computes: multiply-accumulates and floating point operations, and the bytes of its tensors.

One MAC is two flops, and contractions count nothing else (a bias or a scale is not counted). Other operators count per
element: 1 for an addition, product, comparison or conversion, `TRANSCENDENTAL` for one exp, log, erf, sine, power and
their like. Movement, gathering and views count 0. The counts are estimates for cost formulas, not measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewrite_engine.operators.effective import effective_attributes
from rewrite_engine.operators.facts import find
from rewrite_engine.operators.types import Dimension, TensorType

TRANSCENDENTAL = 8
"""Flops that one transcendental function of one element counts for."""

_T = TRANSCENDENTAL
_Types = Sequence[TensorType | None]


@dataclass(frozen=True, slots=True)
class Work:
    """What one run of an operator computes; None where a dimension is not a known size."""

    macs: int | None
    flops: int | None


def work(op: str, attributes: Mapping[str, object], inputs: _Types, outputs: _Types) -> Work:
    """The work of one application, from its attributes (effective or as written) and the types of inputs and outputs.

    An operator outside the table counts one flop per element of its outputs.

    >>> f32 = lambda *shape: TensorType("float32", shape)
    >>> work("MatMul", {}, [f32(4, 8), f32(8, 3)], [f32(4, 3)])
    Work(macs=96, flops=192)
    """
    operator = find(op)
    if op in _MACS:
        macs = _MACS[op](effective_attributes(op, attributes, inputs), inputs, outputs)
        return Work(macs, None if macs is None else 2 * macs)
    if operator is not None and (operator.movement or op in _COPIES):
        return Work(0, 0)
    if op in _FLOPS:
        return Work(0, _FLOPS[op](effective_attributes(op, attributes, inputs), inputs, outputs))
    if op in _PER_INPUT_ELEMENT:
        return Work(0, _times(_PER_INPUT_ELEMENT[op], _elements(inputs, 0)))
    if op in _PER_OUTPUT_ELEMENT or operator is not None:
        return Work(0, _times(_PER_OUTPUT_ELEMENT.get(op, 1), _elements(outputs, 0)))
    return Work(0, _sum(t.numel for t in outputs if t is not None))


def total_bytes(types: Iterable[TensorType | None]) -> int | None:
    """The sum of the tensors' sizes in bytes; absent ones (None) count 0, an unknown size makes it None."""
    return _sum(t.bytes for t in types if t is not None)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(c for c in known if c is not None)


def _times(*factors: Dimension) -> int | None:
    """The product of sizes, or None when one is not known."""
    result = 1
    for factor in factors:
        if not isinstance(factor, int):
            return None
        result *= factor
    return result


def _shape(types: _Types, position: int) -> tuple[Dimension, ...] | None:
    type_ = types[position] if position < len(types) else None
    return None if type_ is None else type_.shape


def _elements(types: _Types, position: int) -> int | None:
    type_ = types[position] if position < len(types) else None
    return None if type_ is None else type_.numel


# ---- multiply-accumulates -------------------------------------------------------------------------------------------

_Count = Callable[[Mapping[str, Any], _Types, _Types], "int | None"]


def _conv(weight: int) -> _Count:
    """Each output element sums over the channels of its group and the kernel's window."""

    def macs(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
        kernel = _shape(inputs, weight)
        return None if kernel is None else _times(_elements(outputs, 0), *kernel[1:])

    return macs


def _conv_transpose(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    kernel = _shape(inputs, 1)  # each input element is spread over the output channels of its group and the window
    return None if kernel is None else _times(_elements(inputs, 0), *kernel[1:])


def _matmul(left: int) -> _Count:
    def macs(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
        a = _shape(inputs, left)
        return _times(_elements(outputs, 0), a[-1]) if a else None

    return macs


def _gemm(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    a = _shape(inputs, 0)
    return _times(_elements(outputs, 0), a[0 if attributes["transA"] else 1]) if a and len(a) == 2 else None


def _einsum(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    """One step per point of the iteration space: every index letter once, and the axes under an ellipsis."""
    terms = str(attributes["equation"]).replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, Dimension] = {}
    for position, term in enumerate(terms):
        shape = _shape(inputs, position)
        if shape is None:
            return None
        hidden = len(shape) - len(term.replace("...", ""))
        letters = [*term.partition("...")[0], *(f"...{hidden - i}" for i in range(hidden)), *term.partition("...")[2]]
        for letter, dim in zip(letters, shape, strict=False):
            if sizes.get(letter, 1) == 1:
                sizes[letter] = dim
    return _times(*sizes.values())


def _attention(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    """Q times K and the probabilities times V, for every query row, key and head."""
    query, key, value, past = (_shape(inputs, i) for i in (0, 1, 2, 4))
    if query is None or key is None or value is None:
        return None
    before: Dimension = past[2] if past is not None else 0
    if len(query) == 4:
        heads, rows, columns, width, value_width = query[1], query[2], key[2], query[3], value[3]
        per_pair = _sum([_times(heads, width), _times(heads, value_width)])
    else:
        rows, columns = query[1], key[1]
        ratio = attributes.get("q_num_heads", 1) / attributes.get("kv_num_heads", 1)
        wide = value[2] if isinstance(value[2], int) else None
        per_pair = _sum([_times(query[2]), None if wide is None else int(wide * ratio)])
    return _times(query[0], rows, _sum([_times(columns), _times(before)]), per_pair)


def _recurrent(gates: int) -> _Count:
    def macs(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
        x, state = _shape(inputs, 0), _shape(inputs, 2)
        if x is None or state is None:
            return None
        return _times(x[0], x[1], state[0], gates, state[2], _sum([_times(x[2]), _times(state[2])]))

    return macs


_MACS: Mapping[str, _Count] = {
    "Attention": _attention,
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _conv(1),
    "Einsum": _einsum,
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "LSTM": _recurrent(4),
    "MatMul": _matmul(0),
    "MatMulInteger": _matmul(0),
    "QLinearConv": _conv(3),
    "QLinearMatMul": _matmul(0),
    "RNN": _recurrent(1),
}

# ---- flops of the others --------------------------------------------------------------------------------------------


def _pool(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    return _times(_elements(outputs, 0), *attributes["kernel_shape"])


def _fold(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    return _times(_elements(outputs, 0), len(inputs) - 1)  # n operands are joined by n - 1 operations


def _mean(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    return _times(_elements(outputs, 0), len(inputs))


def _lrn(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    return _times(_elements(outputs, 0), 2 * attributes["size"] + 2 + _T)


def _resize(attributes: Mapping[str, Any], inputs: _Types, outputs: _Types) -> int | None:
    """Interpolation sums over 2 (linear) or 4 (cubic) points along each axis whose size changes."""
    points = {"linear": 2, "cubic": 4}.get(attributes["mode"], 0)
    before, after = _shape(inputs, 0), _shape(outputs, 0)
    if before is None or after is None:
        return None
    moving = sum(a != b for a, b in zip(before, after, strict=False))
    return _times(_elements(outputs, 0), 2 * points**moving if points and moving else 0)


_FLOPS: Mapping[str, _Count] = {
    "AveragePool": _pool,
    "LRN": _lrn,
    "LpPool": _pool,
    "Max": _fold,
    "MaxPool": _pool,
    "Mean": _mean,
    "Min": _fold,
    "Resize": _resize,
    "Sum": _fold,
}

_COPIES = frozenset(
    (
        *(
            "Compress",
            "Gather",
            "GatherElements",
            "GatherND",
            "OneHot",
            "ReverseSequence",
            "ScatterElements",
            "ScatterND",
        ),
        *("Constant", "ConstantOfShape", "EyeLike", "Shape", "Size"),
    )
)
"""Not movement by the operator table (data says what goes where, or there is no input), yet nothing is computed."""

_PER_INPUT_ELEMENT: Mapping[str, int] = {
    "ArgMax": 1, "ArgMin": 1, "GlobalAveragePool": 1, "GlobalLpPool": _T, "GlobalMaxPool": 1, "NonZero": 1,
    "ReduceL1": 2, "ReduceL2": 2, "ReduceLogSum": 1, "ReduceLogSumExp": _T + 2, "ReduceMax": 1, "ReduceMean": 1,
    "ReduceMin": 1, "ReduceProd": 1, "ReduceSum": 1, "ReduceSumSquare": 2, "TopK": 1, "Unique": 1,
    "NegativeLogLikelihoodLoss": 2, "SoftmaxCrossEntropyLoss": _T + 4,
}  # fmt: skip

_PER_OUTPUT_ELEMENT: Mapping[str, int] = {
    "Acos": _T, "Acosh": _T, "Asin": _T, "Asinh": _T, "Atan": _T, "Atanh": _T, "Cos": _T, "Cosh": _T, "Erf": _T,
    "Exp": _T, "Log": _T, "Pow": _T, "Sin": _T, "Sinh": _T, "Tan": _T, "Tanh": _T,
    "Celu": _T + 4, "Elu": _T + 2, "Gelu": _T + 4, "Mish": 2 * _T + 4, "Selu": _T + 3, "Sigmoid": _T + 2,
    "Softplus": _T + 1, "BatchNormalization": 2, "Clip": 2, "DequantizeLinear": 2, "DynamicQuantizeLinear": 6,
    "GroupNormalization": 8, "HardSigmoid": 4, "HardSwish": 5, "Hardmax": 2, "InstanceNormalization": 8,
    "LayerNormalization": 8, "LeakyRelu": 2, "LogSoftmax": _T + 4, "LpNormalization": 3,
    "MeanVarianceNormalization": 7, "PRelu": 2, "QuantizeLinear": 4, "RMSNormalization": 5, "RotaryEmbedding": 3,
    "Shrink": 2, "Softmax": _T + 4, "Softsign": 3, "ThresholdedRelu": 1,
}  # fmt: skip
