"""Operators without a loop nest: through ONNX Runtime on the host, with its types; else refused by name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import parse

import rewrite_engine as rw
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import foreign, load
from rewrite_engine.language import load_text

pytest.importorskip("onnxruntime")

QUANTISED = """g (uint8[2,3] a, uint8[2,3] b) => (float[2,3] y) <float s = {0.5}, uint8 z = {3}> {
  q = com.microsoft.QLinearAdd(a, s, z, b, s, z, s, z)
  y = DequantizeLinear(q, s, z) }"""
BRANCHES = """g (float[3] x, bool c) => (float[3] y) {
  t = Abs(x)
  y = If (c) <then_branch = p () => (float[3] u) { u = Add(x, t) },
              else_branch = q () => (float[3] v) { v = Neg(t) }> }"""

SORTS = """g (float[2] x, int64 n) => (float[2] y) <int64[1] k = {2}> {
  y = Loop (n, "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w)
    { d = Identity(c) s, p = TopK(v, k) w = Add(s, v) }> }"""


def model(text: str) -> onnx.ModelProto:
    parsed = parse(text, opset=17)
    parsed.opset_import.add(domain="com.microsoft", version=1)
    return parsed


def compiled(text: str) -> Bundle:
    return rw.compile(rw.load(model(text)), load_text(""))


def test_contributed_operators_run_and_give_their_types():
    module = load(model(QUANTISED))
    (quantised,) = (node.outputs[0] for node in module.model.graph if node.domain)
    assert str(quantised.dtype) == "UINT8" and list(quantised.shape) == [2, 3]
    a, b = np.arange(6, dtype=np.uint8).reshape(2, 3), np.full((2, 3), 7, np.uint8)
    bundle = compiled(QUANTISED)
    np.testing.assert_array_equal(bundle.run({"a": a, "b": b})["y"], (a - 3.0) / 2 + (b - 3.0) / 2)


@pytest.mark.parametrize("shape", [None, ["n", 3]])
@pytest.mark.parametrize("inner", [False, True])
def test_results_of_which_the_model_says_too_little_get_their_types(shape, inner):
    """Of an output as well as of an inner value that the model states in part; import ends."""
    given = model(QUANTISED)
    name = "q" if inner else "y"
    if not inner:
        given.graph.node[1].CopyFrom(onnx.helper.make_node("Gelu", ["f"], ["y"], domain="com.microsoft"))
        given.graph.node.insert(1, onnx.helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]))
    kind = onnx.TensorProto.UINT8 if inner else onnx.TensorProto.FLOAT
    said = onnx.helper.make_tensor_value_info(name, kind, shape)
    if inner:
        given.graph.value_info.append(said)
    else:
        given.graph.output[0].CopyFrom(said)
    graph = load(given).model.graph
    (value,) = (v for node in graph for v in node.outputs if v.name == name)
    assert list(value.shape) == [2, 3]


def test_a_condition_of_run_time_runs_on_the_host_and_after_a_reload(tmp_path):
    compiled(BRANCHES).save(tmp_path / "bundle")
    bundle = Bundle.open(tmp_path / "bundle")
    x = np.array([-2, 0, 3], np.float32)
    for c in (True, False):
        expected = x + np.abs(x) if c else -np.abs(x)
        np.testing.assert_array_equal(bundle.run({"x": x, "c": np.array(c)})["y"], expected)


def test_without_onnx_runtime_the_operator_is_named(monkeypatch):
    foreign._session.cache_clear()
    monkeypatch.setattr(foreign, "runtime", lambda: None)
    with pytest.raises(RewriteError, match=r"operator Loop \(y\): there is no loop nest .*, and ONNX Runtime is not"):
        compiled(SORTS)
    assert next(n for n in load(model(QUANTISED)).model.graph if n.domain).outputs[0].shape is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g (float[3] x) => (float[3] y) { y = com.microsoft.Nothing(x) }", "ONNX Runtime refuses it: .*Nothing"),
        ("g (float[3] x) => (float[3] y) { y = RandomNormalLike(x) }", "it draws random numbers"),
        ("g (float[2,3] x) => (string[3] y) { y = com.microsoft.Odd(x) }", "y is string\\[3\\]"),
    ],
)
def test_what_cannot_run_on_the_host_is_refused(text, message):
    with pytest.raises(RewriteError, match=f"there is no loop nest for this operator, and .*{message}"):
        compiled(text)


@pytest.mark.parametrize("stated", [[2, 4], [1, 3], [6], [4, 3], []])
def test_a_result_of_another_shape_than_the_model_states_is_an_error(stated):
    """Also one that could be spread over what was stated."""
    given = model("g (float[1,3] x) => (float[1,3] y) { t = com.microsoft.Gelu(x) y = Identity(t) }")
    given.graph.value_info.append(onnx.helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, stated))
    given.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, stated))
    bundle = rw.compile(rw.load(given), load_text(""))
    x = np.ones((1, 3), np.float32)
    if stated == [1, 3]:
        assert bundle.run({"x": x})["y"].shape == (1, 3)
        return
    with pytest.raises(RewriteError, match=r"operator com.microsoft::Gelu.*\[1, 3\].*the model states"):
        bundle.run({"x": x})
