"""Import and export: any ONNX model in, one at opset 23, with bound dimensions and folded constants, out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import onnx
from onnx import inliner

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ir
from rewrite_engine.graph.attributes import check_attributes
from rewrite_engine.graph.dimensions import bind_dimensions
from rewrite_engine.graph.draft import Draft
from rewrite_engine.graph.fold import FOLD_CAP, check_types, fold, infer_types, trust_declared_types
from rewrite_engine.graph.markers import DOMAIN, GRAPH_FACTS, MARKS, is_ours, mark_function
from rewrite_engine.graph.onnx_file import serialized
from rewrite_engine.graph.onnx_types import Array, to_tensor
from rewrite_engine.graph.opset import to_opset
from rewrite_engine.graph.tidy import (
    check_and_sort,
    compute_constant_outputs,
    compute_outputs_of_branches,
    lift_constants,
    make_draft,
    remove_unused,
)

NO_WEIGHTS: Mapping[str, Array] = MappingProxyType({})


def import_model(
    model: onnx.ModelProto,
    origin: str,
    dims: Mapping[str, int],
    folding: bool = True,
    cap: int = FOLD_CAP,
    weights: Mapping[str, Array] = NO_WEIGHTS,
) -> ir.Model:
    """The model in the form every later stage expects; see DESIGN, "Module". The message is used up.

    `weights` are the elements of initializers, as far as they are decoded already. Node identity is the first output's
    name; names of inputs and outputs stay. Raises `RewriteError`.
    """
    model = _inline_foreign_functions(model, origin)
    draft = make_draft(model, origin, weights)
    check_and_sort(draft)
    check_attributes(draft)
    compute_outputs_of_branches(draft)
    lift_constants(draft)
    to_opset(draft)
    _define_marks(draft)
    lift_constants(draft)
    bind_dimensions(draft, dims)
    remove_unused(draft)
    trust_declared_types(draft)
    if folding:
        fold(draft, cap)
    else:
        infer_types(draft)
    check_types(draft)
    if not any(entry.key == GRAPH_FACTS for entry in model.metadata_props):  # rules may leave a constant as an output
        compute_constant_outputs(draft)
    return _deserialized(*draft.finish())


def _deserialized(model: onnx.ModelProto, weights: Mapping[str, Array]) -> ir.Model:
    """The model; `onnx_ir` reads the types of what a function computes, but not those of what it is given."""
    result = ir.serde.deserialize_model(model)
    for name, array in weights.items():
        result.graph.initializers[name].const_value = to_tensor(array, name)
    for proto in model.functions:
        given = {info.name: info for info in proto.value_info}
        for value in result.functions[proto.domain, proto.name, proto.overload].inputs:
            if value.name in given:
                ir.serde.deserialize_value_info_proto(given[value.name], value)
    return result


def model_bytes(model: ir.Model) -> bytes:
    """The content of the model's ONNX file; the same model gives the same bytes."""
    return serialized(ir.serde.serialize_model(model))


def export_model(model: ir.Model, path: str | os.PathLike[str]) -> None:
    """Write the model; the file is there whole or not at all. Raises `RewriteError` when it cannot be written."""
    target = Path(path)
    temporary = None
    try:
        content = model_bytes(model)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        raise RewriteError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _inline_foreign_functions(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Functions of the model's own become their bodies; regions and composites stay."""
    foreign = [(f.domain, f.name) for f in model.functions if not is_ours(f.domain)]
    if not foreign:
        return model
    try:
        return inliner.inline_selected_functions(model, foreign)
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RewriteError(f"{origin}: the model's functions cannot be inlined: {reason}") from None


def _define_marks(draft: Draft) -> None:
    """Marks that a user put into the model get their function, so that it runs and its types are inferred."""
    used = {node.op_type for node in draft.graph.node if node.domain == DOMAIN and node.op_type in MARKS}
    defined = {f.name for f in draft.model.functions if f.domain == DOMAIN}
    draft.model.functions.extend(mark_function(mark) for mark in sorted(used - defined))
    if used and all(o.domain != DOMAIN for o in draft.model.opset_import):
        draft.model.opset_import.add(domain=DOMAIN, version=1)
