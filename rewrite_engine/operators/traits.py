"""What the ONNX schemas do not say about operators: hand-written facts, merged into `facts.json` by `generate`.

A line here is a fact of the operator at opset 23, never of a rule. Regenerate after a change:
`python -m rewrite_engine.operators.generate`.
"""

from __future__ import annotations

from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMMUTATIVE = _words("Add And BitwiseAnd BitwiseOr BitwiseXor Equal Max Mean Min Mul Or Sum Xor")
"""The operands may be exchanged (all of them, for variadic operators)."""

POINTWISE_UNARY = _words("""
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign
    Sqrt Tan Tanh ThresholdedRelu
""")

POINTWISE = POINTWISE_UNARY | _words("""
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike Clip Div Equal Greater GreaterOrEqual Less LessOrEqual Max
    Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor
""")
"""Each output element is computed from one element of every input, under NumPy's broadcasting."""

VIEW = _words("Flatten Identity Reshape Squeeze Unsqueeze")
"""The output holds the elements of input 0 in the same row-major order: it may share its memory."""

MOVEMENT = VIEW | _words("""
    CenterCropPad Concat DepthToSpace Expand Pad Slice SpaceToDepth Split Tile Transpose Trilu
""")
"""Each output element is a copy of one input element, or a fill; attributes and host operands alone say which."""

RANDOM = _words("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike")
"""Two evaluations may differ: never folded, never shared."""

_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""

HOST_INPUTS: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (2,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    **dict.fromkeys(_REDUCTIONS.split(), (1,)),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
"""Positions of the operands that are read as shapes, axes, sizes or conditions: they are read on the host."""

_AXIS_OF_INPUT_0 = """
    ArgMax ArgMin Compress Concat DequantizeLinear Flatten Gather GatherElements Hardmax LayerNormalization LogSoftmax
    LpNormalization QuantizeLinear RMSNormalization ScatterElements Softmax Split SplitToSequence TopK Unique
"""

AXIS_ATTRIBUTES: Mapping[str, Mapping[str, int]] = {
    **{name: {"axis": 0} for name in _AXIS_OF_INPUT_0.split()},
    "CenterCropPad": {"axes": 0},
    "MeanVarianceNormalization": {"axes": 0},
    "OneHot": {"axis": 1},
    "Resize": {"axes": 0},
}
"""Attributes that name axes, counted modulo (rank of input 0) + the number given."""
