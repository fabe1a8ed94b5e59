"""Bad input: one clear error, or a result; positions outside are refused where they are known, else never followed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from bad_input import broken_models, outside
from c_programs import check, need_compiler
from loops_programs import run
from models import parse
from onnx import numpy_helper

import rewrite_engine as rw
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import load_text
from rewrite_engine.loops import interpret
from rewrite_engine.loops.compose import compose
from rewrite_engine.testing.onnx_backend import NumpyBackend


def refusals(seed: int, count: int) -> int:
    """How many broken models are refused; any other exception than RewriteError fails the test."""
    refused = 0
    for what, model, arrays in broken_models(seed, count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                NumpyBackend.prepare(model).run(arrays)
            except RewriteError as error:
                assert str(error) and "\n" not in str(error), what
                refused += 1
            except Exception as error:
                raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return refused


def test_broken_models_are_refused_or_run() -> None:
    assert 20 <= refusals(0, 100) <= 80


@pytest.mark.slow
def test_many_broken_models_are_refused_or_run() -> None:
    assert 1000 <= refusals(1, 4000) <= 3000


@pytest.mark.parametrize(
    ("op", "operands", "attributes"),
    [
        ("Gather", ([7],), {"axis": 0}),
        ("Gather", ([[-4]],), {"axis": 0}),
        ("Gather", ([2, 5],), {"axis": 1}),
        ("GatherElements", ([[3, 0]],), {"axis": 0}),
        ("GatherND", ([[0, 5], [1, 1]],), {}),
        ("GatherND", ([[-4]],), {}),
        ("ScatterElements", ([[0, -6]], [[1.0, 2.0]]), {"axis": 1}),
        ("ScatterND", ([[1, 4], [3, 0]], [1.0, 2.0]), {}),
    ],
)
def test_known_positions_outside_are_refused(op, operands, attributes) -> None:
    arrays = [np.array(o, np.float32 if np.asarray(o).dtype.kind == "f" else np.int64) for o in operands]
    constants = {f"k{n}": a for n, a in enumerate(arrays)}
    listed = ", ".join(("x", *constants))
    written = ", ".join(f"{name}={value}" for name, value in attributes.items())
    model = parse(
        f"g (float[3,5] x) => (float y) {{ y = {op}{f'<{written}>' if written else ''}({listed}) }}", opset=18
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    with pytest.raises(RewriteError, match=rf"operator {op} \(y\): expected positions from -?\d to \d, found -?\d+"):
        NumpyBackend.prepare(model).run([np.zeros((3, 5), np.float32)])


def test_positions_of_run_time_stay_inside() -> None:
    for program, arrays in outside():
        expected = run(program, arrays, interpret)
        for each in (program, compose(program)):
            for found, wanted in zip(run(each, arrays), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_positions_of_run_time_stay_inside_in_c(monkeypatch, tmp_path) -> None:
    need_compiler()
    monkeypatch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path))
    check(outside())


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,3] x) => (float[?,?] y) <int64[2] s = {-2, 3}> { y = Reshape(x, s) }",
        "g (float[2,3] x) => (float[?,?] y) <int64[2] s = {4, 3}> { y = Reshape(x, s) }",
        "g () => (float[?] y) <int64[1] s = {-2}> { y = ConstantOfShape(s) }",
        "g (float[2,3] x) => (float[?,?] y) <int64[2] s = {-1, 3}> { y = Expand(x, s) }",
        "g (float[2,3] x) => (float[?,?] y) <int64[2] s = {-1, 2}> { y = Tile(x, s) }",
        "g (float[2,3] x) => (float[?,?] y) <int64[4] p = {-3, 0, 0, 0}> { y = Pad(x, p) }",
        "g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=2>(x) }",
        "g (float[2,3] x) => (float[2,3] y) { y = Transpose<perm=[0,0]>(x) }",
    ],
)
def test_sizes_and_axes_that_cannot_be_are_refused(text: str) -> None:
    model = parse(text, opset=18)
    with pytest.raises(RewriteError):
        NumpyBackend.prepare(model).run([np.zeros((2, 3), np.float32)] if "x)" in text else [])


@pytest.mark.parametrize("size", [-7, -1, 0])
def test_a_window_over_no_channels_is_refused(size: int) -> None:
    text = f"g (float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) {{ y = LRN <size = {size}> (x) }}"
    with pytest.raises(RewriteError, match=f"size is {size}, expected at least 1"):
        rw.compile(rw.load(parse(text)), load_text(""), engine="numpy")
