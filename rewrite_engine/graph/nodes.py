"""Operators between `onnx_ir` nodes and plain values: attributes as Python values, NumPy arrays and `Subgraph`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ir
from rewrite_engine.graph.onnx_types import Array, to_array, to_tensor, value_type
from rewrite_engine.graph.placed import BodyNode
from rewrite_engine.graph.subgraphs import Subgraph, captured_names, captured_values, instantiate
from rewrite_engine.operators import TensorType, find

_KINDS = {
    "int": ir.AttributeType.INT,
    "ints": ir.AttributeType.INTS,
    "float": ir.AttributeType.FLOAT,
    "floats": ir.AttributeType.FLOATS,
    "string": ir.AttributeType.STRING,
    "strings": ir.AttributeType.STRINGS,
}


def operator_name(node: ir.Node) -> str:
    """ "Conv", or "com.microsoft::FusedMatMul" outside the default domain."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def attribute_values(node: ir.Node) -> dict[str, object]:
    """The attributes as written: int, float, str, tuples of them, arrays, `Subgraph`s; other kinds as `ir.Attr`."""
    return {name: _value(attribute) for name, attribute in node.attributes.items()}


def input_names(node: ir.Node, attributes: Mapping[str, object]) -> tuple[str, ...]:
    """The names of what a node reads: its inputs ("" where absent, not at the end), then what its graphs capture."""
    names = ["" if value is None else str(value.name) for value in node.inputs]
    while names and not names[-1]:
        names.pop()
    return (*names, *captured_names(attributes))


@dataclass(frozen=True, slots=True, eq=False)
class PlainGraph:
    """A graph inside an operator, by names: its operators in order, with effective attributes where types are known.

    `types` are those that the graph states of its inner values.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    nodes: tuple[BodyNode, ...]
    types: Mapping[str, TensorType]


def plain_graph(graph: ir.Graph) -> PlainGraph:
    """The graph with operators as a kernel's body has them."""
    nodes, types = [], {}
    for node in graph:
        attributes = attribute_values(node)
        outputs = tuple(str(value.name or "") for value in node.outputs)
        nodes.append(BodyNode(operator_name(node), attributes, input_names(node, attributes), outputs))
        types.update({str(value.name): value_type(value) for value in node.outputs if value.name})
    return PlainGraph(
        inputs=tuple(str(value.name) for value in graph.inputs),
        outputs=tuple(str(value.name) for value in graph.outputs),
        constants={str(name): _elements(value) for name, value in graph.initializers.items()},
        nodes=tuple(nodes),
        types=types,
    )


def _elements(value: ir.Value) -> Array:
    assert value.const_value is not None
    return to_array(value.const_value)


def make_node(
    op: str,
    attributes: Mapping[str, object],
    inputs: Sequence[ir.Value | None],
    outputs: Sequence[ir.Value],
    name: str = "",
) -> ir.Node:
    """A node; `inputs` end with the values that its graphs capture, if it has any."""
    domain, _, op_type = op.rpartition("::")
    names = captured_names(attributes)
    own = inputs[: len(inputs) - len(names)]
    captured: dict[str, ir.Value] = {}
    for captured_name, value in zip(names, inputs[len(own) :], strict=True):
        if value is None:
            raise RewriteError(f"{op}: expected a value for the captured `{captured_name}`, found an absent input")
        captured[captured_name] = value
    return ir.Node(
        domain,
        op_type,
        list(own),
        [_attribute(op, key, value, captured) for key, value in attributes.items()],
        outputs=list(outputs),
        name=name or None,
    )


def _value(attribute: ir.Attr) -> object:
    kind = attribute.type
    if attribute.is_ref():
        return attribute
    if kind in (ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING):
        return attribute.value
    if kind in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
        return tuple(attribute.value)
    if kind == ir.AttributeType.TENSOR:
        return to_array(attribute.as_tensor())
    if kind == ir.AttributeType.TENSORS:
        return tuple(to_array(tensor) for tensor in attribute.as_tensors())
    if kind == ir.AttributeType.GRAPH:
        return _subgraph(attribute.as_graph())
    if kind == ir.AttributeType.GRAPHS:
        return tuple(_subgraph(graph) for graph in attribute.as_graphs())
    return attribute


def _subgraph(graph: ir.Graph) -> Subgraph:
    return Subgraph(graph, tuple(captured_values(graph)))


def _attribute(op: str, name: str, value: object, captured: Mapping[str, ir.Value]) -> ir.Attr:
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, Subgraph):
        return ir.AttrGraph(name, instantiate(value, captured))
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, to_tensor(value))
    if isinstance(value, (tuple, list)):
        items = list(value)
        if items and isinstance(items[0], Subgraph):
            return ir.AttrGraphs(name, [instantiate(item, captured) for item in items])
        if items and isinstance(items[0], np.ndarray):
            return ir.AttrTensors(name, [to_tensor(item) for item in items])
        kind = _kind(op, name, items, "s")
        return ir.Attr(name, kind, tuple(_convert(kind, item) for item in items))
    kind = _kind(op, name, [value], "")
    return ir.Attr(name, kind, _convert(kind, value))


def _kind(op: str, name: str, items: Sequence[object], plural: str) -> ir.AttributeType:
    """The kind by the schema (an int may stand for a float), else by the values."""
    operator = find(op)
    schema = operator.attributes.get(name) if operator is not None else None
    if schema is not None and schema.type in _KINDS and schema.type.endswith("s") == bool(plural):
        return _KINDS[schema.type]
    if all(isinstance(item, (bool, int, np.integer)) for item in items):
        return _KINDS["int" + plural]
    if all(isinstance(item, (bool, int, float, np.integer, np.floating)) for item in items):
        return _KINDS["float" + plural]
    if all(isinstance(item, (str, bytes)) for item in items):
        return _KINDS["string" + plural]
    raise RewriteError(f"{op}: attribute `{name}`: expected numbers, text, tensors or graphs, found {items[0]!r}")


def _convert(kind: ir.AttributeType, item: object) -> int | float | str:
    if kind in (ir.AttributeType.INT, ir.AttributeType.INTS):
        return int(item)  # type: ignore[call-overload, no-any-return]
    if kind in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
        return float(item)  # type: ignore[arg-type]
    return item.decode() if isinstance(item, bytes) else str(item)
