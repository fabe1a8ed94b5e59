"""Constant folding: what folds gives ONNX Runtime's numbers; what must not fold stays."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import largest_error, parse, random_inputs, run_reference
from onnx import TensorProto, helper, numpy_helper

from rewrite_engine.graph import load

I = np.array([7, -7, 8, -8], np.int64)
J = np.array([2, 2, -3, -3], np.int64)
F = np.array([[0.5, -1.5, 2.0], [3.25, 0.0, -0.0]], np.float32)
CUBE = np.arange(24, dtype=np.int64).reshape(2, 3, 4) - 5
BIG = np.array([2**53 + 3], np.int64)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES = [
    ("Add", {}, [I, J]),
    ("Sub", {}, [I, J]),
    ("Mul", {}, [I, J]),
    ("Div", {}, [I, J]),
    ("Div", {}, [BIG, ints(1)]),
    ("Div", {}, [np.array([7, 250], np.uint8), np.array([2, 3], np.uint8)]),
    ("Div", {}, [F, np.array([2.0, 3.0, 0.0], np.float32)]),
    ("Mod", {}, [I, J]),
    ("Neg", {}, [I]),
    ("Max", {}, [I, J, ints(1)]),
    ("Min", {}, [F, np.array([np.nan, 1, 0], np.float32)]),
    ("Equal", {}, [I, J]),
    ("Less", {}, [I, J]),
    ("GreaterOrEqual", {}, [F, F.T.reshape(2, 3)]),
    ("And", {}, [I > 0, J > 0]),
    ("Not", {}, [I > 0]),
    ("Where", {}, [I > 0, I, J]),
    ("Cast", {"to": TensorProto.FLOAT}, [I]),
    ("Cast", {"to": TensorProto.INT64}, [np.array([1.9, -1.9, 0.5], np.float32)]),
    ("Cast", {"to": TensorProto.BOOL}, [F]),
    ("Cast", {"to": TensorProto.FLOAT16}, [F]),
    ("Cast", {"to": TensorProto.INT32}, [I > 0]),
    ("Concat", {"axis": -1}, [CUBE, CUBE]),
    ("Gather", {"axis": -2}, [CUBE, ints(-1, 0)]),
    ("Gather", {}, [I, np.array(-1, np.int64)]),
    ("GatherElements", {"axis": 1}, [CUBE[0, :, :], ints(0, -1, 2).reshape(1, 3)]),
    ("GatherElements", {"axis": 1}, [np.arange(64).reshape(1, 64), ints(*range(16)).reshape(1, 16)]),
    ("GatherND", {}, [CUBE, ints(0, 1).reshape(1, 2)]),
    ("ScatterElements", {"axis": 1}, [CUBE[0], ints(1, 0).reshape(1, 2), ints(50, 60).reshape(1, 2)]),
    ("ScatterND", {}, [I, ints(1, 3).reshape(2, 1), ints(50, 60)]),
    ("Slice", {}, [CUBE, ints(1), ints(3), ints(-2)]),
    ("Slice", {}, [CUBE, ints(-1), ints(-100), ints(2), ints(-2)]),
    ("Slice", {}, [CUBE, ints(0, 1), ints(2**60, -1)]),
    ("Slice", {}, [CUBE, ints(-100), ints(2), ints(1)]),
    ("Slice", {}, [I, ints(100), ints(-100), ints(0), ints(-1)]),
    ("Slice", {}, [I, ints(3), ints(1), ints(0)]),
    ("Squeeze", {}, [CUBE[:1]]),
    ("Squeeze", {}, [CUBE[:, :1], ints(-2)]),
    ("Unsqueeze", {}, [CUBE, ints(0, -1)]),
    ("Reshape", {}, [CUBE, ints(0, -1)]),
    ("Transpose", {}, [CUBE]),
    ("Transpose", {"perm": [1, 2, 0]}, [CUBE]),
    ("Expand", {}, [CUBE[:, :1], ints(3, 1)]),
    ("Expand", {}, [np.array(2.5, np.float32), ints(2, 3)]),
    ("Range", {}, [np.array(2, np.int64), np.array(11, np.int64), np.array(3, np.int64)]),
    ("Range", {}, [np.array(0, np.float32), np.array(1, np.float32), np.array(0.3, np.float32)]),
    ("ConstantOfShape", {"value": numpy_helper.from_array(np.array([7], np.int32))}, [ints(2, 0, 3)]),
    ("ConstantOfShape", {}, [ints(2)]),
    ("Tile", {}, [CUBE, ints(1, 2, 1)]),
    ("Pad", {}, [I, ints(1, 2), np.array(9, np.int64)]),
    ("Shape", {"start": -2}, [CUBE]),
    ("Size", {}, [CUBE]),
    ("ReduceProd", {"keepdims": 0}, [I, ints(0)]),
    ("ReduceSum", {}, [CUBE, ints(1)]),
    ("ReduceMean", {"keepdims": 0}, [F, ints(-1)]),
    ("Sqrt", {}, [np.abs(F)]),
    ("Exp", {}, [F]),
    ("Erf", {}, [F]),
    ("Pow", {}, [np.abs(F) + 1, np.array(3, np.int64)]),
    ("Floor", {}, [F]),
    ("Clip", {}, [I, np.array(-7, np.int64), np.array(7, np.int64)]),
    ("MatMul", {}, [F, F.T.copy()]),
    ("NonZero", {}, [CUBE]),
    ("OneHot", {}, [ints(0, 2), np.array(3, np.int64), np.array([0.0, 1.0], np.float32)]),
    ("Trilu", {}, [CUBE]),
    ("CumSum", {}, [CUBE, np.array(1, np.int64)]),
    ("IsNaN", {}, [np.array([np.nan, 1], np.float32)]),
    ("DepthToSpace", {"blocksize": 2}, [np.arange(8, dtype=np.float32).reshape(1, 4, 1, 2)]),
    ("Softmax", {}, [F]),
    ("TopK", {}, [F, ints(2)]),
    ("Split", {"num_outputs": 2, "axis": 2}, [CUBE]),
]


def constant_model(op, attributes, arrays) -> onnx.ModelProto:
    """y = op(constants), read by the output through Identity, so that it may fold; opset 23."""
    names = [f"c{i}" for i in range(len(arrays))]
    results = ["y", "z"] if op in ("TopK", "Split") else ["y"]
    nodes = [helper.make_node(op, names, results, **attributes)]
    outputs = [f"{name}.out" for name in results]
    nodes += [helper.make_node("Identity", [name], [out]) for name, out in zip(results, outputs, strict=True)]
    graph = helper.make_graph(
        nodes,
        "g",
        [],
        [onnx.ValueInfoProto(name=out, type=onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor())) for out in outputs],
        [numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@pytest.mark.parametrize(("op", "attributes", "arrays"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_folded_values_are_those_of_onnx_runtime(op, attributes, arrays):
    model = constant_model(op, attributes, arrays)
    module = load(model)
    assert {node.op_type for node in module.model.graph} == {"Identity"}, "it did not fold"
    expected = run_reference(with_output_types(model), {})
    assert largest_error(run_reference(module.model, {}), expected) < 1e-6


def with_output_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """ONNX Runtime wants to know the element types of outputs."""
    inferred = onnx.shape_inference.infer_shapes(model)
    return inferred


def test_a_chain_of_shape_arithmetic_folds_in_whole():
    text = """g (float[2,3,8,8] x) => (float[a,b,c] y) {
      s = Shape(x)  i = Constant<value_ints=[2,3]>()  hw = Gather(s, i)  n = ReduceProd<keepdims=1>(hw)
      two = Constant<value_ints=[2]>() head = Slice(s, zero, two)  t = Concat<axis=0>(head, n)  r = Reshape(x, t)
      u = Shape(r) k = ConstantOfShape<value = int64[1] {1}>(three) e = Equal(u, k) w = Where(e, k, u) y = Expand(r, w)
    }"""
    model = parse(text)
    for name, value in (("zero", [0]), ("three", [3])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
    module = load(model)
    assert [node.op_type for node in module.model.graph] == ["Reshape", "Expand"]
    assert module.model.graph.outputs[0].shape.numpy() == (2, 3, 64)
    inputs = random_inputs(model, 0)
    assert largest_error(run_reference(module.model, inputs), run_reference(model, inputs)) == 0


def test_what_reads_a_result_of_unknown_size_is_static_once_it_folded():
    model = parse("g (float[4,3] x) => (float[a,b,c] y) { n = NonZero(c) m = Neg(n) p = Neg(m) y = Gather(x, p) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 1, 1, 0]), "c"))
    module = load(model)
    assert ops(module) == ["Gather"]
    assert module.model.graph.outputs[0].shape.numpy() == (1, 2, 3)
    assert module.model.graph[0].inputs[1].shape.numpy() == (1, 2)


def ops(module) -> list[str]:
    return [node.op_type for node in module.model.graph]


def test_size_cap():
    text = """g (float[64,64] x) => (float[64,64] y) {
      s = Constant<value_ints=[64,64]>() w = ConstantOfShape(s) y = Add(x, w)
    }"""
    assert ops(load(parse(text))) == ["Add"]
    assert ops(load(parse(text), fold_cap=4 * 64 * 64)) == ["Add"]
    assert ops(load(parse(text), fold_cap=4 * 64 * 64 - 1)) == ["ConstantOfShape", "Add"]
    assert ops(load(parse(text), fold=False)) == ["ConstantOfShape", "Add"]
    huge = text.replace("64,64]>", "1000000,1000000]>").replace("float[64,64]", "float[1,1]")
    assert ops(load(parse(huge))) == ["ConstantOfShape", "Add"]  # and nothing of that size was ever made


@pytest.mark.parametrize("op", ["RandomNormal<shape=[4]>()", "RandomUniformLike(c)", "Bernoulli(c)", "Multinomial(c2)"])
def test_random_operators_stay(op):
    text = f"g (float[4] x) => (float[?] y) {{ r = {op} f = Cast<to=1>(r) y = Add(x, f) }}"
    model = parse(text)
    model.graph.initializer.append(numpy_helper.from_array(np.full(4, 0.5, np.float32), "c"))
    model.graph.initializer.append(numpy_helper.from_array(np.full((1, 4), 0.5, np.float32), "c2"))
    assert ops(load(model))[0] == op.split("(")[0].split("<")[0]


def test_an_initializer_that_is_an_input_is_no_constant():
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { v = Neg(w) y = Mul(x, v) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([10, 10], np.float32), "w"))
    module = load(model)
    assert ops(module) == ["Neg", "Mul"]
    x = np.array([1, 2], np.float32)
    assert run_reference(module.model, {"x": x})[0].tolist() == [-10, -20]
    assert run_reference(module.model, {"x": x, "w": np.array([3, 3], np.float32)})[0].tolist() == [-3, -6]


@pytest.mark.parametrize("op", ["MaxPool", "DequantizeLinear", "Dropout"])
def test_what_the_evaluator_is_not_trusted_with_stays(op):
    node = {
        "MaxPool": "MaxPool<kernel_shape=[1]>(c)",
        "DequantizeLinear": "DequantizeLinear(q, s)",
        "Dropout": "Dropout(c)",
    }[op]
    model = parse(f"g (float[1,1,4] x) => (float[a,b,c] y) {{ d = {node} y = Add(x, d) }}")
    arrays = {"c": np.ones((1, 1, 4), np.float32), "q": np.ones((1, 1, 4), np.int8), "s": np.array(0.5, np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    assert ops(load(model)) == [op, "Add"]


def test_branches_and_loops_stay_whole_with_what_they_capture():
    text = """g (float[3] x, bool c) => (float[3] y) {
      k = Constant<value_floats=[1.0, 2.0, 3.0]>()  d = Neg(k)  same = Identity(d)
      y = If (c) <then_branch = a () => (float[3] z) { z = Add(x, same) },
                  else_branch = b () => (float[3] w) { w = Mul(x, k) }>
    }"""
    model = parse(text)
    module = load(model)
    assert ops(module) == ["If"]
    for choice in (True, False):
        inputs = {**random_inputs(model, 0), "c": np.array(choice)}
        assert largest_error(run_reference(module.model, inputs), run_reference(model, inputs)) == 0


def test_an_identity_of_a_constant_is_that_constant():
    model = parse("g (float[2] x) => (float[2] y) { v = Identity(w) u = Identity(w) a = Add(x, v) y = Mul(a, u) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    module = load(model)
    assert ops(module) == ["Add", "Mul"] and list(module.model.graph.initializers) == ["w"]


def test_constant_outputs_keep_their_names_and_are_computed():
    model = parse("g (float[2] x) => (float[2] y, float[2] w, float[2] v) { v = Neg(w) y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    module = load(model)
    assert [str(o.name) for o in module.model.graph.outputs] == ["y", "w", "v"]
    assert sorted(ops(module)) == ["Add", "Identity", "Identity"]
    inputs = random_inputs(model, 0)
    again = load(module.model)
    assert sorted(ops(again)) == sorted(ops(module))
    for result in (module, again):
        assert largest_error(run_reference(result.model, inputs), run_reference(model, inputs)) == 0
