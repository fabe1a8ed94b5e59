"""The smallest model on which a command still fails: delta debugging of ONNX models."""

from rewrite_engine.testing.reduce.check import Check
from rewrite_engine.testing.reduce.run import Reduction, reduce, replay

__all__ = ["Check", "Reduction", "reduce", "replay"]
