"""Values for the inputs of a match: ordinary ones, small whole ones, and the special ones of each dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.language.core import ABSENT, Variant
from rewrite_engine.loops.dtypes import is_float, limits, numpy_dtype
from rewrite_engine.operators.types import TensorType

Array = np.ndarray[Any, Any]
_POSITIONS = frozenset({"indices", "position_ids"})


def positions(variant: Variant) -> frozenset[int]:
    """The slots that are read as positions in other tensors: they must stay within them."""
    found = set()
    for node in variant.nodes:
        facts = operators.find(node.op)
        for k, slot in enumerate(node.inputs):
            formal = facts.input(k) if facts is not None else None
            if slot != ABSENT and formal is not None and formal.name in _POSITIONS:
                found.add(slot)
    return frozenset(found)


def draw(
    types: Mapping[str, TensorType], small: frozenset[str], seed: Sequence[int], special: bool, pool: Sequence[float]
) -> dict[str, Array]:
    """An array per input. `small`: names of positions; `pool`: numbers that the rule names, which are mixed in."""
    random = np.random.default_rng(list(seed))
    return {name: _array(kind, name in small, random, special, pool) for name, kind in types.items()}


def _array(kind: TensorType, small: bool, random: np.random.Generator, special: bool, pool: Sequence[float]) -> Array:
    shape = tuple(int(n) for n in kind.shape or ())  # type: ignore[arg-type]
    dtype = numpy_dtype(kind.dtype)
    if kind.dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if not is_float(kind.dtype):
        if small:
            return random.integers(0, 2, shape).astype(dtype)
        low, high = limits(kind.dtype)
        if special:
            array = random.choice(np.array([low, high, 0, 1, low + 1, high - 1], object), shape)
            return np.asarray(array).astype(dtype)
        return random.integers(max(low, -9), 9, shape).astype(dtype)
    scale = random.choice([1.0, 1.0, 0.1, 10.0])
    array = random.standard_normal(shape) * scale
    finite = [n for n in pool if np.isfinite(n) and abs(n) < 1e4]
    if finite:
        near = random.choice(np.asarray(finite), shape) + random.choice([0.0, 0.0, 0.5, -0.5], shape)
        array = np.where(random.random(shape) < 0.3, near, array)
    with np.errstate(all="ignore"):
        if special:
            odd = random.choice(np.asarray(specials(kind.dtype)), shape)
            array = np.where(random.random(shape) < 0.5, odd, array)
        return np.asarray(array).astype(dtype)


def specials(dtype: str) -> list[float]:
    """NaN, infinities, zeros of both signs, the largest and the smallest numbers of a float dtype."""
    import ml_dtypes

    info: Any = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    most, least = float(info.max), float(info.smallest_subnormal)
    return [np.nan, np.inf, -np.inf, 0.0, -0.0, most, -most, least, -least, float(info.tiny), 1.0]


def of_constants(arrays: Mapping[str, Array], types: Mapping[str, TensorType]) -> dict[str, Array]:
    """Constants under the dtype of their type."""
    return {name: np.asarray(array) for name, array in arrays.items()}
