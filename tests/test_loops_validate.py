"""The validator: no fault in what the engine makes, and a fault of the right kind in what was broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import onnx_node_cases
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from loops_programs import MOVEMENTS, programs

from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Buffer, Compute, Iter, Program
from rewrite_engine.loops.expr import add, const, load, loads, select, substitute, var
from rewrite_engine.loops.validate import validate


@settings(max_examples=120, deadline=None)
@given(st.one_of(programs(), programs(kinds=MOVEMENTS)))
def test_programs_are_sound_as_built_and_composed(program: Program) -> None:
    assert not validate(program)
    assert not validate(compose(program))


def with_statement(program: Program, position: int, statement: Compute) -> Program:
    statements = [*program.statements]
    statements[position] = statement
    return replace(program, statements=tuple(statements))


def chosen(draw: st.DrawFn, program: Program) -> tuple[int, Compute]:
    """A statement that writes each of several elements once."""
    computes = [
        (k, s)
        for k, s in enumerate(program.statements)
        if isinstance(s, Compute) and s.init is None and program.tensors[s.out].size > 1
    ]
    assume(computes)
    return draw(st.sampled_from(computes))


@st.composite
def moved_write(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """One index of a write by one."""
    position, compute = chosen(draw, program)
    axis = draw(st.integers(0, len(compute.index) - 1))
    step = draw(st.sampled_from((-1, 1)))
    index = tuple(add(i, step) if a == axis else i for a, i in enumerate(compute.index))
    return with_statement(program, position, replace(compute, index=index)), {"bounds"}


@st.composite
def longer_loop(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """One iteration more than there are elements."""
    position, compute = chosen(draw, program)
    old = draw(st.sampled_from([it for it in compute.parallel if it.extent > 1]))
    new = Iter(old.name, old.extent + 1)
    swap = {old.expr: new.expr}
    changed = replace(
        compute,
        iters=tuple(new if it is old else it for it in compute.iters),
        index=tuple(substitute(i, swap) for i in compute.index),
        body=substitute(compute.body, swap),
        post=None if compute.post is None else substitute(compute.post, swap),
    )
    return with_statement(program, position, changed), {"bounds", "race"}


@st.composite
def constant_write(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """All iterations of a loop write one element."""
    position, compute = chosen(draw, program)
    axes = [a for a, i in enumerate(compute.index) if i.variables]
    axis = draw(st.sampled_from(axes))
    index = tuple(const(0, "index") if a == axis else i for a, i in enumerate(compute.index))
    return with_statement(program, position, replace(compute, index=index)), {"race"}


@st.composite
def moved_read(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """A read that no condition guards, beyond the end of its tensor."""
    position, compute = chosen(draw, program)
    found = [n for n in loads(compute.body) if n.args and not any(loads(i) for i in n.args)]
    assume(found and not any(n.op == "select" for n in _nodes(compute.body)))
    node = draw(st.sampled_from(found))
    assume(program.tensors[node.name].size and all(it.extent for it in compute.iters))
    axis = draw(st.integers(0, len(node.args) - 1))
    beyond = program.tensors[node.name].shape[axis]
    other = load(node.name, [add(i, beyond) if a == axis else i for a, i in enumerate(node.args)], node.dtype)
    changed = replace(compute, body=substitute(compute.body, {node: other}))
    return with_statement(program, position, changed), {"bounds"}


def _nodes(root):
    from rewrite_engine.loops.expr import postorder

    return list(postorder(root))


@st.composite
def dropped(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """A statement less."""
    position = draw(st.integers(0, len(program.statements) - 1))
    kept = tuple(s for k, s in enumerate(program.statements) if k != position)
    return replace(program, statements=kept), {"order", "written"}


@st.composite
def turned(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """The last statement first."""
    draw(st.none())
    last = program.statements[-1]
    assume({name for s in program.statements[:-1] for name in s.outputs} & set(last.reads))
    return replace(program, statements=(last, *program.statements[:-1])), {"order"}


@st.composite
def written_twice(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """A statement twice."""
    statement = draw(st.sampled_from(program.statements))
    return replace(program, statements=(*program.statements, statement)), {"written"}


@st.composite
def other_dtype(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """A tensor of another dtype than what is written to it."""
    _, compute = chosen(draw, program)
    shape, dtype = program.tensors[compute.out]
    tensors = {**program.tensors, compute.out: Buffer(shape, "int8" if dtype != "int8" else "float32")}
    return replace(program, tensors=tensors), {"type"}


@st.composite
def strange_iterator(draw: st.DrawFn, program: Program) -> tuple[Program, set[str]]:
    """An iterator that no loop of the statement has."""
    position, compute = chosen(draw, program)
    axes = [a for a, i in enumerate(compute.index) if i.variables]
    axis = draw(st.sampled_from(axes))
    index = tuple(var("nowhere", 7) if a == axis else i for a, i in enumerate(compute.index))
    return with_statement(program, position, replace(compute, index=index)), {"name"}


FAULTS = (
    moved_write,
    longer_loop,
    constant_write,
    moved_read,
    dropped,
    turned,
    written_twice,
    other_dtype,
    strange_iterator,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_seeded_fault_is_found(fault) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def found(data: st.DataObject) -> None:
        program = data.draw(programs())
        program = compose(program) if data.draw(st.booleans()) else program
        assume(program.statements)
        broken, kinds = data.draw(fault(program))
        assert kinds & {f.kind for f in validate(broken)}, (kinds, validate(broken))

    found()


def guarded(low: int, high: int) -> Program:
    """A window of three whose border is guarded by low <= i + r - 1 < high."""
    builder = Builder()
    x = builder.input((4,), "float32")

    def element(i, r):
        at = i + r - 1
        inside = (const(low, "index") <= at) & (at < const(high, "index"))
        return select(inside, x[at], 0.0)

    return builder.program([builder.compute((4,), element, [3], "sum")])


def test_guards_count() -> None:
    assert not validate(guarded(0, 4))
    for low, high in ((-1, 4), (0, 5)):
        (fault,) = validate(guarded(low, high))
        assert fault.kind == "bounds" and "leaves 0..3" in str(fault)


def test_programs_of_node_tests_are_sound() -> None:
    checked = 0
    for case in onnx_node_cases.all_cases()[::24]:
        try:
            made, _ = onnx_node_cases.NumpyBackend.prepare(case.model).specialised(case.data_sets[0][0])
        except onnx_node_cases.RewriteError:
            continue
        for program in (made.plain, made.program):
            assert not validate(program), case.name
            checked += 1
    assert checked > 120
