"""Work of operators: multiply-accumulates, flops and bytes."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite_engine.operators import TensorType, Work, find, infer_types, names, total_bytes, work
from rewrite_engine.operators.work import TRANSCENDENTAL


def f32(*shape):
    return TensorType("float32", shape)


def of(op, attributes, *inputs, constants=()):
    return work(op, attributes, inputs, infer_types(op, attributes, inputs, constants, 1))


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "macs"),
    [
        ("Conv", {}, [f32(1, 3, 10, 10), f32(8, 3, 3, 3)], 8 * 8 * 8 * 27),
        ("Conv", {"group": 4}, [f32(2, 8, 5, 5), f32(12, 2, 3, 3)], 2 * 12 * 9 * 18),
        ("Conv", {"group": 8, "strides": [2, 2], "pads": [1, 1, 1, 1]}, [f32(1, 8, 6, 6), f32(8, 1, 3, 3), f32(8)],
         8 * 9 * 9),
        ("ConvTranspose", {"group": 2, "strides": [2, 2]}, [f32(1, 4, 5, 5), f32(4, 3, 2, 2)], 4 * 25 * 3 * 4),
        ("MatMul", {}, [f32(2, 4, 5), f32(5, 6)], 2 * 4 * 5 * 6),
        ("MatMul", {}, [f32(5), f32(5)], 5),
        ("Gemm", {"transA": 1, "transB": 1}, [f32(7, 4), f32(6, 7), f32(6)], 4 * 7 * 6),
        ("Einsum", {"equation": "bij,bjk->bik"}, [f32(2, 3, 4), f32(2, 4, 5)], 2 * 3 * 4 * 5),
        ("Einsum", {"equation": "...ij,jk->...ik"}, [f32(2, 3, 4), f32(4, 5)], 2 * 3 * 4 * 5),
        ("Attention", {}, [f32(1, 8, 10, 64), f32(1, 2, 12, 64), f32(1, 2, 12, 32)], 8 * 10 * 12 * (64 + 32)),
        ("Attention", {"q_num_heads": 8, "kv_num_heads": 2}, [f32(1, 10, 512), f32(1, 12, 128), f32(1, 12, 64)],
         8 * 10 * 12 * (64 + 32)),
        ("LSTM", {"hidden_size": 6}, [f32(3, 2, 5), f32(1, 24, 5), f32(1, 24, 6)], 3 * 2 * 4 * 6 * (5 + 6)),
    ],
)  # fmt: skip
def test_contractions_count_two_flops_a_mac(op, attributes, inputs, macs):
    assert of(op, attributes, *inputs) == Work(macs, 2 * macs)


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "flops"),
    [
        ("Add", {}, [f32(4, 1), f32(5)], 20),
        ("Relu", {}, [f32(4, 5)], 20),
        ("Sum", {}, [f32(4, 5)] * 3, 40),
        ("Exp", {}, [f32(4, 5)], 20 * TRANSCENDENTAL),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, [f32(1, 3, 4, 4)], 12 * 4),
        ("GlobalAveragePool", {}, [f32(1, 3, 4, 4)], 48),
        ("ReduceMean", {}, [f32(4, 5)], 20),
        ("Transpose", {}, [f32(4, 5)], 0),
        ("Gather", {}, [f32(4, 5), TensorType("int64", (3,))], 0),
        ("Concat", {"axis": 0}, [f32(4, 5), f32(4, 5)], 0),
        ("Flatten", {}, [f32(4, 5)], 0),
    ],
)
def test_other_operators_count_by_element(op, attributes, inputs, flops):
    assert of(op, attributes, *inputs) == Work(0, flops)


def test_interpolation_counts_its_points_where_sizes_change():
    scales = np.array([1, 1, 2, 2], np.float32)
    inputs = [f32(1, 3, 4, 4), None, f32(4)]
    for mode, points in (("nearest", 0), ("linear", 2 * 4), ("cubic", 2 * 16)):
        result = infer_types("Resize", {"mode": mode}, inputs, [None, None, scales], 1)
        assert result[0].shape == (1, 3, 8, 8)
        assert work("Resize", {"mode": mode}, inputs, result).flops == 3 * 64 * points


@pytest.mark.parametrize(
    ("op", "inputs", "unknown"),
    [
        ("Conv", [f32("N", 3, 10, 10), f32(8, 3, 3, 3)], Work(None, None)),
        ("MatMul", [f32(4, "K"), f32("K", 3)], Work(None, None)),
        ("Relu", [f32("N", 3)], Work(0, None)),
        ("Transpose", [f32("N", 3)], Work(0, 0)),
    ],
)
def test_an_unknown_dimension_makes_the_number_unknown(op, inputs, unknown):
    assert of(op, {}, *inputs) == unknown


def test_an_operator_outside_the_table_counts_its_outputs():
    assert work("com.example::Op", {}, [f32(9)], [f32(4, 5), f32(2)]) == Work(0, 22)
    assert work("com.example::Op", {}, [f32(9)], [TensorType("?", None)]) == Work(0, None)


def test_bytes():
    assert total_bytes([f32(4, 5), None, TensorType("int8", (3,)), TensorType("int4", (3,))]) == 80 + 3 + 2
    assert total_bytes([]) == 0
    assert total_bytes([f32(4), f32("N")]) is None
    assert total_bytes([TensorType("?", (4,))]) is None


def test_movement_and_views_are_free():
    for name in names():
        if find(name).movement:
            assert work(name, {}, [f32(3)], [f32(3)]) == Work(0, 0)
