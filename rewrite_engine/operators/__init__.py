"""Facts of operators: schemas, effective attributes, result types, work. A committed table; nothing here imports onnx."""

from rewrite_engine.operators.effective import effective_attributes
from rewrite_engine.operators.facts import Attribute, Formal, Operator, find, names
from rewrite_engine.operators.types import TensorType

__all__ = [
    "Attribute",
    "Formal",
    "Operator",
    "TensorType",
    "effective_attributes",
    "find",
    "names",
]
