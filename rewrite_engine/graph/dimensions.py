"""Dynamic dimensions: the names they go by, and binding them to sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.graph.draft import Draft, all_graphs
from rewrite_engine.graph.onnx_types import proto_type

ANONYMOUS = "?"
"""Exporters write this for every size they do not know: two of them are not the same size."""
LARGEST = 2**63 - 1
"""ONNX writes sizes with 64 bits."""


def bind_dimensions(draft: Draft, dims: Mapping[str, int]) -> None:
    """Give every dimension named in `dims` its size, wherever it appears in the model.

    A dynamic dimension of an input that has no name goes by `input:axis` ("pixels:0"). Raises `RewriteError` for a name
    that no input has and for a size below one or beyond `LARGEST`.
    """
    name_dimensions(draft)
    known = {d.dim_param for i in draft.graph.input for d in _dims(i.type) if d.dim_param}
    for name, size in dims.items():
        if name not in known:
            raise RewriteError(_unknown(draft, name, known))
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise RewriteError(f"{draft.origin}: dimension `{name}`: expected a size of at least 1, found {size!r}")
        if size > LARGEST:
            raise RewriteError(f"{draft.origin}: dimension `{name}`: expected a size below 2**63, found {size}")
    if not dims:
        return
    for graph in all_graphs(draft.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in _dims(value.type):
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]


def name_dimensions(draft: Draft) -> None:
    """A name for every dynamic dimension of an input that has none (none written, `?`, or a negative size)."""
    for graph in all_graphs(draft.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in _dims(value.type):
                if dim.dim_param == ANONYMOUS:
                    dim.ClearField("dim_param")
    for value in draft.graph.input:
        for axis, dim in enumerate(_dims(value.type)):
            if not dim.dim_param and (not dim.HasField("dim_value") or dim.dim_value < 0):
                dim.dim_param = f"{value.name}:{axis}"


def _unknown(draft: Draft, name: str, known: set[str]) -> str:
    if not known:
        return f"{draft.origin}: no dimension `{name}`: every dimension of the inputs has a size already"
    names = ", ".join(f"`{n}`" for n in dict.fromkeys(_names_in_order(draft)))
    inputs = ", ".join(f"{i.name} {proto_type(i.type)}" for i in draft.graph.input)
    hint = did_you_mean(name, known)
    return (
        f"{draft.origin}: no dimension `{name}`; {f'{hint} The' if hint else 'the'} "
        f"model's dynamic dimensions are {names} (inputs: {inputs})"
    )


def _names_in_order(draft: Draft) -> Iterator[str]:
    for value in draft.graph.input:
        yield from (d.dim_param for d in _dims(value.type) if d.dim_param)


def _dims(type_: onnx.TypeProto) -> list[onnx.TensorShapeProto.Dimension]:
    """The dimensions of a tensor, of the elements of a sequence, of an optional."""
    while not type_.HasField("tensor_type"):
        if type_.HasField("sequence_type"):
            type_ = type_.sequence_type.elem_type
        elif type_.HasField("optional_type"):
            type_ = type_.optional_type.elem_type
        else:
            return []
    return list(type_.tensor_type.shape.dim)
