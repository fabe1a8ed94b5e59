"""Runs a program over another algebra of values: each compute over its whole grid of iterators, for small shapes.

Index arithmetic is exact integers as ever; what the elements are and what operations do to them, the algebra says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rewrite_engine.loops.compute import Compute, Program, Scan, Statement
from rewrite_engine.loops.dtypes import INDEX, identity
from rewrite_engine.loops.expr import Expr, accumulator, postorder

Value = Any
"""What an algebra works with: it has a shape and broadcasts like an array."""
LARGEST_GRID = 1 << 18


class Undecided(Exception):
    """This algebra cannot follow the program; the message says where."""


class Algebra(Protocol):
    """Elements and what is done to them. `dtype` is always the element type that the program states."""

    def constant(self, value: Any, dtype: str) -> Value: ...

    def embed(self, array: np.ndarray[Any, Any], dtype: str) -> Value:
        """Plain integers or truth values as elements."""
        ...

    def plain(self, value: Value) -> np.ndarray[Any, Any]:
        """Integer elements as plain integers, to index with."""
        ...

    def cast(self, value: Value, source: str, target: str) -> Value: ...

    def apply(self, op: str, args: Sequence[Value], dtype: str, source: str) -> Value: ...

    def combine(self, how: str, value: Value, axes: tuple[int, ...], dtype: str) -> Value: ...

    def take(self, value: Value, indices: tuple[np.ndarray[Any, Any], ...]) -> Value: ...

    def put(self, shape: tuple[int, ...], indices: tuple[np.ndarray[Any, Any], ...], value: Value, dtype: str,
            init: Value | None) -> Value: ...  # fmt: skip

    def spread(self, value: Value, shape: tuple[int, ...]) -> Value: ...


def run(program: Program, inputs: Sequence[Value], algebra: Algebra) -> list[Value]:
    """The program's outputs. Raises `Undecided`."""
    env: dict[str, Value] = dict(zip(program.inputs, inputs, strict=True))
    for name, array in program.constants.items():
        env[name] = algebra.constant(array, program.tensors[name].dtype)
    _run(program.statements, program, env, algebra)
    return [env[name] for name in program.outputs]


def _run(statements: Sequence[Statement], program: Program, env: dict[str, Value], algebra: Algebra) -> None:
    for statement in statements:
        if isinstance(statement, Compute):
            env[statement.out] = _compute(statement, program, env, algebra)
        elif isinstance(statement, Scan):
            _scan(statement, program, env, algebra)
        else:
            raise Undecided(f"{statement.name} is no loop nest")


def _scan(scan: Scan, program: Program, env: dict[str, Value], algebra: Algebra) -> None:
    if scan.conditional or not scan.count:
        raise Undecided("a loop that data ends, or without steps")
    env.update((carry.now, env[carry.initial]) for carry in scan.carried)
    rows: dict[str, Value] = {}
    for step in range(scan.count):
        for piece in scan.sliced:
            at = scan.count - 1 - step if piece.backwards else step
            shape = program.tensors[piece.part].shape
            env[piece.part] = algebra.take(env[piece.whole], (np.full(shape, at), *np.indices(shape)))
        _run(scan.statements, program, env, algebra)
        for piece in scan.stacked:
            at = scan.count - 1 - step if piece.backwards else step
            shape, dtype = program.tensors[piece.whole]
            inner = program.tensors[piece.part].shape
            where = (np.full(inner, at), *np.indices(inner))
            rows[piece.whole] = algebra.put(shape, where, env[piece.part], dtype, rows.get(piece.whole))
        env.update([(carry.now, env[carry.following]) for carry in scan.carried])
    env.update(rows)
    env.update((carry.final, env[carry.now]) for carry in scan.carried)


