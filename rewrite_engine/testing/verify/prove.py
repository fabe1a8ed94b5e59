"""Tier 4: both sides of a match as terms of Z3, proved equal for the shapes at hand, or told apart by values.

In: a match. Out: a `Proof`. Real numbers stand for floats: what is proved says nothing about rounding, NaN or overflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rewrite_engine.loops.dtypes import is_float, numpy_dtype
from rewrite_engine.testing.verify import inputs
from rewrite_engine.testing.verify.elements import Array
from rewrite_engine.testing.verify.interpreter import Undecided
from rewrite_engine.testing.verify.judge import case_of, computed, runtime_inputs
from rewrite_engine.testing.verify.plan import Plan
from rewrite_engine.testing.verify.sides import Sides
from rewrite_engine.testing.verify.symbolic import MOST_ELEMENTS, Symbolic

SECONDS = 2.0
"""For one match."""


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """`status` is "proved", "open" (for the reason `why`) or "apart": real numbers tell the sides apart, `drawn`."""

    status: str
    shapes: str = ""
    why: str = ""
    drawn: Mapping[str, Array] = field(default_factory=dict)


def prove(sides: Sides, plan: Plan, seed: int, seconds: float = SECONDS) -> Proof:
    """Asks Z3 whether any values tell the sides apart. Raises `RewriteError` where it is not installed."""
    case = case_of(sides, plan)
    runtime = runtime_inputs(case.sides.left)
    if sum(kind.numel or 0 for kind in runtime.values()) > MOST_ELEMENTS:
        return Proof("open", why="the shapes are too large")
    algebra = Symbolic()
    z3 = algebra.z3
    plain = inputs.draw(runtime, case.small, (seed, 12), False, ())
    held: dict[str, Any] = {}
    for name, kind in runtime.items():
        held[name] = plain[name] if name in case.small else algebra.input(name, plain[name].shape, kind.dtype)
    try:
        left = computed(case.left, sides.left, held, algebra)
        right = computed(case.right, sides.right, held, algebra)
        unlike = [
            _unlike(algebra, a, b)
            for one, other in zip(left, right, strict=True)
            for a, b in zip(one.reshape(-1), other.reshape(-1), strict=True)
        ]
    except Undecided as undecided:
        return Proof("open", why=str(undecided))
    if not unlike:
        return Proof("open", why="the results are empty")
    checker = z3.Solver()
    checker.set("timeout", int(seconds * 1000))
    checker.add(z3.Or(*unlike))
    answer = checker.check()
    if answer == z3.unsat:
        return Proof("proved", ", ".join(str(kind) for kind in runtime.values()) or "constants")
    if answer != z3.sat:
        return Proof("open", why=f"Z3 does not decide it in {seconds:g} s")
    if algebra.rounded:
        return Proof("open", why="constants are rounded")
    model = checker.model()
    return Proof("apart", drawn={name: _values(model, held[name], runtime[name].dtype) for name in runtime})


def _unlike(algebra: Symbolic, a: Any, b: Any) -> Any:
    """Whether two elements differ; those that are no terms are plain numbers."""
    z3 = algebra.z3
    if not z3.is_expr(a) and not z3.is_expr(b):
        return z3.BoolVal(bool(a != b))
    return a != b


def _values(model: Any, tensor: Array, dtype: str) -> Array:
    """The values of a model, as the dtype holds them."""
    if tensor.dtype != object:
        return tensor
    found = np.empty(tensor.shape, np.float64 if is_float(dtype) else np.int64)
    for where in np.ndindex(tensor.shape):
        value = model.eval(tensor[where], model_completion=True)
        if dtype == "bool":
            found[where] = bool(value)
        elif is_float(dtype):
            exact = value if hasattr(value, "as_fraction") else value.approx(20)
            found[where] = float(exact.as_fraction())
        else:
            found[where] = value.as_long() if dtype.startswith("u") else value.as_signed_long()
    with np.errstate(all="ignore"):
        return found.astype(numpy_dtype(dtype))


__all__ = ["SECONDS", "Proof", "prove"]
