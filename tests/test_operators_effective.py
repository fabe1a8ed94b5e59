"""Effective attributes: defaults, the meaning of absence, auto_pad, axes; the same when applied twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite_engine.operators import TensorType, effective_attributes, infer_types


def f32(*shape):
    return TensorType("float32", shape)


IMAGE, KERNEL = f32(1, 3, 224, 224), f32(8, 3, 3, 3)


def conv(attributes, image=IMAGE, kernel=KERNEL):
    return effective_attributes("Conv", attributes, [image, kernel])


def test_absent_window_attributes_have_their_meaning():
    assert conv({}) == {
        "auto_pad": "NOTSET",
        "dilations": (1, 1),
        "group": 1,
        "kernel_shape": (3, 3),
        "pads": (0, 0, 0, 0),
        "strides": (1, 1),
    }


@pytest.mark.parametrize(
    ("attributes", "image", "pads"),
    [
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, IMAGE, (0, 0, 1, 1)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, IMAGE, (1, 1, 0, 0)),
        ({"auto_pad": "SAME_UPPER"}, IMAGE, (1, 1, 1, 1)),
        ({"auto_pad": "SAME_UPPER", "dilations": [2, 3]}, IMAGE, (2, 3, 2, 3)),
        ({"auto_pad": "SAME_UPPER", "strides": [5, 4]}, f32(1, 3, 7, 8), (0, 0, 1, 0)),
        ({"auto_pad": "VALID"}, IMAGE, (0, 0, 0, 0)),
        ({"auto_pad": b"SAME_LOWER"}, f32("N", 3, "H", "W"), (1, 1, 1, 1)),  # stride 1: the same for every size
    ],
)
def test_auto_pad_becomes_pads(attributes, image, pads):
    result = conv(attributes, image)
    assert result["pads"] == pads
    assert result["auto_pad"] == "NOTSET"


def test_auto_pad_of_an_unknown_size_stays():
    result = conv({"auto_pad": "SAME_UPPER", "strides": (2, 2)}, f32("N", 3, "H", 224))
    assert result["auto_pad"] == "SAME_UPPER"
    assert "pads" not in result


def test_pools_and_quantized_convolutions_are_windows_too():
    pool = effective_attributes(
        "MaxPool", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}, [IMAGE]
    )
    assert pool["pads"] == (0, 0, 1, 1) and pool["dilations"] == (1, 1) and pool["ceil_mode"] == 0
    u8 = TensorType("uint8", (1, 3, 8, 8))
    inputs = [u8, f32(), TensorType("uint8", ()), TensorType("int8", (4, 3, 5, 3))]
    assert effective_attributes("QLinearConv", {}, inputs)["kernel_shape"] == (5, 3)


@pytest.mark.parametrize(
    ("attributes", "pads", "padding"),
    [
        ({}, (0, 0, 0, 0), (0, 0)),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (0, 0, 1, 1), (0, 0)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (1, 1, 0, 0), (0, 0)),
        ({"output_shape": [10, 8], "strides": [3, 2]}, (0, 0, 0, 0), (1, 1)),
        ({"output_shape": [6, 6], "strides": [2, 2]}, (1, 1, 0, 0), (0, 0)),
        ({"auto_pad": "SAME_UPPER", "output_shape": [6, 6], "strides": [2, 2]}, (0, 0, 1, 1), (0, 0)),
    ],
)
def test_a_transposed_convolution_resolves_its_output_shape(attributes, pads, padding):
    inputs = [f32(1, 1, 3, 3), f32(1, 2, 3, 3)]
    result = effective_attributes("ConvTranspose", attributes, inputs)
    assert (result["pads"], result["output_padding"]) == (pads, padding)
    assert "output_shape" not in result and result["auto_pad"] == "NOTSET"
    wanted = attributes.get("output_shape", (6, 6) if "auto_pad" in attributes else (5, 5))
    assert infer_types("ConvTranspose", result, inputs, [], 1)[0].shape[2:] == tuple(wanted)
    assert effective_attributes("ConvTranspose", result, inputs) == result


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "expected"),
    [
        ("Softmax", {}, [f32(2, 3, 4)], {"axis": 2}),
        ("Softmax", {"axis": -2}, [f32(2, 3, 4)], {"axis": 1}),
        ("Softmax", {"axis": -1}, [TensorType("float32", None)], {"axis": -1}),
        ("Concat", {"axis": -1}, [f32(2, 3), f32(2, 3)], {"axis": 1}),
        ("OneHot", {}, [f32(2, 3)], {"axis": 2}),
        ("Flatten", {"axis": -1}, [f32(2, 3, 4)], {"axis": 2}),
        ("Transpose", {}, [f32("a", 3, 4)], {"perm": (2, 1, 0)}),
        ("Transpose", {}, [TensorType("float32", None)], {}),
        ("Transpose", {"perm": [0, 2, 1]}, [f32(2, 3, 4)], {"perm": (0, 2, 1)}),
        ("Shape", {"start": -2}, [f32(2, 3, 4)], {"start": 1, "end": 3}),
        ("Shape", {"start": -9, "end": 9}, [f32(2, 3, 4)], {"start": 0, "end": 3}),
        ("LayerNormalization", {"epsilon": 1e-12}, [f32(2, 8)],
         {"axis": 1, "stash_type": 1, "epsilon": float(np.float32(1e-12))}),
        ("Gemm", {"transB": 1}, [f32(2, 8), f32(4, 8)], {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}),
        ("Cast", {"to": np.int64(10)}, [f32(2)], {"saturate": 1, "to": 10}),
        ("CenterCropPad", {"axes": [-1, -2]}, [f32(2, 3)], {"axes": (1, 0)}),
        ("Unique", {}, [f32(2, 3)], {"sorted": 1}),
        ("EyeLike", {}, [TensorType("int32", (2, 2))], {"dtype": 6, "k": 0}),
    ],
)  # fmt: skip
def test_defaults_and_axes(op, attributes, inputs, expected):
    assert effective_attributes(op, attributes, inputs) == expected


def test_a_float_equals_the_default_it_spells():
    written = effective_attributes("LayerNormalization", {"epsilon": 1e-5}, [f32(2, 8)])
    assert written == effective_attributes("LayerNormalization", {}, [f32(2, 8)])


def test_resize_names_every_axis():
    assert effective_attributes("Resize", {}, [f32(1, 3, 8, 8)])["axes"] == (0, 1, 2, 3)


def test_attention_has_its_scale_and_heads():
    inputs = [f32(1, 8, 16, 64), f32(1, 2, 16, 64), f32(1, 2, 16, 64)]
    result = effective_attributes("Attention", {}, inputs)
    assert (result["scale"], result["q_num_heads"], result["kv_num_heads"]) == (0.125, 8, 2)


def test_values_become_plain_and_others_pass():
    tensor, graph = np.ones(3), object()
    attributes = {"name": b"a", "flag": True, "list": [np.int64(1), 2], "none": None, "tensor": tensor, "graph": graph}
    result = effective_attributes("com.example::Op", attributes, [None])
    assert list(result) == ["flag", "graph", "list", "name", "tensor"]
    assert (result["name"], result["flag"], result["list"]) == ("a", 1, (1, 2))
    assert type(result["flag"]) is int and result["tensor"] is tensor and result["graph"] is graph


def test_the_value_of_constant_of_shape_is_a_zero():
    value = effective_attributes("ConstantOfShape", {}, [])["value"]
    assert value.dtype == np.float32 and value.tolist() == [0.0]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_same_padding_gives_the_size_over_the_stride_and_applying_twice_changes_nothing(data):
    auto = data.draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]))
    sizes, kernel, strides, dilations = (
        tuple(data.draw(st.integers(low, high)) for _ in range(2)) for low, high in ((9, 30), (1, 4), (1, 5), (1, 2))
    )
    attributes = {"auto_pad": auto, "strides": strides, "dilations": dilations}
    inputs = [f32(1, 3, *sizes), f32(4, 3, *kernel)]
    once = effective_attributes("Conv", attributes, inputs)
    assert effective_attributes("Conv", once, inputs) == once
    if auto.startswith("SAME"):
        result = infer_types("Conv", once, inputs, [], 1)[0]
        assert result.shape[2:] == tuple(-(-n // s) for n, s in zip(sizes, strides, strict=True))
        pads = once["pads"]
        for before, after in zip(pads[:2], pads[2:], strict=True):
            assert after - before in ((0, 1) if auto == "SAME_UPPER" else (0, -1))
