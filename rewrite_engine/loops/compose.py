"""Fewer computes for the same numbers: movement and pointwise work go into their readers, epilogues into reductions.

In order: constants of one element, then producers into readers (statement by statement, each visited once), then
epilogues, then iterators split where quotients of them are left, then epilogues again. A fused program rounds wherever
the unfused one does, and only the order of sums may differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rewrite_engine.loops.checks import IN_RANGE
from rewrite_engine.loops.compute import (
    Compute,
    Program,
    Scan,
    Statement,
    names_of,
    needed,
    readers,
    substitution,
    walk,
)
from rewrite_engine.loops.contraction import contraction, is_windowed
from rewrite_engine.loops.dtypes import is_float
from rewrite_engine.loops.expr import Expr, accumulator, const, loads, postorder, substitute
from rewrite_engine.loops.index import flatten, terms
from rewrite_engine.loops.split import split_iterators

LARGEST_BODY = 96
"""Nodes of a body beyond which nothing more is inlined into it."""

HEAVY = frozenset(
    {"exp", "erf", "tanh", "log", "log1p", "pow", "sqrt", "div", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos",
     "atan", "asinh", "acosh", "atanh", "atan2"}
)  # fmt: skip
"""Operations that are not repeated to save a tensor."""


MOST_REPEATS = 2
"""How often, on average, heavy or reduced work may be evaluated per element (a border around a tensor repeats some)."""


def compose(program: Program) -> Program:
    """The same inputs, outputs and numbers with fewer statements and temporaries."""
    numbers = {name: array for name, array in program.constants.items() if array.size == 1}
    return with_statements(program, _composed(program.statements, program.wanted, numbers))


def _composed(
    statements: Sequence[Statement], outputs: Sequence[str], numbers: Mapping[str, np.ndarray]
) -> list[Statement]:
    """Fewer statements for the same `outputs`, those of a scan among themselves."""
    statements = list(needed(_fold_constants(statements, numbers), outputs))
    statements = list(needed(_inline(statements, frozenset(outputs)), outputs))
    statements = _epilogues(statements, outputs)
    statements = [split_iterators(s) if isinstance(s, Compute) else s for s in statements]
    statements = _epilogues(statements, outputs)
    return [
        replace(s, statements=tuple(_composed(s.statements, (*s.wanted, *outputs), numbers)))
        if isinstance(s, Scan)
        else s
        for s in statements
    ]


def with_statements(program: Program, statements: Sequence[Statement]) -> Program:
    """The program with other statements, without those and the tensors that its outputs do not need."""
    passed = {
        s.out for s in walk(statements) if isinstance(s, Compute) and s.body.op == "const" and s.body.value == IN_RANGE
    }
    checks = tuple(check for check in program.checks if check.tensor not in passed)
    kept = tuple(needed(statements, (*program.outputs, *(check.tensor for check in checks))))
    used = {*program.inputs, *program.outputs, *names_of(kept)}
    tensors = {name: buffer for name, buffer in program.tensors.items() if name in used}
    constants = {name: array for name, array in program.constants.items() if name in used}
    return Program(program.inputs, program.outputs, tensors, constants, kept, checks)


def is_movement(body: Expr) -> bool:
    """Whether a body only places elements: loads, constants, and selects between them on index conditions."""
    stack = [body]
    while stack:
        node = stack.pop()
        if node.op == "select" and not loads(node.args[0]):
            stack.extend(node.args[1:])
        elif node.op not in ("load", "const"):
            return False
    return True


def _fold_constants(statements: Sequence[Statement], numbers: Mapping[str, np.ndarray]) -> list[Statement]:
    """c[0] => the number, for constants of one element."""

    def number(node: Expr) -> Expr | None:
        if node.name not in numbers:
            return None
        element = numbers[node.name].reshape(())[()]
        return const(float(element) if is_float(node.dtype) else int(element), node.dtype)

    return [_mapped(s, number) if isinstance(s, Compute) else s for s in statements]


def _mapped(compute: Compute, on_load: object) -> Compute:
    """The compute with loads replaced, in its body, epilogue and (of a scatter) index."""
    assert callable(on_load)
    body = substitute(compute.body, {}, on_load)
    post = None if compute.post is None else substitute(compute.post, {}, on_load)
    index = tuple(substitute(i, {}, on_load) for i in compute.index) if compute.is_scatter else compute.index
    return replace(compute, body=body, post=post, index=index)


# ---------------------------------------------------------------- producers into readers


def _inline(statements: Sequence[Statement], outputs: frozenset[str]) -> list[Statement]:
    """Each statement with the (finished) bodies of what it may absorb in place of their loads."""
    reading = readers(statements)
    producers: dict[str, Compute] = {}
    done: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Compute):
            absorbed, room = {}, LARGEST_BODY - _size(*statement.roots)
            for name in statement.reads:
                if name in producers and _absorbs(statement, producers[name], len(reading[name])):
                    room -= _size(producers[name].body) * len(_loads_of(statement, name))
                    if room >= 0:
                        absorbed[name] = producers[name]
            if absorbed:
                statement = _with_producers(statement, absorbed)
            identity = statement.index == tuple(it.expr for it in statement.parallel)
            if statement.is_pointwise and identity and statement.out not in outputs:
                producers[statement.out] = statement
        done.append(statement)
    return done


def _with_producers(compute: Compute, producers: Mapping[str, Compute]) -> Compute:
    def body_at(node: Expr) -> Expr | None:
        producer = producers.get(node.name)
        return None if producer is None else substitute(producer.body, substitution(producer.iters, node.args))

    return _mapped(compute, body_at)


def _absorbs(reader: Compute, producer: Compute, reader_count: int) -> bool:
    """Whether the producer's body may stand in the reader: it must not repeat work, nor hide a matrix product."""
    if producer.out == reader.init:
        return False
    reduces = reader.combine is not None and not reader.is_scatter
    inner = loads(producer.body)
    gathers = any(loads(*node.args) for node in inner)
    if is_movement(producer.body):
        if not gathers and len(inner) <= 1 and not (reduces and is_windowed(reader) and _has_quotient(producer.body)):
            return True
        return not reduces and (reader_count == 1 or not gathers)
    if reader_count != 1 or (reduces and (contraction(reader) is not None or is_windowed(reader))):
        return False
    if not reduces and not any(node.op in HEAVY for node in postorder(producer.body)):
        return True
    evaluations = math.prod(it.extent for it in reader.iters) * len(_loads_of(reader, producer.out))
    return evaluations <= MOST_REPEATS * math.prod(it.extent for it in producer.iters)


