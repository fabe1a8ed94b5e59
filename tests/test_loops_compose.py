"""Composed programs give the numbers of the uncomposed ones, and fuse what they should and no more."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_programs import MOVEMENTS, REDUCTIONS, assert_close, elements, programs, run
from test_loops_execute import TOLERANCE, conv

from rewrite_engine.loops import interpret
from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.expr import call, maximum, postorder


@settings(max_examples=250, deadline=None)
@given(st.one_of(programs(), programs(kinds=MOVEMENTS), programs(kinds=REDUCTIONS)), st.integers(0, 3), st.booleans())
def test_composed_equals_uncomposed(program, seed, with_nan):
    inputs = elements(program, seed, with_nan)
    composed = compose(program)
    tolerance = TOLERANCE.get(program.tensors[program.inputs[0]].dtype, 1e-4)
    expected = run(program, inputs, interpret)
    assert (composed.inputs, composed.outputs) == (program.inputs, program.outputs)
    assert len(composed.statements) <= len(program.statements)
    assert_close(run(composed, inputs), expected, tolerance)
    assert_close(run(composed, inputs, interpret), expected, tolerance)


def test_low_precision_rounds_at_every_operator_also_when_fused():
    builder = Builder()
    x = builder.input((64,), "float16")
    y = builder.map(lambda v: v / 3, builder.map(lambda v: v * v, builder.map(lambda v: v + 0.1, x)))
    program = builder.program([y])
    composed = compose(program)
    assert len(composed.statements) == 1
    (v,) = elements(program, 0)
    v = v + np.float16(0.01)
    (found,) = run(composed, [v])
    step = (v.astype(np.float32) + np.float32(0.1)).astype(np.float16)
    step = (step.astype(np.float32) * step.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(found, (step.astype(np.float32) / np.float32(3)).astype(np.float16))


def counts(program: Program) -> tuple[int, int]:
    return len(program.statements), len(compose(program).statements)


def bias(builder: Builder, x: Tensor, b: Tensor) -> Tensor:
    return builder.map(lambda u, v: u + v, x, builder.reshape(b, (1, b.size, 1, 1)))


def test_bias_residual_and_activation_become_the_epilogue_of_a_grouped_convolution():
    builder = Builder()
    x, w, c, r = (builder.input(s, "float32") for s in ((1, 4, 6, 6), (8, 2, 3, 3), (8,), (1, 8, 6, 6)))
    y = bias(builder, conv(builder, x, w, pad=1, group=2), c)
    y = builder.map(lambda v: maximum(v, 0), builder.map(lambda u, v: u + v, y, r))
    program = builder.program([y])
    composed = compose(program)
    (fused,) = composed.statements
    assert fused.combine == "sum" and fused.post is not None
    assert not any(node.op == "fdiv" for node in postorder(*fused.roots)), "the group's iterator is split"
    inputs = elements(program, 0)
    assert_close(run(composed, inputs), run(program, inputs))


def test_pointwise_work_is_not_repeated_by_a_window_or_a_matrix_product():
    builder = Builder()
    x, w = builder.input((1, 2, 8, 8), "float32"), builder.input((3, 2, 3, 3), "float32")
    assert counts(builder.program([conv(builder, builder.map(lambda v: maximum(v, 0), x), w)])) == (2, 2)


def test_heavy_work_is_not_repeated_by_a_broadcast_or_a_guarded_reduction():
    builder = Builder()
    x, y = builder.input((3,), "float32"), builder.input((8, 3), "float32")
    e = builder.map(lambda v: call("exp", v), x)
    assert counts(builder.program([builder.map(lambda u, v: u + v, e, y)])) == (2, 2)
    total = builder.compute((), lambda k: builder.load_padded(e, [k], 0), (50,), "sum")
    assert counts(builder.program([total])) == (2, 2)
    total = builder.compute((), lambda k: e[k], (3,), "sum")
    assert counts(builder.program([total])) == (2, 1)


def test_a_pad_joins_the_convolution_that_reads_it():
    builder = Builder()
    x, w = builder.input((1, 2, 8, 8), "float32"), builder.input((3, 2, 3, 3), "float32")
    padded = builder.compute((1, 2, 10, 10), lambda n, c, i, j: builder.load_padded(x, [n, c, i - 1, j - 1], 0))
    program = builder.program([conv(builder, padded, w)])
    assert counts(program) == (2, 1)
    inputs = elements(program, 0)
    assert_close(run(compose(program), inputs), run(program, inputs))


def test_heavy_work_with_two_readers_stays_and_movement_does_not():
    builder = Builder()
    x = builder.input((4, 6), "float32")
    heavy = builder.map(lambda v: call("exp", v), x)
    two = [builder.map(lambda v: v + 1, heavy), builder.map(lambda v: v * 2, heavy)]
    assert counts(builder.program(two)) == (3, 3)
    turned = builder.transpose(x, [1, 0])
    two = [builder.map(lambda v: v + 1, turned), builder.map(lambda v: v * 2, turned)]
    assert counts(builder.program(two)) == (3, 2)


def test_an_output_that_is_read_again_is_still_written():
    builder = Builder()
    x = builder.input((3,), "float32")
    y = builder.map(lambda v: v + 1, x)
    program = compose(builder.program([y, builder.map(lambda v: v * 2, y)]))
    found = run(program, [np.arange(3, dtype=np.float32)])
    np.testing.assert_array_equal(found, [[1, 2, 3], [2, 4, 6]])


def test_softmax_and_attention_fuse_around_their_reductions():
    builder = Builder()
    x = builder.input((2, 3, 4), "float32")
    largest = builder.reduce(x, [-1], "max")
    e = builder.map(lambda v, m: call("exp", v - m), x, largest)
    y = builder.map(lambda v, s: v / s, e, builder.reduce(e, [-1], "sum"))
    assert counts(builder.program([y])) == (4, 4)


def test_constants_of_one_element_become_numbers():
    builder = Builder()
    x = builder.input((3,), "float32")
    y = builder.map(lambda u, v: u * v, x, builder.constant(np.float32(2.5)))
    composed = compose(builder.program([y]))
    assert not composed.constants and composed.statements[0].body is x[composed.statements[0].iters[0].expr] * 2.5


def test_long_chains_compose_in_bounded_pieces_without_recursion():
    builder = Builder()
    y = builder.input((5,), "float32")
    for _ in range(1000):
        y = builder.map(lambda v: v + 1, y)
    program = builder.program([y])
    composed = compose(program)
    assert 1000 / 96 <= len(composed.statements) < 50
    np.testing.assert_array_equal(run(composed, [np.zeros(5, np.float32)]), [np.full(5, 1000, np.float32)])
