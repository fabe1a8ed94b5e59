"""If, Loop and Scan that are decided at run time: loop nests where sizes are known, else ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import parse

import rewrite_engine as rw
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.graph.control import MOST_NODES
from rewrite_engine.language import load_text
from rewrite_engine.loops.compute import Host, Scan, walk

ort = pytest.importorskip("onnxruntime")

X = np.array([1, -0.25], np.float32)
BODY = "<body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w)"

CASES: dict[str, tuple[str, list[dict[str, np.ndarray]]]] = {
    "a branch": (
        """g (float[2] x, bool c) => (float[2] y) { t = Abs(x)
          y = If (c) <then_branch = p () => (float[2] u) { u = Add(x, t) },
                      else_branch = q () => (float[2] v) { v = Neg(t) }> }""",
        [{"x": X, "c": np.array(c)} for c in (True, False)],
    ),
    "branches with two results, one of them an outer value": (
        """g (float[2] x, bool[1] c) => (float[2] y, float[2] z) { t = Abs(x)
          y, z = If (c) <then_branch = p () => (float[2] u, float[2] r) { u = Add(x, t) r = Identity(t) },
                         else_branch = q () => (float[2] v, float[2] s) { v = Neg(t) s = Identity(x) }> }""",
        [{"x": X, "c": np.array([c])} for c in (True, False)],
    ),
    "a trip count": (
        f"""g (float[2] x, int64 n) => (float[2] y) {{ y = Loop (n, "", x) {BODY}
          {{ d = Identity(c) f = Cast<to=1>(i) e = Add(v, f) w = Mul(e, e) }}> }}""",
        [{"x": X, "n": np.array(n)} for n in (0, 1, 4, -2)],
    ),
    "a condition": (
        f"""g (float[2] x, bool t) => (float[2] y) {{ y = Loop ("", t, x) {BODY}
          {{ w = Add(v, v) m = ReduceMax<keepdims=0>(w) top = Constant<value_float=99.0>() d = Less(m, top) }}> }}""",
        [{"x": X, "t": np.array(t)} for t in (True, False)],
    ),
    "a trip count and a condition": (
        f"""g (float[2] x, int64 n, bool t) => (float[2] y) {{ y = Loop (n, t, x) {BODY}
          {{ w = Add(v, v) m = ReduceMax<keepdims=0>(w) most = Constant<value_float=9.0>() d = Less(m, most) }}> }}""",
        [{"x": X, "n": np.array(n), "t": np.array(t)} for n, t in ((2, True), (99, True), (3, False), (0, True))],
    ),
    "a loop that captures, with two carried values and a constant inside": (
        """g (float[2] x, int64 n, float[2,2] a) => (float[2] y, float s) <float zero = {0}> { t = Abs(x)
          y, s = Loop (n, "", x, zero) <body = b (int64 i, bool c, float[2] v, float r) => (bool d, float[2] w, float o)
            <float half = {0.5}> { d = Identity(c) p = MatMul(a, v) q = Add(p, t) w = Mul(q, half)
              u = ReduceSum<keepdims=0>(w) o = Add(r, u) }> }""",
        [{"x": X, "n": np.array(n), "a": np.array([[1, 2], [-1, 0.5]], np.float32)} for n in (0, 3)],
    ),
    "more steps than are unrolled, with results of each": (
        f"""g (float[2] x) => (float[2] y, float[{MOST_NODES},2] z)
          <int64 n = {{{MOST_NODES}}}, float[2] h = {{0.5, 0.25}}> {{
          y, z = Loop (n, "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] o)
            {{ d = Identity(c) e = Mul(v, h) w = Add(e, h) o = Neg(w) }}> }}""",
        [{"x": X}],
    ),
    "a scan of more steps than are unrolled, backwards along the last axis": (
        f"""g (float[2] s, float[2,{MOST_NODES}] x) => (float[2] y, float[2,{MOST_NODES}] z) {{
          y, z = Scan <num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1],
            scan_output_directions=[1], body = b (float[2] v, float[2] e) => (float[2] w, float[2] o)
              {{ h = Constant<value_float=0.5>() k = Mul(v, h) w = Add(k, e) o = Identity(w) }}> (s, x) }}""",
        [{"s": X, "x": np.random.default_rng(0).standard_normal((2, MOST_NODES)).astype(np.float32)}],
    ),
    "a result of which the model says no size": (
        """g (int8[2] x, int64 n, int32[2] a) => (int8[2] y) { f = Cast<to=6>(x)
          z, t = Loop (n, "", f, f) <body = b (int64 i, bool c, int32[k] v, int32[k] u)
            => (bool d, int32[m] w, int32[m] s) { d = Identity(c) h = Add(v, a) w = Add(h, u) s = Neg(w) }>
          o = Add(z, t) y = Cast<to=3>(o) }""",
        [{"x": np.array([3, -5], np.int8), "n": np.array(n), "a": np.array([1, 2], np.int32)} for n in (0, 5)],
    ),
    "a branch in a loop": (
        f"""g (float[2] x, int64 n) => (float[2] y) {{ y = Loop (n, "", x) {BODY}
          {{ d = Identity(c) m = ReduceMax<keepdims=0>(v) most = Constant<value_float=5.0>() small = Less(m, most)
             w = If (small) <then_branch = p () => (float[2] u) {{ u = Add(v, v) }},
                             else_branch = q () => (float[2] r) {{ r = Neg(v) }}> }}> }}""",
        [{"x": X, "n": np.array(n)} for n in (0, 2, 5)],
    ),
    "a loop in a loop": (
        f"""g (float[2] x, int64 n, int64 m) => (float[2] y) {{ y = Loop (n, "", x) {BODY}
          {{ d = Identity(c) w = Loop (m, "", v) <body = e (int64 j, bool k, float[2] u) => (bool l, float[2] r)
             {{ l = Identity(k) h = Constant<value_float=0.5>() s = Mul(u, h) r = Add(s, v) }}> }}> }}""",
        [{"x": X, "n": np.array(n), "m": np.array(m)} for n, m in ((2, 3), (0, 3), (3, 0))],
    ),
}


def _model(text: str) -> onnx.ModelProto:
    return parse(text, opset=17)


def _compiled(text: str) -> Bundle:
    return rw.compile(rw.load(_model(text)), load_text(""))


def _statements(bundle: Bundle) -> list[object]:
    return [s for program in bundle.programs.values() for s in walk(program.statements)]


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_onnx_runtime_without_it(name, tmp_path):
    text, cases = CASES[name]
    session = ort.InferenceSession(_model(text).SerializeToString(), providers=["CPUExecutionProvider"])
    _compiled(text).save(tmp_path / "bundle")
    bundle = Bundle.open(tmp_path / "bundle")
    statements = _statements(bundle)
    assert any(isinstance(s, Scan) for s in statements) and not any(isinstance(s, Host) for s in statements)
    for feeds in cases:
        found = bundle.run(feeds)
        for output, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found[output.name], expected, rtol=1e-5, atol=1e-6)


HOST: dict[str, str] = {
    "results of each step, their number known at run time": """g (float[2] x, int64 n) => (float[2] y, float[a,2] z) {
      y, z = Loop (n, "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] o)
        { d = Identity(c) w = Add(v, v) o = Neg(w) }> z2 = Identity(z) }""",
    "an operator without a loop nest": f"""g (float[2] x, int64 n) => (float[2] y) {{ y = Loop (n, "", x) {BODY}
      {{ d = Identity(c) s, p = TopK(v, k) w = Add(s, v) }}> }}""",
}


def test_what_has_an_operator_of_the_host_inside_runs_there_as_a_whole():
    text = HOST["an operator without a loop nest"].replace(
        "=> (float[2] y) {", "=> (float[2] y) <int64[1] k = {2}> {", 1
    )
    bundle = _compiled(text)
    hosts = [s for s in _statements(bundle) if isinstance(s, Host)]
    assert [s.attributes.get("operator") for s in hosts] == ["Loop"]
    session = ort.InferenceSession(_model(text).SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"x": X, "n": np.array(3)}
    np.testing.assert_allclose(bundle.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-5)


def test_what_has_no_size_beforehand_is_refused():
    text = HOST["results of each step, their number known at run time"]
    with pytest.raises(rw.RewriteError, match="its size follows from the data"):
        _compiled(text)


def test_a_branch_that_is_not_taken_refuses_nothing():
    """Its positions are out of range, and nobody reads them."""
    text = """g (float[2] x, int64[1] k, bool c) => (float[1] y) {
      y = If (c) <then_branch = p () => (float[1] u) { u = Gather(x, k) },
                  else_branch = q () => (float[1] v) { v = Cast<to=1>(k) }> }"""
    bundle = _compiled(text)
    feeds = {"x": X, "k": np.array([7]), "c": np.array(False)}
    np.testing.assert_array_equal(bundle.run(feeds)["y"], [7])
    with pytest.raises(rw.RewriteError, match="Gather, operand 1: expected positions from -2 to 1, found 7"):
        bundle.run({**feeds, "c": np.array(True)})


def test_what_a_loop_carries_has_the_type_of_a_step_only_where_it_keeps_it():
    text = """g (float[2] x, int64 n) => (float[k] y, float[2] s) {
      y, s = Loop (n, "", x, x) <body = b (int64 i, bool c, float[p] v, float[2] u) => (bool d, float[q] w, float[2] t)
        { d = Identity(c) w = Concat<axis=0>(v, v) t = Neg(u) }> }"""
    graph = rw.load(_model(text)).model.graph
    (loop,) = graph
    assert not isinstance(loop.outputs[0].shape[0], int)
    with pytest.raises(rw.RewriteError, match="its size follows from the data"):
        _compiled(text)
