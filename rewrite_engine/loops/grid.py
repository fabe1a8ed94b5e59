"""Evaluating expressions over a box of iterators: an iterator is one NumPy axis, an affine load a strided view.

In: arrays by tensor name, a box, expressions. Out: arrays that broadcast to the box.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rewrite_engine.loops.arithmetic import Array, apply, convert, element, keeps_type
from rewrite_engine.loops.dtypes import INDEX, numpy_dtype
from rewrite_engine.loops.expr import Expr
from rewrite_engine.loops.index import bounds, subtract, terms

Affine = tuple[tuple[int, tuple[tuple[Expr, int], ...]], ...]
"""One (constant, ((iterator, stride), ...)) per axis of a tensor."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A select that is a load inside its tensor and a constant outside: a view of the tensor with a border."""

    load: Expr
    fill: Expr
    axes: Affine
    border: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Sources:
    """The contiguous arrays that one compute reads, and their bordered copies."""

    arrays: Mapping[str, Array]
    bordered: dict[tuple[str, tuple[tuple[int, int], ...], Expr], Array] = field(default_factory=dict)

    def with_border(self, padded: Padded) -> Array:
        """The tensor of a padded load, surrounded by enough of its fill for every value of the iterators."""
        key = (padded.load.name, padded.border, padded.fill)
        if key not in self.bordered:
            x = self.arrays[padded.load.name]
            shape = [before + n + after for n, (before, after) in zip(x.shape, padded.border, strict=True)]
            copy = np.full(shape, convert(element(padded.fill.value, padded.fill.dtype), padded.load.dtype))
            inside = tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, padded.border, strict=True))
            copy[inside] = x
            self.bordered[key] = copy
        return self.bordered[key]


@functools.lru_cache(maxsize=1 << 14)
def affine(node: Expr) -> Affine | None:
    """The index map of a load where every index is linear in iterators, else None."""
    axes = []
    for index in node.args:
        constant, coefficients = terms(index)
        if any(atom.op != "var" for atom in coefficients):
            return None
        axes.append((constant, tuple(coefficients.items())))
    return tuple(axes)


@functools.lru_cache(maxsize=1 << 14)
def padded_load(node: Expr, shapes: tuple[tuple[int, ...], ...]) -> Padded | None:
    """The padded load that a select is, given the shape of the tensor it reads, or None.

    Its condition must hold exactly where every index is inside of the tensor.
    """
    condition, value, fill = node.args
    source = value.args[0] if value.op == "cast" else value
    if source.op != "load" or fill.op != "const" or (axes := affine(source)) is None:
        return None
    outside = convert(element(fill.value, fill.dtype), source.dtype)
    if not np.array_equal(convert(outside, fill.dtype), element(fill.value, fill.dtype)):
        return None
    conjuncts = condition.args if condition.op == "and" else (condition,)
    if any(part.op not in ("lt", "le") or part.args[0].dtype != INDEX for part in conjuncts):
        return None
    wanted = [subtract(part.args[1], part.args[0]) - (1 if part.op == "lt" else 0) for part in conjuncts]
    inside = [form for i, n in zip(source.args, shapes[0], strict=True) for form in (i, (n - 1) - i)]
    if not all(any(bounds(form - own)[0] >= 0 for own in inside) for form in wanted):
        return None
    if not all(bounds(own)[0] >= 0 or any(bounds(own - form)[0] >= 0 for form in wanted) for own in inside):
        return None
    border = tuple(
        (max(0, -low), max(0, high - n + 1)) for (low, high), n in zip(map(bounds, source.args), shapes[0], strict=True)
    )
    return Padded(source, fill, axes, border)


