"""Kernels that compute declared operators, with those replaced by their bodies, so that they can be lowered.

In: a placed graph, and what the declared operators mean. Out: the graph with bodies of known operators only. Where a
target has a code generator of its own for such an operator, that one gets the kernel as it was placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.foreign import node_model, require_runtime
from rewrite_engine.graph.placed import BodyNode, KernelCall, PlacedGraph
from rewrite_engine.language.meaning import Meaning, expand, refusal
from rewrite_engine.operators.types import TensorType


def with_bodies(graph: PlacedGraph, meanings: Mapping[str, Meaning]) -> PlacedGraph:
    """The graph with every declared operator expanded, but for those whose meaning does not hold where they stand.

    Such an operator is left to ONNX Runtime; where that does not have it, it is a RewriteError that says why not.
    """
    steps = tuple(_expanded(step, graph, meanings) if isinstance(step, KernelCall) else step for step in graph.steps)
    return replace(graph, steps=steps)


def _expanded(call: KernelCall, graph: PlacedGraph, meanings: Mapping[str, Meaning]) -> KernelCall:
    if not any(node.op in meanings for node in call.body):
        return call
    inner = dict(call.inner_types)
    constants = dict[str, np.ndarray](graph.parameters)
    found: list[BodyNode] = []
    pending = list(reversed(call.body))
    while pending:
        node = pending.pop()
        body = _body(node, {**graph.types, **inner}, inner, constants, meanings, call) if node.op in meanings else None
        if body is None:
            found.append(node)
        else:
            pending += reversed(body)
    return replace(call, body=tuple(found), inner_types=inner)


def _body(
    node: BodyNode,
    types: Mapping[str, TensorType],
    inner: dict[str, TensorType],
    constants: dict[str, np.ndarray],
    meanings: Mapping[str, Meaning],
    call: KernelCall,
) -> list[BodyNode] | None:
    """The operators of one node; the names that they need are added to `inner`, their constants to `constants`.

    None where its meaning does not hold, but ONNX Runtime has it.
    """
    inputs = [types[name] if name else None for name in node.inputs]
    known = [constants.get(name) if name else None for name in node.inputs]
    body = expand(meanings[node.op], node.attributes, inputs, known, len(node.outputs))
    if body is None:
        made = [types.get(name) if name else None for name in node.outputs]
        why = refusal(meanings[node.op].rule, node.attributes, inputs, known, len(node.outputs))
        try:
            require_runtime(node_model(node.op, node.attributes, inputs, made))
        except RewriteError as error:
            message = f"kernel `{call.name}`: the declared meaning of `{node.op}` does not hold: {why}; and {error}"
            raise RewriteError(message) from None
        return None
    base = next(name for name in (*node.outputs, call.name) if name)
    results = {root: out for root, out in zip(body.roots, node.outputs, strict=True) if out and root[0] == "node"}
    found: list[BodyNode] = []
    for k, array in enumerate(body.constants):
        name = f"{base}.c{k}"
        constants[name] = array
        inner[name] = TensorType(str(array.dtype), array.shape)
        found.append(BodyNode("Constant", {"value": array}, (), (name,)))

    def name_of(reference: tuple[str | int, ...]) -> str:
        match reference:
            case ("input", int() as position):
                return node.inputs[position]
            case ("constant", int() as index):
                return f"{base}.c{index}"
            case ("node", int() as index, int() as output):
                return results.get(reference, f"{base}.{index}.{output}")
            case _:
                return ""

    for index, part in enumerate(body.nodes):
        outputs = tuple(name_of(("node", index, output)) for output in range(part.outputs))
        inner |= {name: kind for name, kind in zip(outputs, body.types[index], strict=True) if name not in node.outputs}
        found.append(BodyNode(part.op, body.attributes[index], tuple(map(name_of, part.inputs)), outputs))
    for root, output in zip(body.roots, node.outputs, strict=True):
        if output and name_of(root) != output:  # an input, a constant, or a result that another output has already
            found.append(BodyNode("Identity", {}, (name_of(root),), (output,)))
    return found
