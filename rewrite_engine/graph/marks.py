"""Marks in an `onnx_ir` model: inserting `OnDevice` after values, and the functions that make marks runnable."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.graph import ir
from rewrite_engine.graph.markers import DOMAIN, MARKS, ON_DEVICE, mark_function
from rewrite_engine.graph.names import Names
from rewrite_engine.graph.subgraphs import inner_names


def add_marks(model: ir.Model, devices: Mapping[ir.Value, str]) -> None:
    """Mark values of the main graph for devices, in place: every reader of x reads OnDevice(x) instead.

    A marked value that is a graph output keeps its name on the mark's result.
    """
    graph = model.graph
    if devices:
        names = Names(inner_names([graph]))
        for value, device in devices.items():
            _mark(graph, value, device, names)
        define_marks(model, (ON_DEVICE,))


def define_marks(model: ir.Model, marks: tuple[str, ...]) -> None:
    """Give the model the functions behind these marks, where it does not have them."""
    for mark in marks:
        function = ir.serde.deserialize_function(mark_function(mark))
        if MARKS[mark] and function.identifier() not in model.functions:
            model.functions[function.identifier()] = function
    model.graph.opset_imports.setdefault(DOMAIN, 1)


def names_of_marked_outputs(graph: ir.Graph) -> dict[str, str]:
    """Values that take the name of a graph output: computed by a node, marked, and only the mark's result an output."""
    outputs = {str(value.name) for value in graph.outputs}
    names: dict[str, str] = {}
    for node in reversed(graph):
        if node.domain == DOMAIN and node.op_type == ON_DEVICE:
            value, result = node.inputs[0], str(node.outputs[0].name)
            result = names.get(result, result)
            if value is not None and value.producer() is not None and result in outputs and value.name not in outputs:
                names.setdefault(str(value.name), result)
    return names


def _mark(graph: ir.Graph, value: ir.Value, device: str, names: Names) -> None:
    name = str(value.name)
    marked = ir.Value(name=names.unique(f"{name}.on"), type=value.type, shape=value.shape)
    readers = [(use.node, use.idx) for use in value.uses()]
    node = ir.Node(DOMAIN, ON_DEVICE, [value], [ir.AttrString("device", device)], outputs=[marked])
    for reader, index in readers:
        reader.replace_input_with(index, marked)
    producer = value.producer()
    if producer is None:
        first = next(iter(graph), None)
        graph.append(node) if first is None else graph.insert_before(first, node)
    else:
        graph.insert_after(producer, node)
    if value in graph.outputs and producer is not None:
        value.name, marked.name = marked.name, name
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = marked
