"""Faults that others have met, by the row of the table they stand in: numbers, in NumPy and in C.

Expected values are written out, or those of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from models import Array, parse, random_inputs, run_reference

import rewrite_engine as rw
from rewrite_engine.language import load_text
from rewrite_engine.loops.compiler import find_compiler

NAN, INF = np.float32("nan"), np.float32("inf")
ENGINES = ["numpy", "c"]

Run = Callable[..., list[Array]]


@pytest.fixture(params=ENGINES)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a graph (ONNX text, or a model) on inputs by name, without any folding of what depends on them."""
    if request.param == "c" and find_compiler() is None:
        pytest.skip("no C compiler")

    def on(graph: str | onnx.ModelProto, opset: int = 23, rules: str = "", **inputs: Array) -> list[Array]:
        model = parse(graph, opset=opset) if isinstance(graph, str) else graph
        bundle = rw.compile(rw.load(model), load_text(rules), engine=request.param)
        with np.errstate(all="ignore"):
            return list(bundle.run(inputs).values())

    return on


def text(body: str, *inputs: str, outputs: str) -> str:
    return f"g ({', '.join(inputs)}) => ({outputs}) {{ {body} }}"


def equal(found: list[Array], *expected: object) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_row_48_products_of_exponentials_stay_as_they_are(run: Run) -> None:
    """Also under every bundled rewrite: exp(a) exp(b) is not exp(a + b) where one of them overflows."""
    graph = text("p = Exp(a) q = Exp(b) y = Mul(p, q)", "float[2] a", "float[2] b", outputs="float[2] y")
    for rules in ("", 'include "std/algebra.pat"\ninclude "std/activations.pat"\n'):
        (y,) = run(graph, rules=rules, a=np.float32([100, 1]), b=np.float32([-100, 1]))
        assert not np.isfinite(y[0]) and np.isclose(y[1], np.exp(2))


WIDE = 2**53 + 3


@pytest.mark.parametrize(
    ("body", "expected"),
    [("Div(x, one)", WIDE), ("Add(x, one)", WIDE + 1), ("Mul(x, one)", WIDE), ("Sub(x, one)", WIDE - 1),
     ("Max(x, one)", WIDE), ("Abs(x)", WIDE), ("Neg(x)", -WIDE), ("Mod(x, two)", 1), ("ReduceSum(v)", WIDE + 1),
     ("Cast <to = 7> (x)", WIDE)],
)  # fmt: skip
@pytest.mark.parametrize("folded", [False, True])
def test_row_58_whole_numbers_beyond_what_floats_hold(run: Run, body: str, expected: int, folded: bool) -> None:
    given = f"int64[1] x = {{{WIDE}}}, int64[2] v = {{{WIDE}, 1}}"
    constants = "int64[1] one = {1}, int64[1] two = {2}"
    inputs = "int64[1] z" if folded else "int64[1] z, int64[1] x, int64[2] v"
    graph = f"g ({inputs}) => (int64[1] y) <{constants}{', ' + given if folded else ''}> {{ t = {body} y = Add(t, z) }}"
    values = {} if folded else {"x": np.array([WIDE]), "v": np.array([WIDE, 1])}
    equal(run(graph, z=np.zeros(1, np.int64), **values), [expected])


