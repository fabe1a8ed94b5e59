"""Inputs that are given one value for good: constants of the model, whose decisions are made at import."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import parse, run_reference

import rewrite_engine as rw
from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import load_text

HOST = load_text("")
RATES = """
g (float[N, 4] x, int64 rate, float[2] gain) => (float[N, M] y) {
  k = Constant <value = int64 {16000}> ()
  fast = Equal(rate, k)
  y = If (fast) <
    then_branch = a () => (float[N, P] p) { p = Concat <axis = 1> (x, x) },
    else_branch = b () => (float[N, Q] q) { q = Relu(x) }
  >
}
"""


@pytest.mark.parametrize(("rate", "columns"), [(16000, 8), (8000, 4), (np.int64(16000), 8), (np.float32(8000), 4)])
def test_a_value_decides_between_branches_of_other_shapes(rate: object, columns: int) -> None:
    module = rw.load(parse(RATES), dims={"N": 2}, values={"rate": rate})
    bundle = rw.compile(module, HOST, engine="numpy")
    assert [node.op_type for node in module.model.graph] in (["Concat"], ["Relu"])
    x = np.float32([[1, -2, 3, -4], [5, 6, -7, 8]])
    (found,) = bundle.run({"x": x, "gain": np.float32([1, 1])}).values()
    assert found.shape == (2, columns)
    (expected,) = run_reference(parse(RATES), {"x": x, "rate": np.asarray(rate, np.int64), "gain": np.float32([1, 1])})
    np.testing.assert_array_equal(found, expected)


def test_it_is_an_input_no_more_and_the_model_runs_without_it() -> None:
    model = parse(RATES)
    module = rw.load(model, dims={"N": 1}, values={"rate": 8000, "gain": 2})
    assert [value.name for value in module.model.graph.inputs] == ["x"]
    assert [info.name for info in model.graph.input] == ["x", "rate", "gain"]  # the caller's stays as it is
    kept = onnx.load_model_from_string(module.source.original)
    assert [info.name for info in kept.graph.input] == ["x"]
    (found,) = run_reference(kept, {"x": np.float32([[1, -1, 2, -2]])})
    np.testing.assert_array_equal(found, [[1, 0, 2, 0]])


def test_a_shape_that_is_given_is_settled() -> None:
    text = "g (float[2, 6] x, int64[2] s) => (float[A, B] y) { y = Reshape(x, s) }"
    terms = rw.load(parse(text), values={"s": [3, 4]})
    assert [list(value.shape) for value in terms.model.graph.outputs] == [[3, 4]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 1}, "there is no input `rat` to give a value; did you mean `rate`"),
        ({"nothing": 1}, "its inputs are `gain`, `rate`, `x`"),
        ({"rate": 1.5}, "input `rate`: expected int64, found 1.5"),
        ({"rate": "fast"}, "input `rate`: expected int64, found 'fast'"),
        ({"rate": [1, 2]}, r"input `rate`: expected int64\[\], found a value of the shape \[2\]"),
        ({"rate": None}, "input `rate`: expected int64, found None"),
        ({"rate": 2**70}, "input `rate`: expected int64"),
        ({"gain": [1, 2, 3]}, r"input `gain`: expected float32\[2\], found a value of the shape \[3\]"),
        ({"x": 1}, "input `x`: expected float32"),
        ({"y": 1}, "there is no input `y`"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        rw.load(parse(RATES), values=values)


def test_the_command_line_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(parse(RATES), tmp_path / "m.onnx")
    (tmp_path / "r.pat").write_text("target host { flops 1GFLOPS bandwidth 1GBps }\n")
    common = [str(tmp_path / "m.onnx"), "-p", str(tmp_path / "r.pat"), "--dim", "N=1"]
    assert main(["place", *common, "--value", "rate=16000", "--value", "gain=[1, 2]", "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert [kernel["nodes"] for kernel in kernels] == [["y"]]
    assert main(["compile", *common[:3], "--dim", "N=1,2", "--value", "rate=8000", "-o", str(tmp_path / "b")]) == 0
    assert len(rw.Bundle.open(tmp_path / "b").bindings) == 2
    for text, message in (("rate=x", "expected a number, true, false or a list"), ("rate", "expected NAME=VALUE")):
        capsys.readouterr()
        assert main(["place", *common, "--value", text]) == 2
        assert message in capsys.readouterr().err
