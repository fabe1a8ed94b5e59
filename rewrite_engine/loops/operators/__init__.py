"""Operators as declarative computes: for each ONNX operator at opset 23, what its results are, element by element."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.loops.build import Unsupported
from rewrite_engine.loops.operators.attention import ATTENTION
from rewrite_engine.loops.operators.common import Attributes, Operands, OperatorCompute
from rewrite_engine.loops.operators.contractions import CONTRACTIONS
from rewrite_engine.loops.operators.gather import GATHER
from rewrite_engine.loops.operators.losses import LOSSES
from rewrite_engine.loops.operators.movement import MOVEMENT
from rewrite_engine.loops.operators.normalisation import NORMALISATION
from rewrite_engine.loops.operators.pointwise import POINTWISE
from rewrite_engine.loops.operators.pooling import POOLING
from rewrite_engine.loops.operators.quantise import QUANTISE
from rewrite_engine.loops.operators.recurrent import RECURRENT
from rewrite_engine.loops.operators.reductions import REDUCTIONS
from rewrite_engine.loops.operators.resize import RESIZE
from rewrite_engine.loops.operators.sampling import SAMPLING
from rewrite_engine.loops.operators.selection import SELECTION
from rewrite_engine.loops.operators.shapes import SHAPES
from rewrite_engine.loops.operators.spectral import SPECTRAL
from rewrite_engine.loops.operators.training import TRAINING

__all__ = ["OPERATORS", "Attributes", "Operands", "OperatorCompute", "Unsupported", "operator_compute"]

OPERATORS: Mapping[str, OperatorCompute] = {
    **POINTWISE,
    **REDUCTIONS,
    **MOVEMENT,
    **CONTRACTIONS,
    **POOLING,
    **NORMALISATION,
    **GATHER,
    **QUANTISE,
    **SHAPES,
    **ATTENTION,
    **LOSSES,
    **RESIZE,
    **SAMPLING,
    **SPECTRAL,
    **RECURRENT,
    **SELECTION,
    **TRAINING,
}
"""Operator (those of other domains with theirs: "domain::Operator") -> its compute."""


def operator_compute(op: str) -> OperatorCompute:
    """The compute of an operator. Raises `Unsupported`, naming it, when there is none."""
    compute = OPERATORS.get(op)
    if compute is None:
        raise Unsupported(f"operator {op} has no compute")
    return compute
