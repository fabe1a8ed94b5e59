"""Parameters in the file format of TVM's `load_params` (TVM 0.19: `SaveParams` in src/runtime/file_utils.cc and
`SaveDLTensor` in include/tvm/runtime/ndarray.h), little-endian throughout:

    uint64 0xF7E58D4F05049CB7, uint64 0
    uint64 count, then per name: uint64 length, bytes
    uint64 count, then per array: uint64 0xDD5E40F096B4A13F, uint64 0, int32 device type (1), int32 device id (0),
        int32 rank, uint8 code, uint8 bits, uint16 lanes (1), int64 sizes[rank], int64 bytes, elements

In: arrays by name. Out: the bytes of params.bin.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from rewrite_engine.backend.abi import ELEMENTS
from rewrite_engine.diagnostics import RewriteError

LIST_MAGIC = 0xF7E58D4F05049CB7
ARRAY_MAGIC = 0xDD5E40F096B4A13F


def params_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays, by name. Raises RewriteError for an element type that the format has no word for."""
    names = sorted(arrays)
    parts = [struct.pack("<QQQ", LIST_MAGIC, 0, len(names))]
    for name in names:
        encoded = name.encode()
        parts += [struct.pack("<Q", len(encoded)), encoded]
    parts.append(struct.pack("<Q", len(names)))
    for name in names:
        parts += _array(name, np.asarray(arrays[name], order="C"))
    return b"".join(parts)


def _array(name: str, array: np.ndarray) -> list[bytes]:
    if array.dtype.name not in ELEMENTS:
        raise RewriteError(f"parameter `{name}`: the params format of TVM has no element type {array.dtype.name}")
    code, bits = ELEMENTS[array.dtype.name]
    head = struct.pack("<QQiiiBBH", ARRAY_MAGIC, 0, 1, 0, array.ndim, code, bits, 1)
    sizes = struct.pack(f"<{array.ndim}qq", *array.shape, array.nbytes)
    little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.isbuiltin == 1 else array
    return [head, sizes, little.tobytes()]
