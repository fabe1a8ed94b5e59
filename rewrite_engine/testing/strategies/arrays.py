"""Strategies of dtypes, shapes, tensors and attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.operators.dtypes import is_float
from rewrite_engine.operators.types import Dimension
from rewrite_engine.testing.strategies.growing import FLOATS, WHOLE, Choices, Growing
from rewrite_engine.testing.strategies.recipes import RECIPES

NUMBERS = st.binary(min_size=20, max_size=20).map(lambda drawn: int.from_bytes(drawn, "little"))
"""What the choices of one operator are made of, 0 the simplest."""
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, float("inf"), float("-inf"), float("nan"), 65504.0, 6e-8)


def dtypes(*, floats: bool = True, integers: bool = True, booleans: bool = True) -> st.SearchStrategy[str]:
    """Names of dtypes, float32 the simplest."""
    names = [*(FLOATS * floats), *(WHOLE * integers), *(("bool",) * booleans)]
    return st.sampled_from(names) if names else st.nothing()


def shapes(
    *, min_rank: int = 0, max_rank: int = 4, min_size: int = 0, max_size: int = 4, symbols: Sequence[str] = ()
) -> st.SearchStrategy[tuple[Dimension, ...]]:
    """Shapes; with `symbols`, some dimensions are one of these."""
    sizes: st.SearchStrategy[Dimension] = st.integers(min_size, max_size)
    if symbols:
        sizes = sizes | st.sampled_from(list(symbols))
    return st.lists(sizes, min_size=min_rank, max_size=max_rank).map(tuple)


@st.composite
def tensors(
    draw: st.DrawFn,
    *,
    dtype: st.SearchStrategy[str] | str | None = None,
    shape: st.SearchStrategy[tuple[Any, ...]] | tuple[int, ...] | None = None,
    special: bool = True,
) -> np.ndarray[Any, Any]:
    """Arrays. With `special`, floats may be infinite, NaN, negative zero or as large as the dtype allows."""
    chosen = draw(dtype) if isinstance(dtype, st.SearchStrategy) else dtype or draw(dtypes())
    sizes = draw(shapes()) if shape is None else draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    if any(not isinstance(size, int) for size in sizes):
        raise RewriteError(f"a tensor needs sizes, found the shape {list(sizes)}")
    count, kind = math.prod(sizes), numpy_dtype(chosen)
    if chosen == "bool":
        pool: list[Any] = [False, True]
    elif is_float(chosen):
        finite = st.floats(-1000, 1000, width=32)
        pool = draw(st.lists(finite | st.sampled_from(SPECIAL) if special else finite, min_size=1, max_size=8))
    else:
        limits = np.iinfo(kind)
        pool = draw(st.lists(st.integers(int(limits.min), int(limits.max)), min_size=1, max_size=8))
    with np.errstate(over="ignore", invalid="ignore"):
        elements = np.array(pool).astype(kind)
    order = np.random.default_rng(draw(st.integers(0, 255))).integers(0, len(elements), count)
    return elements[order].reshape(sizes)


def attributes(*, operator: str) -> st.SearchStrategy[Mapping[str, object]]:
    """Effective attributes of an operator, as they fit some inputs of it."""
    recipe = RECIPES.get(operator)
    if recipe is None:
        hint = did_you_mean(operator, RECIPES)
        raise RewriteError(f"there are no applications of `{operator}` to draw" + (f"; {hint}" if hint else ""))

    @st.composite
    def drawn(draw: st.DrawFn) -> Mapping[str, object]:
        growing = Growing(Choices(draw(NUMBERS)))
        if not growing.apply(operator, recipe):
            reject()
        return growing.nodes[-1].attributes

    return drawn()


def drawable() -> tuple[str, ...]:
    """The operators that graphs are drawn from, in alphabetical order."""
    return tuple(name for name in operators.names() if name in RECIPES)
