"""Pieces of a model: fewer nodes or outputs, smaller sizes, constants that are inputs or uniform.

In: a `ModelProto` and a `Step`. Out: a smaller `ModelProto`, or None where the step makes no model. Nothing is changed
in place; the same steps on the same model give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper


@dataclass(frozen=True, slots=True)
class Step:
    """One change. `kind` and what it uses:

    "nodes": `names` of the first outputs of the nodes that stay. "outputs": `names` of those that stay. "input": the
    constant `names[0]` becomes an input. "fill": every element of it becomes `size`. "resize": axes of size `old`
    become `size`, everywhere or, where `names` has a tensor, at its `axis` alone.
    """

    kind: str
    names: tuple[str, ...] = ()
    old: int = 0
    size: int = 0
    axis: int = -1


def apply(model: onnx.ModelProto, step: Step) -> onnx.ModelProto | None:
    """The model after one step; None where there is none."""
    match step.kind:
        case "nodes":
            return _keep(model, frozenset(step.names), None)
        case "outputs":
            every = frozenset(map(key_of, model.graph.node))
            return _keep(model, every, frozenset(step.names))
        case "input":
            return _as_input(model, step.names[0])
        case "fill":
            return _filled(model, step.names[0], step.size)
        case "resize":
            return _resized(model, step)
        case _:
            raise ValueError(step.kind)


def key_of(node: onnx.NodeProto) -> str:
    """What a node is called: its first output that is there."""
    return next((name for name in node.output if name), "")


def is_valid(model: onnx.ModelProto) -> bool:
    """Whether the checker and strict shape inference take the model."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # onnx raises errors of many classes
        return False
    return True


def named_sizes(model: onnx.ModelProto) -> list[tuple[str, int, int]]:
    """Every axis of an input or constant with a known size: (tensor, axis, size), in the order of the file."""
    found = []
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                found.append((value.name, axis, dim.dim_value))
    for tensor in model.graph.initializer:
        found += [(tensor.name, axis, size) for axis, size in enumerate(tensor.dims)]
    return found


def _reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads, and its subgraphs of what is outside."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            inner = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            for child in graph.node:
                found += [name for name in _reads(child) if name not in inner]
                inner.update(child.output)
            found += [value.name for value in graph.output if value.name not in inner]
    return found


def _types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """The type of each value that has one."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # onnx raises errors of many classes
        inferred = model
    graph = inferred.graph
    return {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)}


def _keep(model: onnx.ModelProto, names: frozenset[str], wanted: frozenset[str] | None) -> onnx.ModelProto | None:
    """The nodes of these names; what they read of others becomes an input, what none of them reads an output.

    With `wanted`, those outputs alone, and the nodes that lead to them.
    """
    graph = model.graph
    nodes = [node for node in graph.node if key_of(node) in names]
    given = {value.name for value in graph.output}
    if wanted is not None:
        nodes = _leading_to(nodes, wanted)
    made = [name for node in nodes for name in node.output if name]
    read = {name for node in nodes for name in _reads(node)}
    ends = [
        name for name in made if name in (given if wanted is None else wanted) or (wanted is None and name not in read)
    ]
    if not nodes or not ends:
        return None
    types = _types(model)
    constants = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    outside = [name for node in nodes for name in _reads(node) if name not in set(made)]
    inputs = [value.name for value in graph.input if value.name in read]
    inputs += [n for n in dict.fromkeys(outside) if n not in constants and n not in inputs]
    if any(name not in types for name in (*inputs, *ends)):
        return None
    return _rebuilt(model, nodes, _values(inputs, types), _values(ends, types))


def _values(names: Iterable[str], types: Mapping[str, onnx.TypeProto]) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name, type=types[name]) for name in names]


def _leading_to(nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]) -> list[onnx.NodeProto]:
    needed, found = set(wanted), []
    for node in reversed(nodes):
        if any(name in needed for name in node.output if name):
            needed.update(_reads(node))
            found.append(node)
    return found[::-1]


def _rebuilt(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Mapping[str, onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    """The model with another graph: only the constants, functions and domains that it uses."""
    read = {name for node in nodes for name in _reads(node)} | {value.name for value in outputs}
    kept = [t if constants is None else constants.get(t.name, t) for t in model.graph.initializer if t.name in read]
    graph = onnx.GraphProto(name=model.graph.name, node=nodes, input=inputs, output=outputs)
    graph.initializer.extend(kept)
    graph.sparse_initializer.extend(t for t in model.graph.sparse_initializer if t.values.name in read)
    result = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    result.graph.CopyFrom(graph)
    used = {(node.domain, node.op_type) for node in nodes}
    for function in reversed(model.functions):  # a function may call those before it
        if (function.domain, function.name) in used or any(a.HasField("g") for node in nodes for a in node.attribute):
            used |= {(node.domain, node.op_type) for node in function.node}
            result.functions.insert(0, function)
    result.opset_import.extend(model.opset_import)
    return result


def _as_input(model: onnx.ModelProto, name: str) -> onnx.ModelProto | None:
    tensor = next((t for t in model.graph.initializer if t.name == name), None)
    if tensor is None:
        return None
    inputs = [value for value in model.graph.input if value.name != name]
    inputs.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.input[:], result.graph.initializer[:]
    result.graph.input.extend(inputs)
    result.graph.initializer.extend(t for t in model.graph.initializer if t.name != name)
    return result


def _filled(model: onnx.ModelProto, name: str, element: int) -> onnx.ModelProto | None:
    tensor = next((t for t in model.graph.initializer if t.name == name), None)
    if tensor is None or tensor.data_type == onnx.TensorProto.STRING:
        return None
    array = _array(tensor)
    uniform = numpy_helper.from_array(np.full(array.shape, element).astype(array.dtype), name)
    if uniform.SerializeToString() == numpy_helper.from_array(array, name).SerializeToString():
        return None
    return _rebuilt(model, model.graph.node, model.graph.input, model.graph.output, {name: uniform})


def _resized(model: onnx.ModelProto, step: Step) -> onnx.ModelProto | None:
    """Inputs of other sizes, constants cut to them; the types of results follow."""

    def size_of(name: str, axis: int, size: int) -> int:
        here = not step.names or (name == step.names[0] and axis == step.axis)
        return step.size if here and size == step.old else size

    inputs = []
    for value in model.graph.input:
        changed = onnx.ValueInfoProto()
        changed.CopyFrom(value)
        for axis, dim in enumerate(changed.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                dim.dim_value = size_of(value.name, axis, dim.dim_value)
        inputs.append(changed)
    constants = {}
    for tensor in model.graph.initializer:
        sizes = tuple(size_of(tensor.name, axis, size) for axis, size in enumerate(tensor.dims))
        if sizes != tuple(tensor.dims):
            part = _array(tensor)[tuple(slice(0, size) for size in sizes)]
            constants[tensor.name] = numpy_helper.from_array(np.ascontiguousarray(part), tensor.name)
    outputs = []
    for value in model.graph.output:
        bare = onnx.ValueInfoProto()
        bare.CopyFrom(value)
        bare.type.tensor_type.ClearField("shape")
        outputs.append(bare)
    smaller = _rebuilt(model, model.graph.node, inputs, outputs, constants)
    types = _types(smaller)
    if any(value.name not in types or not types[value.name].tensor_type.HasField("shape") for value in outputs):
        return None
    return _rebuilt(smaller, smaller.graph.node, inputs, _values([value.name for value in outputs], types))


def _array(tensor: onnx.TensorProto) -> np.ndarray[Any, Any]:
    return numpy_helper.to_array(tensor)
