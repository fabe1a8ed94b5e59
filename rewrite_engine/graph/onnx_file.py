"""ONNX files: a path, a `ModelProto` or an `onnx_ir.Model` to a checked `ModelProto` with all its weights, and back."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onnx
from onnx import external_data_helper, serialization

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ir
from rewrite_engine.graph.draft import all_graphs, inner_graphs, is_small
from rewrite_engine.graph.onnx_types import Array, raw_array
from rewrite_engine.operators.dtypes import dtype_name
from rewrite_engine.operators.types import TensorType

Source = str | os.PathLike[str] | onnx.ModelProto | ir.Model
"""Where a model comes from."""

LARGEST = 2**31 - 1
"""Bytes that a protobuf message can hold."""


class Read(NamedTuple):
    """A model, its name for messages and reports, the SHA-256 of its file, and its content as one ONNX file.

    `weights` has the elements of large ones, by name: a message copies them whenever it is asked for them.
    """

    model: onnx.ModelProto
    name: str
    digest: str
    content: bytes
    weights: dict[str, Array]


def read_model(source: Source) -> Read:
    """The model as it stands in its file; without a file, of the message and its deterministic bytes.

    The caller's object is not changed. Raises `RewriteError` when the file is missing, a directory, empty, cut short or
    not an ONNX model, when it has no graph or no outputs, and when weights are missing.
    """
    if isinstance(source, ir.Model):
        model = ir.serde.serialize_model(source)
        _bring_in(model, source)
    elif isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
    else:
        return _read_file(Path(source))
    name = model.graph.name or "model"
    weights = _check(model, name)
    content = serialized(model)
    return Read(model, name, hashlib.sha256(content).hexdigest(), content, weights)


def serialized(model: onnx.ModelProto) -> bytes:
    """The content of the model's file; the same model gives the same bytes. Raises `RewriteError` beyond `LARGEST`."""
    if _held(model) <= LARGEST:
        try:
            content: bytes = model.SerializeToString(deterministic=True)
            return content
        except Exception:  # protobuf's own kind; what is not raw counts too
            pass
    raise _too_large(model)


def _held(model: onnx.ModelProto) -> int:
    return sum(len(tensor.raw_data) for graph in all_graphs(model.graph) for tensor in graph.initializer)


def _too_large(model: onnx.ModelProto) -> RewriteError:
    return RewriteError(
        f"{model.graph.name or 'model'}: with its weights ({_held(model):,} bytes) the model is larger than the "
        f"{LARGEST:,} bytes that one ONNX file can hold; cut it into parts, or use a smaller type for its weights"
    )


def _read_file(path: Path) -> Read:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RewriteError(f"{path}: no such file; give the path of an ONNX model") from None
    except IsADirectoryError:
        raise RewriteError(f"{path}: expected an ONNX file, found a directory") from None
    except OSError as error:
        raise RewriteError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not content:
        raise RewriteError(f"{path}: expected an ONNX model, found an empty file")
    form = serialization.registry.get_format_from_file_extension(path.suffix) or "protobuf"
    try:
        model = onnx.load_model_from_string(content, format=form)
    except Exception as error:  # whatever the parser of that format raises
        reason = "" if form == "protobuf" else f" ({str(error).splitlines()[0]})"
        raise RewriteError(
            f"{path}: not an ONNX model, or a file cut short: it does not parse as {form}{reason}"
        ) from None
    if not model.HasField("graph"):
        raise RewriteError(f"{path}: no graph in it: not an ONNX model, or a file cut short")
    whole = form == "protobuf" and not any(map(external_data_helper.uses_external_data, _tensors(model)))
    try:
        external_data_helper.load_external_data_for_model(model, str(path.parent))
    except Exception as error:
        raise RewriteError(
            f"{path}: its weights are in another file that cannot be read: {_first_line(error)}; "
            "keep that file beside the model"
        ) from None
    weights = _check(model, str(path))
    if whole and len(content) > LARGEST:
        raise _too_large(model)
    digest = hashlib.sha256(content).hexdigest()
    return Read(model, path.name, digest, content if whole else serialized(model), weights)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every weight of a model, and every tensor among the attributes of its nodes."""
    nodes = [node for function in model.functions for node in function.node]
    roots = [model.graph, *(inner for node in nodes for inner in inner_graphs(node))]
    for graph in (graph for root in roots for graph in all_graphs(root)):
        yield from graph.initializer
        nodes.extend(graph.node)
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors


def _bring_in(model: onnx.ModelProto, source: ir.Model) -> None:
    """Weights that an `onnx_ir` model keeps in another file."""
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            held = source.graph.initializers[tensor.name].const_value
            assert held is not None
            try:
                data = held.tobytes()
            except OSError as error:
                raise RewriteError(
                    f"{model.graph.name}: weight `{tensor.name}` cannot be read: {_first_line(error)}"
                ) from None
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.raw_data = data


def _check(model: onnx.ModelProto, origin: str) -> dict[str, Array]:
    """The large weights of the main graph. Raises `RewriteError` where something is missing."""
    if not model.HasField("graph"):
        raise RewriteError(f"{origin}: the model has no graph")
    if not model.graph.output:
        raise RewriteError(f"{origin}: the graph has no outputs, so there is nothing to compute")
    if not model.opset_import:
        if model.ir_version >= 3:
            raise RewriteError(f"{origin}: no opset_import in it: not an ONNX model, or a file cut short")
        model.opset_import.add(domain="", version=1)
    found = {t.name: _check_weight(t, origin) for graph in all_graphs(model.graph) for t in graph.initializer}
    return {t.name: array for t in model.graph.initializer if (array := found[t.name]) is not None}


def _check_weight(tensor: onnx.TensorProto, origin: str) -> Array | None:
    """The elements where it is large and they are raw, read-only.

    Weights must be here, all of them: numbers that are not there must never be computed with.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise RewriteError(
            f"{origin}: weight `{tensor.name}` is in another file; give the path of the model instead of its message"
        )
    expected = TensorType(dtype_name(tensor.data_type), tuple(tensor.dims)).bytes
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        if expected is not None and len(raw) != expected:
            raise RewriteError(
                f"{origin}: weight `{tensor.name}` should hold {expected} bytes, found {len(raw)}: the file is damaged"
            )
        return None if is_small(tensor) else raw_array(tensor, raw)
    elif math.prod(tensor.dims) and not any(len(getattr(tensor, name)) for name in _TYPED_DATA):
        raise RewriteError(f"{origin}: weight `{tensor.name}` has no data: the file is damaged")
    return None


_TYPED_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
