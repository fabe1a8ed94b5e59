"""Proof that a program is sound: every value written before it is read, every element written once, nothing outside.

In: a program. Out: its problems, none for a sound one. Indices are judged by their intervals over the iterators, with
the conditions that guard them; where that does not decide, by trying every point. An index that is read from data, or
guarded by data, is clipped to its tensor by every executor and is no problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.loops.arithmetic import OPERATIONS, apply, convert, element
from rewrite_engine.loops.compute import Buffer, Compute, Host, Iter, Program, Scan, Statement
from rewrite_engine.loops.dtypes import INDEX
from rewrite_engine.loops.expr import Expr, const, loads, postorder
from rewrite_engine.loops.index import bounds, flatten, subtract, terms

MOST_POINTS = 1 << 20
"""An index that intervals do not decide is tried on at most so many points."""

Facts = tuple[Expr, ...]
"""Indices that are at least 0 where an expression is evaluated."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem: its kind ("order", "written", "bounds", "race", "name", "type"), the statement's output, a line."""

    kind: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def validate(program: Program) -> list[Fault]:
    """Every fault of a program, in the order of its statements."""
    return list(_faults(program))


def _faults(program: Program) -> Iterator[Fault]:
    known = {*program.inputs, *program.constants}
    written: set[str] = set()
    for name, array in program.constants.items():
        if tuple(array.shape) != program.tensors[name].shape:
            yield Fault("type", name, f"the constant has shape {list(array.shape)}, expected {_shown(program, name)}")
    yield from _sequence(program, program.statements, known, written)
    for name in program.outputs:
        if name not in written or name not in known:  # what a scan's steps write, nothing outside sees
            yield Fault("written", name, "is an output that no statement writes")


def _sequence(program: Program, statements: Sequence[Statement], known: set[str], written: set[str]) -> Iterator[Fault]:
    """The faults of statements in order; what they write is added to `known` (readable after them) and `written`."""
    for statement in statements:
        where = next(iter(statement.outputs), "scan")
        declared = True
        for name in (*statement.reads, *statement.outputs):
            if name not in program.tensors:
                yield Fault("name", where, f"names {name}, which the program does not declare")
                declared = False
        for name in statement.reads:
            if name in program.tensors and name not in known:
                yield Fault("order", where, f"reads {name} before anything writes it")
        for name in statement.outputs:
            if name in known or name in written:
                yield Fault("written", where, f"writes {name}, which is written already")
            written.add(name)
        if isinstance(statement, Compute) and declared:
            yield from _compute(program, statement)
        elif isinstance(statement, Scan) and declared:
            yield from _scan(program, statement, known, written)
        elif isinstance(statement, Host) and not statement.outputs:
            yield Fault("name", statement.name, "a host operator without a result")
        known.update(statement.outputs)


def _scan(program: Program, scan: Scan, known: set[str], written: set[str]) -> Iterator[Fault]:
    """A step reads what is there before it, computes all that it hands on, and every type fits."""
    where = next(iter(scan.outputs), "scan")
    given = [*(piece.part for piece in scan.sliced), *(carry.now for carry in scan.carried)]
    strange = [name for name in (*given, *scan.wanted) if name not in program.tensors]
    if strange:
        yield Fault("name", where, f"names {strange[0]}, which the program does not declare")
        return
    for name in given:
        if name in known or name in written:
            yield Fault("written", where, f"a step is given {name}, which is written already")
        written.add(name)
    inner = {*known, *given}
    yield from _sequence(program, scan.statements, inner, written)
    made = {name for statement in scan.statements for name in statement.outputs}
    for name in scan.wanted:
        if name not in made:
            yield Fault("written", where, f"a step hands on {name}, which none of its statements computes")
    for names in ([carry.following for carry in scan.carried], [piece.part for piece in scan.stacked]):
        if len({*names}) != len(names):
            yield Fault("race", where, "a step hands on one tensor twice")
    for piece in (*scan.sliced, *scan.stacked):
        part, whole = program.tensors[piece.part], program.tensors[piece.whole]
        if whole != Buffer((scan.count, *part.shape), part.dtype):
            yield Fault("type", where, f"{_shown(program, piece.part)} is no element of {_shown(program, piece.whole)}")
    for carry in scan.carried:
        for name in (carry.initial, carry.following, carry.final):
            if program.tensors[name] != program.tensors[carry.now]:
                yield Fault("type", where, f"{_shown(program, name)} is not as {_shown(program, carry.now)} is")
    if scan.conditional and (not scan.carried or program.tensors[scan.carried[0].now] != Buffer((), "bool")):
        yield Fault("type", where, "its condition, the first carried value, is no bool")
    if scan.conditional and scan.stacked:
        yield Fault("written", where, f"some of {scan.stacked[0].whole} stays unwritten where a condition ends it")


