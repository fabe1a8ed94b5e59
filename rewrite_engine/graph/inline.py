"""The nodes of a function or of a graph inside an operator, as nodes of the graph around it: every name made anew.

In: a body and the names that its inputs and outputs have outside. Out: nodes, in the body's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import helper

from rewrite_engine.graph.draft import all_graphs, inner_graphs, replace
from rewrite_engine.graph.names import Names


@dataclass(frozen=True, slots=True)
class Body:
    """What is to be put in: `attributes` are the values of attributes that the nodes refer to, by name."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    nodes: Sequence[onnx.NodeProto]
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)


def graph_body(graph: onnx.GraphProto) -> Body:
    """A graph inside an operator as a body; its initializers become Constant nodes."""
    constants = [helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
    return Body([i.name for i in graph.input], [o.name for o in graph.output], [*constants, *graph.node])


def inlined(body: Body, given: Sequence[str], results: Sequence[str], names: Names) -> list[onnx.NodeProto]:
    """The nodes of the body with `given` for its inputs ("", or too few: absent) and `results` for its outputs.

    Other names are new ones from `names`. A result that no node of the body makes, or makes for another result, is the
    Identity of it; a result "" is not wanted.
    """
    renamed = dict(zip(body.inputs, [*given, *[""] * len(body.inputs)], strict=False))
    made = {name for node in body.nodes for name in node.output if name}
    copies: list[tuple[str, str]] = []
    for inner, outer in zip(body.outputs, results, strict=False):
        if outer and (inner in renamed or inner not in made):
            copies.append((inner, outer))
        elif outer:
            renamed[inner] = outer
    stem = next((name for name in results if name), "")
    for name in _defined(body.nodes):
        if name not in renamed:
            renamed[name] = names.unique(f"{stem}.{name}" if stem else name)
    nodes = [_renamed(node, renamed, body.attributes) for node in body.nodes]
    return nodes + [helper.make_node("Identity", [renamed.get(i, i)], [outer]) for i, outer in copies]


def _defined(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """Every name that these nodes, or graphs inside them, give a value, once each."""
    found: dict[str, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(name for name in node.output if name))
        for inner in inner_graphs(node):
            for graph in all_graphs(inner):
                found.update(dict.fromkeys(v.name for v in (*graph.input, *graph.initializer)))
                found.update(dict.fromkeys(name for n in graph.node for name in n.output if name))
    return list(found)


def _renamed(
    node: onnx.NodeProto, names: Mapping[str, str], attributes: Mapping[str, onnx.AttributeProto]
) -> onnx.NodeProto:
    result = onnx.NodeProto()
    result.CopyFrom(node)
    pending = [result]
    while pending:
        current = pending.pop()
        replace(current.input, [names.get(name, name) for name in current.input])
        while current.input and not current.input[-1]:
            current.input.pop()
        replace(current.output, [names.get(name, name) for name in current.output])
        _resolve(current, attributes)
        for graph in inner_graphs(current):
            for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
                value.name = names.get(value.name, value.name)
            pending.extend(graph.node)
    return result


def _resolve(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
    """References to attributes => their values; those that nobody gave are left out."""
    if all(not attribute.ref_attr_name for attribute in node.attribute):
        return
    written = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            written.append(attribute)
        elif attribute.ref_attr_name in attributes:
            value = onnx.AttributeProto()
            value.CopyFrom(attributes[attribute.ref_attr_name])
            value.name = attribute.name
            written.append(value)
    replace(node.attribute, written)
