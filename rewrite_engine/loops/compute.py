"""Declarative computes: each statement says what the elements of one tensor are; a `Program` is a list of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rewrite_engine.loops.checks import Check
from rewrite_engine.loops.expr import Expr, loads, var

COMBINES = ("sum", "prod", "max", "min", "and", "or")
"""How a reduction joins values; a scatter may also "set" (the last write stays)."""


class Buffer(NamedTuple):
    """The shape (sizes) and element type of a tensor of a program."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Iter:
    """An iterator over 0 .. extent-1; `kind` is "parallel", "reduction" or "scan"."""

    name: str
    extent: int
    kind: str = "parallel"

    @property
    def expr(self) -> Expr:
        """The iterator in expressions (the constant 0 when it takes one value)."""
        return var(self.name, self.extent)


@dataclass(frozen=True, slots=True)
class Compute:
    """out[index] = post(combine over the reduction iterators of body), for all values of the parallel iterators.

    `index`, over the parallel iterators, visits every element of `out` once; only in a scatter (`init` is not None) may
    it be read from data, repeat, or leave elements out: those keep what the tensor `init` holds, and written ones are
    `combine`d in the order of the iterators. `post` sees the finished reduction as the node "acc" of the body's type,
    which is also the type that is accumulated in.
    """

    out: str
    iters: tuple[Iter, ...]
    index: tuple[Expr, ...]
    body: Expr
    combine: str | None = None
    post: Expr | None = None
    init: str | None = None

    @property
    def parallel(self) -> tuple[Iter, ...]:
        return tuple(it for it in self.iters if it.kind == "parallel")

    @property
    def reduction(self) -> tuple[Iter, ...]:
        return tuple(it for it in self.iters if it.kind == "reduction")

    @property
    def is_scatter(self) -> bool:
        return self.init is not None

    @property
    def is_pointwise(self) -> bool:
        """Whether each element is a function of single elements: neither a reduction nor a scatter."""
        return self.init is None and self.combine is None

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.out,)

    @property
    def roots(self) -> tuple[Expr, ...]:
        """Every expression in it: body, epilogue, index."""
        return (self.body, *(() if self.post is None else (self.post,)), *self.index)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the tensors it reads, in the order of their first use."""
        names = dict.fromkeys(node.name for node in loads(*self.roots))
        return (*names, self.init) if self.init is not None and self.init not in names else tuple(names)


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """A named operator on whole tensors that is not a loop nest: see `host.HOST_OPERATORS`."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, bool | int | float | str]

    @property
    def reads(self) -> tuple[str, ...]:
        return self.inputs


@dataclass(frozen=True, slots=True)
class Slice:
    """`part` is one element along the first axis of `whole`; step k takes element k, from the last where `backwards`.

    An element may be read (of a tensor that is there) or written (of a result of the scan).
    """

    part: str
    whole: str
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Carry:
    """A value that goes from step to step: `now` within a step, `initial` before the first.

    Each step computes `following`; `final` holds it after the last step (or what `initial` holds, without a step).
    """

    now: str
    initial: str
    following: str
    final: str


@dataclass(frozen=True, slots=True)
class Scan:
    """`statements` run `count` times, one step after the other.

    Steps read elements of `sliced`, the values `carried` so far, and any tensor from outside; they write elements of
    `stacked`, no two the same one. A `following` is computed by a statement of the step. Where it is `conditional`, the
    first carried value, a bool, says before each step whether there is one. The names inside are those of the program,
    and nothing outside reads them but through results.
    """

    step: Iter
    sliced: tuple[Slice, ...]
    carried: tuple[Carry, ...]
    statements: tuple[Statement, ...]
    stacked: tuple[Slice, ...]
    conditional: bool = False

    @property
    def count(self) -> int:
        """The most steps that there are."""
        return self.step.extent

    @property
    def outputs(self) -> tuple[str, ...]:
        return (*(carry.final for carry in self.carried), *(piece.whole for piece in self.stacked))

    @property
    def inside(self) -> tuple[str, ...]:
        """The names that only a step knows."""
        given = (*(piece.part for piece in self.sliced), *(carry.now for carry in self.carried))
        return (*given, *(name for s in walk(self.statements) for name in s.outputs))

    @property
    def wanted(self) -> tuple[str, ...]:
        """What each step must compute."""
        return (*(carry.following for carry in self.carried), *(piece.part for piece in self.stacked))

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the tensors it reads from outside, in the order of their first use."""
        given = (*(piece.whole for piece in self.sliced), *(carry.initial for carry in self.carried))
        own = set(self.inside)
        captured = (name for statement in self.statements for name in statement.reads if name not in own)
        return tuple(dict.fromkeys((*given, *captured)))


Statement = Compute | Host | Scan


def walk(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The statements and those inside them, each scan before what is inside it."""
    pending = list(statements)[::-1]
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, Scan):
            pending += statement.statements[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A kernel: `statements` in order compute `outputs` from `inputs` and `constants`.

    `tensors` holds every name. Outputs are distinct, each written by one statement, and none is an input or a constant.
    `checks` are on statements that stand before what they guard.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, Buffer]
    constants: Mapping[str, np.ndarray]
    statements: tuple[Statement, ...]
    checks: tuple[Check, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        """What must be computed: the outputs and what is checked."""
        return (*self.outputs, *(check.tensor for check in self.checks))

    @property
    def checked(self) -> Mapping[str, Check]:
        """The checks by tensor."""
        return {check.tensor: check for check in self.checks}


def substitution(iters: Sequence[Iter], indices: Sequence[Expr]) -> dict[Expr, Expr]:
    """What replaces each iterator of a producer that is read at `indices` (those of extent 1 are in no expression)."""
    return {it.expr: index for it, index in zip(iters, indices, strict=True) if it.extent != 1}


def names_of(statements: Iterable[Statement]) -> set[str]:
    """Every tensor that the statements, and those inside them, read or write."""
    found: set[str] = set()
    for statement in walk(statements):
        found.update(statement.reads)
        found.update(statement.outputs)
        if isinstance(statement, Scan):
            found.update(statement.inside)
    return found


def readers(statements: Sequence[Statement]) -> dict[str, list[Statement]]:
    """The statements that read each tensor, in order."""
    found: dict[str, list[Statement]] = {}
    for statement in statements:
        for name in statement.reads:
            found.setdefault(name, []).append(statement)
    return found


def needed(statements: Sequence[Statement], outputs: Sequence[str]) -> Iterator[Statement]:
    """The statements that `outputs` depend on, in order; `outputs` may be names within a scan."""
    wanted, kept = set(outputs), []
    for statement in reversed(statements):
        inner = statement.inside if isinstance(statement, Scan) else ()
        if not wanted.isdisjoint(statement.outputs) or not wanted.isdisjoint(inner):
            if isinstance(statement, Scan):
                statement = replace(
                    statement, statements=tuple(needed(statement.statements, (*statement.wanted, *outputs)))
                )
            kept.append(statement)
            wanted.update(statement.reads)
    return reversed(kept)