def _compute(program: Program, compute: Compute) -> Iterator[Fault]:
    where, out = compute.out, program.tensors[compute.out]
    names = [it.name for it in compute.iters]
    if len(set(names)) != len(names):
        yield Fault("name", where, f"two iterators have one name among {', '.join(names)}")
    own = {it.expr for it in compute.iters}
    outer = {it.expr for it in compute.parallel}
    for root, allowed in ((compute.body, own), (compute.post, outer), *((index, outer) for index in compute.index)):
        strange = [] if root is None else [v.name for v in postorder(root) if v.op == "var" and v not in allowed]
        if strange:
            yield Fault("name", where, f"uses {strange[0]}, which is no iterator there")
            return
    if len(compute.index) != len(out.shape):
        yield Fault("type", where, f"writes with {len(compute.index)} indices, the tensor has {len(out.shape)} axes")
        return
    result = compute.body.dtype if compute.post is None else compute.post.dtype
    if result not in (out.dtype, INDEX if out.dtype == "int64" else out.dtype):
        yield Fault("type", where, f"writes {result}, the tensor holds {out.dtype}")
    for node in loads(*compute.roots):
        buffer = program.tensors[node.name]
        if len(node.args) != len(buffer.shape) or node.dtype != buffer.dtype:
            yield Fault("type", where, f"reads {node}, expected {_shown(program, node.name)}")
            return
    if any(it.extent == 0 for it in compute.parallel):
        if math.prod(out.shape) and compute.init is None:
            yield Fault("written", where, f"writes no element of {_shown(program, where)}")
        return
    if compute.init is None:
        yield from _writes(program, compute)
    elif program.tensors[compute.init] != out:
        yield Fault("type", where, f"starts from {_shown(program, compute.init)}, expected {_shown(program, where)}")
    if not any(it.extent == 0 for it in compute.reduction):
        yield from _reads(program, compute, compute.body, compute.iters)
    for root in (*(() if compute.post is None else (compute.post,)), *compute.index):
        yield from _reads(program, compute, root, compute.parallel)


def _writes(program: Program, compute: Compute) -> Iterator[Fault]:
    """Every element once: no two iterations of a parallel loop meet, and nothing stays as it was."""
    where, shape = compute.out, program.tensors[compute.out].shape
    if any(loads(index) for index in compute.index):
        yield Fault("race", where, "its index is read from data, so that two iterations may write one element")
        return
    for index, extent in zip(compute.index, shape, strict=True):
        if _outside(index, extent, (), compute.parallel):
            yield Fault("bounds", where, f"writes at {index}, outside of 0..{extent - 1}")
            return
    points = math.prod(it.extent for it in compute.parallel)
    if points > math.prod(shape):
        yield Fault("race", where, f"{points} iterations write {math.prod(shape)} elements")
    elif points < math.prod(shape):
        yield Fault("written", where, f"{points} iterations write {math.prod(shape)} elements: some stay unwritten")
    elif not _one_to_one(flatten(compute.index, shape), compute.parallel):
        yield Fault("race", where, "two iterations write one element, and another stays unwritten")


def _one_to_one(position: Expr, iters: Sequence[Iter]) -> bool:
    """Whether no two points have one position: each stride reaches over all that smaller ones make, or by trying."""
    _, coefficients = terms(position)
    strides = sorted((abs(coefficients.get(it.expr, 0)), it.extent) for it in iters if it.extent > 1)
    if coefficients.keys() <= {it.expr for it in iters}:
        reach, apart = 0, True
        for stride, extent in strides:
            apart = apart and stride > reach
            reach += stride * (extent - 1)
        if apart:
            return True
    values = _every(position, iters)
    return values is not None and len(np.unique(values)) == values.size


