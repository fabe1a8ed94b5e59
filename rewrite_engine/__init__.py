"""A rule-based graph rewriting engine for ONNX models: rule files in, a placed and lowered model out."""
