"""Fused operators of ONNX Runtime, declared by their meaning: the same numbers as ONNX Runtime's own kernels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rewrite_engine as rw
from rewrite_engine.backend.check import compare
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.language import load_text

X, V, M = (2, 3, 8), (8,), (8, 5)
CASES: dict[str, tuple[str, list[tuple[int, ...]], dict[str, object]]] = {
    "gelu": ("Gelu", [X], {}),
    "bias": ("BiasGelu", [X, V], {}),
    "fast": ("FastGelu", [X], {}),
    "quick": ("QuickGelu", [X], {"alpha": 1.702}),
    "matmul": ("FusedMatMul", [X, M], {}),
    "matmul, said": ("FusedMatMul", [X, M], {"alpha": 1.0, "transA": 0, "transB": 0}),
    "norm": ("SkipLayerNormalization", [X, X, V, V], {"epsilon": 1e-3}),
    "rms": ("SkipSimplifiedLayerNormalization", [X, X, V], {"epsilon": 1e-3}),
}
WITHOUT: dict[str, tuple[str, list[tuple[int, ...]], dict[str, object]]] = {
    "another alpha": ("QuickGelu", [X], {"alpha": 1.0}),
    "scaled": ("FusedMatMul", [X, M], {"alpha": 0.5}),
    "turned": ("FusedMatMul", [X, (5, 8)], {"transB": 1}),
    "epsilon by default": ("SkipLayerNormalization", [X, X, V, V], {}),
}


def model(op: str, shapes: list[tuple[int, ...]], attributes: dict[str, object]) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    names = [f"x{k}" for k in range(len(shapes))]
    inputs = [helper.make_tensor_value_info(n, 1, s) for n, s in zip(names, shapes, strict=True) if len(s) == 3]
    weights = [
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n)
        for n, s in zip(names, shapes, strict=True)
        if len(s) < 3
    ]
    shape = [2, 3, 5] if op == "FusedMatMul" else list(X)
    nodes = [helper.make_node(op, names, ["y"], domain="com.microsoft", **attributes)]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, shape)], weights)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def operators(proto: onnx.ModelProto) -> set[str]:
    placement = rw.place(rw.load(proto), rw.load_rules("std/microsoft.pat"))
    return {node.op for call in placement.graph.steps if isinstance(call, KernelCall) for node in call.body}


@pytest.mark.parametrize("name", CASES)
def test_the_meaning_is_what_onnx_runtime_computes(name):
    pytest.importorskip("onnxruntime")
    proto = model(*CASES[name])
    assert not any("::" in op for op in operators(proto))
    report = compare(rw.compile(rw.load(proto), rw.load_rules("std/microsoft.pat")), proto.SerializeToString())
    assert report.ok and report.largest_error < 1e-5, report.problems


@pytest.mark.parametrize("name", WITHOUT)
def test_other_attributes_have_another_meaning(name):
    assert operators(model(*WITHOUT[name])) == {f"com.microsoft::{WITHOUT[name][0]}"}


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _bytes(*shape: int, most: int = 255) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, most, shape).astype(np.uint8)


IDS = np.array([[1, 2, 3, 0, 8], [4, 4, 0, 7, 5]], np.int32)
ROWS = np.tile(np.arange(5), (2, 1))
Q, KV = _floats(2, 5, 8), _floats(2, 7, 8)
TYPED: dict[str, tuple[str, list[np.ndarray], dict[str, object], set[str]]] = {
    "conv and relu": (
        "FusedConv",
        [_floats(1, 4, 8, 8), _floats(6, 2, 3, 3), _floats(6)],
        {"activation": "Relu", "pads": [1, 0, 1, 0], "strides": [2, 1], "group": 2},
        {"Conv", "Relu"},
    ),
    "conv without bias": (
        "FusedConv",
        [_floats(1, 4, 8, 8), _floats(6, 4, 3, 3)],
        {"activation": "Relu", "auto_pad": "SAME_UPPER"},
        {"Conv", "Relu"},
    ),
    "gemm and relu": (
        "FusedGemm",
        [_floats(3, 4), _floats(5, 4), _floats(5)],
        {"activation": "Relu", "transB": 1, "alpha": 0.5},
        {"Gemm", "Relu"},
    ),
    "integers": (
        "MatMulIntegerToFloat",
        [_bytes(3, 4), _bytes(4, 5), _floats(), _floats(5), np.array(3, np.uint8), np.array(4, np.uint8)],
        {},
        {"MatMulInteger", "Cast", "Mul"},
    ),
    "integers without zero points": (
        "MatMulIntegerToFloat",
        [_bytes(3, 4), _bytes(4, 5).astype(np.int8), _floats(), _floats()],
        {},
        {"MatMulInteger", "Cast", "Mul"},
    ),
    "floats by integers": (
        "DynamicQuantizeMatMul",
        [_floats(3, 4), _bytes(4, 5), _floats(), np.array(4, np.uint8)],
        {},
        {"DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul"},
    ),
    "heads": ("MultiHeadAttention", [Q, KV, KV * 0.5], {"num_heads": 2}, {"Attention"}),
    "heads, causal and scaled": (
        "MultiHeadAttention",
        [Q, Q * 0.5, Q + 1],
        {"num_heads": 4, "unidirectional": 1, "scale": 0.3},
        {"Attention"},
    ),
    "attention": (
        "Attention",
        [Q, _floats(8, 24), _floats(24)],
        {"num_heads": 2, "unidirectional": 1},
        {"MatMul", "Add", "Split", "Attention"},
    ),
    "rotary": ("RotaryEmbedding", [_floats(2, 2, 5, 8), ROWS, _floats(9, 4), _floats(9, 4)], {}, {"RotaryEmbedding"}),
    "rotary, interleaved": (
        "RotaryEmbedding",
        [_floats(2, 5, 16), ROWS, _floats(9, 4), _floats(9, 4)],
        {"num_heads": 2, "interleaved": 1},
        {"RotaryEmbedding"},
    ),
    "embedding": (
        "EmbedLayerNormalization",
        [IDS, IDS % 2, _floats(9, 8), _floats(7, 8), _floats(2, 8), _floats(8), _floats(8)],
        {"epsilon": 1e-5},
        {"LayerNormalization", "Gather", "Slice", "Add", "Mul", "ReduceMin"},
    ),
    "weights of four bits": (
        "MatMulNBits",
        [_floats(2, 3, 64), _bytes(10, 2, 16), _floats(20)],
        {"K": 64, "N": 10, "bits": 4, "block_size": 32},
        {"MatMul", "Transpose", "Reshape", "Mul", "Sub", "Cast", "Concat", "Unsqueeze", "BitwiseAnd", "BitShift"},
    ),
}
"""Operator, operands (of which the first is an input of the model, the others constants), attributes, its pieces."""


OTHERWISE: dict[str, tuple[str, list[np.ndarray], dict[str, object]]] = {
    "a scale of 0 is the usual one": ("MultiHeadAttention", [Q, KV, KV * 0.5], {"num_heads": 2, "scale": 0.0}),
    "so in one operator": ("Attention", [Q, _floats(8, 24), _floats(24)], {"num_heads": 2, "scale": 0.0}),
    "fewer queries than keys are the last ones": (
        "MultiHeadAttention",
        [Q, KV, KV * 0.5],
        {"num_heads": 2, "unidirectional": 1},
    ),
    "tables say how many heads": ("RotaryEmbedding", [_floats(2, 5, 16), ROWS, _floats(9, 4), _floats(9, 4)], {}),
}
"""Operands and attributes of which the pieces would compute something else, or nothing."""


def typed(op: str, arrays: list[np.ndarray], attributes: dict[str, object]) -> onnx.ModelProto:
    names = [f"x{k}" for k in range(len(arrays))]
    dtype = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    free = 0 if arrays[0].dtype == np.int32 else 1  # positions are constants, too
    inputs = [helper.make_tensor_value_info(names[0], dtype, arrays[0].shape)][:free]
    bump = [helper.make_tensor_value_info("bump", 1, [1])]
    outputs = ["y0", *(["mask"] if op == "EmbedLayerNormalization" else [])]
    nodes = [
        helper.make_node(op, names, outputs, domain="com.microsoft", **attributes),
        helper.make_node("Add", ["y0", "bump"], ["y"]),
    ]
    constants = [numpy_helper.from_array(a, n) for a, n in zip(arrays[free:], names[free:], strict=True)]
    found = [helper.make_tensor_value_info("y", 1, None)]
    found += [helper.make_tensor_value_info("mask", onnx.TensorProto.INT32, None)] if len(outputs) > 1 else []
    graph = helper.make_graph(nodes, "g", inputs + bump, found, constants)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("name", TYPED)
def test_pieces_of_other_types_compute_the_same(name):
    pytest.importorskip("onnxruntime")
    op, arrays, attributes, pieces = TYPED[name]
    proto = typed(op, arrays, attributes)
    assert operators(proto) - {"Add", "Constant"} <= pieces
    report = compare(rw.compile(rw.load(proto), rw.load_rules("std/microsoft.pat")), proto.SerializeToString())
    assert report.ok and report.largest_error < 1e-5, report.problems


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_the_pieces_do_not_mean_stays_an_operator(name):
    pytest.importorskip("onnxruntime")
    proto = typed(*OTHERWISE[name])
    assert operators(proto) == {f"com.microsoft::{OTHERWISE[name][0]}", "Add"}
    report = compare(rw.compile(rw.load(proto), rw.load_rules("std/microsoft.pat")), proto.SerializeToString())
    assert report.ok and report.largest_error < 1e-5, report.problems


def test_a_literal_of_a_meaning_is_made_of_attributes_and_shapes():
    rules = load_text("operator com.x::Rows(x, count=n) = Reshape(x, [n, x.numel // n]) if x.numel % n == 0")
    graph = helper.make_graph(
        [helper.make_node("Rows", ["x"], ["y"], domain="com.x", count=3)],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 6])],
        [helper.make_tensor_value_info("y", 1, [3, 4])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)])
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(rw.compile(rw.load(proto), rules).run({"x": x})["y"], x.reshape(3, 4))
