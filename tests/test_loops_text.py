"""Printed nests and stored programs."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_programs import elements, programs, run

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.expr import cast, const, maximum, select
from rewrite_engine.loops.nest import render
from rewrite_engine.loops.serialize import from_json, to_json


@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(0, 3))
def test_a_stored_program_is_the_same_program(program, seed):
    composed = compose(program)
    stored = json.dumps(to_json(composed), sort_keys=True)
    read = from_json(json.loads(stored))
    assert json.dumps(to_json(read), sort_keys=True) == stored
    assert (read.statements, read.inputs, read.outputs) == (composed.statements, composed.inputs, composed.outputs)
    assert dict(read.tensors) == dict(composed.tensors)
    assert render(read) == render(composed)
    inputs = elements(program, seed)
    for a, b in zip(run(read, inputs), run(composed, inputs), strict=True):
        assert a.tobytes() == b.tobytes()


def test_constants_are_stored_exactly():
    builder = Builder()
    values = [math.nan, math.inf, -math.inf, -0.0, 0.1, 1e-45]
    x = builder.input((6,), "float32")
    tensors = [
        builder.constant(np.array(values, np.float32)),
        builder.constant(np.array(values), "bfloat16"),
        builder.constant(np.array([True, False, True, True, False, True])),
        builder.constant(np.array([-(1 << 63), (1 << 63) - 1, 0, 1, 2, 3])),
        builder.constant(np.zeros((0,), np.float16)),
    ]
    numbers = builder.compute((6,), lambda i: maximum(x[i], math.inf) + const(-0.0, "float32"))
    program = builder.program([*tensors, numbers])
    read = from_json(json.loads(json.dumps(to_json(program))))
    for name, array in program.constants.items():
        assert read.constants[name].dtype == array.dtype and read.constants[name].tobytes() == array.tobytes()
    assert read.statements == program.statements


def test_host_operators_are_stored():
    builder = Builder()
    x = builder.input((4,), "float32")
    values, _ = builder.host("sort", [x], [((2,), "float32"), ((2,), "int64")], axis=0, count=2, largest=True)
    read = from_json(json.loads(json.dumps(to_json(builder.program([values])))))
    (found,) = run(read, [np.array([1, 4, 2, 3], np.float32)])
    assert found.tolist() == [4, 3]
    assert "t0, t1 = host sort(x0; axis=0, count=2, largest=True)" in render(read)


SCRIPT = """
import json
from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.expr import call, maximum
from rewrite_engine.loops.nest import render
from rewrite_engine.loops.serialize import to_json
b = Builder()
x, w = b.input((2, 8, 6), "float32"), b.input((6, 8), "float32")
h = b.transpose(b.reshape(x, (2, 8, 2, 3)), [0, 2, 1, 3])
e = b.map(lambda u, v: call("exp", u - v), h, b.reduce(h, [-1], "max"))
y = b.map(lambda u, v: u / v + maximum(u, v) * (u - v), e, b.reduce(e, [-1], "sum"))
z = b.compute((2, 8, 8), lambda i, j, k, r: x[i, j, r] * w[r, k], (6,), "sum")
p = compose(b.program([y, b.map(lambda v: v + 1, z)]))
print(render(p), json.dumps(to_json(p)))
"""


def test_the_same_text_under_every_hash_seed():
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(found) == 1 and b"parallel i" in found.pop()


@pytest.mark.parametrize("damage", [{"schema": "other/1"}, {"nodes": []}, {"statements": [{}]}, {"tensors": [1]}])
def test_damaged_programs_are_refused(damage):
    builder = Builder()
    program = builder.program([builder.map(lambda v: v + 1, builder.input((2,), "float32"))])
    with pytest.raises(RewriteError, match=r"schema|damaged"):
        from_json({**to_json(program), **damage})


def test_a_nest_shows_buffers_loops_accumulator_guard_and_epilogue():
    builder = Builder()
    x, b = builder.input((2, 5), "float32"), builder.input((2,), "float32")
    pooled = builder.compute((2, 5), lambda i, j, k: builder.load_padded(x, [i, j + k - 1], -math.inf), (3,), "max")
    y = builder.compute((2, 5), lambda i, j: maximum(pooled[i, j] + b[i], 0))
    assert (
        render(compose(builder.program([y])))
        == """\
kernel
  input x0: float32[2, 5]
  input x1: float32[2]
  output t1: float32[2, 5]

  parallel i2 in 0..2:
    parallel i3 in 0..5:
      acc: float32 = -inf
      reduction r0 in 0..3:
        if 0 <= i3 + r0 - 1 and i3 + r0 - 1 < 5:
          acc = max(acc, x0[i2, i3 + r0 - 1])
      t1[i2, i3] = max(acc + x1[i2], 0.0)
"""
    )


def test_a_nest_binds_what_is_shared_where_it_is_known():
    builder = Builder()
    x, s = builder.input((2, 3), "float32"), builder.input((2,), "float32")
    y = builder.compute((2, 3), lambda i, j: (x[i, j] * (s[i] * s[i])) / (s[i] * s[i]))
    text = render(builder.program([y]))
    assert text.splitlines()[5:] == [
        "  parallel i0 in 0..2:",
        "    let v0: float32 = x1[i0]",
        "    let v1: float32 = v0 * v0",
        "    parallel i1 in 0..3:",
        "      t0[i0, i1] = x0[i0, i1] * v1 / v1",
    ]


def test_a_scatter_is_a_copy_and_serial_loops():
    builder = Builder()
    x, where = builder.input((4,), "float32"), builder.input((3,), "int64")
    y = builder.scatter(x, (3,), lambda i: [cast(where[i], "index")], lambda i: select(i < 1, x[i], x[0]), "sum")
    assert render(builder.program([y])).splitlines()[5:] == [
        "  t0 = copy of x0",
        "  serial i0 in 0..3:",
        "    t0[index(x1[i0])] += select(i0 < 1, x0[i0], x0[0])",
    ]
