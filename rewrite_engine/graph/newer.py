"""Operators of later opsets as operators of `OPSET`: by the function that ONNX defines them with, or by a rule here.

In: a draft whose opset is later. Out: the draft, each of whose operators has a form that `OPSET` has too, where that
is possible; what is left is for the converter, or for a complaint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, shape_inference

from rewrite_engine.graph.draft import Draft, all_graphs, replace
from rewrite_engine.graph.inline import Body, inlined
from rewrite_engine.graph.markers import OPSET
from rewrite_engine.graph.names import Names
from rewrite_engine.graph.onnx_types import proto_array, tensor_proto

KEPT = frozenset({"BitCast"})
"""Operators that `OPSET` has no way to say: a model with one keeps the opset that it came with."""

DOMAINS = ("", "ai.onnx.preview")
"""Domains whose operators are replaced by their functions where `OPSET` does not have them."""


def expand_newer(draft: Draft, opset: int) -> None:
    """Replace every operator that `OPSET` does not have, function by function, until none is left that can be."""
    names = Names(draft.names())
    while True:
        stuck = [node for graph in all_graphs(draft.graph) for node in graph.node if not fits(node)]
        if not stuck:
            return
        types = _types(draft)
        changed = False
        for graph in list(all_graphs(draft.graph)):
            nodes: list[onnx.NodeProto] = []
            for node in graph.node:
                body = None if fits(node) else _rewritten(node, opset, types, draft.constants, names)
                nodes += [node] if body is None else body
                changed = changed or body is not None
            replace(graph.node, nodes)
        if not changed:
            return


def fits(node: onnx.NodeProto) -> bool:
    """Whether `OPSET` has the operator with these attributes and as many operands; other domains are not its matter."""
    if node.domain not in DOMAINS:
        return True
    if node.op_type in KEPT and not node.domain:
        return True
    schema = _schema(node.op_type, OPSET, node.domain)
    if schema is None or node.domain:
        return False
    written = {attribute.name for attribute in node.attribute}
    return (
        not schema.deprecated
        and written <= schema.attributes.keys()
        and len(node.input) <= schema.max_input
        and len(node.output) <= schema.max_output
    )


def _rewritten(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, onnx.TypeProto],
    constants: Mapping[str, onnx.TensorProto],
    names: Names,
) -> list[onnx.NodeProto] | None:
    """The nodes that mean the same, or None."""
    rule = _RULES.get(node.op_type) if not node.domain else None
    if rule is not None:
        try:
            return list(rule(node, types, names, constants))
        except KeyError:
            return None
    body = _function(node, opset, types)
    return None if body is None else inlined(body, node.input, node.output, names)


def _function(node: onnx.NodeProto, opset: int, types: Mapping[str, onnx.TypeProto]) -> Body | None:
    """The body that the schema gives the node, with the node's attributes and the schema's defaults put in."""
    version = opset if not node.domain else 1
    schema = _schema(node.op_type, version, node.domain)
    if schema is None or not schema.min_input <= len(node.input) <= schema.max_input:
        return None
    if schema.has_function:
        known = [v for v in schema.function_opset_versions if v <= opset]
        text = schema.get_function_with_opset_version(known[-1]) if known else b""
    elif schema.has_context_dependent_function:
        known = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
        content = node.SerializeToString()
        text = schema.get_context_dependent_function_with_opset_version(known[-1], content, given) if known else b""
    else:
        return None
    if not text:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    values = {a.name: a for a in (*_defaults(schema), *function.attribute_proto, *node.attribute)}
    return Body(tuple(function.input), tuple(function.output), tuple(function.node), values)


def _defaults(schema: Any) -> Iterator[onnx.AttributeProto]:
    for name, attribute in sorted(schema.attributes.items()):
        if attribute.default_value.name or attribute.default_value.type:
            value = onnx.AttributeProto()
            value.CopyFrom(attribute.default_value)
            value.name = name
            yield value


def _schema(op: str, version: int, domain: str) -> Any:
    """The schema of an operator, None where there is none (`Any`: the stubs of some versions of onnx lack methods)."""
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


def _types(draft: Draft) -> dict[str, onnx.TypeProto]:
    """The types of the values of all graphs, as far as inference at the model's own opset finds them."""
    found: dict[str, onnx.TypeProto] = {}

    def collect(whole: onnx.ModelProto) -> onnx.ModelProto:
        try:
            result = shape_inference.infer_shapes(whole, False, False, True)
        except Exception:  # what is wrong with a type is said when all operators are known
            result = whole
        for graph in all_graphs(result.graph):
            found.update((v.name, v.type) for v in (*graph.value_info, *graph.input, *graph.output) if v.name)
            found.update((t.name, helper.make_tensor_type_proto(t.data_type, t.dims)) for t in graph.initializer)
        return whole

    draft.through(collect)
    return found


# ---- operators without a function -----------------------------------------------------------------------------------

