"""What the schemas of the standard say of attributes: which an operator knows, of which type, which it must have.

In: a draft at its own opset. Out: nothing; an error for the first node that its schema does not allow.
"""

from __future__ import annotations

import onnx
from onnx import defs

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.graph.draft import Draft, all_graphs

_TYPES = onnx.AttributeProto.AttributeType
_INTERNAL = "__"
"""Attributes whose names begin so are notes of exporters, which the standard leaves unchecked."""


def check_attributes(draft: Draft) -> None:
    """Raises `RewriteError` with operator, output and attribute where a node has one that its schema does not know, one
    of another type, one twice, or lacks one that it must have. Operators without a schema pass."""
    version = max((o.version for o in draft.model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    for graph in all_graphs(draft.graph):
        for node in graph.node:
            if node.domain not in ("", "ai.onnx"):
                continue
            try:
                schema = defs.get_schema(node.op_type, version, "")
            except defs.SchemaError:
                continue
            problem = _problem(node, schema)
            if problem:
                name = next(filter(None, node.output), node.name)
                raise RewriteError(f"{draft.origin}: {node.op_type} ({name}): {problem} (opset {version})")


def _problem(node: onnx.NodeProto, schema: defs.OpSchema) -> str:
    known = schema.attributes
    seen: set[str] = set()
    for attribute in node.attribute:
        name = attribute.name
        if name in seen:
            return f"its attribute `{name}` is given twice"
        seen.add(name)
        if name not in known:
            if name.startswith(_INTERNAL):
                continue
            takes = f"it knows {', '.join(f'`{k}`' for k in sorted(known))}" if known else "it has none"
            hint = did_you_mean(name, sorted(known))
            return f"it has no attribute `{name}`; " + (hint or takes)
        expected = int(known[name].type)  # type: ignore[call-overload]
        if attribute.type not in (expected, _TYPES.UNDEFINED) and not attribute.ref_attr_name:
            found = _TYPES.Name(attribute.type)
            return f"its attribute `{name}` is {_TYPES.Name(expected)} in the standard, found {found}"
    pieces = next((a.i for a in node.attribute if a.name == "num_outputs"), None) if node.op_type == "Split" else None
    if pieces not in (None, len(node.output)):  # onnx's own shape inference ends the process where there are too few
        return f"its attribute `num_outputs` is {pieces}, and it has {len(node.output)} outputs"
    lacking = [name for name, formal in sorted(known.items()) if formal.required and name not in seen]
    return f"its attribute `{lacking[0]}` is missing, and has no default" if lacking else ""
