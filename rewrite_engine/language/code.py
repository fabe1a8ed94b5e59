"""Compiled expressions: functions of a match, what names stand for, and what expressions ask of slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rewrite_engine.language import syntax, values
from rewrite_engine.language.names import Frame
from rewrite_engine.language.program import Match, Run
from rewrite_engine.language.values import EvaluationError, View


class ReadsAbsent(Exception):
    """The expression reads a capture that is absent in this variant; its name is the argument."""


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled expression; `constant` where its value is known already. `varies`: it reads a loop variable.

    `typed`: its value is an array whose dtype the file says, by `cast` or `full`.
    """

    run: Run
    constant: bool = False
    value: object = None
    varies: bool = False
    typed: bool = False


@dataclass(frozen=True, slots=True)
class Slots:
    """A name that stands for the value in a slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a comprehension, and the slots from which its values come."""

    index: int
    sources: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """`inputs`, `outputs` or a list capture: slots, and names of lists."""

    run: Run
    slots: tuple[int | str, ...]


class Absent:
    """A name that is absent in this variant."""


Meaning = Code | Slots | Variable | Sources | Absent


@dataclass(slots=True)
class Env:
    """Where an expression stands: the frame of its captures (None in a `let`), local names, the file of its `let`s."""

    frame: Frame | None
    file: str
    local: dict[str, Meaning] = field(default_factory=dict)
    costs: bool = False
    lets: int = 0


@dataclass(slots=True, eq=False)
class Asked:
    """What expressions ask of slots (by number) and of list captures (by name)."""

    values: set[int | str] = field(default_factory=set)
    constant: set[int | str] = field(default_factory=set)
    readers: set[int | str] = field(default_factory=set)
    given: set[int] = field(default_factory=set)
    supports: bool = False

    def include(self, other: Asked) -> None:
        """Ask for all that `other` asks for."""
        self.values |= other.values
        self.constant |= other.constant
        self.readers |= other.readers
        self.given |= other.given
        self.supports |= other.supports


def constant(value: object) -> Code:
    """Code for a value known already."""
    return Code(lambda match: value, True, value)


def join(
    parts: tuple[Code, ...],
    apply: Callable[[list[object]], object],
    with_match: Callable[[Match, object], object] | None = None,
) -> Code:
    """Code that computes its parts and applies a function; computed now where all parts are constant."""
    varies = any(part.varies for part in parts)
    if with_match is not None:
        last = with_match
        return Code(lambda match: last(match, apply([part.run(match) for part in parts])), varies=varies)
    if parts and all(part.constant for part in parts):
        try:
            return constant(apply([part.value for part in parts]))
        except (EvaluationError, ArithmeticError, ValueError, TypeError, LookupError):
            pass  # it has no value: said when a match is answered
    runs = [part.run for part in parts]
    if len(runs) == 1:
        only = runs[0]
        return Code(lambda match: apply([only(match)]), varies=varies)
    return Code(lambda match: apply([run(match) for run in runs]), varies=varies)


def as_view(value: object) -> View:
    """A captured value; an error for anything else."""
    if not isinstance(value, View):
        raise EvaluationError(f"expected a captured value, found {values.show(value)}")
    return value


def conjuncts(expr: syntax.Expr) -> list[syntax.Expr]:
    """The clauses of a guard: the operands of its outermost `and`s, in order."""
    return operands(expr, "and")


def operands(expr: syntax.Expr, op: str) -> list[syntax.Expr]:
    """The operands of the outermost uses of one operator, in order."""
    found: list[syntax.Expr] = []
    pending = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, syntax.Binary) and part.op == op:
            pending += [part.right, part.left]
        else:
            found.append(part)
    return found
