"""Groups: row-wise chains run point by point with what only a point knows; the same numbers in every way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from c_programs import check, need_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_chains import attention, layer_norm, softmax
from loops_programs import REDUCTIONS, assert_close, elements, programs, run

from rewrite_engine.loops import group as group_module
from rewrite_engine.loops import nest, nest_interpreter, nest_parser
from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Compute, Host, Program, Scan
from rewrite_engine.loops.dtypes import INDEX, numpy_dtype
from rewrite_engine.loops.emit_c import emit
from rewrite_engine.loops.execute import run_compute
from rewrite_engine.loops.expr import cast, const, substitute
from rewrite_engine.loops.group import Group, flattened, grouped
from rewrite_engine.loops.operators import operator_compute


def _groups(program: Program, room: int | None = None) -> list[object]:
    return grouped(program.statements, program.tensors, program.wanted, room)


def _by_points(program: Program, inputs: Sequence[np.ndarray], room: int) -> list[np.ndarray]:
    """The outputs where each point of a group starts without what others computed."""
    env = {**dict(zip(program.inputs, inputs, strict=True)), **program.constants}
    for name, (shape, dtype) in program.tensors.items():
        if name not in env:
            env[name] = np.full(shape, 77).astype(numpy_dtype(dtype))
    for statement in _groups(program, room):
        assert isinstance(statement, (Compute, Group))
        if isinstance(statement, Compute):
            run_compute(statement, env, env[statement.out])
            continue
        for point in itertools.product(*(range(it.extent) for it in statement.shared)):
            for name in statement.parts:
                env[name][...] = np.full(env[name].shape, 99).astype(env[name].dtype)
            at = {it.expr: const(p, INDEX) for it, p in zip(statement.shared, point, strict=True)}
            for member in statement.statements:
                part = replace(
                    member,
                    index=tuple(substitute(i, at) for i in member.index),
                    body=substitute(member.body, at),
                    post=None if member.post is None else substitute(member.post, at),
                )
                run_compute(part, env, env[member.out])
    return [env[name] for name in program.outputs]


CHAINS = {
    "softmax": (softmax(8, 64, 128), 4),
    "layer norm": (layer_norm(8, 64, 128), 4),
    "attention": (attention(2, 4, 64, 64, 32), 6),
    "attention over other keys": (attention(1, 3, 48, 80, 16), 6),
    "attention with a causal mask": (attention(2, 4, 32, 32, 16, causal=True), 6),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_row_wise_chain_is_one_nest(name):
    program, members = CHAINS[name]
    (only,) = _groups(compose(program))
    assert isinstance(only, Group) and len(only.statements) == members
    assert set(only.parts) == {s.out for s in only.statements[:-1]}
    text = nest.render(compose(program))
    assert text.count("\n\n") == 1, "one nest after the buffers"
    assert nest_parser.show(nest_parser.parse(text)) == text


@pytest.mark.parametrize("name", CHAINS)
def test_it_gives_the_same_numbers(name):
    program, _ = CHAINS[name]
    inputs, composed = elements(program, 1), compose(program)
    expected = run(composed, inputs)
    assert_close(_by_points(composed, inputs, group_module.ROOM), expected)


def test_in_c(monkeypatch):
    need_compiler()
    cases = [(program, elements(program, 2)) for program, _ in CHAINS.values()]
    check(cases)
    for room in (1 << 9, 1 << 12):
        monkeypatch.setattr(group_module, "ROOM", room)
        check(cases)


def test_a_small_tensor_needs_no_group():
    assert not any(isinstance(s, Group) for s in _groups(compose(softmax(2, 3, 8))))


def test_a_row_without_room_stays_in_memory():
    program = compose(softmax(2, 1 << 17))
    assert not any(isinstance(s, Group) for s in _groups(program))


def test_the_causal_mask_keeps_its_rows_together():
    """The mask looks at the row, so that only batch and heads are shared."""
    program, _ = CHAINS["attention with a causal mask"]
    (only,) = _groups(compose(program), 1 << 14)
    assert [it.extent for it in only.shared] == [2, 4]


def test_what_is_read_afterwards_is_not_a_points_own():
    b = Builder()
    x = b.input((64, 64, 64), "float32")
    largest = b.reduce(x, [2], "max")
    shifted = b.map(lambda u, v: u - v, x, largest)
    total = b.reduce(shifted, [2], "sum")
    program = compose(b.program([total, shifted]))
    found = [s for s in _groups(program) if isinstance(s, Group)]
    assert found and all("t1" not in group.parts for group in found)
    inputs = elements(program, 3)
    assert_close(_by_points(program, inputs, group_module.ROOM), run(program, inputs))


def test_what_reads_another_place_is_not_in_the_group():
    b = Builder()
    x = b.input((64, 64, 64), "float32")
    largest = b.reduce(x, [2], "max", keepdims=False)
    mirrored = b.compute((64, 64, 64), lambda i, j, k: x[i, j, k] - largest[63 - i, 63 - j])
    program = compose(b.program([mirrored]))
    assert all(isinstance(s, Compute) for s in _groups(program))


def test_what_reads_places_in_another_order_shares_them_in_that_order():
    b = Builder()
    x = b.input((64, 32, 64), "float32")
    largest = b.reduce(x, [2], "max", keepdims=False)
    turned = b.compute((32, 64, 64), lambda i, j, k: x[j, i, k] - largest[j, i])
    program = compose(b.program([turned]))
    (only,) = _groups(program, 1 << 12)
    assert isinstance(only, Group)
    inputs = elements(program, 5)
    assert_close(_by_points(program, inputs, 1 << 12), run(program, inputs))
    check([(program, inputs)])


def test_positions_that_are_checked_come_before_what_they_guard():
    b = Builder()
    x, at = b.input((64, 512), "float32"), b.input((64,), "int64")
    b.enter("Gather", [x, at])
    b.require_positions(at, 0, 63)
    rows = b.move(x, (64, 512), lambda i, j: (cast(at[i], INDEX), j))
    (out,) = operator_compute("Softmax")(b, [rows], {"axis": 1})
    program = compose(b.program([out]))
    positions = np.arange(64)[::-1].copy()
    check([(program, [np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32), positions])])


def test_flattened_statements_are_the_members_again():
    program = compose(softmax(8, 64, 128))
    (only,) = _groups(program, 1 << 12)
    flat = replace(program, statements=tuple(flattened(only)))
    inputs = elements(program, 4)
    assert_close(run(flat, inputs), run(program, inputs))


def _rows(draw, builder: Builder, x: Tensor, _) -> Tensor | None:
    """x joined with a reduction of its own last axis."""
    if not x.rank or x.size < 4:
        return None
    reduced = builder.reduce(x, [x.rank - 1], draw(st.sampled_from(("sum", "max", "min"))))
    return builder.map(draw(st.sampled_from((lambda u, v: u - v, lambda u, v: u / 2 + v))), x, reduced)


KINDS = (_rows, _rows, _rows, *REDUCTIONS)


@settings(max_examples=120, deadline=None)
@given(programs(kinds=KINDS, dtypes=("float32", "float64", "int32")), st.integers(0, 3), st.sampled_from((8, 32, 128)))
def test_random_programs_by_points(program, seed, room):
    composed = compose(program)
    if any(isinstance(s, (Scan, Host)) for s in composed.statements):
        return
    inputs = elements(program, seed)
    assert_close(_by_points(composed, inputs, room), run(composed, inputs))


@settings(max_examples=40, deadline=None)
@given(programs(kinds=KINDS, dtypes=("float32", "float16")), st.integers(0, 3), st.sampled_from((8, 32, 128)))
def test_printed_groups_of_random_programs(program, seed, room):
    composed, inputs = compose(program), elements(program, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_module, "ROOM", room)
        text = nest.render(composed)
    kernel = nest_parser.parse(text)
    assert nest_parser.show(kernel) == text
    assert_close(nest_interpreter.run(kernel, inputs, composed.constants), run(composed, inputs), 5e-3)


def test_random_programs_in_c(monkeypatch):
    need_compiler()
    monkeypatch.setattr(group_module, "ROOM", 48)
    found: list[Program] = []

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(programs(kinds=KINDS, dtypes=("float32", "float16", "float64")))
    def collect(program: Program) -> None:
        if any(isinstance(s, Group) for s in _groups(compose(program))):
            found.append(program)

    collect()
    assert len(found) > 20
    check([(program, elements(program, number)) for number, program in enumerate(found)])
    assert any("local[" in code for p in found for _, code in emit(compose(p), "k").functions)
