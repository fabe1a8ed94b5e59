"""Operators' computes: random shapes against references, and fine points of meaning."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_node_cases import assert_close, reference, run_node, runtime

from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.operators import OPERATORS, Unsupported, operator_compute

NEEDED = """
    Add And AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape Conv Div Dropout
    Equal Erf Expand Flatten Gather GatherElements Gemm GlobalAveragePool GreaterOrEqual Identity IsNaN
    LayerNormalization MatMul MaxPool Mul Pad Range Relu Reshape Shape Slice Softmax Sum Transpose
    Unsqueeze Where
"""
"""The operators of the models that the project is shown on."""


def test_the_operators_of_the_shown_models_have_computes() -> None:
    assert OPERATORS.keys() >= set(NEEDED.split())


def test_an_operator_without_a_compute_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="operator ImageDecoder has no compute"):
        operator_compute("ImageDecoder")


def test_computes_need_no_onnx() -> None:
    script = """
import sys
from rewrite_engine.loops import execute, lower
import rewrite_engine.loops.operators
print(sorted(name for name in sys.modules if name.split(".")[0] in ("onnx", "onnx_ir", "onnxruntime")))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- random shapes against ONNX's reference -------------------------------------------------------------------------


def check(
    op: str,
    *feeds: np.ndarray | None,
    oracle: Callable[..., list[np.ndarray]] = reference,
    outputs: int = 1,
    rtol: float = 1e-5,
    **attributes: object,
) -> None:
    """The compute agrees with ONNX's reference evaluator, or with another oracle where that one has defects."""
    wanted = oracle(op, feeds, outputs, **attributes)
    for results in run_node(op, feeds, outputs, **attributes):
        for found, expected in zip(results, wanted, strict=True):
            assert_close(found, expected, rtol=rtol, atol=1e-6)


