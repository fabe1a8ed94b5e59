"""The form of an imported graph: each name written once, nodes in order, constants as initializers, nothing unused."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.draft import Draft, all_graphs, captured, inner_graphs, reads, replace
from rewrite_engine.graph.names import Names
from rewrite_engine.graph.onnx_types import Array, proto_array, tensor_proto


def make_draft(model: onnx.ModelProto, origin: str, decoded: Mapping[str, Array]) -> Draft:
    """The model as a draft: initializers that no caller can override become constants.

    `decoded` has the elements of some.

    Before version 4 of the file format every weight had to be listed among the inputs: they are constants all the same.
    Later, an initializer that is an input is only its default.
    """
    graph = model.graph
    if model.ir_version < 4:
        weights = {t.name for t in graph.initializer}
        replace(graph.input, [i for i in graph.input if i.name not in weights])
    inputs = {i.name for i in graph.input}
    constants = {t.name: t for t in graph.initializer if t.name not in inputs}
    draft = Draft(model, origin, constants, {n: array for n, array in decoded.items() if n in constants})
    for sparse in graph.sparse_initializer:
        constants[sparse.values.name] = tensor_proto(_dense(sparse), sparse.values.name)
    del graph.sparse_initializer[:]
    replace(graph.initializer, [t for t in graph.initializer if t.name in inputs])
    return draft


def lift_constants(draft: Draft) -> None:
    """Constant nodes of the main graph become initializers."""
    kept = []
    for node in draft.graph.node:
        if node.op_type == "Constant" and not node.domain:
            draft.constants[node.output[0]] = _constant(node, draft.origin)
        else:
            kept.append(node)
    if len(kept) != len(draft.graph.node):
        replace(draft.graph.node, kept)


def check_and_sort(draft: Draft) -> None:
    """Every name is written once and before it is read; nodes that are listed too early are moved.

    Raises `RewriteError` for a name written twice, a name nobody writes, and a cycle.
    """
    graph = draft.graph
    writer: dict[str, str] = {i.name: "an input" for i in graph.input}
    if len(writer) != len(graph.input):
        names = [i.name for i in graph.input]
        double = next(n for n in names if names.count(n) > 1)
        raise RewriteError(f"{draft.origin}: two inputs are named `{double}`; every name must be written once")
    for name in draft.constants:
        writer[name] = "an initializer"
    for node in graph.node:
        for name in filter(None, node.output):
            if name in writer:
                raise RewriteError(
                    f"{draft.origin}: `{name}` is written twice, by {writer[name]} and by {node.op_type}; "
                    "every name must be written once"
                )
            writer[name] = f"{node.op_type}"
    for node in graph.node:
        for name in reads(node):
            if name not in writer:
                outputs = ", ".join(f"`{o}`" for o in node.output)
                raise RewriteError(f"{draft.origin}: {node.op_type} ({outputs}) reads `{name}`, which nothing writes")
    outputs_seen: set[str] = set()
    for output in graph.output:
        if output.name in outputs_seen:
            raise RewriteError(
                f"{draft.origin}: the graph lists its output `{output.name}` twice; list it once, or give the second "
                f"a name of its own with Identity"
            )
        outputs_seen.add(output.name)
        if output.name not in writer:
            raise RewriteError(f"{draft.origin}: nothing computes the graph's output `{output.name}`")
    _sort(draft)


def remove_unused(draft: Draft) -> None:
    """Drop nodes none of whose outputs is read, then constants and types nobody needs."""
    graph = draft.graph
    needed = {o.name for o in graph.output}
    kept = []
    for node in reversed(graph.node):
        if any(name in needed for name in node.output):
            needed.update(reads(node))
            kept.append(node)
    if len(kept) != len(graph.node):
        replace(graph.node, kept[::-1])
        written = {name for node in graph.node for name in node.output}
        replace(graph.value_info, [v for v in graph.value_info if v.name in written])
    for name in [n for n in draft.constants if n not in needed]:
        del draft.constants[name]


def compute_constant_outputs(draft: Draft) -> None:
    """A graph output that is a constant is computed from it: c => Identity(c); so outputs are computed or inputs."""
    outputs = list(dict.fromkeys(o.name for o in draft.graph.output if o.name in draft.constants))
    if not outputs:
        return
    names = Names(draft.names())
    inside = {name for node in draft.graph.node for graph in inner_graphs(node) for name in captured(graph)}
    for output in outputs:
        tensor = draft.constants.pop(output)
        constant = names.unique(f"{output}.value")
        draft.constants[constant] = onnx.TensorProto()
        draft.constants[constant].CopyFrom(tensor)
        draft.constants[constant].name = constant
        for node in draft.graph.node:
            if output in node.input and output not in inside:
                replace(node.input, [constant if name == output else name for name in node.input])
        draft.graph.node.insert(0, helper.make_node("Identity", [constant], [output]))


def compute_outputs_of_branches(draft: Draft) -> None:
    """A graph inside an operator that hands out an outer value x computes it: x => Identity(x)."""
    names: Names | None = None
    for graph in all_graphs(draft.graph):
        if graph is draft.graph:
            continue
        own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        own.update(name for node in graph.node for name in node.output)
        for output in graph.output:
            if output.name not in own:
                names = names or Names(draft.names())
                result = names.unique(f"{output.name}.result")
                graph.node.append(helper.make_node("Identity", [output.name], [result]))
                output.name = result


def _sort(draft: Draft) -> None:
    nodes = draft.graph.node
    place = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waits = [{place[name] for name in reads(node) if name in place} for node in nodes]
    if all(all(before < index for before in waiting) for index, waiting in enumerate(waits)):
        return
    readers: list[list[int]] = [[] for _ in nodes]
    for index, waiting in enumerate(waits):
        for before in waiting:
            readers[before].append(index)
    missing = [len(waiting) for waiting in waits]
    ready = [index for index, count in enumerate(missing) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for reader in readers[index]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) != len(nodes):
        stuck = next(node for node, count in zip(nodes, missing, strict=True) if count)
        raise RewriteError(f"{draft.origin}: the graph has a cycle: `{stuck.output[0]}` depends on itself")
    replace(nodes, order)


def _constant(node: onnx.NodeProto, origin: str) -> onnx.TensorProto:
    """The value of a Constant node as a tensor of its output's name."""
    name = node.output[0]
    for attribute in node.attribute:
        if attribute.name == "value":
            tensor = onnx.TensorProto()
            tensor.CopyFrom(attribute.t)
            tensor.name = name
            return tensor
        if attribute.name == "sparse_value":
            return tensor_proto(_dense(attribute.sparse_tensor), name)
        if attribute.name in _PLAIN:
            dtype = _PLAIN[attribute.name]
            return tensor_proto(np.asarray(helper.get_attribute_value(attribute), dtype), name)
    raise RewriteError(f"{origin}: Constant (`{name}`) has no value")


_PLAIN = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    values, indices = proto_array(sparse.values), proto_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense
