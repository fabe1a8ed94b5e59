"""How each operator is applied to values of a growing graph: a recipe picks its operands and attributes.

`RECIPES` has them by operator. Operators of strings, sequences and images, and those with bodies that run several
times, have none; `If` is drawn in `graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewrite_engine import operators
from rewrite_engine.graph.terms import ABSENT
from rewrite_engine.operators.dtypes import DTYPE_CODES
from rewrite_engine.testing.strategies.growing import FLOATS, PLAIN, WHOLE, Applied, Growing, Refused
from rewrite_engine.testing.strategies.recipes_arrays import ARRAYS
from rewrite_engine.testing.strategies.recipes_layers import LAYERS

Recipe = Callable[[Growing, operators.Operator], Applied]


def _pointwise(g: Growing, op: operators.Operator) -> Applied:
    """Operands of one shape, or that broadcast; those of one type variable have one dtype."""
    first = g.value(_dtypes(op, 0))
    operands, bound = [first], {op.inputs[0].type: g.dtype(first)}
    most = op.max_inputs if op.max_inputs is not None and op.max_inputs < 9 else 3
    for position in range(1, max(op.min_inputs, 1 + g.choices.pick(most)) if op.max_inputs != 1 else 1):
        formal = op.input(position)
        assert formal is not None
        dtype = bound.setdefault(formal.type, g.choices.one_of(_dtypes(op, position)))
        operands.append(g.partner(first, dtype))
    return Applied(tuple(operands), _ATTRIBUTES.get(op.name, _none)(g, operands))


def _dtypes(op: operators.Operator, position: int) -> list[str]:
    formal = op.input(position)
    assert formal is not None
    return [dtype for dtype in PLAIN if dtype in formal.dtypes] or [d for d in (*FLOATS, *WHOLE) if d in formal.dtypes]


def _none(g: Growing, operands: list[int]) -> dict[str, object]:
    return {}


def _alpha(g: Growing, operands: list[int]) -> dict[str, object]:
    return {"alpha": g.choices.one_of((0.5, 0.25, 1.5))} if g.choices.chance(50) else {}


_ATTRIBUTES: Mapping[str, Callable[[Growing, list[int]], dict[str, object]]] = {
    "BitShift": lambda g, _: {"direction": g.choices.one_of(("LEFT", "RIGHT"))},
    "Cast": lambda g, _: {"to": DTYPE_CODES[g.choices.one_of(PLAIN)]},
    "Celu": _alpha,
    "Elu": _alpha,
    "Gelu": lambda g, _: {"approximate": g.choices.one_of(("none", "tanh"))},
    "HardSigmoid": _alpha,
    "LeakyRelu": _alpha,
    "Mod": lambda g, operands: {"fmod": int(g.dtype(operands[0]) in FLOATS)},
    "ThresholdedRelu": _alpha,
}


def _clip(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(_dtypes(op, 0))
    low = ABSENT if g.choices.chance(30) else g.constant(0, g.dtype(x))  # type: ignore[arg-type]
    high = ABSENT if g.choices.chance(30) else g.constant(6, g.dtype(x))  # type: ignore[arg-type]
    return Applied((x, low, high), {})


def _cast_like(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(PLAIN), g.weight(g.choices.one_of(PLAIN), 1)), {})


def _prelu(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(FLOATS[:3])
    last = g.shape(x)[-1:]
    return Applied((x, g.weight(g.dtype(x), *(d for d in last if isinstance(d, int)))), {})


def _where(g: Growing, op: operators.Operator) -> Applied:
    x = g.value(PLAIN)
    return Applied((g.partner(x, "bool"), x, g.partner(x)), {})


def _is_number(g: Growing, op: operators.Operator) -> Applied:
    return Applied((g.value(("float32", "float64", "float16")),), {})


def _table() -> dict[str, Recipe]:
    pointwise = (name for name in operators.names() if (op := operators.find(name)) is not None and op.pointwise)
    found: dict[str, Recipe] = dict.fromkeys(pointwise, _pointwise)
    found |= {"Clip": _clip, "CastLike": _cast_like, "PRelu": _prelu, "Where": _where}
    found |= {"IsNaN": _is_number, "IsInf": lambda g, _: Applied((g.value(("float32", "float64")),), {})}
    return found | dict(ARRAYS) | dict(LAYERS)


RECIPES: Mapping[str, Recipe] = dict(sorted(_table().items()))
"""Recipes by operator."""

__all__ = ["RECIPES", "Recipe", "Refused"]
