"""Results written in parts: what a Concat joins is written where it belongs, in C and in the printed nest."""

from __future__ import annotations

import numpy as np
import pytest
from c_programs import check, need_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_programs import _concat, _matmul, _pad, _reduce, _unary, _window, assert_close, elements, programs, run

from rewrite_engine.loops import nest, nest_interpreter, nest_parser
from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Compute, Program
from rewrite_engine.loops.expr import maximum
from rewrite_engine.loops.schedule import in_parts


def _products(b: Builder, count: int, rows: int = 6, columns: int = 8, depth: int = 5) -> list[Tensor]:
    x = b.input((rows, depth), "float32")
    weights = [b.input((depth, columns + k), "float32") for k in range(count)]
    return [
        b.compute((rows, columns + k), lambda i, j, r, w=w: x[i, r] * w[r, j], [depth], "sum")
        for k, w in enumerate(weights)
    ]


def _joined(axis: int, after: bool) -> Program:
    b = Builder()
    parts = _products(b, 3)
    if axis == 0:
        parts = [b.move(p, (6, 8), lambda i, j: (i, j)) for p in parts]
    whole = b.concat(parts, axis)
    return b.program([b.map(lambda v: maximum(v, 0) + 1, whole) if after else whole])


def _with_an_input() -> Program:
    b = Builder()
    given = b.input((6, 3), "float32")
    return b.program([b.concat([given, *_products(b, 2)], 1)])


def _of_one_twice() -> Program:
    b = Builder()
    (part,) = _products(b, 1)
    return b.program([b.concat([part, part], 1)])


def _of_one_that_is_read_elsewhere() -> Program:
    b = Builder()
    first, second = _products(b, 2)
    return b.program([b.concat([first, second], 1), b.reduce(first, [0], "max")])


def _of_an_output() -> Program:
    b = Builder()
    first, second = _products(b, 2)
    return b.program([b.concat([first, second], 1), first])


def _nested() -> Program:
    b = Builder()
    first, second, third = _products(b, 3)
    return b.program([b.concat([b.concat([first, second], 1), third], 1)])


CASES: dict[str, tuple[Program, int]] = {
    "along the last axis": (_joined(1, False), 3),
    "with work after it": (_joined(1, True), 3),
    "along the first axis, some only parts of products": (_joined(0, True), 5),
    "with an input": (_with_an_input(), 3),
    "of one twice": (_of_one_twice(), 2),
    "of one that is read elsewhere": (_of_one_that_is_read_elsewhere(), 4),
    "of an output": (_of_an_output(), 3),
    "nested": (_nested(), 3),
}
"""Program, and how many statements run."""


@pytest.mark.parametrize("name", CASES)
def test_parts_are_written_where_they_belong(name):
    program, count = CASES[name]
    composed = compose(program)
    statements = in_parts(composed.statements, composed.wanted)
    assert len(statements) == count
    inputs = elements(program, 1)
    text = nest.render(composed)
    kernel = nest_parser.parse(text)
    assert nest_parser.show(kernel) == text
    assert_close(nest_interpreter.run(kernel, inputs, composed.constants), run(program, inputs))


def test_in_c():
    need_compiler()
    check([(program, elements(program, 2)) for program, _ in CASES.values()])


def test_every_element_is_written_once():
    for program, _ in CASES.values():
        composed = compose(program)
        for out in composed.outputs:
            counts = np.zeros(composed.tensors[out].shape, int)
            for statement in in_parts(composed.statements, composed.wanted):
                assert isinstance(statement, Compute)
                if statement.out != out:
                    continue
                shape = [it.extent for it in statement.parallel]
                for at in np.ndindex(*shape):
                    place = dict(zip((it.expr for it in statement.parallel), at, strict=True))
                    counts[tuple(_value(index, place) for index in statement.index)] += 1
            np.testing.assert_array_equal(counts, 1)


def _value(index, place) -> int:
    from rewrite_engine.loops.index import terms

    constant, coefficients = terms(index)
    return constant + sum(k * place[axis] for axis, k in coefficients.items())


def _extrema(draw, builder: Builder, x: Tensor, tensors) -> Tensor | None:
    """Several reductions of one tensor, or a tensor beside them, one after the other along an axis."""
    if not x.rank:
        return None
    reduced = draw(st.integers(0, x.rank - 1))
    parts = [builder.reduce(x, [reduced], draw(st.sampled_from(("sum", "max", "min")))) for _ in range(2)]
    parts += [builder.map(lambda v: v + 1, parts[0])] if draw(st.booleans()) else []
    return builder.concat(parts, draw(st.integers(0, x.rank - 1)))


KINDS = (_extrema, _extrema, _concat, _reduce, _matmul, _unary, _window, _pad)


@settings(max_examples=80, deadline=None)
@given(
    programs(kinds=KINDS, dtypes=("float32", "float64", "int32")),
    st.integers(0, 3),
)
def test_printed_parts_of_random_programs(program, seed):
    composed, inputs = compose(program), elements(program, seed)
    kernel = nest_parser.parse(nest.render(composed))
    assert_close(nest_interpreter.run(kernel, inputs, composed.constants), run(composed, inputs))


def test_random_programs_in_c():
    need_compiler()
    found: list[Program] = []

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(programs(kinds=KINDS, dtypes=("float32", "int32")))
    def collect(program: Program) -> None:
        composed = compose(program)
        if len(in_parts(composed.statements, composed.wanted)) != len(composed.statements):
            found.append(program)

    collect()
    assert len(found) > 10
    check([(program, elements(program, number)) for number, program in enumerate(found)])