def _reads(program: Program, compute: Compute, root: Expr, iters: Sequence[Iter]) -> Iterator[Fault]:
    for node, facts in _guarded_loads(root):
        shape = program.tensors[node.name].shape
        for index, extent in zip(node.args, shape, strict=True):
            if facts is not None and not loads(index) and extent and _outside(index, extent, facts, iters):
                yield Fault("bounds", compute.out, f"reads {node}, where {index} leaves 0..{extent - 1}")
                break


def _guarded_loads(root: Expr) -> Iterator[tuple[Expr, Facts | None]]:
    """Each load with what is known where its value is used; None where data decides."""
    pending: list[tuple[Expr, Facts | None]] = [(root, ())]
    seen: set[tuple[Expr, Facts | None]] = set()
    while pending:
        node, facts = entry = pending.pop()
        if entry in seen:
            continue
        seen.add(entry)
        if node.op == "load":
            yield entry
        if node.op == "select":
            condition, then, otherwise = node.args
            data = bool(loads(condition)) or any(n.op == "acc" for n in postorder(condition))
            pending.append((condition, facts))
            for branch, holds in ((then, True), (otherwise, False)):
                pending.append((branch, None if facts is None or data else (*facts, *_facts(condition, holds))))
        elif node.op in ("and", "or"):  # each part counts where those beside it let it
            for part in node.args:
                beside = [other for other in node.args if other is not part and not loads(other)]
                known = tuple(fact for other in beside for fact in _facts(other, node.op == "and"))
                pending.append((part, None if facts is None else (*facts, *known)))
        else:
            pending += [(arg, facts) for arg in node.args]


def _facts(condition: Expr, holds: bool) -> Facts:
    """Indices that are at least 0 where the condition holds (or does not)."""
    if condition.op == ("and" if holds else "or"):
        return tuple(fact for part in condition.args for fact in _facts(part, holds))
    if condition.op == "not":
        return _facts(condition.args[0], not holds)
    if condition.op not in ("lt", "le", "eq") or condition.args[0].dtype != INDEX:
        return ()
    a, b = condition.args
    if condition.op == "eq":
        return (subtract(a, b), subtract(b, a)) if holds else ()
    low, high = (a, b) if holds else (b, a)
    strict = (condition.op == "lt") == holds
    return (subtract(subtract(high, low), const(int(strict), INDEX)),)


def _outside(index: Expr, extent: int, facts: Facts, iters: Sequence[Iter]) -> bool:
    """Whether the index may leave 0 .. extent - 1 where the facts hold."""
    last = subtract(const(extent - 1, INDEX), index)
    if all(_at_least_zero(each, facts) for each in (index, last)):
        return False
    values = _every(index, iters)
    if values is None:
        return True
    here = np.ones(values.shape, bool)
    for fact in facts:
        known = None if loads(fact) else _every(fact, iters)
        if known is not None:
            here &= known >= 0
    return bool(np.any(here & ((values < 0) | (values >= extent))))


def _at_least_zero(index: Expr, facts: Facts) -> bool:
    return bounds(index)[0] >= 0 or any(bounds(subtract(index, fact))[0] >= 0 for fact in facts)


def _every(index: Expr, iters: Sequence[Iter]) -> np.ndarray[Any, Any] | None:
    """The index at every point of the iterators; None where these are too many, or where it hangs on anything else."""
    axes = [it for it in iters if it.extent != 1]
    if math.prod(it.extent for it in axes) > MOST_POINTS:
        return None
    grids = np.meshgrid(*(np.arange(it.extent) for it in axes), indexing="ij", sparse=True)
    done: dict[Expr, np.ndarray[Any, Any]] = dict(zip((it.expr for it in axes), grids, strict=True))
    for node in postorder(index):
        if node in done:
            continue
        args = [done[arg] for arg in node.args]
        if node.op == "const":
            done[node] = element(node.value, node.dtype)
        elif node.op == "lin":
            assert isinstance(node.value, tuple)
            constant, coefficients = node.value
            done[node] = np.asarray(constant + sum(k * arg for k, arg in zip(coefficients, args, strict=True)))
        elif node.op == "fdiv":
            done[node] = np.asarray(args[0] // node.value)
        elif node.op == "cast":
            done[node] = convert(args[0], node.dtype)
        elif node.op in OPERATIONS:
            done[node] = apply(node.op, args, node.dtype)
        else:
            return None
    return np.broadcast_to(done[index], [it.extent for it in axes])


def _shown(program: Program, name: str) -> str:
    shape, dtype = program.tensors[name]
    return f"{name}: {dtype}{list(shape)}"
