"""A graph inside an operator, made of terms: what the branches of an `If` are."""

from __future__ import annotations

from rewrite_engine.graph import ir
from rewrite_engine.graph.nodes import make_node
from rewrite_engine.graph.onnx_types import to_tensor, typed_value
from rewrite_engine.graph.subgraphs import Subgraph
from rewrite_engine.graph.terms import ABSENT, Terms


def branch(terms: Terms, name: str) -> Subgraph:
    """The terms as a graph without inputs: what they read is captured from outside, by name."""
    values = [typed_value(value.name, value.type) for value in terms.values]
    for value, known in zip(values, terms.values, strict=True):
        if known.constant is not None:
            value.const_value = to_tensor(known.constant, known.name)
    nodes = [
        make_node(
            term.op, term.attributes, [None if i == ABSENT else values[i] for i in term.inputs],
            [values[i] for i in term.outputs],
        )
        for term in terms.nodes
    ]  # fmt: skip
    constants = [value for value in values if value.const_value is not None]
    graph = ir.Graph([], [values[i] for i in terms.outputs], nodes=nodes, initializers=constants, name=name)
    return Subgraph(graph, tuple(terms.values[i].name for i in terms.inputs))
