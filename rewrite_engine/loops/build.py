"""Building programs: tensors that are indexed into loads, and a builder whose methods add one compute each.

An operator is a function of a `Builder`, its input tensors and its attributes that returns its output tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rewrite_engine.loops.checks import IN_RANGE, Check
from rewrite_engine.loops.compute import (
    COMBINES,
    Buffer,
    Compute,
    Host,
    Iter,
    Program,
    Statement,
    names_of,
    needed,
)
from rewrite_engine.loops.dtypes import INDEX, LOW_PRECISION, numpy_dtype
from rewrite_engine.loops.expr import Expr, Scalar, accumulator, cast, const, land, load, lor, maximum, select, wrap
from rewrite_engine.loops.index import flatten, unflatten

Index = Expr | int


class Unsupported(Exception):
    """This operator, in this form, has no compute; the message says what about it."""


class NeedsValue(Exception):
    """An operator reads elements of a tensor to decide shapes, and they are not known at compile time."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        super().__init__(f"the elements of {tensor.name} are not known at compile time")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the program being built; `x[i, j]` is the load of an element."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __getitem__(self, indices: Index | Sequence[Index]) -> Expr:
        sequence = indices if isinstance(indices, (tuple, list)) else (indices,)
        if len(sequence) != self.rank:
            raise IndexError(f"{self.name} has {self.rank} axes, indexed with {len(sequence)}")
        return load(self.name, sequence, self.dtype)

    def lift(self, indices: Index | Sequence[Index]) -> Expr:
        """The element in the type it is computed in: float32 for low-precision floats."""
        element = self[indices]
        return cast(element, "float32") if self.dtype in LOW_PRECISION else element


