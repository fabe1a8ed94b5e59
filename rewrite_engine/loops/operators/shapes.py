"""Tensors made from shapes and numbers: Shape, Size, Constant, ConstantOfShape, Range, EyeLike, windows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.expr import Expr, call, cast, const, select
from rewrite_engine.loops.operators.common import (
    Attributes,
    Operands,
    OperatorCompute,
    dtype_attribute,
    host_integer,
    host_integers,
    integer,
    required,
    working_dtype,
)


def _shape(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    shape = required(inputs, 0).shape
    return [b.constant(np.array(shape[integer(attributes, "start") : integer(attributes, "end")], np.int64))]


def _size(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    return [b.constant(np.array(required(inputs, 0).size, np.int64))]


_CONSTANT_DTYPES: Mapping[str, str] = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}


def _constant(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    value = attributes.get("value")
    if isinstance(value, np.ndarray):
        return [b.constant(value)]
    for name, dtype in _CONSTANT_DTYPES.items():
        if name in attributes:
            return [b.constant(np.array(attributes[name], numpy_dtype(dtype)))]
    raise Unsupported(f"Constant with {', '.join(sorted(attributes)) or 'no attribute'}")


def _constant_of_shape(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    value = attributes["value"]
    assert isinstance(value, np.ndarray)
    dtype, element = value.dtype.name, value.reshape(-1)[0].item()
    return [b.compute(host_integers(b, required(inputs, 0)), lambda *i: const(element, dtype))]


def _range(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    dtype = required(inputs, 0).dtype
    start, limit, step = (b.value(required(inputs, k)).reshape(-1)[0].item() for k in range(3))
    count = max(math.ceil((limit - start) / step), 0)
    working = working_dtype(dtype)
    return [b.compute([count], lambda i: cast(cast(i, working) * step + const(start, working), dtype))]


def _eye_like(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
    dtype, diagonal = dtype_attribute(attributes, "dtype", "EyeLike"), integer(attributes, "k")

    def element(i: Expr, j: Expr) -> Expr:
        return select((j - i).eq(diagonal), const(1, dtype), const(0, dtype))

    return [b.compute(required(inputs, 0).shape, element)]


_HARMONICS: Mapping[str, tuple[float, float, float]] = {
    "BlackmanWindow": (0.42, 0.5, 0.08),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "HannWindow": (0.5, 0.5, 0.0),
}
"""Window -> a, b, c of a - b cos(2 pi i / n) + c cos(4 pi i / n)."""


def _window(name: str) -> OperatorCompute:
    level, first, second = _HARMONICS[name]

    def compute(b: Builder, inputs: Operands, attributes: Attributes) -> list[Tensor]:
        size = host_integer(b, required(inputs, 0))
        dtype = dtype_attribute(attributes, "output_datatype", name)
        period = size if integer(attributes, "periodic") else size - 1

        def element(i: Expr) -> Expr:
            angle = cast(i, "float64") * (2 * math.pi / max(period, 1))
            return cast(level - call("cos", angle) * first + call("cos", angle * 2) * second, dtype)

        return [b.compute([size], element)]

    return compute


SHAPES: Mapping[str, OperatorCompute] = {
    "BlackmanWindow": _window("BlackmanWindow"),
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye_like,
    "HammingWindow": _window("HammingWindow"),
    "HannWindow": _window("HannWindow"),
    "Range": _range,
    "Shape": _shape,
    "Size": _size,
}
"""Operator -> compute."""
