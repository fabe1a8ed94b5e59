"""Runs a program one element at a time, straight from its definition: the oracle for small shapes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from rewrite_engine.loops.arithmetic import COMBINE_UFUNCS, Array, apply, convert, element
from rewrite_engine.loops.compute import Compute, Program, Scan, Statement
from rewrite_engine.loops.dtypes import identity, numpy_dtype
from rewrite_engine.loops.expr import Expr, accumulator, postorder
from rewrite_engine.loops.host import HOST_OPERATORS


def run(program: Program, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """As `execute.run`, but slowly."""
    env = {**dict(zip(program.inputs, inputs, strict=True)), **program.constants}
    _run(program, program.statements, env)
    for name, array in zip(program.outputs, outputs, strict=True):
        array[...] = env[name]


def _run(program: Program, statements: Sequence[Statement], env: dict[str, Array]) -> None:
    for statement in statements:
        for name in statement.outputs:
            shape, dtype = program.tensors[name]
            env[name] = np.zeros(shape, numpy_dtype(dtype))
        if isinstance(statement, Compute):
            _compute(statement, env)
            if statement.out in program.checked:
                program.checked[statement.out].verify(int(env[statement.out]))
        elif isinstance(statement, Scan):
            _scan(program, statement, env)
        else:
            values = HOST_OPERATORS[statement.name]([env[name] for name in statement.inputs], statement.attributes)
            env.update(zip(statement.outputs, values, strict=True))


def _scan(program: Program, scan: Scan, env: dict[str, Array]) -> None:
    for carry in scan.carried:
        env[carry.now] = env[carry.initial]
    for step in range(scan.count):
        if scan.conditional and not env[scan.carried[0].now]:
            break
        for piece in scan.sliced:
            env[piece.part] = env[piece.whole][scan.count - 1 - step if piece.backwards else step, ...]
        _run(program, scan.statements, env)
        for piece in scan.stacked:
            env[piece.whole][scan.count - 1 - step if piece.backwards else step, ...] = env[piece.part]
        env.update([(carry.now, env[carry.following]) for carry in scan.carried])
    for carry in scan.carried:
        env[carry.final][...] = env[carry.now]


def _compute(compute: Compute, env: Mapping[str, Array]) -> None:
    out = env[compute.out]
    if compute.init is not None:
        out[...] = env[compute.init]
    for point in itertools.product(*(range(it.extent) for it in compute.parallel)):
        values = {it.expr: element(at, "index") for it, at in zip(compute.parallel, point, strict=True)}
        result = _reduced(compute, values, env)
        if compute.post is not None:
            result = value_at(compute.post, {**values, accumulator(compute.body.dtype): result}, env)
        at = tuple(int(value_at(index, values, env)) for index in compute.index)
        if compute.init is not None:
            at = tuple(min(max(i, 0), n - 1) for i, n in zip(at, out.shape, strict=True))
            if compute.combine not in (None, "set"):
                result = np.asarray(COMBINE_UFUNCS[compute.combine](out[at], result))
        out[at] = result


def _reduced(compute: Compute, values: Mapping[Expr, Array], env: Mapping[str, Array]) -> Array:
    if compute.combine is None or compute.init is not None:
        return value_at(compute.body, values, env)
    dtype = compute.body.dtype
    total = np.asarray(numpy_dtype(dtype).type(identity(compute.combine, dtype)))
    for point in itertools.product(*(range(it.extent) for it in compute.reduction)):
        inner = {it.expr: element(at, "index") for it, at in zip(compute.reduction, point, strict=True)}
        with np.errstate(all="ignore"):
            total = np.asarray(COMBINE_UFUNCS[compute.combine](total, value_at(compute.body, {**values, **inner}, env)))
    return total


def value_at(root: Expr, values: Mapping[Expr, Array], env: Mapping[str, Array]) -> Array:
    """The value of an expression where the iterators are `values`."""
    done = dict(values)
    for node in postorder(root):
        if node not in done:
            done[node] = _node(node, [done[arg] for arg in node.args], env)
    return done[root]


def _node(node: Expr, args: list[Array], env: Mapping[str, Array]) -> Array:
    if node.op == "const":
        return element(node.value, node.dtype)
    if node.op == "load":
        x = env[node.name]
        if not x.size:
            return np.zeros((), x.dtype)
        return np.asarray(x[tuple(min(max(int(i), 0), n - 1) for i, n in zip(args, x.shape, strict=True))])
    if node.op == "cast":
        return convert(args[0], node.dtype, bool(node.value))
    if node.op == "lin":
        assert isinstance(node.value, tuple)
        constant, coefficients = node.value
        return np.asarray(constant + sum(k * arg for k, arg in zip(coefficients, args, strict=True)))
    if node.op == "fdiv":
        return np.asarray(args[0] // node.value)
    return apply(node.op, args, node.dtype)