class Builder:
    """Collects the statements of one program. Names are numbered per builder: iterators i0 r0, tensors x0 t0 c0.

    Shapes are tuples of sizes. Every method that returns a `Tensor` adds a statement (or a constant).
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Buffer] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.statements: list[Statement] = []
        self._inputs: list[str] = []
        self._known: dict[str, np.ndarray] = {}
        self._outer: list[list[Statement]] = []  # of the scans that are being built
        self._counts: dict[str, int] = {}
        self._checks: list[Check] = []
        self._operator = ""
        self._operands: tuple[str, ...] = ()

    def input(self, shape: Iterable[int], dtype: str, known: np.ndarray | None = None) -> Tensor:
        """The next input of the program; `known` are its elements where an operator may decide by them."""
        tensor = self._tensor("x", shape, dtype)
        self._inputs.append(tensor.name)
        if known is not None:
            self._known[tensor.name] = known
        return tensor

    def constant(self, array: ArrayLike, dtype: str | None = None) -> Tensor:
        """A tensor of known elements, of the array's own type (int64, float64 for numbers) unless `dtype` is given."""
        elements = np.asarray(array) if dtype is None else np.asarray(array).astype(numpy_dtype(dtype))
        tensor = self._tensor("c", elements.shape, elements.dtype.name)
        self.constants[tensor.name] = elements
        return tensor

    def compute(
        self,
        shape: Iterable[int],
        f: Callable[..., Expr],
        reduce: Iterable[int] = (),
        combine: str | None = None,
        dtype: str | None = None,
        post: Callable[..., Expr] | None = None,
    ) -> Tensor:
        """out[i...] = f(i...), or post(combine over r... of f(i..., r...), i...) when `combine` is given.

        `reduce` are the extents of the reduction iterators r. The result is cast to `dtype` (by default the type of
        what `post`, or else `f`, returns; int64 for an index).
        """
        parallel = tuple(self.iterator(extent, "parallel") for extent in map(int, shape))
        if any(it.extent < 0 for it in parallel):
            raise Unsupported(f"a result of shape {[it.extent for it in parallel]}")
        reduction = tuple(self.iterator(extent, "reduction") for extent in map(int, reduce))
        if any(it.extent < 0 for it in reduction):
            raise Unsupported(f"a reduction over {[it.extent for it in reduction]} elements")
        if combine is None and (reduction or post is not None):
            raise ValueError(f"a reduction needs a combine, one of {', '.join(COMBINES)}")
        if combine is not None and combine not in COMBINES:
            raise ValueError(f"unknown combine {combine!r}; expected one of {', '.join(COMBINES)}")
        indices = tuple(it.expr for it in parallel)
        body = f(*indices, *(it.expr for it in reduction))
        epilogue = post(accumulator(body.dtype), *indices) if post is not None else None
        if epilogue is not None and epilogue.op == "acc":
            epilogue = None
        result = body if epilogue is None else epilogue
        target = dtype or ("int64" if result.dtype == INDEX else result.dtype)
        if result.dtype != target:
            if combine is None:
                body = cast(body, target)
            else:
                epilogue = cast(accumulator(body.dtype) if epilogue is None else epilogue, target)
        out = self.declare((it.extent for it in parallel), target)
        self.statements.append(Compute(out.name, parallel + reduction, indices, body, combine, epilogue))
        return out

    def scatter(
        self,
        initial: Tensor,
        shape: Iterable[int],
        index: Callable[..., Sequence[Index]],
        f: Callable[..., Expr],
        combine: str = "set",
    ) -> Tensor:
        """A copy of `initial` in which, for each i... of `shape`, the element at index(i...) takes f(i...).

        `combine` is "set" or how the value joins what is there; f returns the type of `initial`.
        """
        if combine != "set" and combine not in COMBINES:
            raise ValueError(f"unknown combine {combine!r}; expected set or one of {', '.join(COMBINES)}")
        iters = tuple(self.iterator(extent, "parallel") for extent in map(int, shape))
        indices = tuple(it.expr for it in iters)
        where = tuple(wrap(position, INDEX) for position in index(*indices))
        if len(where) != initial.rank:
            raise Unsupported(f"{len(where)} positions for a tensor of {initial.rank} axes")
        out = self.declare(initial.shape, initial.dtype)
        body = cast(f(*indices), initial.dtype)
        self.statements.append(Compute(out.name, iters, where, body, combine, None, initial.name))
        return out

    def host(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[Iterable[int], str]],
        **attributes: bool | int | float | str,
    ) -> list[Tensor]:
        """A named operator of `host.HOST_OPERATORS` on whole tensors; `outputs` are (shape, dtype)."""
        results = [self.declare(shape, dtype) for shape, dtype in outputs]
        names = tuple(tensor.name for tensor in results)
        self.statements.append(Host(name, tuple(tensor.name for tensor in inputs), names, attributes))
        return results

    @contextmanager
    def inside(self) -> Iterator[list[Statement]]:
        """Statements added within go to the list that it gives, which is for a scan's steps."""
        self._outer.append(self.statements)
        self.statements = []
        try:
            yield self.statements
        finally:
            self.statements = self._outer.pop()

    def mark(self) -> tuple[int, int]:
        """Where the builder is, for `undo`: the number of statements, and of checks."""
        return len(self.statements), len(self._checks)

    def undo(self, mark: tuple[int, int]) -> None:
        """Takes back the statements and checks after a mark."""
        del self.statements[mark[0] :]
        del self._checks[mark[1] :]

    def declare(self, shape: Iterable[int], dtype: str) -> Tensor:
        """A new tensor that a statement still has to compute."""
        return self._tensor("t", shape, dtype)

    def iterator(self, extent: int, kind: str) -> Iter:
        """A new iterator: i0 (parallel), r0 (reduction), s0 (scan)."""
        return Iter(self._name({"parallel": "i", "reduction": "r", "scan": "s"}[kind]), extent, kind)

    @property
    def checked(self) -> list[str]:
        """The tensors that checks look at."""
        return [check.tensor for check in self._checks]

    def enter(self, operator: str, operands: Iterable[Tensor | None]) -> None:
        """The operator whose statements follow, as checks name it."""
        self._operator, self._operands = operator, tuple("" if t is None else t.name for t in operands)

    def require_positions(
        self, positions: Tensor, low: int, high: int, column: int | None = None, ignored: int | None = None
    ) -> None:
        """The elements of an operand (of one `column` of its last axis) must be from `low` to `high`, or `ignored`.

        Raises Unsupported for a known one that is not; the others are checked when the kernel runs.
        """
        shape = positions.shape if column is None else positions.shape[:-1]
        known = self.known(positions)
        if known is not None or low > high:
            given = np.zeros(shape, np.int64) if known is None else known if column is None else known[..., column]
            wrong = given[((given < low) | (given > high)) & (given != ignored if ignored is not None else True)]
            if wrong.size and known is None:
                raise Unsupported("positions in an axis without elements")
            if wrong.size:
                raise Unsupported(f"expected positions from {low} to {high}, found {wrong.reshape(-1)[0]}")
            return

        def outside(*at: Expr) -> Expr:
            element = positions[at if column is None else (*at, column)]
            place = cast(element, INDEX)
            wrong = lor(place < low, const(high, INDEX) < place)
            if ignored is not None:
                wrong = land(wrong, ~element.eq(ignored))
            value = cast(element, "int64")
            if positions.dtype in ("int64", "uint64"):  # the one value that would pass for IN_RANGE
                value = maximum(value, const(IN_RANGE + 1, "int64"))
            return select(wrong, value, const(IN_RANGE, "int64"))

        found = self.compute((), outside, shape, "max")
        operand = self._operands.index(positions.name) if positions.name in self._operands else 0
        self._checks.append(Check(found.name, self._operator, operand, low, high))

    def map(self, f: Callable[..., Expr], *tensors: Tensor, dtype: str | None = None, lift: bool = True) -> Tensor:
        """f of corresponding elements, shapes broadcast together.

        Elements are lifted (low-precision floats come as float32) unless `lift` is false. The result has the type
        `dtype`; by default what f returns, but the first tensor's own type when lifted floats come back as float32.
        """
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
        low = next((tensor.dtype for tensor in tensors if tensor.dtype in LOW_PRECISION), None) if lift else None

        def element(*indices: Expr) -> Expr:
            reads = (broadcast_indices(tensor, shape, indices) for tensor in tensors)
            result = f(*(t.lift(i) if lift else t[i] for t, i in zip(tensors, reads, strict=True)))
            return cast(result, dtype or (low if low is not None and result.dtype == "float32" else result.dtype))

        return self.compute(shape, element)

    def move(self, x: Tensor, shape: Iterable[int], index_map: Callable[..., Sequence[Index]]) -> Tensor:
        """out[i...] = x[index_map(i...)]: elements unchanged."""
        return self.compute(shape, lambda *indices: x[tuple(index_map(*indices))])

    def reshape(self, x: Tensor, shape: Iterable[int]) -> Tensor:
        """The same elements in row-major order."""
        target = tuple(map(int, shape))
        if math.prod(target) != x.size:
            raise Unsupported(f"reshape of {list(x.shape)} to {list(target)}: the sizes differ")
        return self.move(x, target, lambda *indices: unflatten(flatten(indices, target), x.shape))

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Axis k of the result is axis permutation[k] of x."""
        order = [axis % x.rank for axis in permutation]
        inverse = [order.index(axis) for axis in range(x.rank)]
        return self.move(x, [x.shape[axis] for axis in order], lambda *i: [i[position] for position in inverse])

    def reduce(
        self,
        x: Tensor,
        axes: Iterable[int],
        combine: str,
        f: Callable[[Expr], Expr] | None = None,
        keepdims: bool = True,
        post: Callable[[Expr], Expr] | None = None,
        dtype: str | None = None,
    ) -> Tensor:
        """post(combine of f(x) along `axes`) as `dtype` (by default the type of x). With no axes it is post(f(x))."""
        reduced = sorted({axis % x.rank for axis in axes}) if x.rank else []
        kept = [axis for axis in range(x.rank) if axis not in reduced]
        each = f or (lambda value: value)
        finish = post or (lambda value: value)
        target = dtype or x.dtype
        if not reduced:
            return self.map(lambda value: finish(each(value)), x, dtype=target)
        shape = (
            [1 if axis in reduced else n for axis, n in enumerate(x.shape)] if keepdims else [x.shape[a] for a in kept]
        )

        def element(*indices: Expr) -> Expr:
            outer, inner = indices[: len(shape)], indices[len(shape) :]
            full: dict[int, Expr] = dict(enumerate(outer) if keepdims else zip(kept, outer, strict=True))
            full.update(zip(reduced, inner, strict=True))
            return each(x.lift([full[axis] for axis in range(x.rank)]))

        extents = [x.shape[axis] for axis in reduced]
        return self.compute(shape, element, extents, combine, target, lambda total, *_: finish(total))

    def load_padded(self, x: Tensor, indices: Sequence[Index], fill: Scalar, lift: bool = True) -> Expr:
        """The (lifted) element of x at `indices`, or `fill` outside of x."""
        positions = [wrap(index, INDEX) for index in indices]
        inside = [
            condition
            for position, extent in zip(positions, x.shape, strict=True)
            for condition in (const(0, INDEX) <= position, position < extent)
        ]
        return select(land(*inside), x.lift(positions) if lift else x[positions], fill)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one after the other along `axis`."""
        axis %= tensors[0].rank
        parts = [tensor for tensor in tensors if tensor.shape[axis]] or [tensors[0]]
        starts = np.cumsum([0, *(part.shape[axis] for part in parts)]).tolist()
        shape = [*tensors[0].shape[:axis], starts[-1], *tensors[0].shape[axis + 1 :]]

        def element(*indices: Expr) -> Expr:
            value: Expr | None = None
            for part, start, end in reversed(list(zip(parts, starts[:-1], starts[1:], strict=True))):
                here = part[[*indices[:axis], indices[axis] - start, *indices[axis + 1 :]]]
                value = here if value is None else select(indices[axis] < end, here, value)
            assert value is not None
            return value

        return self.compute(shape, element)

    def value(self, tensor: Tensor) -> np.ndarray:
        """The elements of `tensor`; raises `NeedsValue` when they depend on an input that is not known."""
        for source in (self.constants, self._known):
            if tensor.name in source:
                return source[tensor.name]
        if tensor.name in self._inputs:
            raise NeedsValue(tensor)
        everything = [statement for statements in (*self._outer, self.statements) for statement in statements]
        statements = tuple(needed(everything, (tensor.name,)))
        written = {name for statement in statements for name in statement.outputs}
        for name in dict.fromkeys(name for statement in statements for name in statement.reads):
            if name not in written and name not in self.constants and name not in self._known:
                raise NeedsValue(self.tensor(name))
        from rewrite_engine.loops.execute import run

        known = {**self.constants, **self._known}
        result = np.empty(tensor.shape, numpy_dtype(tensor.dtype))
        run(Program((), (tensor.name,), self.tensors, known, statements), (), (result,))
        self._known[tensor.name] = result
        return result

    def known(self, tensor: Tensor | None) -> np.ndarray | None:
        """The elements of a tensor where they are at hand: a constant, or an input that is known."""
        return None if tensor is None else self.constants.get(tensor.name, self._known.get(tensor.name))

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`."""
        return Tensor(name, *self.tensors[name])

    def program(self, outputs: Sequence[Tensor]) -> Program:
        """The finished program. An output that is an input, a constant or a repeated one becomes a copy."""
        names: list[str] = []
        for tensor in outputs:
            is_source = tensor.name in self._inputs or tensor.name in self.constants
            copied = self.move(tensor, tensor.shape, lambda *i: i) if is_source or tensor.name in names else tensor
            names.append(copied.name)
        wanted = (*names, *self.checked)
        statements = tuple(needed(self.statements, wanted))
        used = {*self._inputs, *names_of(statements)}
        tensors: Mapping[str, Buffer] = {name: buffer for name, buffer in self.tensors.items() if name in used}
        constants = {name: array for name, array in self.constants.items() if name in used}
        return Program(tuple(self._inputs), tuple(names), tensors, constants, statements, tuple(self._checks))

    def _tensor(self, prefix: str, shape: Iterable[int], dtype: str) -> Tensor:
        tensor = Tensor(self._name(prefix), tuple(map(int, shape)), dtype)
        self.tensors[tensor.name] = Buffer(tensor.shape, tensor.dtype)
        return tensor

    def _name(self, prefix: str) -> str:
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        return f"{prefix}{number}"


def broadcast_indices(x: Tensor, shape: Sequence[int], indices: Sequence[Expr]) -> list[Index]:
    """The indices into x of the element at `indices` of the shape it is broadcast to."""
    offset = len(shape) - x.rank
    return [0 if n == 1 != shape[axis + offset] else indices[axis + offset] for axis, n in enumerate(x.shape)]


def normalized(index: Expr, extent: int) -> Expr:
    """An index read from data, counted from the end where it is negative."""
    position = cast(index, INDEX)
    return select(position < 0, position + extent, position)
