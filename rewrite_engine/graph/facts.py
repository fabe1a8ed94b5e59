"""Facts in node metadata: plain values as JSON text and back, lossless (tuples, fractions, arrays, NaN, infinities)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.operators.types import TensorType


def dump_facts(facts: Mapping[str, object]) -> str:
    """The facts as JSON with sorted keys. Raises `RewriteError` for a value that is none of the kinds above."""
    return json.dumps(_encode(dict(facts)), sort_keys=True, separators=(",", ":"), allow_nan=False)


def load_facts(text: str) -> dict[str, Any]:
    """What `dump_facts` was given; lists come back as tuples."""
    facts: dict[str, Any] = _decode(json.loads(text))
    return facts


def _encode(value: object) -> object:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, np.generic):
        return _encode(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, Fraction):
        return {"$fraction": str(value)}
    if isinstance(value, (tuple, list)):
        return [_encode(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [_encode(item) for item in sorted(value)]
    if isinstance(value, TensorType):
        return {"$type": [value.dtype, None if value.shape is None else list(value.shape)]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"$array": [value.dtype.name, list(value.shape), data]}
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    raise RewriteError(
        f"expected numbers, text, tuples or arrays of numbers, found {value!r}: it cannot be kept in a model"
    )


def _decode(value: object) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    match value:
        case {"$float": str(text)}:
            return float(text)
        case {"$fraction": str(text)}:
            return Fraction(text)
        case {"$type": [str(dtype), shape]}:
            return TensorType(dtype, None if shape is None else tuple(shape))
        case {"$array": [str(dtype), shape, str(data)]}:
            return np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape)
    return {key: _decode(item) for key, item in value.items()}