def _loads_of(reader: Compute, name: str) -> list[Expr]:
    return [node for node in loads(*reader.roots) if node.name == name]


def _size(*roots: Expr) -> int:
    return sum(1 for _ in postorder(*roots))


def _has_quotient(body: Expr) -> bool:
    return any(node.op == "fdiv" for node in postorder(body))


# ---------------------------------------------------------------- epilogues


def _epilogues(statements: Sequence[Statement], outputs: Sequence[str]) -> list[Statement]:
    """sum(f); g(that, ...) => sum(f) with epilogue g, where g is the only reader and reads each element once."""
    reading = readers(statements)
    reductions: dict[str, Compute] = {}
    merged: set[str] = set()
    done: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Compute):
            if statement.is_pointwise:
                candidates = [name for name in reductions if name in statement.reads and len(reading[name]) == 1]
                for name in reversed(candidates):
                    merger = joined(reductions[name], statement) if name not in outputs else None
                    if merger is not None:
                        merged.add(name)
                        statement = merger
                        break
            if statement.combine is not None and not statement.is_scatter:
                reductions[statement.out] = statement
        done.append(statement)
    return [statement for statement in done if merged.isdisjoint(statement.outputs)]


def joined(reduction: Compute, reader: Compute) -> Compute | None:
    """The reduction with its reader as epilogue, where that reads each of its elements once."""
    reads = [node for node in loads(reader.body) if node.name == reduction.out]
    if len(reads) != 1 or reduction.index != tuple(it.expr for it in reduction.parallel):
        return None
    where = reads[0].args
    if not _is_bijection(where, reader, [it.extent for it in reduction.parallel]):
        return None
    moved = substitution(reduction.parallel, where)
    body = substitute(reduction.body, moved)
    total = accumulator(reduction.body.dtype)
    finished = total if reduction.post is None else substitute(reduction.post, moved)
    post = substitute(reader.body, {reads[0]: finished})
    iters = reader.iters + reduction.reduction
    return Compute(reader.out, iters, reader.index, body, reduction.combine, None if post is total else post)


def _is_bijection(indices: Sequence[Expr], reader: Compute, shape: Sequence[int]) -> bool:
    """Whether `indices` visit every element of `shape` once: their position is mixed radix in the iterators."""
    extents = {it.expr: it.extent for it in reader.parallel if it.extent != 1}
    constant, coefficients = terms(flatten(indices, shape))
    if constant or coefficients.keys() != extents.keys():
        return False
    step = 1
    for atom, stride in sorted(coefficients.items(), key=lambda item: item[1]):
        if stride != step:
            return False
        step *= extents[atom]
    return step == math.prod(shape)
