"""Every model at one opset, with its numbers unchanged.

`onnx.version_converter` does the work; what it leaves with another meaning is put right here, before or after it.
"""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import defs, helper, shape_inference, version_converter

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.draft import Draft, all_graphs, replace
from rewrite_engine.graph.markers import IR_VERSION, OPSET
from rewrite_engine.graph.names import Names
from rewrite_engine.graph.newer import expand_newer, fits


def to_opset(draft: Draft) -> None:
    """Bring the draft to `OPSET`. Raises `RewriteError` naming the operator that cannot be brought there."""
    _one_spelling(draft.model)
    opset = draft.opset
    if opset is None:
        draft.model.opset_import.add(domain="", version=OPSET)
    elif opset > defs.onnx_opset_version():
        raise RewriteError(
            f"{draft.origin}: opset {opset} is newer than the installed onnx package knows "
            f"({defs.onnx_opset_version()}); install a newer onnx, or export the model at opset {OPSET}"
        )
    elif opset != OPSET:
        if opset > OPSET:
            expand_newer(draft, opset)
        if _means_the_same(draft.model, opset):
            _relabel(draft, opset)
        else:
            _convert(draft, opset)
    draft.model.ir_version = max(draft.model.ir_version, IR_VERSION)


def _one_spelling(model: onnx.ModelProto) -> None:
    """ "ai.onnx" is the default domain's other name."""
    for graph in all_graphs(model.graph):
        for node in graph.node:
            if node.domain == "ai.onnx":
                node.domain = ""
    versions = {o.version for o in model.opset_import if o.domain in ("", "ai.onnx")}
    if versions:
        others = [o for o in model.opset_import if o.domain not in ("", "ai.onnx")]
        replace(model.opset_import, [helper.make_opsetid("", max(versions)), *others])


def _means_the_same(model: onnx.ModelProto, opset: int) -> bool:
    """Whether each operator of the model has the same definition at both opsets, or, where its opset is later, a form
    that `OPSET` has."""
    if opset > OPSET:
        return all(fits(node) for graph in all_graphs(model.graph) for node in graph.node)
    used = {node.op_type for graph in all_graphs(model.graph) for node in graph.node if not node.domain}
    return all(_since(op, opset) == _since(op, OPSET) is not None for op in used)


def _since(op: str, opset: int) -> int | None:
    try:
        schema = defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return None
    return None if schema.deprecated else int(schema.since_version)


def _relabel(draft: Draft, opset: int) -> None:
    """The model at `OPSET`; one with operators or dtypes that only a later opset knows keeps that."""
    _label(draft.model, OPSET)
    if opset > OPSET and not _is_valid(draft):
        _label(draft.model, opset)
        if not _is_valid(draft):  # what is wrong is said as for any other model
            _label(draft.model, OPSET)


def _label(model: onnx.ModelProto, opset: int) -> None:
    for entry in model.opset_import:
        if not entry.domain:
            entry.version = opset


def _is_valid(draft: Draft) -> bool:
    """Whether every operator exists and takes what it is given, at the model's opset."""
    try:
        draft.through(_checked)
    except Exception:  # the C++ raises several kinds
        return False
    return True


def _checked(whole: onnx.ModelProto) -> onnx.ModelProto:
    shape_inference.infer_shapes(whole, check_type=True, strict_mode=True)
    return whole


def _convert(draft: Draft, opset: int) -> None:
    model = draft.model
    model.ir_version = max(model.ir_version, 4)  # weights are not inputs: the importer has settled that
    metadata = {node.output[0]: list(node.metadata_props) for node in model.graph.node if node.metadata_props}
    if opset < 9:
        _refuse_batched_scans(draft, opset)
    if opset < 13:
        _hardmax_over_trailing_axes(model, Names(draft.names()))
    resizes = _resizes(draft) if opset <= 10 else {}
    try:
        draft.through(lambda whole: version_converter.convert_version(whole, OPSET))
    except Exception as error:  # the converter's C++ raises several kinds
        raise RewriteError(_complaint(draft, opset, error)) from None
    for graph in all_graphs(draft.graph):
        for node in graph.node:
            if node.op_type == "Resize" and node.output[0] in resizes:
                _set(node, "coordinate_transformation_mode", "asymmetric")
                _set(node, "nearest_mode", resizes[node.output[0]])
    for node in draft.graph.node:
        if not node.metadata_props:
            node.metadata_props.extend(metadata.get(node.output[0], ()))
    kept = {entry.domain for entry in draft.model.opset_import}
    draft.model.opset_import.extend(o for o in model.opset_import if o.domain not in kept)
    if not draft.model.functions:
        draft.model.functions.extend(model.functions)
    if not draft.model.metadata_props:
        draft.model.metadata_props.extend(model.metadata_props)


