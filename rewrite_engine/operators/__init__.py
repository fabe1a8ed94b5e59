"""Facts of operators from a committed table: schemas, effective attributes, types of results, work. Needs no onnx."""

from rewrite_engine.operators.effective import effective_attributes
from rewrite_engine.operators.facts import Attribute, Formal, Operator, find, names
from rewrite_engine.operators.infer import TypeMismatch, infer_types
from rewrite_engine.operators.types import Dimension, TensorType
from rewrite_engine.operators.work import Work, total_bytes, work

__all__ = [
    "Attribute",
    "Dimension",
    "Formal",
    "Operator",
    "TensorType",
    "TypeMismatch",
    "Work",
    "effective_attributes",
    "find",
    "infer_types",
    "names",
    "total_bytes",
    "work",
]
