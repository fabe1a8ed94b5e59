"""Operators that have no compute, one at a time through ONNX Runtime, where it is installed: their types and values.

In: an operator with its types. Out: a model of that one node, as bytes; what it gives on arrays.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ir
from rewrite_engine.graph.draft import Draft, inner_graphs
from rewrite_engine.graph.markers import IR_VERSION, OPSET, VERSIONS, is_ours, opset_imports
from rewrite_engine.graph.nodes import make_node
from rewrite_engine.graph.onnx_types import UNKNOWN, Array, typed_value, value_info
from rewrite_engine.operators.dtypes import DTYPE_CODES
from rewrite_engine.operators.types import TensorType


def runtime() -> Any:
    """The module `onnxruntime`, or None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime


def node_model(
    op: str,
    attributes: Mapping[str, object],
    inputs: Sequence[TensorType | None],
    outputs: Sequence[TensorType | None],
) -> bytes:
    """A model of one node as an ONNX file's bytes: inputs x0 x1 …, outputs y0 y1 …; None: absent.

    The last inputs are those that graphs among the attributes capture.
    """
    given = [None if t is None else typed_value(f"x{k}", t) for k, t in enumerate(inputs)]
    made = [typed_value(f"y{k}", t) if t is not None else ir.Value(name="") for k, t in enumerate(outputs)]
    node = make_node(op, attributes, given, made)
    graph = ir.Graph(
        [value for value in given if value is not None],
        [value for value, t in zip(made, outputs, strict=True) if t is not None],
        nodes=[node],
        opset_imports=opset_imports([node.domain]),
        name=op,
    )
    model = ir.serde.serialize_model(ir.Model(graph, ir_version=IR_VERSION))
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def run_node_model(content: bytes, arrays: Sequence[Array], op: str) -> list[Array]:
    """What a model of `node_model` gives on the inputs that are there. Raises RewriteError naming the operator."""
    try:
        session = _session(content)
    except RewriteError as error:
        raise RewriteError(f"operator {op} cannot run: {error}") from None
    names = [value.name for value in session.get_inputs()]
    try:
        found: list[Array] = session.run(None, dict(zip(names, arrays, strict=True)))
    except Exception as error:  # its C++ raises several kinds
        raise RewriteError(f"operator {op}: ONNX Runtime refuses to run it: {_reason(error)}") from None
    return found


@functools.lru_cache(maxsize=256)
def _session(content: bytes) -> Any:
    return _open(content)


def _open(content: bytes) -> Any:
    """A session of one thread. Raises RewriteError where ONNX Runtime is missing or does not take the model."""
    ort = runtime()
    if ort is None:
        raise RewriteError("ONNX Runtime is not installed (`pip install rewrite-engine[check]`)")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its C++ raises several kinds
        raise RewriteError(f"ONNX Runtime refuses it: {_reason(error)}") from None


def require_runtime(content: bytes) -> None:
    """Raises RewriteError where the model of an operator cannot run here."""
    _session(content)


def _reason(error: Exception) -> str:
    """The first line of a message of ONNX Runtime, without its error code."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", line).strip().rstrip(".")


def infer_foreign(draft: Draft) -> list[onnx.ValueInfoProto]:
    """The types of other domains' results that ONNX Runtime knows and the model does not say."""
    types = draft.types()
    nodes = [
        node
        for node in draft.graph.node
        if node.domain
        and not is_ours(node.domain)
        and not inner_graphs(node)
        and any(name and types.get(name, UNKNOWN).numel is None for name in node.output)
        and all(not name or types.get(name, UNKNOWN).numel is not None for name in node.input)
    ]
    ort = runtime() if nodes else None
    return [] if ort is None else [found for node in nodes for found in _infer(draft, node, types)]


def _infer(draft: Draft, node: onnx.NodeProto, types: Mapping[str, TensorType]) -> list[onnx.ValueInfoProto]:
    """Asks a session of the node alone, with its constants."""
    names = [name for name in dict.fromkeys(node.input) if name]
    given = [value_info(name, types[name]) for name in names if name not in draft.constants]
    constants = [draft.constants[name] for name in names if name in draft.constants]
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.GraphProto(node=[node], name="one", input=given, output=results, initializer=constants)
    model = onnx.ModelProto(graph=graph, ir_version=IR_VERSION)
    model.opset_import.add(domain="", version=OPSET)
    model.opset_import.add(domain=node.domain, version=VERSIONS.get(node.domain, 1))
    try:
        session = _open(model.SerializeToString(deterministic=True))
    except RewriteError:
        return []
    found = []
    for value in session.get_outputs():
        inner = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = _RUNTIME_DTYPES.get(inner, inner)
        if dtype not in DTYPE_CODES or not all(isinstance(size, int) for size in value.shape):
            continue
        if types.get(value.name, UNKNOWN).numel is None:
            found.append(value_info(value.name, TensorType(dtype, tuple(value.shape))))
    return found


_RUNTIME_DTYPES = {"float": "float32", "double": "float64"}
"""What ONNX Runtime calls dtypes that have another name here."""
