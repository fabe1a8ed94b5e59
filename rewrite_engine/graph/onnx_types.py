"""Types and elements between ONNX and the project: values and messages to `TensorType`, tensors to NumPy."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rewrite_engine.graph import ir
from rewrite_engine.operators.dtypes import DTYPE_CODES, array_dtype, dtype_name
from rewrite_engine.operators.types import Dimension, TensorType

Array = np.ndarray[Any, Any]

UNKNOWN = TensorType("?", None)


def value_type(value: ir.Value) -> TensorType:
    """The type of an `onnx_ir` value; sequences, maps and optionals are unknown ("?")."""
    if not isinstance(value.type, ir.TensorType):
        return UNKNOWN
    shape: tuple[Dimension, ...] | None = None
    if value.shape is not None:
        shape = tuple(d if isinstance(d, int) else d.value for d in value.shape.dims)
    return TensorType(dtype_name(int(value.type.dtype)), shape)


def typed_value(name: str, type_: TensorType) -> ir.Value:
    """A new `onnx_ir` value of this name and type."""
    code = DTYPE_CODES.get(type_.dtype)
    return ir.Value(
        name=name,
        type=None if code is None else ir.TensorType(ir.DataType(code)),
        shape=None if code is None or type_.shape is None else ir.Shape(type_.shape),
    )


def array_type(array: Array) -> TensorType:
    """The type of an array."""
    return TensorType(array_dtype(array), tuple(array.shape))


def to_tensor(array: Array, name: str | None = None) -> ir.TensorProtocol:
    """An array as an `onnx_ir` tensor; text becomes a string tensor."""
    if array.dtype.kind in "OUST":
        encoded = np.array([_encode(item) for item in array.reshape(-1)], dtype=object).reshape(array.shape)
        return ir.StringTensor(encoded, shape=ir.Shape(array.shape), name=name)
    return ir.Tensor(array, dtype=ir.DataType(DTYPE_CODES[array.dtype.name]), shape=ir.Shape(array.shape), name=name)


def to_array(tensor: ir.TensorProtocol) -> Array:
    """The elements of an `onnx_ir` tensor; strings are an object array of bytes."""
    return np.asarray(tensor.numpy())


def tensor_proto(array: Array, name: str) -> onnx.TensorProto:
    """An array as a `TensorProto`."""
    return ir.serde.serialize_tensor(to_tensor(array, name))


def proto_array(tensor: onnx.TensorProto) -> Array:
    """The elements of a `TensorProto`."""
    return numpy_helper.to_array(tensor)


def raw_array(tensor: onnx.TensorProto, raw: bytes) -> Array | None:
    """The elements of a `TensorProto` whose `raw_data` these are, without a copy; None where they are packed."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if len(raw) != math.prod(tensor.dims) * dtype.itemsize or sys.byteorder != "little":
        return None
    return np.frombuffer(raw, dtype).reshape(tuple(tensor.dims))


def value_info(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    """A type as a `ValueInfoProto` of this name."""
    return helper.make_tensor_value_info(name, DTYPE_CODES[type_.dtype], type_.shape)


def proto_type(type_: onnx.TypeProto | None) -> TensorType:
    """A `TypeProto` as a `TensorType`; sequences, maps and optionals are unknown ("?")."""
    if type_ is None or not type_.HasField("tensor_type"):
        return UNKNOWN
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(dtype_name(tensor.elem_type), None)
    return TensorType(dtype_name(tensor.elem_type), tuple(_dimension(d) for d in tensor.shape.dim))


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return dim.dim_param or None


def _encode(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()