@pytest.mark.parametrize(("opset", "attribute", "sums"), [
    (11, "", 12), (11, "<axis = 1>", 12), (11, "<axis = 2>", 4), (11, "<axis = 0>", 24), (11, "<axis = -1>", 4),
    (13, "", 4), (13, "<axis = 1>", 3), (13, "<axis = 0>", 2), (13, "<axis = -2>", 3), (23, "", 4),
])  # fmt: skip
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_row_113_softmax_of_older_models(run: Run, op: str, opset: int, attribute: str, sums: int) -> None:
    graph = text(f"y = {op} {attribute} (x)", "float[2, 3, 4] x", outputs="float[2, 3, 4] y")
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    (y,) = run(graph, opset=opset, x=x)
    np.testing.assert_allclose(y, run_reference(parse(graph, opset=opset), {"x": x})[0], atol=1e-6)
    assert np.isclose((np.exp(y) if op == "LogSoftmax" else y).sum(), 24 / sums, atol=1e-5)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_row_114_nan_is_kept_whatever_the_order(run: Run, order: list[int]) -> None:
    x = np.float32([NAN, 1, -2])[order]
    for body in ("Relu(x)", "Abs(x)", "Neg(x)", "Clip(x, lo, hi)", "LeakyRelu(x)", "Sigmoid(x)", "Tanh(x)"):
        graph = f"g (float[3] x) => (float[3] y) <float lo = {{0}}, float hi = {{6}}> {{ y = {body} }}"
        np.testing.assert_array_equal(np.isnan(run(graph, x=x)[0]), np.isnan(x), err_msg=body)
    for op in ("Max", "Min"):
        graph = text(f"y = {op}(x, z)", "float[3] x", "float[3] z", outputs="float[3] y")
        for one, two in ((x, np.float32([1, 1, 1])), (np.float32([1, 1, 1]), x)):
            np.testing.assert_array_equal(np.isnan(run(graph, x=one, z=two)[0]), np.isnan(x), err_msg=op)
    for body in ("ReduceMax <keepdims = 0> (x)", "ReduceMin <keepdims = 0> (x)", "ReduceSum <keepdims = 0> (x)"):
        assert np.isnan(run(text(f"y = {body}", "float[3] x", outputs="float y"), x=x)[0]), body
    pooled = run(text("y = MaxPool <kernel_shape = [3]> (x)", "float[1, 1, 3] x", outputs="float[1, 1, 1] y"),
                 x=x.reshape(1, 1, 3))  # fmt: skip
    assert np.isnan(pooled[0]).all()


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_rows_116_and_117_padding_that_is_worked_out(run: Run, size: int, kernel: int, stride: int) -> None:
    """The pads are (ceil(n / s) - 1) s + k - n in all; the odd one is at the end for UPPER, in front for LOWER."""
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    x = np.arange(1, size + 1, dtype=np.float32)
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        front = total // 2 if pad == "SAME_UPPER" else total - total // 2
        wide = np.concatenate([np.full(front, -INF), x, np.full(total - front, -INF)])
        windows = [wide[i * stride : i * stride + kernel] for i in range(out)]
        attributes = f'<auto_pad = "{pad}", kernel_shape = [{kernel}], strides = [{stride}]>'
        ends = ("float[1, 1, n] x".replace("n", str(size)), f"float[1, 1, {out}] y")
        given = x.reshape(1, 1, -1)
        (pooled,) = run(text(f"y = MaxPool {attributes} (x)", ends[0], outputs=ends[1]), x=given)
        np.testing.assert_array_equal(pooled[0, 0], [window.max() for window in windows])
        graph = text(f"y = Conv {attributes} (x, w)", ends[0], f"float[1, 1, {kernel}] w", outputs=ends[1])
        (summed,) = run(graph, x=given, w=np.ones((1, 1, kernel), np.float32))
        np.testing.assert_array_equal(summed[0, 0], [np.where(np.isinf(w), 0, w).sum() for w in windows])


def test_row_117_in_two_dimensions(run: Run) -> None:
    attributes = '<auto_pad = "SAME_UPPER", kernel_shape = [3, 3], strides = [2, 2]>'
    graph = text(f"y = Conv {attributes} (x, w)", "float[1, 1, 4, 4] x", "float[1, 1, 3, 3] w",
                 outputs="float[1, 1, 2, 2] y")  # fmt: skip
    equal(run(graph, x=np.ones((1, 1, 4, 4), np.float32), w=np.ones((1, 1, 3, 3), np.float32)), [[[[9, 6], [6, 4]]]])


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
def test_row_119_what_an_average_counts_at_the_edges(run: Run, count: int, ceil: int) -> None:
    attributes = f"<kernel_shape = [3], pads = [1, 1], count_include_pad = {count}, ceil_mode = {ceil}>"
    graph = text(f"y = AveragePool {attributes} (x)", "float[1, 1, 3] x", outputs="float[1, 1, 3] y")
    equal(run(graph, x=np.full((1, 1, 3), 3, np.float32)), [[[2, 3, 2] if count else [3, 3, 3]]])


