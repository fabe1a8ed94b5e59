"""The loop nests of a program as text: buffers, loops, guards, accumulators, epilogues; the same text every time.

`nest_parser` reads the text back, `nest_interpreter` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rewrite_engine.loops.checks import Check
from rewrite_engine.loops.compute import Buffer, Compute, Host, Iter, Program, Scan, Slice, Statement, walk
from rewrite_engine.loops.dtypes import identity
from rewrite_engine.loops.expr import Expr, accumulator, const, postorder
from rewrite_engine.loops.group import Group
from rewrite_engine.loops.schedule import scheduled
from rewrite_engine.loops.text import text

UPDATES = {"sum": "{0} += {1}", "prod": "{0} *= {1}", "max": "{0} = max({0}, {1})", "min": "{0} = min({0}, {1})",
           "and": "{0} &= {1}", "or": "{0} |= {1}", "set": "{0} = {1}"}  # fmt: skip
"""How a value joins what is there, by combine."""


@dataclass(frozen=True, slots=True)
class Line:
    """One statement of the innermost loop that encloses it."""

    text: str


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over an iterator; iterations of a parallel one may run in any order, of a serial one must not."""

    iterator: Iter
    kind: str  # "parallel" | "reduction" | "serial"
    body: tuple[Line | Loop | Guard, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """Statements that run where a condition holds."""

    condition: str
    body: tuple[Line | Loop | Guard, ...]


Node = Line | Loop | Guard


def render(program: Program) -> str:
    """The program's nests: buffers with types and shapes, then one nest per statement, ending with a newline."""
    lines = ["kernel"]
    groups = (
        ("input", program.inputs),
        ("constant", tuple(program.constants)),
        ("output", program.outputs),
        ("temporary", tuple(name for name in _written(program.statements) if name not in program.outputs)),
    )
    for role, names in groups:
        lines += [f"  {role} {name}: {_type(program.tensors[name])}" for name in names]
    for statement in scheduled(program.statements, program.tensors, program.wanted):
        lines += ["", *(f"  {line}" for line in lines_of(_nodes(program, statement)))]
    return "\n".join(lines) + "\n"


def _written(statements: Sequence[Statement]) -> Iterator[str]:
    """What statements write, and what a step of a scan is given."""
    for statement in walk(statements):
        yield from statement.outputs
        if isinstance(statement, Scan):
            yield from (piece.part for piece in statement.sliced)
            yield from (carry.now for carry in statement.carried)


def _nodes(program: Program, statement: Statement | Group) -> tuple[Node, ...]:
    """A statement and its check, or the statements of a group in the loops that they share."""
    if isinstance(statement, Scan):
        return _scan(program, statement)
    if isinstance(statement, Group):
        body: tuple[Node, ...] = tuple(node for inner in statement.statements for node in nest(inner))
        for it in reversed(statement.shared):
            body = (Loop(it, "parallel", body),)
        return body
    nodes = nest(statement) if isinstance(statement, Compute) else (Line(_host(statement)),)
    check = program.checked.get(statement.outputs[0])
    return nodes if check is None else (*nodes, Line(_check(check)))


def _scan(program: Program, scan: Scan) -> tuple[Node, ...]:
    """A serial loop over steps, between copies of what is carried."""
    before = [Line(f"{carry.now} = copy of {carry.initial}") for carry in scan.carried]
    stop = [Line(f"stop unless {scan.carried[0].now}")] if scan.conditional else []
    given = [Line(f"{piece.part} = element {_position(scan, piece)} of {piece.whole}") for piece in scan.sliced]
    inner = scheduled(scan.statements, program.tensors, (*program.wanted, *scan.wanted))
    body = [node for statement in inner for node in _nodes(program, statement)]
    handed = [Line(f"element {_position(scan, piece)} of {piece.whole} = {piece.part}") for piece in scan.stacked]
    following = [Line(f"{carry.now} = copy of {carry.following}") for carry in scan.carried]
    after = [Line(f"{carry.final} = copy of {carry.now}") for carry in scan.carried]
    loop = Loop(scan.step, "serial", (*stop, *given, *body, *handed, *following))
    return (*before, loop, *after)


def _position(scan: Scan, piece: Slice) -> str:
    return f"{scan.count - 1} - {scan.step.name}" if piece.backwards else scan.step.name


def nest(compute: Compute) -> tuple[Node, ...]:
    """One compute as a tree of loops. Shared subexpressions are bound in the loop of their innermost iterator."""
    outer = [it for it in compute.parallel if it.extent != 1]
    inner = [it for it in compute.reduction if it.extent != 1]
    names: dict[Expr, str] = {}
    levels = _bindings((compute.body, *compute.index), outer + inner, names, "v")
    cell = f"{compute.out}[{', '.join(text(index, names) for index in compute.index)}]"
    if compute.init is not None:
        assert compute.combine is not None
        update = Line(UPDATES[compute.combine].format(cell, _named(compute.body, names)))
        return (Line(f"{compute.out} = copy of {compute.init}"), *_loops(outer, "serial", levels, (update,)))
    if compute.combine is None:
        return _loops(outer, "parallel", levels, (Line(f"{cell} = {_named(compute.body, names)}"),))
    dtype = compute.body.dtype
    first = identity(compute.combine, dtype)
    start = Line(f"acc: {dtype} = {text(const(first, dtype))}")
    update_nodes = _guarded_update(compute, names, first)
    reduced = _loops(inner, "reduction", levels[len(outer) :], update_nodes, skip=True)
    post = accumulator(dtype) if compute.post is None else compute.post
    after: list[Node] = [line for level in _bindings((post,), outer, names, "w") for line in level]
    store = Line(f"{cell} = {_named(post, names)}")
    return _loops(outer, "parallel", levels, (start, *reduced, *after, store))


def _guarded_update(compute: Compute, names: dict[Expr, str], first: bool | int | float) -> tuple[Node, ...]:
    """acc joined with select(p, x, identity) => under the guard p, acc joined with x."""
    assert compute.combine is not None
    body = compute.body
    if body.op == "select" and body.args[2] is const(first, body.dtype):
        update = Line(UPDATES[compute.combine].format("acc", _named(body.args[1], names)))
        return (Guard(_named(body.args[0], names), (update,)),)
    return (Line(UPDATES[compute.combine].format("acc", _named(body, names))),)


def _loops(
    iters: Sequence[Iter], kind: str, levels: Sequence[Sequence[Line]], innermost: tuple[Node, ...], skip: bool = False
) -> tuple[Node, ...]:
    """Nested loops around `innermost`; `levels` holds what is bound outside of all loops and inside of each."""
    body = innermost
    for depth in range(len(iters), -1, -1):
        bound = () if skip and depth == 0 else tuple(levels[depth])
        body = (*bound, *body)
        if depth:
            body = (Loop(iters[depth - 1], kind, body),)
    return body


def _bindings(roots: Sequence[Expr], iters: Sequence[Iter], names: dict[Expr, str], prefix: str) -> list[list[Line]]:
    """Lines that bind the shared subexpressions of `roots`, by depth of loop (0 is outside); adds to `names`."""
    depth = {it.expr: position for position, it in enumerate(iters, 1)}
    uses: dict[Expr, int] = {}
    for node in postorder(*roots):
        for arg in node.args:
            uses[arg] = uses.get(arg, 0) + 1
    levels: list[list[Line]] = [[] for _ in range(len(iters) + 1)]
    for node in postorder(*roots):
        if uses.get(node, 0) < 2 or node.op in ("const", "var", "acc", "lin") or node in names:
            continue
        label = f"{prefix}{sum(1 for name in names.values() if name.startswith(prefix))}"
        level = max((depth[v] for v in node.variables if v in depth), default=0)
        levels[level].append(Line(f"let {label}: {node.dtype} = {text(node, names)}"))
        names[node] = label
    return levels


def _named(node: Expr, names: dict[Expr, str]) -> str:
    return names.get(node) or text(node, names)


def _type(buffer: Buffer) -> str:
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def _check(check: Check) -> str:
    return f"check {check.tensor}: {check.operator}, operand {check.operand}, {check.low} to {check.high}"


def _host(statement: Host) -> str:
    attributes = ", ".join(f"{name}={value}" for name, value in sorted(statement.attributes.items()))
    return f"{', '.join(statement.outputs)} = host {statement.name}({', '.join(statement.inputs)}; {attributes})"


def lines_of(nodes: Sequence[Node]) -> Iterator[str]:
    """The lines of a nest, indented by two spaces a level."""
    for node in nodes:
        if isinstance(node, Line):
            yield node.text
        elif isinstance(node, Guard):
            yield f"if {node.condition}:"
            yield from (f"  {line}" for line in lines_of(node.body))
        else:
            yield f"{node.kind} {node.iterator.name} in 0..{node.iterator.extent}:"
            yield from (f"  {line}" for line in lines_of(node.body))
