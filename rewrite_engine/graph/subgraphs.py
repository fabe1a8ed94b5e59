"""Graphs inside operators (If, Loop, Scan, …): opaque to all but reading and writing, with the values they capture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.graph import ir


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """A graph that is an attribute. `captured` are the outer values that it reads, by the names they had there.

    Equal only to itself. The operator that has it takes the captured values as further inputs, after its own.
    """

    graph: ir.Graph
    captured: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<graph {self.graph.name or ''} capturing {', '.join(self.captured) or 'nothing'}>"


def captured_values(graph: ir.Graph) -> dict[str, ir.Value]:
    """The outer values that a graph, or a graph inside it, reads; in order of appearance."""
    own: set[ir.Value] = set()
    read: dict[ir.Value, None] = {}
    pending = [graph]
    while pending:
        current = pending.pop()
        own.update(current.inputs)
        own.update(current.initializers.values())
        for node in current:
            own.update(node.outputs)
            read.update(dict.fromkeys(value for value in node.inputs if value is not None))
            for attribute in node.attributes.values():
                pending.extend(graphs_of(attribute))
    return {str(value.name): value for value in read if value not in own}


def graphs_of(attribute: ir.Attr) -> Sequence[ir.Graph]:
    """The graphs that an attribute holds."""
    if attribute.type == ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    if attribute.type == ir.AttributeType.GRAPHS:
        return list(attribute.as_graphs())
    return []


def captured_names(attributes: Mapping[str, object]) -> tuple[str, ...]:
    """The names that the graphs among these attributes capture, each once, by order of the attributes' names."""
    found: dict[str, None] = {}
    for name in sorted(attributes):
        value = attributes[name]
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Subgraph):
                found.update(dict.fromkeys(item.captured))
    return tuple(found)


def instantiate(subgraph: Subgraph, values: Mapping[str, ir.Value]) -> ir.Graph:
    """A copy of the graph that reads `values` (by captured name) where the original captures its outer values."""
    old = captured_values(subgraph.graph)
    copy = subgraph.graph.clone(allow_outer_scope_values=True)
    replacement = {old[name]: values[name] for name in subgraph.captured}
    pending: list[ir.Graph] = [copy]
    while pending:
        graph = pending.pop()
        for node in graph:
            for index, value in enumerate(node.inputs):
                if value is not None and value in replacement:
                    node.replace_input_with(index, replacement[value])
            for attribute in node.attributes.values():
                pending.extend(graphs_of(attribute))
    return copy


def inner_names(graphs: Iterable[ir.Graph]) -> set[str]:
    """Every name of a value inside these graphs."""
    found: set[str] = set()
    pending = list(graphs)
    while pending:
        graph = pending.pop()
        values = [*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)]
        found.update(str(value.name) for value in values if value.name)
        pending.extend(g for node in graph for attribute in node.attributes.values() for g in graphs_of(attribute))
    return found
