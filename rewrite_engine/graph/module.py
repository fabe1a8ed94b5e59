"""`Module`, what passes take and return, and how one is loaded and saved."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from rewrite_engine.graph import ir
from rewrite_engine.graph.draft import all_graphs
from rewrite_engine.graph.fold import FOLD_CAP
from rewrite_engine.graph.markers import DOMAIN, IR_VERSION_OF_FUNCTIONS, MARKS, OPSET, mark_function
from rewrite_engine.graph.onnx_file import Source, read_model, serialized
from rewrite_engine.graph.onnx_io import export_model, import_model, model_bytes
from rewrite_engine.graph.settled import settle_inputs
from rewrite_engine.pause import collector_paused

__all__ = ["Module", "SourceInfo", "bundled_model", "load", "model_bytes", "module_of", "save"]


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Where a module came from, for reports: the file's name, its SHA-256 and its number of operators.

    `original` is the model as it was given, with all its weights, as an ONNX file's bytes: what results are compared
    with.
    """

    name: str
    sha256: str
    nodes: int
    original: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A model with what is known about running it. High-level operators and lowered kernels live side by side in it."""

    model: ir.Model
    source: SourceInfo
    lowered: Mapping[str, object] = field(default_factory=dict)  # lowered kernels by name
    machine: object | None = None
    memory: object | None = None
    rules: object | None = None  # the rule set that passes were given last


@collector_paused()
def load(
    source: Source,
    dims: Mapping[str, int] | None = None,
    fold: bool = True,
    fold_cap: int = FOLD_CAP,
    values: Mapping[str, object] | None = None,
) -> Module:
    """Import a model: a path, a `ModelProto` or an `onnx_ir.Model` (neither is changed).

    `dims` gives dynamic dimensions their sizes, by name. `values` gives inputs one value for good (a number, a list, an
    array): they are inputs no more, and control flow and shapes that they decide are settled. With `fold`, constants
    and shape arithmetic are folded into constants of at most `fold_cap` bytes each. Raises `RewriteError` with one
    message for a file that is missing, damaged or not ONNX, for an operator that cannot be brought to opset 23, for an
    unknown dimension or input, and for a value that does not fit its input.
    """
    model, name, digest, content, weights = read_model(source)
    settle_inputs(model, name, values or {})
    nodes = sum(node.op_type != "Constant" for node in model.graph.node)
    runnable = _runnable(model)
    original = content if runnable is model and not values else serialized(runnable)
    info = SourceInfo(Path(name).name, digest, nodes, original)
    return Module(import_model(model, name, dims or {}, fold, fold_cap, weights), info)


def _runnable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as any ONNX runtime takes it: marks without a function get one, of the model's own opset."""
    used = {n.op_type for g in all_graphs(model.graph) for n in g.node if n.domain == DOMAIN and n.op_type in MARKS}
    missing = sorted(used - {f.name for f in model.functions if f.domain == DOMAIN})
    if not missing:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    opset = next((o.version for o in model.opset_import if not o.domain), OPSET)
    result.functions.extend(mark_function(mark, opset) for mark in missing)
    result.ir_version = max(model.ir_version, IR_VERSION_OF_FUNCTIONS)
    if all(o.domain != DOMAIN for o in model.opset_import):
        result.opset_import.add(domain=DOMAIN, version=1)
    return result


def save(module: Module, path: str | os.PathLike[str]) -> None:
    """Write the module's model as an ONNX file, whole or not at all. Raises `RewriteError` when it cannot be."""
    export_model(module.model, path)


def module_of(model: ir.Model) -> Module:
    """A module of a model that is in the form of an import already, such as a rewritten or a placed one."""
    content = model_bytes(model)
    digest = hashlib.sha256(content).hexdigest()
    return Module(model, SourceInfo(model.graph.name or "model", digest, model.graph.num_nodes(), content))


def bundled_model() -> Path:
    """The model that comes with the package: MobileNetV2 with small widths, images of 64 by 64, ten classes."""
    return Path(__file__).parent.parent / "_models" / "mobilenetv2.onnx"
