"""Fused operators of ONNX Runtime, declared by their meaning: the same numbers as ONNX Runtime's own kernels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rewrite_engine as rw
from rewrite_engine.backend.check import compare
from rewrite_engine.graph.placed import KernelCall

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