def _refuse_batched_scans(draft: Draft, opset: int) -> None:
    """Scan below opset 9 has a batch axis, which the converter passes over."""
    for graph in all_graphs(draft.graph):
        for node in graph.node:
            if node.op_type == "Scan" and not node.domain:
                raise RewriteError(
                    f"{draft.origin}: operator Scan (output `{node.output[0]}`) cannot be brought from opset {opset} "
                    f"to {OPSET}: below opset 9 it has a batch axis; export the model at opset {OPSET}"
                )


def _hardmax_over_trailing_axes(model: onnx.ModelProto, names: Names) -> None:
    """Below opset 13, Hardmax works on all axes from `axis` on, flattened into one.

    Hardmax(x) => Reshape(Hardmax(Flatten(x)), Shape(x))
    """
    for graph in all_graphs(model.graph):
        nodes = []
        for node in graph.node:
            if node.domain or node.op_type != "Hardmax":
                nodes.append(node)
                continue
            x, y = node.input[0], node.output[0]
            axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
            shape, flat, peak = (names.unique(f"{y}.{part}") for part in ("shape", "flat", "peak"))
            nodes += [
                helper.make_node("Shape", [x], [shape]),
                helper.make_node("Flatten", [x], [flat], axis=axis),
                helper.make_node("Hardmax", [flat], [peak], axis=1),
                helper.make_node("Reshape", [peak, shape], [y], name=node.name),
            ]
        if len(nodes) != len(graph.node):
            replace(graph.node, nodes)


def _resizes(draft: Draft) -> dict[str, str]:
    """Results of Upsample and Resize below opset 11, which meant x_in = x_out / scale, with their nearest modes.

    The nearest element is the one before, or, where the picture shrinks, the one after.
    """
    found = {}
    for graph in all_graphs(draft.graph):
        for node in graph.node:
            if not node.domain and node.op_type in ("Upsample", "Resize"):
                known = len(node.input) > 1 and node.input[1] in draft.constants
                scales = draft.array(node.input[1]) if known else None
                shrinks = scales is not None and bool(np.all(scales <= 1)) and bool(np.any(scales < 1))
                found[node.output[0]] = "ceil" if shrinks else "floor"
    return found


def _set(node: onnx.NodeProto, name: str, value: str) -> None:
    replace(node.attribute, [a for a in node.attribute if a.name != name])
    node.attribute.append(helper.make_attribute(name, value))


def _complaint(draft: Draft, opset: int, error: Exception) -> str:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    reason = re.sub(r"^\S+:\d+: .*? failed: ", "", reason).rstrip(".")  # where in the converter's C++ it was
    words = set(re.findall(r"\w+", str(error)))
    nodes = [n for graph in all_graphs(draft.graph) for n in graph.node if not n.domain]
    unknown = [n for n in nodes if _since(n.op_type, opset) is None]
    for node in (*unknown, *(n for n in nodes if n.op_type in words)):
        where = f"{draft.origin}: operator {node.op_type} (output `{node.output[0]}`)"
        if node in unknown:
            return (
                f"{where} is not an ONNX operator at opset {opset}; give it a domain of its own if it is a custom "
                f"operator, or export the model at opset {OPSET}"
            )
        return f"{where} cannot be brought from opset {opset} to {OPSET}: {reason}; export the model at opset {OPSET}"
    return f"{draft.origin}: cannot be brought from opset {opset} to {OPSET}: {reason}; export it at opset {OPSET}"
