"""How coarsely a model rounds: the float types it computes in, and the quantisation steps of its outputs.

In: an ONNX model, as bytes. Out: what a comparison of two runs of it has to allow. Two exact implementations sum in
different orders; where a value lies between two codes, they round it to different ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from rewrite_engine.graph.draft import all_graphs

SPACING: Mapping[int, float] = {TensorProto.FLOAT16: 2.0**-10, TensorProto.BFLOAT16: 2.0**-7}
"""Distance of a float from the next one, relative to the lower power of two, where it is coarser than float32's."""

QUANTISERS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})
"""Operators that round to codes of 8 bits or fewer (QLinear operators do as well)."""

_MOVES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Slice", "Gather", "Relu"})
"""Outputs of these are values of their first input (or zero)."""

_JOINS = frozenset({"ReduceMean", "GlobalAveragePool", "AveragePool", "ReduceMax", "MaxPool"})
"""Outputs of these lie between values of their first input."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """`spacing`: relative, of the coarsest float type; 0 where no float is coarser than float32.

    `scales`: per output, in order, the constant scale that it is quantised with, None where there is none; `sigmoids`
    are the positions of outputs that hold values of a Sigmoid (or means of them).
    """

    spacing: float
    quantised: bool
    scales: tuple[float | None, ...]
    sigmoids: frozenset[int] = frozenset()

    def step(self, position: int, values: np.ndarray) -> float:
        """The quantisation step of an output, in its unit, given values of it; 0 where the model is not quantised.

        An output without a scale of its own is taken as quantised to 8 bits over the range of its values. Numbers that
        are no codes (an index, a flag) have no step: they are the same or wrong.
        """
        scale = self.scales[position]
        if not self.quantised or scale is not None:
            return scale or 0.0
        finite = values[np.isfinite(values)].astype(np.float64) if values.dtype.kind not in "iubO" else values[:0]
        return float(finite.max() - finite.min()) / 255 if finite.size else 0.0


def rounding(model: bytes) -> Rounding:
    """The rounding of an ONNX file's bytes, its weights in the file."""
    proto = onnx.load_model_from_string(model)
    nodes = [node for graph in all_graphs(proto.graph) for node in graph.node]
    quantised = any(node.op_type in QUANTISERS or node.op_type.startswith("QLinear") for node in nodes)
    types = {tensor.data_type for tensor in proto.graph.initializer}
    types |= {value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)}
    types |= {attribute.i for node in nodes if node.op_type == "Cast" for attribute in node.attribute}
    spacing = max((SPACING[kind] for kind in types & SPACING.keys()), default=0.0)
    names = [output.name for output in proto.graph.output]
    scales = tuple(_scale(proto.graph, name) for name in names)
    return Rounding(
        spacing, quantised, scales, frozenset(at for at, name in enumerate(names) if _is_sigmoid(proto.graph, name))
    )


def _is_sigmoid(graph: onnx.GraphProto, output: str) -> bool:
    """Whether the output holds values of a Sigmoid, moved or averaged."""
    makers = {name: node for node in graph.node for name in node.output}
    node = makers.get(output)
    while node is not None and node.op_type in _MOVES | _JOINS:
        node = makers.get(node.input[0])
    return node is not None and node.op_type == "Sigmoid"


def _scale(graph: onnx.GraphProto, output: str) -> float | None:
    """The largest scale with which the output is quantised; None where that is not a constant."""
    makers = {name: node for node in graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    node = makers.get(output)
    while node is not None and node.op_type in _MOVES:
        node = makers.get(node.input[0])
    if node is None or node.op_type not in {"QuantizeLinear", "DequantizeLinear"}:
        return None
    if node.op_type == "QuantizeLinear":
        return 1.0  # the output holds the codes
    scale = constants.get(node.input[1])
    return None if scale is None else float(np.max(numpy_helper.to_array(scale).astype(np.float64)))