Rule = Callable[
    [onnx.NodeProto, Mapping[str, onnx.TypeProto], Names, Mapping[str, onnx.TensorProto]], Iterator[onnx.NodeProto]
]
"""The node, types and constants by name, and new names => the nodes in its place. Raises KeyError where one of these
is not known that must be."""


def _constant(names: Names, stem: str, value: Sequence[int] | int) -> onnx.NodeProto:
    name = names.unique(stem)
    return helper.make_node("Constant", [], [name], value=tensor_proto(np.array(value, np.int64), name))


def _tensor_scatter(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], names: Names, constants: Mapping[str, onnx.TensorProto]
) -> Iterator[onnx.NodeProto]:
    """TensorScatter(cache, update, at) => ScatterElements(cache, broadcast (at + 0 .. size of update), update).

    Where `mode` is circular, positions are taken modulo the size of the cache.
    """
    cache, update, start = node.input[0], node.input[1], node.input[2] if len(node.input) > 2 else ""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    axis, circular = int(attributes.get("axis", -2)), attributes.get("mode", b"linear") == b"circular"
    rank = len(types[cache].tensor_type.shape.dim)
    place = axis % rank

    def step(op: str, inputs: Sequence[str], stem: str, **written: Any) -> onnx.NodeProto:
        return helper.make_node(op, list(inputs), [names.unique(f"{node.output[0]}.{stem}")], **written)

    zero, one = (_constant(names, f"{node.output[0]}.{k}", k) for k in (0, 1))
    whole = step("Shape", [update], "shape")
    which = _constant(names, f"{node.output[0]}.axis", place)
    size = step("Gather", [whole.output[0], which.output[0]], "size", axis=0)
    steps = step("Range", [zero.output[0], size.output[0], one.output[0]], "steps")
    across = _constant(names, f"{node.output[0]}.across", [a for a in range(rank) if a != place])
    laid = step("Unsqueeze", [steps.output[0], across.output[0]], "laid")
    yield from (zero, one, whole, which, size, steps, across, laid)
    at = laid.output[0]
    if start:
        rest = _constant(names, f"{node.output[0]}.rest", list(range(1, rank)))
        first = step("Unsqueeze", [start, rest.output[0]], "first")
        moved = step("Add", [at, first.output[0]], "moved")
        yield from (rest, first, moved)
        at = moved.output[0]
    if circular:
        extents = step("Shape", [cache], "extents")
        extent = step("Gather", [extents.output[0], which.output[0]], "extent", axis=0)
        wrapped = step("Mod", [at, extent.output[0]], "wrapped")
        yield from (extents, extent, wrapped)
        at = wrapped.output[0]
    spread = step("Expand", [at, whole.output[0]], "positions")
    yield spread
    yield helper.make_node(
        "ScatterElements", [cache, spread.output[0], update], list(node.output), name=node.name, axis=place
    )


def _cumulative_product(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], names: Names, constants: Mapping[str, onnx.TensorProto]
) -> Iterator[onnx.NodeProto]:
    """CumProd(x, axis) => Scan along the axis of product = product * element, or of the product before it."""
    x, out = node.input[0], node.output[0]
    attributes = {a.name: a.i for a in node.attribute}
    tensor = types[x].tensor_type
    axis = int(proto_array(constants[node.input[1]]).reshape(-1)[0]) % len(tensor.shape.dim)
    backwards = int(bool(attributes.get("reverse", 0)))
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["before", "element"], ["after"]),
            helper.make_node("Identity", ["before" if attributes.get("exclusive", 0) else "after"], ["product"]),
        ],
        "products",
        [helper.make_tensor_value_info(name, tensor.elem_type, None) for name in ("before", "element")],
        [helper.make_tensor_value_info(name, tensor.elem_type, None) for name in ("after", "product")],
    )
    kept = _constant(names, f"{out}.kept", [a for a in range(len(tensor.shape.dim)) if a != axis])
    one = tensor_proto(np.ones(1, helper.tensor_dtype_to_np_dtype(tensor.elem_type)), "one")
    shape, rest, ones, last = (names.unique(f"{out}.{part}") for part in ("shape", "rest", "ones", "last"))
    scan = helper.make_node(
        "Scan", [ones, x], [last, out], name=node.name, body=body, num_scan_inputs=1,
        scan_input_axes=[axis], scan_output_axes=[axis],
        scan_input_directions=[backwards], scan_output_directions=[backwards],
    )  # fmt: skip
    yield kept
    yield helper.make_node("Shape", [x], [shape])
    yield helper.make_node("Gather", [shape, kept.output[0]], [rest], axis=0)
    yield helper.make_node("ConstantOfShape", [rest], [ones], value=one)
    yield scan


_RULES: Mapping[str, Rule] = {
    "CumProd": _cumulative_product,
    "TensorScatter": _tensor_scatter,
}
"""Operator -> what it stands for, node by node."""