@pytest.mark.parametrize(("size", "kernel", "stride"), [(1, 2, 2), (2, 3, 2), (2, 5, 5), (1, 5, 5), (3, 5, 3)])
@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
def test_row_119_a_window_that_reaches_beyond_the_end(run: Run, op: str, size: int, kernel: int, stride: int) -> None:
    """With ceil_mode it may, by less than a stride: of what is there it gives the average, or the maximum."""
    attributes = f"<kernel_shape = [{kernel}], strides = [{stride}], ceil_mode = 1>"
    graph = text(f"y = {op} {attributes} (x)", f"float[1, 1, {size}] x", outputs="float[1, 1, 1] y")
    x = np.arange(1, size + 1, dtype=np.float32)
    equal(run(graph, x=x.reshape(1, 1, -1)), [[[x.mean() if op == "AveragePool" else x.max()]]])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_row_120_whole_numbers_are_cut_towards_zero(run: Run, dtype: str) -> None:
    one, two = np.array([8, -8, 7, -7], dtype), np.array([-3, 3, -2, 2], dtype)
    for op, attribute, expected in (
        ("Div", "", [-2, -2, -3, -3]), ("Mod", "", [-1, 1, -1, 1]), ("Mod", "<fmod = 1>", [2, -2, 1, -1]),
    ):  # fmt: skip
        graph = text(f"y = {op} {attribute} (a, b)", f"{dtype}[4] a", f"{dtype}[4] b", outputs=f"{dtype}[4] y")
        equal(run(graph, a=one, b=two), expected)


@pytest.mark.parametrize(("body", "inputs", "output", "expected"), [
    ("MatMul(a, b)", {"a": (4, 0), "b": (0, 4)}, (4, 4), 0),
    ("Gemm(a, b)", {"a": (2, 0), "b": (0, 3)}, (2, 3), 0),
    ("Gemm(a, b, c)", {"a": (2, 0), "b": (0, 3), "c": (3,)}, (2, 3), 1),
    ("ReduceSum(a, axis)", {"a": (0, 4)}, (1, 4), 0),
    ("ReduceProd(a, axis)", {"a": (0, 4)}, (1, 4), 1),
    ("ReduceMax(a, axis)", {"a": (0, 4)}, (1, 4), -INF),
    ("ReduceMin(a, axis)", {"a": (0, 4)}, (1, 4), INF),
    ("ReduceL1(a, axis)", {"a": (0, 4)}, (1, 4), 0),
    ("ReduceLogSum(a, axis)", {"a": (0, 4)}, (1, 4), -INF),
    ("ReduceSumSquare(a, axis)", {"a": (0, 4)}, (1, 4), 0),
])  # fmt: skip
def test_row_121_reductions_of_nothing(run: Run, body: str, inputs: dict[str, tuple[int, ...]], output: tuple[int, ...],
                                       expected: float) -> None:  # fmt: skip
    ends = ", ".join(f"float{list(shape)} {name}" for name, shape in inputs.items())
    graph = f"g ({ends}) => (float{list(output)} y) <int64[1] axis = {{0}}> {{ y = {body} }}"
    values = {name: np.ones(shape, np.float32) for name, shape in inputs.items()}
    equal(run(graph, **values), np.full(output, expected))


@pytest.mark.parametrize(
    "op", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2"]
)
@pytest.mark.parametrize("keep", [0, 1])
def test_row_123_reductions_of_a_scalar(run: Run, op: str, keep: int) -> None:
    (y,) = run(text(f"y = {op} <keepdims = {keep}> (x)", "float x", outputs="float y"), x=np.float32(3))
    assert y.shape == () and y == 3


