"""Type inference: symbols and unknown dimensions, dtypes that attributes decide, and refusals with their messages."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.operators import TensorType, TypeMismatch, find, infer_types, names
from rewrite_engine.operators.shapes import SHAPE_RULES


def f32(*shape):
    return TensorType("float32", shape)


def i64(*shape):
    return TensorType("int64", shape)


def infer(op, inputs, attributes=None, constants=(), n_outputs=1):
    """Inputs may be arrays: constants."""
    types, known = [], []
    for item in inputs:
        array = isinstance(item, np.ndarray)
        types.append(TensorType(item.dtype.name, item.shape) if array else item)
        known.append(item if array else None)
    return infer_types(op, attributes or {}, types, list(constants) or known, n_outputs)


def ints(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "expected"),
    [
        ("Add", {}, [f32("N", 1, 4), f32(3, 1)], "float32[N, 3, 4]"),
        ("Add", {}, [f32("N"), f32("N")], "float32[N]"),
        ("Add", {}, [f32("N"), f32("M")], "float32[_]"),
        ("Add", {}, [f32("N"), f32(7)], "float32[7]"),
        ("Add", {}, [f32(2), TensorType("float32", None)], "float32[...]"),
        ("Equal", {}, [i64(2, 1), i64(3)], "bool[2, 3]"),
        ("Where", {}, [TensorType("bool", (2, 1)), f32(3), f32()], "float32[2, 3]"),
        ("Cast", {"to": 16}, [f32("N")], "bfloat16[N]"),
        ("MatMul", {}, [f32("B", 1, 4, "K"), f32(7, "K", 5)], "float32[B, 7, 4, 5]"),
        ("MatMul", {}, [f32(4), f32(2, 4, 5)], "float32[2, 5]"),
        ("MatMulInteger", {}, [TensorType("uint8", (3, 4)), TensorType("int8", (4, 5))], "int32[3, 5]"),
        ("Gemm", {"transA": 1}, [f32(8, "N"), f32(8, 5), f32(5)], "float32[N, 5]"),
        ("Conv", {"pads": [1, 1, 1, 1]}, [f32("N", 3, "H", 9), f32(8, 3, 3, 3)], "float32[N, 8, H, 9]"),
        ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 1]}, [f32(1, 3, "H", 9), f32(8, 3, 3, 3)],
         "float32[1, 8, _, 9]"),
        ("Conv", {}, [TensorType("float32", None), f32(8, 3, 3, 3)], "float32[_, 8, _, _]"),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, [f32(1, 3, 8, 6)],
         "float32[1, 3, 4, 3]"),
        ("GlobalAveragePool", {}, [f32("N", 3, "H", "W")], "float32[N, 3, 1, 1]"),
        ("Reshape", {}, [f32("N", 3, 4), ints(0, -1)], "float32[N, 12]"),
        ("Reshape", {}, [f32("N", 3, 4), ints(-1, 4)], "float32[_, 4]"),
        ("Reshape", {}, [f32("N", "S", 12), ints(0, 0, 3, -1)], "float32[N, S, 3, 4]"),
        ("Reshape", {}, [f32("N", 4, 3), ints(-1, 4, 3)], "float32[N, 4, 3]"),
        ("Reshape", {}, [f32(2, 3), i64(3)], "float32[_, _, _]"),
        ("Reshape", {"allowzero": 1}, [f32(0, 3), ints(3, 0)], "float32[3, 0]"),
        ("Flatten", {}, [f32("N", 3, 4)], "float32[N, 12]"),
        ("Flatten", {"axis": 0}, [f32("N", 3, 4)], "float32[1, _]"),
        ("Squeeze", {}, [f32(1, 3, 1)], "float32[3]"),
        ("Squeeze", {}, [f32("N", 1), ints(-1)], "float32[N]"),
        ("Unsqueeze", {}, [f32("N", 3), ints(0, -1)], "float32[1, N, 3, 1]"),
        ("Slice", {}, [f32("N", 8), ints(1), ints(-1), ints(1)], "float32[N, 6]"),
        ("Slice", {}, [f32("N", 8), ints(0), ints(2**63 - 1), ints(0)], "float32[N, 8]"),
        ("Slice", {}, [f32(8), ints(-1), ints(-(2**63)), ints(0), ints(-2)], "float32[4]"),
        ("Slice", {}, [f32("N", 8), i64(1), i64(1), ints(1)], "float32[N, _]"),
        ("Slice", {}, [f32(4), ints(-7), ints(-(2**63)), ints(0), ints(-1)], "float32[1]"),  # starts at 0, unlike NumPy
        ("Concat", {"axis": -1}, [f32("N", 3), f32("N", 4)], "float32[N, 7]"),
        ("Concat", {"axis": 0}, [f32("N", 3), f32(2, 3)], "float32[_, 3]"),
        ("Gather", {"axis": 1}, [f32("N", 9, 4), i64(2, 3)], "float32[N, 2, 3, 4]"),
        ("Expand", {}, [f32("N", 1), ints(1, 5)], "float32[N, 5]"),
        ("Tile", {}, [f32("N", 2), ints(1, 3)], "float32[N, 6]"),
        ("Pad", {}, [f32("N", 2), ints(0, 1, 0, 2)], "float32[N, 5]"),
        ("Pad", {}, [f32("N", 2), ints(1, 2), None, ints(-1)], "float32[N, 5]"),
        ("ReduceMean", {}, [f32("N", 8), ints(-1)], "float32[N, 1]"),
        ("ReduceMean", {"keepdims": 0}, [f32("N", 8)], "float32[]"),
        ("ReduceSum", {"noop_with_empty_axes": 1}, [f32("N", 8)], "float32[N, 8]"),
        ("ReduceSum", {"keepdims": 0}, [f32("N", 8), i64(1)], "float32[...]"),
        ("ArgMax", {"keepdims": 0}, [f32("N", 8)], "int64[8]"),
        ("Shape", {"start": 1}, [f32("N", 8, 3)], "int64[2]"),
        ("Size", {}, [f32("N")], "int64[]"),
        ("Range", {}, [np.array(3), np.array(10), np.array(3)], "int64[3]"),
        ("ConstantOfShape", {"value": np.zeros(1, np.int32)}, [ints(2, 3)], "int32[2, 3]"),
        ("ConstantOfShape", {}, [i64(2)], "float32[_, _]"),
        ("Constant", {"value_ints": (1, 2)}, [], "int64[2]"),
        ("Constant", {"value": np.zeros((2, 3), np.float16)}, [], "float16[2, 3]"),
        ("Resize", {}, [f32("N", 3, 4, 4), None, np.array([1, 1, 2, 1.5], np.float32)], "float32[N, 3, 8, 6]"),
        ("Resize", {"axes": [2, 3]}, [f32("N", 3, 4, 4), None, None, ints(7, 9)], "float32[N, 3, 7, 9]"),
        ("QuantizeLinear", {}, [f32("N", 4), f32(), TensorType("int8", ())], "int8[N, 4]"),
        ("QuantizeLinear", {}, [f32("N", 4), f32()], "uint8[N, 4]"),
        ("QuantizeLinear", {"output_dtype": 5}, [f32("N", 4), f32()], "int16[N, 4]"),
        ("DequantizeLinear", {}, [TensorType("int8", (3, 4)), TensorType("float16", (4,))], "float16[3, 4]"),
        ("OneHot", {}, [i64("N"), np.array(5), f32(2)], "float32[N, 5]"),
        ("EyeLike", {}, [TensorType("int32", (2, 3))], "int32[2, 3]"),
        ("Einsum", {"equation": "bid,bjd->bij"}, [f32("B", 4, 8), f32("B", 6, 8)], "float32[B, 4, 6]"),
        ("Einsum", {"equation": "ij,jk"}, [f32(2, 3), f32(3, 4)], "float32[2, 4]"),
        ("DepthToSpace", {"blocksize": 2}, [f32("N", 8, 3, "W")], "float32[N, 2, 6, _]"),
        ("NonZero", {}, [f32(3, 4)], "int64[2, _]"),
        ("com.microsoft::FusedMatMul", {}, [f32(2, 3)], "?[...]"),
        ("If", {"then_branch": object(), "else_branch": object()}, [TensorType("bool", ())], "?[...]"),
        ("Relu", {}, [TensorType("?", None)], "?[...]"),
    ],
)  # fmt: skip
def test_result_types(op, attributes, inputs, expected):
    assert str(infer(op, inputs, attributes)[0]) == expected


def test_several_results():
    assert [str(t) for t in infer("TopK", [f32("N", 9), ints(3)], n_outputs=2)] == ["float32[N, 3]", "int64[N, 3]"]
    assert [str(t) for t in infer("Split", [f32("N", 7)], {"axis": 1, "num_outputs": 3}, n_outputs=3)] == [
        "float32[N, 3]",
        "float32[N, 3]",
        "float32[N, 1]",
    ]
    assert [t.shape for t in infer("Split", [f32(7), ints(2, 5)], n_outputs=2)] == [(2,), (5,)]
    assert [str(t) for t in infer("DynamicQuantizeLinear", [f32(2)], n_outputs=3)] == [
        "uint8[2]",
        "float32[]",
        "uint8[]",
    ]
    half = TensorType("float16", (2, 3, 8))
    norm = infer("LayerNormalization", [half, TensorType("float16", (8,))], n_outputs=3)
    assert [str(t) for t in norm] == ["float16[2, 3, 8]", "float32[2, 3, 1]", "float32[2, 3, 1]"]
    lstm = infer("LSTM", [f32("T", 2, 5), f32(1, 24, 5), f32(1, 24, 6)], {"hidden_size": 6}, n_outputs=3)
    assert [str(t) for t in lstm] == ["float32[T, 1, 2, 6]", "float32[1, 2, 6]", "float32[1, 2, 6]"]
    cache = [f32(1, 8, 2, 64), f32(1, 2, 3, 64), f32(1, 2, 3, 32), None, f32(1, 2, 5, 64), f32(1, 2, 5, 32)]
    assert [t.shape for t in infer("Attention", cache, n_outputs=4)] == [
        (1, 8, 2, 32),
        (1, 2, 8, 64),
        (1, 2, 8, 32),
        (1, 8, 2, 8),
    ]


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "message"),
    [
        ("Add", {}, [f32(2), f32(3)], "Add: dimensions 2 and 3 do not broadcast; inputs are (float32[2], float32[3])"),
        ("Add", {}, [f32(2), i64(2)], "Add: input 1 (B) is int64, expected float32 as input 0 (A)"),
        ("Add", {}, [f32(2)], "Add: input 1 (B) is missing"),
        ("Add", {}, [f32(2)] * 3, "Add: takes at most 2 inputs, found 3"),
        ("Concat", {"axis": 0}, [], "Concat: input 0 (inputs) is missing"),
        ("Conv", {}, [TensorType("int8", (1, 3, 9, 9)), f32(8, 3, 3, 3)],
         "Conv: input 0 (X) is int8, expected one of float32"),
        ("Conv", {}, [f32(1, 4, 9, 9), f32(8, 3, 3, 3)], "times group 1, differ: 4 and 3"),
        ("Conv", {"group": 3}, [f32(1, 3, 9, 9), f32(8, 1, 3, 3)], "8 output channels are not a multiple of group 3"),
        ("Conv", {}, [f32(1, 3, 9, 9), f32(8, 3, 3)], "input 1 (W) has rank 3, expected 4 as input 0 (X)"),
        ("Conv", {}, [f32(1, 3, 9, 9), f32(8, 3, 3, 3), f32(7)],
         "sizes of the bias and output channels differ: 7 and 8"),
        ("Conv", {}, [f32(1, 3, 2, 9), f32(8, 3, 3, 3)], "a window of 3 is larger than the padded size 2"),
        ("Conv", {"strides": [1]}, [f32(1, 3, 9, 9), f32(8, 3, 3, 3)], "attribute strides has 1 elements, expected 2"),
        ("MaxPool", {}, [f32(1, 3, 9, 9)], "MaxPool: attribute `kernel_shape` is missing"),
        ("MatMul", {}, [f32(2, 3), f32(4, 5)], "columns of the left and rows of the right operand differ: 3 and 4"),
        ("MatMul", {}, [f32(), f32(4, 5)], "input 0 (A) is a scalar"),
        ("Gemm", {}, [f32(2, 3), f32(3, 5), f32(4)], "input 2 (C) does not broadcast to [2, 5]"),
        ("Gemm", {}, [f32(2, 3, 4), f32(3, 5)], "input 0 (A) has rank 3, expected 2"),
        ("Reshape", {}, [f32(2, 3), ints(4, -1)], "the elements do not divide into the shape [4, -1]"),
        ("Reshape", {}, [f32(2, 3), ints(5)], "the number of elements changes under the shape [5]"),
        ("Reshape", {}, [f32(2, 3), ints(-1, -1)], "may hold one -1"),
        ("Softmax", {"axis": 5}, [f32(2, 3)], "axis 5 is outside [-2, 2)"),
        ("Transpose", {"perm": [0, 0]}, [f32(2, 3)], "perm [0, 0] is no permutation of 2 axes"),
        ("Squeeze", {}, [f32(2, 3), ints(0)], "axis 0 has size 2, only 1 can be squeezed"),
        ("Unsqueeze", {}, [f32(2, 3), ints(0, 0)], "name one axis twice"),
        ("Concat", {"axis": 0}, [f32(2, 3), f32(2, 4)], "sizes of axis 1 differ: 3 and 4"),
        ("Concat", {"axis": 0}, [f32(2, 3), f32(2)], "inputs differ in rank"),
        ("BatchNormalization", {}, [f32(1, 3, 4), f32(4), f32(3), f32(3), f32(3)], "input 1 (scale) differ: 3 and 4"),
        ("LayerNormalization", {}, [f32(2, 8), f32(7)], "input 1 (Scale) does not broadcast to [2, 8]"),
        ("ReduceSum", {}, [f32(2, 3), ints(2)], "axis 2 is outside [-2, 2)"),
        ("Expand", {}, [f32(2, 3), ints(4)], "dimensions 3 and 4 do not broadcast"),
        ("TopK", {}, [f32(4), ints(5)], "k is 5, axis 0 has 4"),
        ("Cast", {"to": 26}, [f32(4)], "would be int2, which the operator does not give"),
        ("Einsum", {"equation": "ij,jk->ik"}, [f32(2, 3), f32(4, 5)], "sizes of j differ: 3 and 4"),
        ("Pad", {}, [f32(2), ints(1)], "1 pads for 1 axes, expected 2"),
        ("QuantizeLinear", {}, [f32(2, 4), f32(3)], "sizes of axis 1 and of the scale differ: 4 and 3"),
    ],
)  # fmt: skip
def test_impossible_inputs_are_refused(op, attributes, inputs, message):
    with pytest.raises(TypeMismatch) as refused:
        infer(op, inputs, attributes)
    assert isinstance(refused.value, RewriteError)
    assert message in str(refused.value)
    assert "; inputs are (" in str(refused.value)


def test_more_outputs_than_the_operator_has_are_refused():
    with pytest.raises(TypeMismatch, match="Relu: has no output 1"):
        infer("Relu", [f32(2)], n_outputs=2)
    with pytest.raises(TypeMismatch, match=r"split .* has 2 sizes for 3 outputs"):
        infer("Split", [f32(7), ints(2, 5)], n_outputs=3)


def test_split_sizes_must_add_up():
    with pytest.raises(TypeMismatch, match="adds up to 6, axis 0 has 7"):
        infer("Split", [f32(7), ints(2, 4)], n_outputs=2)


def test_nothing_known_is_never_an_error():
    """Every operator of the table, with inputs of unknown type and unknown rank."""
    for name in names():
        operator = find(name)
        samples = {"int": 1, "float": 1.0, "string": "x", "ints": (1, 1), "floats": (1.0,), "strings": ("x",)}
        required = {a.name: samples.get(a.type, object()) for a in operator.attributes.values() if a.required}
        if name == "Einsum":
            required["equation"] = "ij,jk->ik"
        count = 2 if name == "Einsum" else operator.max_inputs or operator.min_inputs
        outputs = operator.max_outputs or 1
        result = infer_types(name, required, [TensorType("?", None)] * count, [], outputs)
        assert len(result) == outputs


def test_every_operator_on_tensors_has_a_shape_rule():
    assert not [name for name in SHAPE_RULES if find(name) is None]
    without = {name for name in names() if name not in SHAPE_RULES and not find(name).pointwise}
    assert {name for name in without if "Sequence" not in name and "Optional" not in name} == {
        *("If", "Loop", "Scan"),  # their bodies say
        "StringNormalizer",  # the data says
    }
