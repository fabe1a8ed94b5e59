"""Import of operators with graphs inside and of later opsets: what constants decide is unrolled, numbers unchanged."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import parse, run_reference
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import load
from rewrite_engine.graph.control import MOST_NODES


def ops(module) -> list[str]:
    return [node.op_type for node in module.model.graph]


def same(model: onnx.ModelProto, *arrays: np.ndarray, oracle=run_reference) -> list[str]:
    """The imported model gives the numbers of the original; its operators."""
    inputs = dict(zip((i.name for i in model.graph.input), arrays, strict=True))
    module = load(model)
    found, expected = run_reference(module.model, inputs), oracle(model, inputs)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return ops(module)


def by_definition(model: onnx.ModelProto, inputs) -> list[np.ndarray]:
    return list(ReferenceEvaluator(model).run(None, inputs))


@pytest.mark.parametrize("choice", [0, 1])
def test_a_known_condition_chooses_the_branch(choice):
    text = """g (float[3] x) => (float[3] y, float[3] z) <bool c = {%d}> {
      y, z = If (c) <then_branch = a () => (float[3] p, float[3] q) { p = Exp(x) q = Neg(p) },
                     else_branch = b () => (float[3] r, float[3] s) { r = Abs(x) s = Identity(r) }> }"""
    found = same(parse(text % choice, opset=17), np.array([-1, 0, 2], np.float32))
    assert ("Exp" in found) == bool(choice) and ("Abs" in found) == (not choice) and "If" not in found


def test_branches_inside_branches_and_the_same_value_twice():
    text = """g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}, bool d = {0}> {
      y, z = If (c) <then_branch = a () => (float[2] p, float[2] p2) {
          p = If (d) <then_branch = e () => (float[2] q) { q = Exp(x) },
                      else_branch = f () => (float[2] r) { r = Neg(x) }>
          p2 = Identity(p) },
        else_branch = b () => (float[2] s, float[2] t) { s = Abs(x) t = Exp(x) }> }"""
    assert set(same(parse(text, opset=17), np.array([-1, 3], np.float32))) == {"Neg", "Identity"}


LOOP = """g (float[2] x) => (float[2] last, float[K,2] every)
  <int64 trips = {%s}, bool start = {%d}, float one = {1.0}> {
  last, every = Loop (%s, %s, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] o) {
    %s
    n = CastLike(i, v)
    w = Mul(v, n1) n1 = Add(n, one) o = Add(w, x) }> }"""


def loop(trips: str = "4", start: int = 1, condition: str = "d = Identity(c)", given=("trips", "start")):
    text = LOOP % (trips, start, *given, condition)
    text = text.replace("w = Mul(v, n1) n1 = Add(n, one)", "n1 = Add(n, one) w = Mul(v, n1)")
    return parse(text, opset=17)


@pytest.mark.parametrize(
    "model",
    [
        loop(),
        loop(given=("trips", '""')),
        loop(condition="limit = Constant<value_int=2>() d = Less(i, limit)"),
        loop(condition="limit = Constant<value_int=2>() d = Less(i, limit)", given=('""', "start")),
        loop(condition="d = Constant<value = bool {1}>()"),
        loop(condition="d = Constant<value = bool {0}>()"),
        loop(condition="d = Not(c)"),
    ],
    ids=["counted", "without a condition", "ends early", "without a count", "always", "once", "turned"],
)
def test_loops_whose_iterations_constants_decide(model):
    found = same(model, np.array([1, -2], np.float32))
    assert "Loop" not in found and "Mul" in found


def test_a_loop_whose_condition_hangs_on_what_it_carries():
    text = """g (float[2] x) => (float[2] y) <bool t = {1}, int64 zero = {0}, int64 step = {3}, int64 limit = {10}> {
      k, y = Loop ("", t, zero, x) <body = b (int64 i, bool c, int64 n, float[2] v)
        => (bool d, int64 m, float[2] w) { m = Add(n, step) d = Less(m, limit) w = Add(v, v) }> }"""
    found = same(parse(text, opset=17), np.array([1, 3], np.float32))
    assert found.count("Add") == 4 and "Loop" not in found


@pytest.mark.parametrize("trips", ["0", "-3"])
def test_a_loop_that_never_runs_hands_on_its_values(trips):
    text = f"""g (float[2] x) => (float[2] y) <int64 n = {{{trips}}}> {{
      y = Loop (n, "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w)
        {{ d = Identity(c) w = Exp(v) }}> }}"""
    assert same(parse(text, opset=17), np.array([1, 3], np.float32)) == ["Identity"]


def test_what_is_decided_at_run_time_or_too_large_stays():
    text = """g (float[2] x, int64 n) => (float[2] y) {
      y = Loop (n, "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w)
        { d = Identity(c) w = Exp(v) }> }"""
    assert ops(load(parse(text, opset=17))) == ["Loop"]
    text = text.replace(", int64 n", "").replace("{\n      y", f"<int64 n = {{{MOST_NODES}}}> {{\n      y", 1)
    assert ops(load(parse(text, opset=17))) == ["Loop"]


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scans_over_any_axis_in_both_directions(axis, backwards):
    text = f"""g (float[2] s, float[2,2,3] x) => (float[2] t, float[A,B] every) {{
      m = ReduceMax<keepdims=0>(x, last) t, every = Scan<num_scan_inputs=1, scan_input_axes=[{axis}],
        scan_input_directions=[{backwards}], scan_output_axes=[{axis}], scan_output_directions=[{backwards}],
        body = b (float[2] v, float[2] e) => (float[2] w, float[2] o) {{ w = Add(v, e) o = Mul(w, w) }}>(s, m) }}"""
    text = text.replace(
        "=> (float[2] t, float[A,B] every) {", "=> (float[2] t, float[A,B] every) <int64[1] last = {2}> {"
    )
    x = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    found = same(parse(text, opset=18), np.array([1, 3], np.float32), x)
    assert "Scan" not in found and found.count("Mul") == 2


def test_names_stay_unique_when_a_body_is_put_in_twice():
    text = """g (float[2] x) => (float[2] y) <int64 n = {2}> {
      v = Abs(x)
      y = Loop (n, "", v) <body = b (int64 i, bool c, float[2] v2) => (bool d, float[2] w) {
        d = Identity(c) t = Exp(v2)
        w = Loop (n, "", t) <body = e (int64 j, bool k, float[2] u) => (bool l, float[2] r)
          { l = Identity(k) s = Neg(u) r = Add(s, v) }> }> }"""
    found = same(parse(text, opset=17), np.array([0.1, -0.2], np.float32))
    assert found.count("Exp") == 2 and found.count("Neg") == 4 and "Loop" not in found


# ---- later opsets ---------------------------------------------------------------------------------------------------


def test_functions_of_later_opsets_become_their_bodies():
    model = parse(
        "g (float[2,4] x) => (float[2,4] y, float[2,4] z) { y = SwiGLU(x, x) z = Swish<alpha=0.5>(x) }", opset=28
    )
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    found = same(model, x, oracle=by_definition)
    assert "SwiGLU" not in found and "Swish" not in found and found.count("Sigmoid") == 2
    assert load(model).model.graph.opset_imports[""] == 23
    with pytest.raises(RewriteError, match=r"operator SwiGLU \(output `y`\) cannot be brought from opset 28 to 23"):
        load(parse("g (float[2,4] x) => (float[2,4] y) { y = SwiGLU(x) }", opset=28))


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode):
    text = f"""g (float[2,5,3] cache, float[2,2,3] update, int64[2] at) => (float[2,5,3] y)
      {{ y = TensorScatter<mode="{mode}">(cache, update, at) }}"""
    generator = np.random.default_rng(2)
    cache, update = (generator.standard_normal(s).astype(np.float32) for s in ((2, 5, 3), (2, 2, 3)))
    at = np.array([1, 4 if mode == "circular" else 3], np.int64)
    expected = cache.copy()
    for batch in range(2):
        for row in range(2):
            expected[batch, (at[batch] + row) % 5] = update[batch, row]
    module = load(parse(text, opset=24))
    found = run_reference(module.model, {"cache": cache, "update": update, "at": at})[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_products(axis, reverse, exclusive):
    text = f"""g (float[3,4] x) => (float[3,4] y) <int64 k = {{{axis}}}>
      {{ y = CumProd<reverse={reverse}, exclusive={exclusive}>(x, k) }}"""
    x = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    turned = np.flip(x, axis) if reverse else x
    expected = np.cumprod(turned, axis)
    if exclusive:
        before = np.roll(expected, 1, axis)
        before[(slice(None), 0) if axis else 0] = 1
        expected = before
    expected = np.flip(expected, axis) if reverse else expected
    module = load(parse(text, opset=26))
    np.testing.assert_allclose(run_reference(module.model, {"x": x})[0], expected, rtol=1e-5)


def test_dtypes_that_only_a_later_opset_has_keep_their_opset():
    model = parse('g (int32[2] x, int32[2] s) => (int32[2] y) { y = BitShift<direction="LEFT">(x, s) }', opset=28)
    assert load(model).model.graph.opset_imports[""] == 28
    with pytest.raises(RewriteError, match=r"types or shapes do not fit together"):
        load(parse("g (float[2] x, int32[2] s) => (float[2] y) { y = Add(x, s) }", opset=28))


def test_attributes_of_an_operator_reach_the_body_of_its_function():
    node = helper.make_node("CausalConvWithState", ["x", "w"], ["y", "s"], activation="silu")
    x = np.random.default_rng(4).standard_normal((1, 2, 5)).astype(np.float32)
    w = numpy_helper.from_array(np.random.default_rng(5).standard_normal((2, 1, 3)).astype(np.float32), "w")
    typed = [helper.make_tensor_value_info("x", 1, [1, 2, 5])]
    graph = helper.make_graph([node], "g", typed, [helper.make_tensor_value_info(n, 1, None) for n in "ys"], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=10)
    assert "Sigmoid" in same(model, x, oracle=by_definition)