def decide(condition: Expr, ranges: Mapping[Expr, tuple[int, int]]) -> bool | None:
    """The truth of a condition over a whole box of half-open ranges, or None when it is not the same everywhere."""
    if condition.op == "const":
        return bool(condition.value)
    if condition.op in ("and", "or"):
        absorbing = condition.op == "or"
        parts = [decide(part, ranges) for part in condition.args]
        if absorbing in parts:
            return absorbing
        return None if None in parts else not absorbing
    if condition.op == "not":
        inner = decide(condition.args[0], ranges)
        return None if inner is None else not inner
    if condition.op not in ("lt", "le", "eq") or condition.args[0].dtype != INDEX:
        return None
    low, coefficients = terms(subtract(condition.args[1], condition.args[0]))
    high = low
    for atom, k in coefficients.items():
        if atom not in ranges:
            return None
        first, last = ranges[atom][0], ranges[atom][1] - 1
        low, high = low + min(k * first, k * last), high + max(k * first, k * last)
    if condition.op == "eq":
        return True if low == high == 0 else False if low > 0 or high < 0 else None
    least = 1 if condition.op == "lt" else 0
    return True if low >= least else False if high < least else None


class Grid:
    """Evaluates expressions over one box. `axes` are its iterators in order, `ranges` their half-open ranges."""

    def __init__(self, axes: Sequence[Expr], ranges: Mapping[Expr, tuple[int, int]], sources: Sources) -> None:
        self.axes = tuple(axes)
        self.ranges = ranges
        self.sources = sources
        self.position = {axis: number for number, axis in enumerate(self.axes)}

    def evaluate(self, root: Expr, given: Mapping[Expr, Array] | None = None) -> Array:
        """The values of `root`, as an array that broadcasts to the box; `given` holds the values of some nodes."""
        return self.evaluate_all((root,), given)[0]

    def evaluate_all(self, roots: Sequence[Expr], given: Mapping[Expr, Array] | None = None) -> list[Array]:
        """The values of several roots, shared work done once."""
        values: dict[Expr, Array] = dict(given or {})
        order = self._schedule(roots, values)
        uses: dict[Expr, int] = dict.fromkeys(roots, 1)
        for _, operands in order:
            for operand in operands:
                uses[operand] = uses.get(operand, 0) + 1
        owned: set[Expr] = set()  # nodes whose array nobody else sees
        for node, operands in order:
            args = [values[operand] for operand in operands]
            spare: Array | None = None
            for operand in operands:
                uses[operand] -= 1
                if uses[operand] == 0:
                    array = values.pop(operand)
                    if operand in owned and spare is None and operand.dtype == node.dtype:
                        spare = array
            values[node], fresh = self._apply(node, operands, args, spare)
            if fresh:
                owned.add(node)
        return [values[root] for root in roots]

    def _schedule(self, roots: Sequence[Expr], known: Mapping[Expr, Array]) -> list[tuple[Expr, tuple[Expr, ...]]]:
        """Nodes to evaluate, operands first; a decided select is its branch, a view has no operands."""
        order: list[tuple[Expr, tuple[Expr, ...]]] = []
        operands: dict[Expr, tuple[Expr, ...]] = {}
        done = set(known)
        stack = list(reversed(roots))
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            if node not in operands:
                operands[node] = self._operands(node)
                missing = [operand for operand in operands[node] if operand not in done]
                if missing:
                    stack.extend(reversed(missing))
                    continue
            done.add(node)
            order.append((node, operands[node]))
            stack.pop()
        return order

    def _operands(self, node: Expr) -> tuple[Expr, ...]:
        if node.op == "load":
            return () if self._inside(node) is not None else node.args
        if node.op == "select":
            known = decide(node.args[0], self.ranges)
            if known is not None:
                return (node.args[1 if known else 2],)
            if self._padded(node) is not None:
                return ()
        return node.args

    def _apply(
        self, node: Expr, operands: tuple[Expr, ...], args: list[Array], spare: Array | None
    ) -> tuple[Array, bool]:
        """The array of a node, and whether it is a new one."""
        op = node.op
        if op == "const":
            return element(node.value, node.dtype), False
        if op == "var":
            return self._arange(node), True
        if op == "load":
            return (self._view(node), False) if not operands and node.args else (self._gather(node, args), True)
        if op == "select" and not operands:
            padded = self._padded(node)
            assert padded is not None
            view = self._strided(self.sources.with_border(padded), padded.axes, [b for b, _ in padded.border])
            return convert(view, node.dtype), False
        if op == "select" and len(operands) == 1:
            return args[0], False
        if op == "cast":
            return convert(args[0], node.dtype, bool(node.value)), args[0].dtype != numpy_dtype(node.dtype)
        if op == "lin":
            return _linear(node, args), True
        if op == "fdiv":
            return args[0] // node.value, True
        if spare is not None and keeps_type(op, node.dtype):
            shape = np.broadcast_shapes(*(arg.shape for arg in args))
            if spare.shape == shape and spare.ndim:
                return apply(op, args, node.dtype, spare), True
        return apply(op, args, node.dtype), True

    def _arange(self, node: Expr) -> Array:
        start, stop = self.ranges[node]
        shape = [1] * len(self.axes)
        shape[self.position[node]] = stop - start
        return np.arange(start, stop, dtype=np.int64).reshape(shape)

    def _inside(self, node: Expr) -> Affine | None:
        """The index map of a load that is affine and stays inside its tensor over the box."""
        axes = affine(node)
        if axes is None:
            return None
        for (low, coefficients), extent in zip(axes, self.sources.arrays[node.name].shape, strict=True):
            high = low
            for atom, k in coefficients:
                first, last = self.ranges[atom][0], self.ranges[atom][1] - 1
                low, high = low + min(k * first, k * last), high + max(k * first, k * last)
            if low < 0 or high >= extent:
                return None
        return axes

    def _padded(self, node: Expr) -> Padded | None:
        value = node.args[1]
        source = value.args[0] if value.op == "cast" else value
        if source.op != "load":
            return None
        return padded_load(node, (self.sources.arrays[source.name].shape,))

    def _view(self, node: Expr) -> Array:
        axes = affine(node)
        assert axes is not None
        return self._strided(self.sources.arrays[node.name], axes, [0] * len(axes))

    def _strided(self, x: Array, index_map: Affine, border: Sequence[int]) -> Array:
        """The view of x over the box whose element (i...) is x[map(i...) + border]."""
        offset, strides, shape = 0, [0] * len(self.axes), [1] * len(self.axes)
        for (constant, coefficients), before, step in zip(index_map, border, x.strides, strict=True):
            offset += (constant + before) * step
            for atom, k in coefficients:
                axis = self.position[atom]
                start, stop = self.ranges[atom]
                offset += k * start * step
                strides[axis] += k * step
                shape[axis] = stop - start
        return strided(x, shape, strides, offset)

    def _gather(self, node: Expr, indices: list[Array]) -> Array:
        x = self.sources.arrays[node.name]
        if x.size == 0:
            return np.zeros((1,) * len(self.axes), x.dtype)
        return np.asarray(x[tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, x.shape, strict=True))])


def strided(x: Array, shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    """A view of a contiguous array by byte strides, checked to stay inside of it."""
    plain = x if x.dtype.isbuiltin == 1 else x.view(f"u{x.dtype.itemsize}")
    if not plain.size:
        return np.empty([0 if n == 0 else n for n in shape], x.dtype)
    view: Array = np.ndarray(tuple(shape), plain.dtype, plain, offset, tuple(strides))
    return view if x.dtype.isbuiltin == 1 else view.view(x.dtype)


def _linear(node: Expr, args: list[Array]) -> Array:
    assert isinstance(node.value, tuple)
    constant, coefficients = node.value
    total = args[0] * coefficients[0] + constant
    for arg, k in zip(args[1:], coefficients[1:], strict=True):
        total = total + arg * k
    return np.asarray(total)