def test_row_124_negative_indices_count_from_the_end(run: Run) -> None:
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    for index in (-1, 2, -3):
        graph = text("y = Gather <axis = 1> (x, i)", "float[2, 3] x", "int64 i", outputs="float[2] y")
        equal(run(graph, x=x, i=np.int64(index)), x[:, index])
    graph = text("y = GatherElements <axis = 1> (x, i)", "float[2, 3] x", "int64[2, 2] i", outputs="float[2, 2] y")
    equal(run(graph, x=x, i=np.array([[-1, 0], [-3, 1]])), [[3, 1], [4, 5]])
    graph = text("y = GatherND(x, i)", "float[2, 3] x", "int64[2, 2] i", outputs="float[2] y")
    equal(run(graph, x=x, i=np.array([[-1, -1], [0, -2]])), [6, 2])
    graph = text("y = ScatterElements <axis = 1> (x, i, u)", "float[2, 3] x", "int64[2, 1] i", "float[2, 1] u",
                 outputs="float[2, 3] y")  # fmt: skip
    equal(run(graph, x=x, i=np.array([[-1], [-3]]), u=np.float32([[9], [8]])), [[1, 2, 9], [8, 5, 6]])


@pytest.mark.parametrize(("scale", "expected"), [
    (2.0, [1, 1, 2, 2, 3, 3]), (3.0, [1, 1, 1, 2, 2, 2, 3, 3, 3]), (1.0, [1, 2, 3]),
])  # fmt: skip
def test_row_125_resize_stays_inside(run: Run, scale: float, expected: list[int]) -> None:
    graph = f"g (float[1, 1, 3] x) => (float[1, 1, {len(expected)}] y) <float[3] s = {{1, 1, {scale}}}>"
    graph += ' { y = Resize <mode = "nearest"> (x, , s) }'
    model = parse(graph.replace("(x, , s)", "(x, x, s)"))
    model.graph.node[0].input[1] = ""
    equal(run(model, x=np.float32([[[1, 2, 3]]])), [[expected]])


@pytest.mark.parametrize("run", ["numpy"], indirect=True)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "where", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
)
def test_row_125_neighbours_by_onnx_runtime(run: Run, mode: str, where: str) -> None:
    odd = () if where == "align_corners" else ((1.5, 7),)  # there ONNX says 7.5, and ONNX Runtime takes 7
    for scale, size in ((2.0, 10), (0.6, 3), *odd):
        graph = f"g (float[1, 1, 5, 5] x) => (float[1, 1, {size}, {size}] y) <float[4] s = {{1, 1, {scale}, {scale}}}>"
        graph += f' {{ y = Resize <mode = "{mode}", coordinate_transformation_mode = "{where}"> (x, x, s) }}'
        model = parse(graph, opset=19)
        model.graph.node[0].input[1] = ""
        inputs = random_inputs(model, 3)
        np.testing.assert_allclose(run(model, **inputs)[0], run_reference(model, inputs)[0], atol=1e-5)


@pytest.mark.parametrize("training", [0, 1])
def test_row_127_a_norm_that_is_not_training(run: Run, training: int) -> None:
    results = "y, m2, v2" if training else "y"
    outputs = "float[2, 2] y" + (", float[2] m2, float[2] v2" if training else "")
    graph = f"g (float[2, 2] x) => ({outputs}) <float[2] s = {{1, 1}}, float[2] b = {{0, 0}}, float[2] m = {{0, 0}},"
    graph += f" float[2] v = {{1, 1}}> {{ {results} = BatchNormalization <training_mode = {training}, epsilon = 0.0>"
    graph += " (x, s, b, m, v) }"
    x = np.float32([[1, 3], [2, 2]])
    found = run(graph, x=x)
    if training:
        np.testing.assert_allclose(found[0], [[-1, 1], [1, -1]], rtol=1e-5)
        np.testing.assert_allclose(found[1], [0.15, 0.25], rtol=1e-5)
    else:
        equal(found, x)
