"""Removing annotations: a placed or marked model as a plain one that any ONNX runtime runs."""

from __future__ import annotations

from rewrite_engine.graph import ir
from rewrite_engine.graph.markers import DOMAIN, FACTS, MARKS, is_ours


def strip(model: ir.Model) -> ir.Model:
    """The model without marks, copies, regions and composites, and without their metadata. The argument stays as it is.

    Names of inputs and outputs stay; so do the names of values, but for those that a mark or a copy had made.
    """
    plain = model.clone()
    plain = ir.InlinePass(lambda function: is_ours(function.domain) and function.domain != DOMAIN)(plain).model
    _remove_marks(plain)
    for identifier in [i for i in plain.functions if is_ours(i[0])]:
        del plain.functions[identifier]
    graph = plain.graph
    for domain in [d for d in graph.opset_imports if is_ours(d)]:
        del graph.opset_imports[domain]
    for properties in (plain.metadata_props, *(node.metadata_props for node in graph.all_nodes())):
        for key in FACTS:
            properties.pop(key, None)
    return plain


def _remove_marks(model: ir.Model) -> None:
    """OnDevice(x) => x, DeviceCopy(x) => x; Identity(x) where the result is a graph output."""
    for node in list(model.graph.all_nodes()):
        if node.domain != DOMAIN or node.op_type not in MARKS:
            continue
        value, result = node.inputs[0], node.outputs[0]
        home = node.graph
        assert value is not None and home is not None
        if result.is_graph_output():
            home.insert_before(node, identity := ir.Node("", "Identity", [value], num_outputs=1, name=node.name))
            new = identity.outputs[0]
            new.name, new.type, new.shape = result.name, result.type, result.shape
            result.name = None
            result.replace_all_uses_with(new, replace_graph_outputs=True)
        else:
            result.replace_all_uses_with(value)
        home.remove(node)
