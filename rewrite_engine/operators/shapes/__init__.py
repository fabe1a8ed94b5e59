"""Rules for the shapes of results: one function per operator or class of operators, from a `Call` to shapes.

`SHAPE_RULES` has all of them by operator; pointwise operators need none (their operands broadcast).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewrite_engine.operators.calls import Call, Shapes
from rewrite_engine.operators.shapes.contraction import CONTRACTION
from rewrite_engine.operators.shapes.movement import MOVEMENT
from rewrite_engine.operators.shapes.reduction import REDUCTION
from rewrite_engine.operators.shapes.selection import SELECTION

SHAPE_RULES: Mapping[str, Callable[[Call], Shapes]] = {**MOVEMENT, **SELECTION, **CONTRACTION, **REDUCTION}
