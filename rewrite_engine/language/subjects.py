"""What a check of a match is about: the value, attribute or comparison that would have to change for it to hold.

In: a clause as compiled for one variant. Out: a subject, which generators of matches read; nothing that answers a match
does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rewrite_engine.language import names, syntax
from rewrite_engine.language.code import Env, ReadsAbsent, Slots
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.program import Match, Run

if TYPE_CHECKING:
    from rewrite_engine.language.compile import Compiler


@dataclass(frozen=True, slots=True)
class OfType:
    """`x: float32[N, 64]`. `wanted` gives the dtypes allowed (None: any) and the dimensions: a size, None, or "..."."""

    slot: int
    wanted: Callable[[Match], tuple[tuple[str, ...] | None, list[object]]]


@dataclass(frozen=True, slots=True)
class OfAttribute:
    """`axis=1`: the attribute equals a value, or is there, or is absent (`value` None)."""

    node: int
    name: str
    value: Run | None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class OfLiteral:
    """The constant in a slot equals a literal."""

    slot: int
    value: Run


@dataclass(frozen=True, slots=True)
class Place:
    """What an operand reads: `kind` is "shape", "rank", "numel", "dtype", "dim" (`index`) or "value" of a slot, or
    "attribute" (`name`) of the operator that makes it, or of `node`."""

    kind: str
    slot: int = -1
    index: int = 0
    name: str = ""
    node: int = -1


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a guard: `symbol` between two operands, each with the place it reads where it is one."""

    symbol: str
    runs: tuple[Run, Run]
    places: tuple[Place | None, Place | None]


@dataclass(frozen=True, slots=True)
class OfGuard:
    """A clause of a guard: the comparisons in it, and the slots it names."""

    comparisons: tuple[Comparison, ...]
    slots: tuple[int, ...]


Subject = OfType | OfAttribute | OfLiteral | OfGuard

_PROPERTIES = frozenset({"shape", "rank", "numel", "dtype"})


def of_guard(compiler: Compiler, clause: syntax.Expr, env: Env) -> OfGuard:
    """The comparisons anywhere in a clause, through `and`, `or`, `all`, `any` and `let`s with parameters."""
    found: list[Comparison] = []
    slots: dict[int, None] = {}
    pending: list[tuple[syntax.Expr, Env]] = [(clause, env)]
    while pending:
        part, here = pending.pop()
        try:
            pending += reversed(_parts(compiler, part, here))
            if isinstance(part, syntax.Compare):
                found += _comparisons(compiler, part, here)
            place = place_of(compiler, part, here)
        except (LoweringError, ReadsAbsent):
            continue
        if place is not None and place.slot >= 0:
            slots[place.slot] = None
    return OfGuard(tuple(found), tuple(slots))


def _parts(compiler: Compiler, part: syntax.Expr, env: Env) -> list[tuple[syntax.Expr, Env]]:
    match part:
        case syntax.Compare():
            return [(part.first, env), *((operand, env) for _, operand in part.rest)]
        case syntax.Binary():
            return [(part.left, env), (part.right, env)]
        case syntax.Unary():
            return [(part.operand, env)]
        case syntax.Index() | syntax.Slice():
            return [(part.base, env)]
        case syntax.ListExpr() | syntax.SetExpr() | syntax.TupleExpr():
            return [(item, env) for item in part.items]
        case syntax.Call(function=syntax.Name(name=name)):
            let = compiler.scope.lets_in(env.file).get(name)
            if let is None or let.parameters is None or env.lets > 20:
                return [(argument, env) for argument in part.args]
            from rewrite_engine.language.calls import argument_of

            pairs = zip(let.parameters, part.args, strict=False)
            local = {parameter: argument_of(compiler, argument, env) for parameter, argument in pairs}
            return [(let.value, Env(None, let.span.file, local, env.costs, env.lets + 1))]
        case _:
            return []


def _comparisons(compiler: Compiler, part: syntax.Compare, env: Env) -> list[Comparison]:
    operands = [part.first, *(operand for _, operand in part.rest)]
    runs = [compiler.compile(operand, env).run for operand in operands]
    places = [place_of(compiler, operand, env) for operand in operands]
    return [
        Comparison(symbol, (runs[k], runs[k + 1]), (places[k], places[k + 1]))
        for k, (symbol, _) in enumerate(part.rest)
    ]


def place_of(compiler: Compiler, expr: syntax.Expr, env: Env) -> Place | None:
    """What an expression reads, where it is just that."""
    match expr:
        case syntax.Name(name=name):
            cell: Any = env.frame.cells.get(name) if env.frame is not None and name not in env.local else None
            if cell is not None and cell.state == names.ATTRIBUTE:
                return Place("attribute", name=cell.attribute, node=compiler.node_numbers[cell.node])
            found = compiler.meaning(name, env)
            return Place("value", found.slot) if isinstance(found, Slots) else None
        case syntax.Member(base=syntax.Name() as base, name=name):
            whole = place_of(compiler, base, env)
            if whole is None or whole.kind != "value":
                return None
            return Place(name, whole.slot) if name in _PROPERTIES else Place("attribute", whole.slot, name=name)
        case syntax.Index(base=base, index=syntax.Number(value=int() as index)):
            whole = place_of(compiler, base, env)
            return Place("dim", whole.slot, index) if whole is not None and whole.kind == "shape" else None
        case syntax.Call(function=syntax.Name(name="item" | "abs"), args=(argument,)):
            return place_of(compiler, argument, env)
        case _:
            return None


__all__ = ["Comparison", "OfAttribute", "OfGuard", "OfLiteral", "OfType", "Place", "Subject", "of_guard"]
