"""Modules: ONNX files in and out, import at one opset, constant folding, terms, and placed graphs as ONNX models.

Names are exported lazily, so that importing this package does not import onnx.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewrite_engine.graph.module import Module, SourceInfo, bundled_model, load, model_bytes, save
    from rewrite_engine.graph.names import Names
    from rewrite_engine.graph.placed import BodyNode, CopyCall, KernelCall, PlacedGraph
    from rewrite_engine.graph.placed_io import NotPlacedError, read_placed, write_placed
    from rewrite_engine.graph.plain import strip
    from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
    from rewrite_engine.graph.terms_io import from_terms, to_terms

_HOMES = {
    "ABSENT": "terms",
    "BodyNode": "placed",
    "CopyCall": "placed",
    "KernelCall": "placed",
    "Module": "module",
    "Names": "names",
    "NotPlacedError": "placed_io",
    "PlacedGraph": "placed",
    "SourceInfo": "module",
    "Term": "terms",
    "Terms": "terms",
    "Value": "terms",
    "bundled_model": "module",
    "from_terms": "terms_io",
    "load": "module",
    "model_bytes": "module",
    "read_placed": "placed_io",
    "save": "module",
    "strip": "plain",
    "to_terms": "terms_io",
    "write_placed": "placed_io",
}

__all__ = [
    "ABSENT",
    "BodyNode",
    "CopyCall",
    "KernelCall",
    "Module",
    "Names",
    "NotPlacedError",
    "PlacedGraph",
    "SourceInfo",
    "Term",
    "Terms",
    "Value",
    "bundled_model",
    "from_terms",
    "load",
    "model_bytes",
    "read_placed",
    "save",
    "strip",
    "to_terms",
    "write_placed",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
