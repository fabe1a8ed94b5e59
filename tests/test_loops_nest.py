"""Printed nests: the parser gives back the printer's trees, and what the text says is what the executors compute."""

from __future__ import annotations

import numpy as np
import onnx_node_cases
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_programs import assert_close, elements, programs, run

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops import interpret, nest_interpreter
from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Compute, Program
from rewrite_engine.loops.dtypes import INDEX
from rewrite_engine.loops.expr import bitcast, cast
from rewrite_engine.loops.nest import nest, render
from rewrite_engine.loops.nest_parser import parse, show
from rewrite_engine.loops.schedule import scheduled


def printed(program: Program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs, in the program's order, by its printed text."""
    kernel = parse(render(program))
    found = dict(zip(kernel.of_role("output"), nest_interpreter.run(kernel, inputs, program.constants), strict=True))
    return [found[name] for name in program.outputs]


@settings(max_examples=80, deadline=None)
@given(programs(), st.integers(0, 3), st.booleans())
def test_the_text_is_the_program(program: Program, seed: int, with_nan: bool) -> None:
    inputs = elements(program, seed, with_nan)
    expected = run(program, inputs, interpret)
    for each in (program, compose(program)):
        text = render(each)
        kernel = parse(text)
        assert show(kernel) == text
        made = scheduled(each.statements, each.tensors, each.wanted)  # a statement may have been cut into parts
        trees = [nest(s) for s in made if isinstance(s, Compute)]
        assert [n for n, s in zip(kernel.nests, made, strict=True) if isinstance(s, Compute)] == trees
        assert_close(printed(each, inputs), expected, 1e-4)


def test_the_text_of_node_tests_computes_them() -> None:
    checked = 0
    for case in onnx_node_cases.all_cases()[::60]:
        try:
            made, feeds = onnx_node_cases.NumpyBackend.prepare(case.model).specialised(case.data_sets[0][0])
        except onnx_node_cases.RewriteError:
            continue
        points = sum(
            np.prod([max(it.extent, 1) for it in s.iters]) for s in made.plain.statements if isinstance(s, Compute)
        )
        if points > 400:
            continue
        text = render(made.plain)
        assert show(parse(text)) == text
        arrays = [feeds[name] for name in made.inputs]
        expected = onnx_node_cases._execute(made.plain, dict(zip(made.inputs, arrays, strict=True)))
        for found, wanted in zip(printed(made.plain, arrays), expected, strict=True):
            onnx_node_cases.assert_close(found, wanted, 1e-4, 1e-5)
        checked += 1
    assert checked > 18


def test_conversions_are_told_apart() -> None:
    builder = Builder()
    x = builder.input((4,), "float32")
    kept = builder.compute((4,), lambda i: cast(x[i], "float8_e4m3fn", False))
    clipped = builder.compute((4,), lambda i: cast(x[i], "float8_e4m3fn"))
    bits = builder.compute((4,), lambda i: bitcast(x[i], "int32"))
    program = builder.program([kept, clipped, bits])
    text = render(program)
    assert "float8_e4m3fn(x0[i0], saturate=false)" in text and "bitcast(x0[i2], int32)" in text
    x = np.array([1.5, -500, 700, np.nan], np.float32)
    for found, wanted in zip(printed(program, [x]), run(program, [x]), strict=True):
        assert found.tobytes() == wanted.tobytes()


def test_host_operators_and_scatters_run_from_text() -> None:
    builder = Builder()
    x, where = builder.input((4,), "float32"), builder.input((3,), "int64")
    values, _ = builder.host("sort", [x], [((2,), "float32"), ((2,), "int64")], axis=0, count=2, largest=True)
    added = builder.scatter(x, (3,), lambda i: [cast(where[i], INDEX)], lambda i: x[i] + 1, "sum")
    program = builder.program([values, added])
    inputs = [np.array([1, 4, 2, 3], np.float32), np.array([0, 0, 2], np.int64)]
    for found, wanted in zip(printed(program, inputs), run(program, inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


GOOD = """kernel
  input x0: float32[2]
  output t0: float32[2]

  parallel i0 in 0..2:
    t0[i0] = x0[i0]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kernel", "kernels", "line 1: expected `kernel`"),
        ("input x0: float32[2]", "inputs x0", "line 2: expected a buffer"),
        ("output t0", "output x0", "line 3: expected a buffer .* each name once"),
        ("    t0", "      t0", "line 6: expected an indentation"),
        ("    t0", "   t0", "line 6: expected an indentation"),
        ("    t0[i0] = x0[i0]\n", "", "line 5: expected statements inside it"),
        ("\n\n", "\n\n\n", "expected a nest, found nothing"),
    ],
)
def test_text_that_is_no_kernel_is_refused(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(RewriteError, match=message):
        parse(GOOD.replace(old, new, 1))


@pytest.mark.parametrize("line", ["t0[i0] x0[i0]", "t0[i0] = x0[i0", "t0[i0] = [1 for a in x0]", "t0[i0] = x0.T[i0]"])
def test_lines_that_mean_nothing_are_refused(line: str) -> None:
    kernel = parse(GOOD.replace("t0[i0] = x0[i0]", line))
    with pytest.raises(RewriteError, match="expected a"):
        nest_interpreter.run(kernel, [np.zeros(2, np.float32)], {})
