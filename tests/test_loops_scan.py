"""Scans: carried values, elements taken and handed on, conditions, nesting; alike in every engine and in the text."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from c_programs import assert_same, check, need_compiler, node, run_c
from loops_programs import assert_close, run

from rewrite_engine.loops import execute, interpret, nest, nest_interpreter, nest_parser, serialize
from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.build_c import build
from rewrite_engine.loops.build_scan import scan
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program, Scan
from rewrite_engine.loops.emit_c import emit
from rewrite_engine.loops.execute import workspace_bytes
from rewrite_engine.loops.validate import validate

Made = tuple[Program, list[np.ndarray], list[np.ndarray]]
"""A program, its inputs, and what it has to give."""


def _sums() -> Made:
    """Running sums along the first axis, and the total."""
    b = Builder()
    x, zero = b.input((5, 2, 3), "float32"), b.constant(np.zeros((2, 3), np.float32))

    def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        total = b.map(lambda u, v: u + v, now[0], parts[0])
        return [total], [total]

    finals, wholes = scan(b, 5, step, [zero], [x])
    given = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    return b.program([*finals, *wholes]), [given], [given.sum(0), given.cumsum(0)]


def _backwards() -> Made:
    """Elements from the last to the first, handed on in that order and in the other."""
    b = Builder()
    x, zero = b.input((4, 3), "float64"), b.constant(np.zeros(3))

    def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        total = b.map(lambda u, v: u + v, now[0], parts[0])
        return [total], [total, b.map(lambda v: v * 2, total)]

    _, wholes = scan(b, 4, step, [zero], [x], [True], [True, False])
    given = np.arange(12, dtype=np.float64).reshape(4, 3)
    sums = given[::-1].cumsum(0)
    return b.program(wholes), [given], [sums[::-1], sums * 2]


def _swapped() -> Made:
    """Two carried values that change places: neither may be overwritten before the other is read."""
    b = Builder()
    x, y = b.input((3,), "float32"), b.input((3,), "float32")
    finals, _ = scan(b, 3, lambda _, now: ([now[1], b.map(lambda v: v + 1, now[0])], []), [x, y])
    u, v = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    a, c = u, v
    for _ in range(3):
        a, c = c, a + 1
    return b.program(finals), [u, v], [a, c]


def _while() -> Made:
    """Doubling until a sum is large enough: how often, data says."""
    b = Builder()
    x = b.input((4,), "float32")

    def small(value: Tensor) -> Tensor:
        return b.map(lambda v: v < 100, b.reduce(value, [0], "sum", keepdims=False))

    def step(_: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        doubled = b.map(lambda v: v * 2, now[2])
        return [small(doubled), b.map(lambda v: v + 1, now[1]), doubled], []

    initial = [small(x), b.constant(np.array(0, np.int64)), x]
    finals, _ = scan(b, 2**62, step, initial, conditional=True)
    given, times = np.array([1, 2, 3, 1], np.float32), 4
    return b.program(finals[1:]), [given], [np.array(times), given * 2**times]


def _never() -> Made:
    """No step: the carried values stay, and results have no elements."""
    b = Builder()
    x, y = b.input((0, 2), "float32"), b.input((2,), "float32")

    def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        total = b.map(lambda u, v: u + v, now[0], parts[0])
        return [total], [total]

    finals, wholes = scan(b, 0, step, [y], [x])
    given = np.array([5, 6], np.float32)
    return b.program([*finals, *wholes]), [np.zeros((0, 2), np.float32), given], [given, np.zeros((0, 2), np.float32)]


def _nested() -> Made:
    """For each row, the powers of a matrix times it: the inner scan reads what the outer one carries and is given."""
    b = Builder()
    x, weights = b.input((3, 4), "float32"), b.input((4, 4), "float32")

    def times(v: Tensor) -> Tensor:
        return b.compute((4,), lambda i, k: weights[i, k] * v[k], [4], "sum")

    def outer(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        def inner(_: list[Tensor], state: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            following = b.map(lambda u, v, w: u + v + w, times(state[0]), parts[0], now[0])
            return [following], [following]

        (last,), (every,) = scan(b, 2, inner, [parts[0]])
        return [last], [every]

    finals, wholes = scan(b, 3, outer, [b.constant(np.ones(4, np.float32))], [x])
    rng = np.random.default_rng(1)
    given, matrix = rng.integers(-2, 3, (3, 4)).astype(np.float32), rng.integers(-1, 2, (4, 4)).astype(np.float32)
    carried, rows = np.ones(4, np.float32), []
    for row in given:
        state, every = row, []
        for _ in range(2):
            state = matrix @ state + row + carried
            every.append(state)
        carried = state
        rows.append(every)
    return b.program([*finals, *wholes]), [given, matrix], [carried, np.array(rows)]


def _product() -> Made:
    """A large recurrent product: packed operands, and what depends on no step is made before them."""
    b = Builder()
    x, weights, start = b.input((6, 8, 48), "float32"), b.input((48, 48), "float32"), b.input((8, 48), "float32")

    def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        product = b.compute((8, 48), lambda n, j, k: now[0][n, k] * weights[j, k], [48], "sum")
        following = b.map(lambda u, v: (u + v) * 0.25, product, parts[0])
        return [following], [following]

    finals, wholes = scan(b, 6, step, [start], [x])
    rng = np.random.default_rng(2)
    arrays = [rng.integers(-2, 3, shape).astype(np.float32) for shape in ((6, 8, 48), (48, 48), (8, 48))]
    arrays[1] /= 8
    state, rows = arrays[2], []
    for row in arrays[0]:
        state = (state @ arrays[1].T + row) * np.float32(0.25)
        rows.append(state)
    return b.program([*finals, *wholes]), arrays, [state, np.array(rows)]


MADE: dict[str, Callable[[], Made]] = {
    "backwards": _backwards,
    "nested": _nested,
    "never": _never,
    "product": _product,
    "sums": _sums,
    "swapped": _swapped,
    "while": _while,
}


@pytest.mark.parametrize("name", sorted(MADE))
def test_every_engine_gives_what_numpy_gives(name):
    program, inputs, expected = MADE[name]()
    for each in (program, compose(program)):
        assert validate(each) == []
        for engine in (execute, interpret):
            assert_close(run(each, inputs, engine), expected)


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_text_says_what_runs(name):
    program, inputs, expected = MADE[name]()
    text = nest.render(compose(program))
    kernel = nest_parser.parse(text)
    assert nest_parser.show(kernel) == text
    assert_close(nest_interpreter.run(kernel, inputs, compose(program).constants), expected)


@pytest.mark.parametrize("name", sorted(MADE))
def test_json_round_trip(name):
    program, inputs, expected = MADE[name]()
    data = serialize.to_json(compose(program))
    again = serialize.from_json(data)
    assert serialize.to_json(again) == data
    assert_close(run(again, inputs), expected)


def test_in_c():
    need_compiler()
    made = {name: MADE[name]() for name in sorted(MADE)}
    sources = [emit(compose(program), f"made_{name}") for name, (program, _, _) in made.items()]
    sources += [
        emit(program, f"plain_{name}", constants=[1])
        for name, (program, _, _) in made.items()
        if len(program.inputs) > 1
    ]
    library = build(sources)
    for source in sources:
        _, inputs, expected = made[source.symbol.partition("_")[2]]
        for _ in range(2):
            assert_same(run_c(library, source.symbol, inputs, expected), expected)


def test_what_depends_on_no_step_is_packed_once():
    program, _, _ = _product()
    source = emit(compose(program), "k")
    before, _, loop = source.entry.partition("for (int64_t s0")
    packing = [name for name, code in source.functions if "packed */" in code]
    assert packing
    weights = [name for name in packing if f"{name}(" in before or f"re_parallel({name}" in before]
    assert weights, "the weights are packed before the first step"
    assert not any(f"{name}(" in loop or f"re_parallel({name}" in loop for name in weights)
    once = emit(compose(program), "k", constants=[1])
    assert once.packed and not any(f"{name}(" in once.entry.partition("k_packed(")[2] for name in weights)


def test_carried_values_count_twice_in_the_workspace():
    program, _, _ = _swapped()
    assert workspace_bytes(program) >= 4 * 64


def test_a_carried_value_keeps_its_type():
    b = Builder()
    x = b.input((3,), "float32")
    with pytest.raises(Unsupported, match=r"a carried value is float32\[3\], a step makes float32\[1\] of it"):
        scan(b, 2, lambda _, now: ([b.reduce(now[0], [0], "sum")], []), [x])


def test_nothing_is_stacked_beside_a_condition():
    b = Builder()
    flag = b.input((), "bool")
    with pytest.raises(ValueError, match="nothing is stacked beside it"):
        scan(b, 2, lambda _, now: ([now[0]], [now[0]]), [flag], conditional=True)


def _broken(change: Callable[[Scan], Scan]) -> Program:
    program, _, _ = _sums()
    statements = tuple(change(s) if isinstance(s, Scan) else s for s in program.statements)
    return replace(program, statements=statements)


BREAKS: dict[str, tuple[Callable[[Scan], Scan], str]] = {
    "a result of the wrong size": (lambda s: replace(s, step=replace(s.step, extent=4)), "is no element of"),
    "nothing computes what is carried": (lambda s: replace(s, statements=()), "which none of its statements computes"),
    "an unknown tensor": (
        lambda s: replace(s, carried=(replace(s.carried[0], initial="strange"),)),
        "which the program does not declare",
    ),
    "handed on twice": (lambda s: replace(s, stacked=(*s.stacked, *s.stacked)), "hands on one tensor twice"),
    "a type that changes": (
        lambda s: replace(s, carried=(replace(s.carried[0], initial="x0"),)),
        "is not as",
    ),
    "a condition that is no bool": (lambda s: replace(s, conditional=True), "is no bool"),
    "given what is there already": (
        lambda s: replace(s, sliced=(replace(s.sliced[0], part="x0"),)),
        "a step is given x0, which is written already",
    ),
}


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_the_validator_finds(name):
    change, message = BREAKS[name]
    assert any(message in str(fault) for fault in validate(_broken(change)))


def test_nothing_outside_reads_what_a_step_computes():
    program, _, _ = _sums()
    inner = next(s for s in program.statements if isinstance(s, Scan)).wanted[0]
    faults = validate(replace(program, outputs=(inner,)))
    assert any("is an output that no statement writes" in str(fault) for fault in faults)


def test_long_running_sums_are_scans():
    need_compiler()
    rng = np.random.default_rng(0)
    programs = []
    for shape, axis in (((200,), 0), ((40, 50), 0), ((40, 50), 1), ((7, 60, 9), 1)):
        for dtype in ("float32", "float64", "int32", "int64"):
            for exclusive, reverse in itertools.product((0, 1), (0, 1)):
                x = rng.integers(-9, 9, shape).astype(dtype)
                attributes = {"exclusive": exclusive, "reverse": reverse}
                program, inputs = node("CumSum", x, np.array(axis), attributes=attributes)
                assert any(isinstance(s, Scan) for s in program.statements)
                rows = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
                sums = rows.cumsum(0, dtype=dtype) - (rows if exclusive else 0)
                assert_close(run(program, inputs), [np.moveaxis(sums[:: -1 if reverse else 1], 0, axis)])
                programs.append((program, inputs))
    check(programs)


def test_short_running_sums_are_one_statement():
    program, _ = node("CumSum", np.ones((4, 5), np.float32), np.array(0))
    assert len(program.statements) == 1
