"""A model while it is being imported: a `ModelProto` whose weights are held apart.

ONNX's converter and shape inference write the whole model out and read it back; the weights stay out of their way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx

from rewrite_engine.graph.onnx_types import Array, proto_array, proto_type
from rewrite_engine.operators.types import TensorType

SMALL = 1024
"""Constants of at most so many bytes, 8 an element (shapes, axes, scales), are shown to converter and inference."""


@dataclass(slots=True)
class Draft:
    """`model.graph.initializer` has only the defaults of inputs; every other initializer is in `constants`."""

    model: onnx.ModelProto
    origin: str  # for messages
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    _arrays: dict[str, Array] = field(default_factory=dict)  # elements that are known, by name

    @property
    def graph(self) -> onnx.GraphProto:
        return self.model.graph

    @property
    def opset(self) -> int | None:
        """The version of the default domain, None when the model does not use it."""
        return next((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), None)

    def array(self, name: str) -> Array:
        """The elements of a constant, read-only; kept once they are decoded."""
        if name not in self._arrays:
            array = np.asarray(proto_array(self.constants[name]))
            array.setflags(write=False)
            self._arrays[name] = array
        return self._arrays[name]

    def names(self) -> set[str]:
        """Every name of the main graph and of the graphs inside it."""
        taken = set(self.constants)
        for graph in all_graphs(self.graph):
            taken.update(i.name for i in graph.input)
            taken.update(t.name for t in graph.initializer)
            for node in graph.node:
                taken.update(node.input)
                taken.update(node.output)
        return taken

    def types(self) -> dict[str, TensorType]:
        """The types of the values of the main graph, as far as the model says them."""
        known = {v.name: proto_type(v.type) for v in (*self.graph.value_info, *self.graph.input, *self.graph.output)}
        for name in self.constants:
            known[name] = self.constant_type(name)
        return known

    def constant_type(self, name: str) -> TensorType:
        return proto_type(_tensor_type(self.constants[name]))

    def through(self, step: Callable[[onnx.ModelProto], onnx.ModelProto]) -> None:
        """Replace the model by what `step` makes of it; large constants take part as inputs, by type only."""
        graph = self.graph
        inputs, defaults = len(graph.input), len(graph.initializer)
        for name, tensor in self.constants.items():
            if is_small(tensor):
                graph.initializer.append(tensor)
            else:
                graph.input.append(onnx.ValueInfoProto(name=name, type=_tensor_type(tensor)))
        try:
            result = step(self.model)
        finally:
            del graph.input[inputs:]
            del graph.initializer[defaults:]
        own = {i.name for i in graph.input}
        own_defaults = {t.name for t in graph.initializer}
        kept = [i for i in result.graph.input if i.name in own]
        new = [t for t in result.graph.initializer if t.name not in self.constants]
        replace(result.graph.input, kept)
        replace(result.graph.initializer, [t for t in new if t.name in own_defaults])
        self.constants.update((t.name, t) for t in new if t.name not in own_defaults)
        self.model = result

    def finish(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model with its constants back in place, and the elements of large ones, which it only names.

        The draft is not to be used afterwards.
        """
        apart = {n: self._arrays[n] for n, t in self.constants.items() if n in self._arrays and not is_small(t)}
        for name, tensor in self.constants.items():
            self.graph.initializer.append(_elsewhere(tensor) if name in apart else tensor)
        return self.model, apart


def is_small(tensor: onnx.TensorProto) -> bool:
    """Whether the converter and shape inference are to see the elements."""
    return bool(math.prod(tensor.dims) * 8 <= SMALL)


def replace(field_: object, items: Iterable[object]) -> None:
    """Put `items` (messages, possibly of the field itself) in the place of a repeated field's content."""
    kept = list(items)
    del field_[:]  # type: ignore[attr-defined]
    field_.extend(kept)  # type: ignore[attr-defined]


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and every graph inside its nodes' attributes, outer ones first."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        for node in current.node:
            pending.extend(inner_graphs(node))


def inner_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that are attributes of a node (If, Loop, Scan, …)."""
    found = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append(attribute.g)
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            found.extend(attribute.graphs)
    return found


def reads(node: onnx.NodeProto) -> list[str]:
    """The names of its own graph that a node reads: its inputs, then what graphs inside it capture, each once."""
    names = dict.fromkeys(name for name in node.input if name)
    for graph in inner_graphs(node):
        names.update(dict.fromkeys(captured(graph)))
    return list(names)


def captured(graph: onnx.GraphProto) -> list[str]:
    """The outer names that a graph (and the graphs inside it) reads without defining them, in order of appearance."""
    found: dict[str, None] = {}
    pending: list[tuple[onnx.GraphProto, frozenset[str]]] = [(graph, frozenset())]
    while pending:
        current, outer = pending.pop()
        defined = set(outer)
        defined.update(i.name for i in current.input)
        defined.update(t.name for t in current.initializer)
        for node in current.node:
            defined.update(node.output)
        for node in current.node:
            found.update(dict.fromkeys(n for n in node.input if n and n not in defined))
            pending.extend((inner, frozenset(defined)) for inner in inner_graphs(node))
        found.update(dict.fromkeys(o.name for o in current.output if o.name not in defined))
    return list(found)


def _elsewhere(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """A tensor of the same name and type without its elements."""
    result = onnx.TensorProto(
        name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, data_location=onnx.TensorProto.EXTERNAL
    )
    result.external_data.add(key="location", value=tensor.name)
    return result


def _tensor_type(tensor: onnx.TensorProto) -> onnx.TypeProto:
    shape = onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension(dim_value=d) for d in tensor.dims])
    return onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=tensor.data_type, shape=shape))