def _compute(compute: Compute, program: Program, env: Mapping[str, Value], algebra: Algebra) -> Value:
    buffer = program.tensors[compute.out]
    axes = [it.expr for it in (*compute.parallel, *compute.reduction) if it.extent != 1]
    outer = sum(1 for it in compute.parallel if it.extent != 1)
    extents = [axis.extent for axis in axes]
    if int(np.prod(extents, dtype=np.int64)) > LARGEST_GRID:
        raise Undecided("the shapes are too large")
    empty_out = 0 in buffer.shape or any(it.extent == 0 for it in compute.parallel)
    if compute.init is not None and empty_out:
        return env[compute.init]
    if empty_out:
        return algebra.constant(np.zeros(buffer.shape), buffer.dtype)
    grid = _Grid(axes, program, env, algebra)
    if any(it.extent == 0 for it in compute.reduction):
        assert compute.combine is not None
        value = algebra.constant(identity(compute.combine, compute.body.dtype), compute.body.dtype)
        value = algebra.spread(value, tuple(extents[:outer]))
    else:
        value = grid.value(compute.body)
        if compute.combine is not None and compute.init is None and outer < len(axes):
            value = algebra.spread(value, tuple(extents))
            value = algebra.combine(compute.combine, value, tuple(range(outer, len(axes))), compute.body.dtype)
        elif compute.combine not in (None, "set") and compute.init is not None:
            raise Undecided("a scatter that combines")
    parallel = _Grid(axes[:outer], program, env, algebra)
    if compute.post is not None:
        parallel.done[accumulator(compute.body.dtype)] = value
        value = parallel.value(compute.post)
    shape = tuple(extents[:outer])
    value = algebra.spread(value, shape)
    indices = tuple(np.broadcast_to(parallel.index(index), shape) for index in compute.index)
    if compute.init is not None:
        indices = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, buffer.shape, strict=True))
    init = env[compute.init] if compute.init is not None else None
    return algebra.put(buffer.shape, indices, value, buffer.dtype, init)


class _Grid:
    """Expressions over all values of some iterators, one axis each."""

    def __init__(self, axes: Sequence[Expr], program: Program, env: Mapping[str, Value], algebra: Algebra) -> None:
        self.axes, self.program, self.env, self.algebra = list(axes), program, env, algebra
        self.done: dict[Expr, Value] = {}
        for position, axis in enumerate(self.axes):
            shape = [1] * len(self.axes)
            shape[position] = axis.extent
            self.done[axis] = np.arange(axis.extent).reshape(shape)

    def value(self, root: Expr) -> Value:
        """The elements of a value expression."""
        found = self._evaluate(root)
        if root.dtype == INDEX:
            return self.algebra.embed(found, "int64")
        return found

    def index(self, root: Expr) -> np.ndarray[Any, Any]:
        """The elements of an index expression."""
        return np.asarray(self._evaluate(root))

    def _evaluate(self, root: Expr) -> Value:
        done = self.done
        for node in postorder(root):
            if node not in done:
                done[node] = self._node(node, [done[arg] for arg in node.args])
        return done[root]

    def _node(self, node: Expr, args: list[Value]) -> Value:
        algebra, op = self.algebra, node.op
        indexing = bool(node.args) and node.args[0].dtype == INDEX
        if op == "const":
            plain = node.dtype == INDEX
            return np.asarray(node.value) if plain else algebra.constant(node.value, node.dtype)
        if op == "load":
            return self._load(node, args)
        if op == "lin":
            assert isinstance(node.value, tuple)
            constant, coefficients = node.value
            return constant + sum(k * arg for k, arg in zip(coefficients, args, strict=True))
        if op == "fdiv":
            return args[0] // node.value
        if op == "cast":
            if node.dtype == INDEX:
                return algebra.plain(args[0])
            if indexing:
                return algebra.cast(algebra.embed(np.asarray(args[0]), "int64"), "int64", node.dtype)
            return algebra.cast(args[0], node.args[0].dtype, node.dtype)
        if indexing and node.dtype == INDEX:
            return _INDEX[op](*args)
        if indexing and op in ("lt", "le", "eq"):
            return algebra.embed(_INDEX[op](*args), "bool")
        if op == "select" and node.dtype == INDEX:
            return np.where(algebra.plain(args[0]), args[1], args[2])
        source = node.args[1].dtype if op == "select" else node.args[0].dtype if node.args else node.dtype
        return algebra.apply(op, args, node.dtype, source)

    def _load(self, node: Expr, args: list[Value]) -> Value:
        shape = self.program.tensors[node.name].shape
        if 0 in shape:
            return self.algebra.constant(0, node.dtype)
        where = tuple(np.clip(np.asarray(i), 0, n - 1) for i, n in zip(args, shape, strict=True))
        return self.algebra.take(self.env[node.name], where)


_INDEX: Mapping[str, Any] = {
    "imul": np.multiply, "min": np.minimum, "max": np.maximum, "lt": np.less, "le": np.less_equal, "eq": np.equal,
}  # fmt: skip
