"""Random inputs that a model can digest, from a seed: floats are normal, masks are ones and zeros, integers are small.

In: input types by name. Out: arrays by name; the same seed gives the same bytes, whatever other inputs there are.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from rewrite_engine.backend.runtime import numpy_dtype
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.operators.types import TensorType

TOKENS = 100
"""Integers are below this (and below what their dtype holds): token ids, positions, classes of any real model."""

_TWO_VALUED = ("mask", "token_type", "segment")
"""Inputs with one of these in their name hold ones and zeros."""


def random_inputs(types: Mapping[str, TensorType], seed: int) -> dict[str, np.ndarray]:
    """One array per input. Raises RewriteError for a size that is not known and for strings."""
    return {name: _random_array(name, tensor, seed) for name, tensor in types.items()}


def _random_array(name: str, tensor: TensorType, seed: int) -> np.ndarray:
    if tensor.shape is None or tensor.numel is None or tensor.dtype == "string":
        raise RewriteError(f"input `{name}` is {tensor}: expected numbers and known sizes; give the inputs explicitly")
    shape = [size for size in tensor.shape if isinstance(size, int)]
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    dtype = numpy_dtype(tensor.dtype)
    if any(word in name.lower() for word in _TWO_VALUED) or dtype == np.bool_:
        flags = np.asarray(generator.random(shape) < 0.75)
        # At least one element of a row is set: a row that masks everything out has no meaning.
        if shape:
            flags[..., :1] = True
        return flags.astype(dtype)
    if dtype.kind in "iu":
        return generator.integers(0, min(TOKENS, int(np.iinfo(dtype).max) + 1), shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
