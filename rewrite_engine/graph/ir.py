"""What is used of onnx_ir, imported without sympy: only sums of symbolic dimensions need that, of which there are none
here, and importing it takes longer than all else together."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """A module that is imported when it is asked for anything."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


@contextmanager
def _later(*names: str) -> Iterator[None]:
    """In the block, an import of these modules waits until they are used; one that is there already stays."""
    waiting = {name: _Later(name) for name in names if not sys.modules.keys() & {name, name.partition(".")[0]}}
    sys.modules.update(waiting)
    try:
        yield
    finally:
        for name, module in waiting.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


with _later("sympy", "onnx_ir._symbolic_shapes"):  # the second asks sympy for functions as it is imported
    from onnx_ir import (
        Attr,
        AttrGraph,
        AttrGraphs,
        AttributeType,
        AttrString,
        AttrTensor,
        AttrTensors,
        DataType,
        Function,
        Graph,
        Model,
        Node,
        Shape,
        StringTensor,
        Tensor,
        TensorProtocol,
        TensorType,
        Value,
        serde,
    )
    from onnx_ir.passes.common import InlinePass

__all__ = [
    "Attr", "AttrGraph", "AttrGraphs", "AttrString", "AttrTensor", "AttrTensors", "AttributeType", "DataType",
    "Function", "Graph", "InlinePass", "Model", "Node", "Shape", "StringTensor", "Tensor", "TensorProtocol",
    "TensorType", "Value", "serde",
]  # fmt: skip