def random(seed: int, *shape: int) -> np.ndarray:
    """Seeded float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


few = settings(max_examples=40, deadline=None, derandomize=True)
size = st.integers(1, 7)
seeds = st.integers(0, 1000)


@st.composite
def windows(draw: st.DrawFn, spatial: int) -> dict[str, list[int]]:
    """Strides, dilations and pads of a window operator."""
    each = lambda low, high, n: draw(st.lists(st.integers(low, high), min_size=n, max_size=n))
    return {
        "strides": each(1, 3, spatial),
        "dilations": each(1, 2, spatial),
        "pads": each(0, 2, 2 * spatial),
    }


@few
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.data())
def test_conv(seed: int, groups: int, depth: int, filters: int, spatial: int, data: st.DataObject) -> None:
    kernel = data.draw(st.lists(st.integers(1, 3), min_size=spatial, max_size=spatial))
    image = data.draw(st.lists(st.integers(6, 9), min_size=spatial, max_size=spatial))
    x, w = random(seed, 2, groups * depth, *image), random(seed + 1, groups * filters, depth, *kernel)
    bias = data.draw(st.sampled_from([None, random(seed + 2, groups * filters)]))
    check("Conv", x, w, bias, group=groups, **data.draw(windows(spatial)))


@few
@given(seeds, st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]), st.integers(1, 4), st.integers(1, 3), size)
def test_conv_auto_pad(seed: int, auto_pad: str, kernel: int, stride: int, extra: int) -> None:
    x, w = random(seed, 1, 2, 4 + extra, 6), random(seed + 1, 3, 2, kernel, kernel)
    check("Conv", x, w, auto_pad=auto_pad, strides=[stride, stride])


@few
@given(seeds, st.integers(1, 2), size, size, st.data())
def test_conv_transpose(seed: int, groups: int, height: int, width: int, data: st.DataObject) -> None:
    x, w = random(seed, 1, 2 * groups, height + 2, width + 2), random(seed + 1, 2 * groups, 2, 3, 2)
    attributes = data.draw(windows(2))
    attributes["pads"] = [min(pad, 1) for pad in attributes["pads"]]
    check("ConvTranspose", x, w, oracle=runtime, group=groups, **attributes)


@few
@given(seeds, st.integers(1, 3), st.booleans(), st.data())
def test_pools(seed: int, kernel: int, ceil: bool, data: st.DataObject) -> None:
    x = random(seed, 1, 2, data.draw(st.integers(7, 10)), data.draw(st.integers(7, 10)))
    attributes = data.draw(windows(2))
    reach = min((kernel - 1) * dilation + 1 for dilation in attributes["dilations"])
    attributes["pads"] = [min(pad, kernel - 1, reach - 1) for pad in attributes["pads"]]
    include, attributes["ceil_mode"] = data.draw(st.integers(0, 1)), int(ceil)
    attributes["kernel_shape"] = [kernel, kernel]
    check("MaxPool", x, oracle=runtime, outputs=2, **attributes)
    check("AveragePool", x, oracle=runtime, count_include_pad=include, **attributes)


@few
@given(seeds, size, size, size, st.integers(0, 2), st.integers(0, 2))
def test_matmul(seed: int, m: int, k: int, n: int, left: int, right: int) -> None:
    batch = (2, 3)
    check("MatMul", random(seed, *batch[2 - left :], m, k), random(seed + 1, *batch[2 - right :], k, n))
    check("MatMul", random(seed, k), random(seed + 1, *batch[2 - right :], k, n))


@few
@given(seeds, size, size, size, st.integers(0, 1), st.integers(0, 1), st.sampled_from([1.0, 0.5]), st.data())
def test_gemm(seed: int, m: int, k: int, n: int, left: int, right: int, alpha: float, data: st.DataObject) -> None:
    a = random(seed, *((k, m) if left else (m, k)))
    b = random(seed + 1, *((n, k) if right else (k, n)))
    shape = data.draw(st.sampled_from([None, (n,), (m, 1), (1, n), (m, n)]))
    c = None if shape is None else random(seed + 2, *shape)
    check("Gemm", a, b, c, transA=left, transB=right, alpha=alpha, beta=data.draw(st.sampled_from([1.0, 2.0])))


@few
@given(seeds, size, size, st.data())
def test_slice(seed: int, height: int, width: int, data: st.DataObject) -> None:
    bound = st.integers(-9, 9)
    starts, ends = (np.array([data.draw(bound), data.draw(bound)], np.int64) for _ in range(2))
    steps = np.array([data.draw(st.sampled_from([-2, -1, 1, 3])) for _ in range(2)], np.int64)
    axes = np.array(data.draw(st.sampled_from([[0, 1], [1, 0], [-1, 0]])), np.int64)
    check("Slice", random(seed, height, width), starts, ends, axes, steps)


@few
@given(
    seeds,
    st.sampled_from(sorted(name for name in OPERATORS if name.startswith("Reduce"))),
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.integers(0, 1),
    st.data(),
)
def test_reductions(seed: int, op: str, shape: list[int], keepdims: int, data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.integers(-len(shape), -1), unique=True, max_size=len(shape)))
    if op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceLogSumExp"):
        shape = [max(n, 1) for n in shape]  # the reference has no identity for them
    x = np.abs(random(seed, *shape)) + np.float32(0.5)
    check(op, x, np.array(axes, np.int64), keepdims=keepdims)


@few
@given(seeds, st.lists(size, min_size=1, max_size=4), st.data())
def test_softmax_and_arg(seed: int, shape: list[int], data: st.DataObject) -> None:
    axis, x = data.draw(st.integers(-len(shape), len(shape) - 1)), random(seed, *shape)
    check("Softmax", x, axis=axis)
    check("LogSoftmax", x, axis=axis)
    ties = np.round(x)
    check("ArgMax", ties, axis=axis, select_last_index=data.draw(st.integers(0, 1)), keepdims=0)
    check("CumSum", x, np.array(axis, np.int64), exclusive=data.draw(st.integers(0, 1)), rtol=1e-4)


@few
@given(seeds, st.lists(size, min_size=1, max_size=4), st.data())
def test_movement(seed: int, shape: list[int], data: st.DataObject) -> None:
    x = random(seed, *shape)
    check("Transpose", x, perm=data.draw(st.permutations(range(len(shape)))))
    check("Flatten", x, axis=data.draw(st.integers(-len(shape), len(shape))))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    check("Concat", x, x * 2, x[:0] if axis % len(shape) == 0 else x, axis=axis)
    indices = data.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), max_size=4))
    check("Gather", x, np.array(indices, np.int64), axis=axis)
    amounts = data.draw(st.lists(st.integers(0, 2), min_size=2 * len(shape), max_size=2 * len(shape)))
    check("Pad", x, np.array(amounts, np.int64), mode=data.draw(st.sampled_from(["constant", "edge", "wrap"])))


@few
@given(seeds, st.integers(1, 5), st.integers(1, 6))
def test_local_response(seed: int, width: int, channels: int) -> None:
    x = random(seed, 1, channels, 2, 2)
    squares = np.zeros_like(x)  # the definition: floor((size - 1) / 2) channels before, ceil((size - 1) / 2) after
    for c in range(channels):
        squares[:, c] = (x[:, max(0, c - (width - 1) // 2) : c + width // 2 + 1] ** 2).sum(1)
    for (found,) in run_node("LRN", [x], size=width, alpha=0.5, beta=0.6, bias=1.5):
        assert_close(found, x / (1.5 + 0.5 / width * squares) ** 0.6, rtol=1e-5, atol=1e-6)


@few
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(0, 1), st.data())
def test_gather_nd(seed: int, depth: int, count: int, batch: int, data: st.DataObject) -> None:
    x = random(seed, 2, 3, 4, 2)
    depth = min(depth, 4 - batch)
    position = st.tuples(*(st.integers(-n, n - 1) for n in x.shape[batch : batch + depth]))
    chosen = data.draw(st.lists(position, min_size=2 * count, max_size=2 * count))
    indices = np.array(chosen, np.int64).reshape(2, count, depth)
    check("GatherND", x, indices, oracle=runtime, batch_dims=batch)


@few
@given(
    seeds,
    st.sampled_from([("RNN", 1, 1), ("GRU", 3, 1), ("LSTM", 4, 2)]),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.integers(1, 4),
    st.booleans(),
    st.data(),
)
def test_recurrent(
    seed: int, kind: tuple[str, int, int], direction: str, steps: int, full: bool, data: st.DataObject
) -> None:
    op, gates, states = kind
    directions, batch, width, hidden = 2 if direction == "bidirectional" else 1, 2, 3, 4
    x = random(seed, steps, batch, width)
    w, r = random(seed + 1, directions, gates * hidden, width), random(seed + 2, directions, gates * hidden, hidden)
    feeds: list[np.ndarray | None] = [x, w, r]
    if full:
        lengths = data.draw(st.lists(st.integers(1, steps), min_size=batch, max_size=batch))
        feeds += [random(seed + 3, directions, 2 * gates * hidden), np.array(lengths, np.int32)]
        feeds += [random(seed + 4 + k, directions, batch, hidden) for k in range(states)]
        feeds += [random(seed + 6, directions, 3 * hidden)] if op == "LSTM" else []
    options: dict[str, object] = {"linear_before_reset": data.draw(st.integers(0, 1))} if op == "GRU" else {}
    if op != "LSTM" and data.draw(st.booleans()):  # ONNX Runtime does not clip the cell before its activation
        options |= {"clip": 0.4}
    if op == "LSTM":
        options |= {"input_forget": data.draw(st.integers(0, 1))}
    if op == "RNN" and full:
        options |= {"activations": ["LeakyRelu"] * directions, "activation_alpha": [0.1, 0.2][:directions]}
    check(op, *feeds, oracle=runtime, outputs=1 + states, direction=direction, hidden_size=hidden, **options)


# ---- fine points of meaning -----------------------------------------------------------------------------------------

nan, inf = float("nan"), float("inf")

MEANINGS = [
    # integers: Div truncates, Mod follows the divisor's sign and fmod the dividend's
    ("Div", [np.array([-7, 7, -7, 7]), np.array([2, -2, -2, 2])], {}, np.array([-3, -3, 3, 3])),
    ("Mod", [np.array([-7, 7, -7, 7]), np.array([3, -3, -3, 3])], {}, np.array([2, -2, -1, 1])),
    ("Mod", [np.array([-7, 7, -7, 7]), np.array([3, -3, -3, 3])], {"fmod": 1}, np.array([-1, 1, -1, 1])),
    ("Round", [np.float32([0.5, 1.5, 2.5, -0.5])], {}, np.float32([0, 2, 2, -0.0])),
    # NaN is propagated
    ("ReduceMax", [np.float32([[1, nan], [2, 3]]), np.array([1])], {"keepdims": 0}, np.float32([nan, 3])),
    ("MaxPool", [np.float32([[[1, nan, 2, 3]]])], {"kernel_shape": [2], "strides": [2]}, np.float32([[[nan, 3]]])),
    ("Max", [np.float32([nan, 1]), np.float32([0, 2])], {}, np.float32([nan, 2])),
    ("Relu", [np.float32([nan, -1])], {}, np.float32([nan, 0])),
    ("Clip", [np.float32([nan, 9]), np.float32(0), np.float32(6)], {}, np.float32([nan, 6])),
    ("ArgMax", [np.float32([1, nan, 5])], {"keepdims": 0}, np.array(1)),
    # empty reductions
    ("ReduceSum", [np.zeros((2, 0), np.float32), np.array([1])], {"keepdims": 0}, np.float32([0, 0])),
    ("ReduceProd", [np.zeros((2, 0), np.float32), np.array([1])], {"keepdims": 0}, np.float32([1, 1])),
    ("ReduceMax", [np.zeros((1, 0), np.float32), np.array([1])], {"keepdims": 0}, np.float32([-inf])),
    ("ReduceMean", [np.zeros((1, 0), np.float32), np.array([1])], {"keepdims": 0}, np.float32([nan])),
    ("MatMul", [np.zeros((2, 0), np.float32), np.zeros((0, 2), np.float32)], {}, np.zeros((2, 2), np.float32)),
    # a large negative row does not become 0 / 0
    ("Softmax", [np.float32([[-1e30, -1e30]])], {}, np.float32([[0.5, 0.5]])),
    # low precision is rounded where the operator ends, not inside: 2048 + 1 + 1 in float16
    ("Sum", [np.float16([2048]), np.float16([1]), np.float16([1])], {}, np.float16([2050])),
    ("ReduceSum", [np.float16([2048, 1, 1])], {"keepdims": 0}, np.float16(2050)),
    # averages count the padding only when told so; a ceil window may hang over the end
    ("AveragePool", [np.float32([[[2, 4]]])], {"kernel_shape": [2], "pads": [1, 0]}, np.float32([[[2, 3]]])),
    (
        "AveragePool",
        [np.float32([[[2, 4]]])],
        {"kernel_shape": [2], "pads": [1, 0], "count_include_pad": 1},
        np.float32([[[1, 3]]]),
    ),
    (
        "AveragePool",
        [np.float32([[[2, 4, 6]]])],
        {"kernel_shape": [2], "strides": [2], "ceil_mode": 1},
        np.float32([[[3, 6]]]),
    ),
    # the axis of a scale is 1 unless stated
    (
        "DequantizeLinear",
        [np.int8([[1, 2], [3, 4]]), np.float32([1, 10]), np.int8([0, 1])],
        {},
        np.float32([[1, 10], [3, 30]]),
    ),
    ("QuantizeLinear", [np.float32([0.5, 1.5, 300]), np.float32(1)], {}, np.uint8([0, 2, 255])),
    # negative indices and rank 0
    ("Gather", [np.float32([1, 2, 3]), np.array(-1)], {}, np.float32(3)),
    ("Add", [np.float32(1), np.float32(2)], {}, np.float32(3)),
    ("Slice", [np.arange(5), np.array([-1]), np.array([-9]), np.array([0]), np.array([-2])], {}, np.array([4, 2, 0])),
    ("Reshape", [np.zeros((2, 3)), np.array([0, -1])], {}, np.zeros((2, 3))),
    # integers wrap, and floats that do not fit become the least integer
    ("Add", [np.int8([127, -128]), np.int8([1, -1])], {}, np.int8([-128, 127])),
    ("Mul", [np.uint8([200]), np.uint8([2])], {}, np.uint8([144])),
    ("Cast", [np.float32([nan, 3e9, -3e9, -1.9])], {"to": 6}, np.int32([-(2**31), -(2**31), -(2**31), -1])),
    ("Pow", [np.array([2, -1, 0]), np.array([-1, -3, -1])], {}, np.array([0, -1, 0])),
    # integers with fractional attributes are computed as floats, then truncated
    ("Shrink", [np.uint8([0, 1, 2, 5])], {"lambd": 1.5, "bias": 0.5}, np.uint8([0, 0, 1, 4])),
    ("Gemm", [np.array([[1, 2]]), np.array([[3], [4]]), np.array([[3]])], {"beta": 0.5}, np.array([[12]])),
    ("ReduceLogSumExp", [np.array([[3, 3, 3]]), np.array([1])], {"keepdims": 0}, np.array([4])),
    # what is no position is nowhere
    ("OneHot", [np.uint64([1, 2**64 - 1]), np.array(3), np.float32([0, 1])], {}, np.float32([[0, 1, 0], [0, 0, 0]])),
    ("Det", [np.float32([[2, 1], [4, 3]])], {}, np.float32(2)),
    ("Det", [np.float32(np.diag([1, 2, 3, 4]))], {}, np.float32(24)),
    ("BitShift", [np.uint8([1, 3]), np.uint8([9, 1])], {"direction": "LEFT"}, np.uint8([0, 6])),
]


@pytest.mark.parametrize(("op", "feeds", "attributes", "wanted"), MEANINGS)
def test_meaning(op: str, feeds: list[np.ndarray], attributes: dict[str, object], wanted: np.ndarray) -> None:
    for (found,) in run_node(op, [np.asarray(feed) for feed in feeds], **attributes):
        assert_close(found, np.asarray(wanted), rtol=1e-6, atol=0)


def test_the_statistics_of_a_layer_have_the_dtype_of_the_stash() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float64)
    for y, mean, inverse in run_node("LayerNormalization", [x, np.ones(3)], 3):
        assert (y.dtype, mean.dtype, inverse.dtype) == (np.float64, np.float32, np.float32)
        np.testing.assert_allclose(mean, x.mean(1, keepdims=True), rtol=1e-6)


def test_attention_of_operands_of_two_dtypes() -> None:
    q, k = (np.random.default_rng(s).standard_normal((1, 1, 2, 4)).astype(np.float64) for s in (0, 1))
    v = np.random.default_rng(2).standard_normal((1, 1, 2, 4)).astype(np.float16)
    scores = np.exp(q @ k.swapaxes(2, 3) / 2)
    expected = scores / scores.sum(-1, keepdims=True) @ v.astype(np.float64)
    for y, *_ in run_node("Attention", [q, k, v], 4):
        np.testing.assert_allclose(y, expected, rtol=1e-9)


def test_integers_that_are_resized_with_antialiasing_are_rounded() -> None:
    x = np.array([[[[1, 2, 4, 7]]]], np.int32)
    sizes = np.array([1, 1, 1, 2])
    (wanted,) = runtime("Resize", [x, None, None, sizes], mode="linear", antialias=1)
    for (found,) in run_node("Resize", [x, None, None, sizes], mode="linear", antialias=1):
        np.testing.assert_array_equal(found, wanted)


def test_a_shape_that_is_an_input_must_be_known() -> None:
    from rewrite_engine.loops.build import Builder, NeedsValue

    builder = Builder()
    x, shape = builder.input([2, 3], "float32"), builder.input([1], "int64")
    with pytest.raises(NeedsValue):
        operator_compute("Reshape")(builder, [x, shape], {"allowzero": 0})


def _negative_attention(b: Builder) -> None:
    q = b.input((1, 2, 3, 4), "float32")
    attributes = {"scale": -0.5, "q_num_heads": 0, "kv_num_heads": 0, "softcap": 0.0, "is_causal": 0}
    OPERATORS["Attention"](b, [q, q, q], attributes)


def _small_float_product(b: Builder, op: str, codes: tuple[str, str, str], attributes: dict[str, object]) -> None:
    shape = (1, 1, 2, 2) if op == "QLinearConv" else (2, 2)
    s = b.input((), "float32")
    x, w = b.input(shape, codes[0]), b.input(shape, codes[1])
    zeros = [b.input((), name) for name in codes]
    OPERATORS[op](b, [x, s, zeros[0], w, s, zeros[1], s, zeros[2]], attributes)


CONV = {"group": 1, "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}


@pytest.mark.parametrize("small", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("op", "attributes"), [("QLinearMatMul", {}), ("QLinearConv", CONV)])
def test_sums_of_codes_that_are_floats_are_refused(
    op: str, attributes: dict[str, object], place: int, small: str
) -> None:
    codes = ("int8", "int8", "int8")
    _small_float_product(Builder(), op, codes, attributes)
    codes = (*codes[:place], small, *codes[place + 1 :])  # type: ignore[assignment]
    with pytest.raises(Unsupported, match=f"{op} of {small}"):
        _small_float_product(Builder(), op, codes, attributes)


def test_attention_with_a_negative_scale_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"negative scale \(-0.5\)"):
        _negative_attention(Builder())


def test_attention_of_heads_that_share_no_keys_evenly_is_refused() -> None:
    b = Builder()
    q, k = b.declare((1, 3, 5, 8), "float32"), b.declare((1, 2, 5, 8), "float32")
    with pytest.raises(Unsupported, match="3 query heads, no multiple of its 2 key heads"):
        operator_compute("Attention")(b, [q, k, k], {"q_num_heads": 0, "kv_num_heads": 0, "scale": 1.0})
