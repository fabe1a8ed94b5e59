"""What makes two variants of a declaration the same: structure, clauses and values, whatever path led there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rewrite_engine.language import core, names, syntax
from rewrite_engine.language.forks import AttributeClause, Clause, EqualClause, GuardClause, LiteralClause, TypeClause
from rewrite_engine.language.names import Cell, Frame
from rewrite_engine.language.walk import parts_of

if TYPE_CHECKING:
    from rewrite_engine.language.layout import Draft

Numbers = Mapping[int, int]


def variant_key(draft: Draft, numbers: Numbers) -> object:
    """Equal for drafts that match the same things under the same conditions and build the same."""
    builder, source = draft.builder, draft.source

    def number(slot: int) -> int:
        return core.ABSENT if slot == core.ABSENT else numbers[slot]

    nodes = tuple(
        (node.op, tuple(map(number, node.inputs)), tuple(map(number, node.outputs)), node.rest)
        for node in builder.nodes
    )
    constants = tuple(
        sorted({number(cell.slot) for cell in builder.cells if cell.state == names.SLOT and cell.constant})
    )
    clauses = tuple(_clause(clause, numbers) for clause in builder.clauses)
    given = tuple((give.name, _print(give.value, give.frame, numbers)) for give in builder.given)
    whole = tuple(
        _print(expr, draft.frame, numbers) for expr in (source.template, source.cost, source.energy) if expr is not None
    )
    bound = tuple(sorted((name, _cell(cell, numbers)) for name, cell in draft.frame.cells.items()))
    return nodes, tuple(map(number, draft.roots)), constants, clauses, given, whole, bound


def _clause(clause: Clause, numbers: Numbers) -> object:
    match clause:
        case LiteralClause():
            value = _print(clause.value, clause.frame, numbers)
            return ("literal", clause.node, clause.position, numbers[clause.slot], value)
        case TypeClause():
            kind = clause.type
            cells = tuple(_name(d, clause.frame, numbers) if isinstance(d, str) else d for d in kind.dims)
            dtype = _name(kind.dtype, clause.frame, numbers) if kind.dtype is not None else None
            return ("type", _cell(clause.cell, numbers), dtype, cells)
        case AttributeClause():
            value = None if clause.value is None else _print(clause.value, clause.frame, numbers)
            return ("attribute", clause.node, clause.name, clause.absent, value)
        case GuardClause():
            return ("guard", _print(clause.guard, clause.frame, numbers))
        case EqualClause():
            return ("equal", _cell(clause.cell, numbers), _print(clause.value, clause.frame, numbers))


def _name(name: str, frame: Frame, numbers: Numbers) -> object:
    cell = frame.cells.get(name)
    return ("name", name, name in frame.names.captured) if cell is None else _cell(cell, numbers)


def _cell(cell: Cell, numbers: Numbers) -> object:
    match cell.state:
        case names.SLOT:
            return ("slot", numbers[cell.slot])
        case names.ATTRIBUTE:
            return ("attribute", cell.node, cell.attribute)
        case names.GIVEN:
            return ("given", cell.given)
        case names.CONSTANT:
            return ("constant", cell.number)
        case names.DIMENSION:
            return ("dimension", cell.number)
        case _:
            return ("state", cell.state, cell.lists)


def _print(expr: object, frame: Frame, numbers: Numbers) -> object:
    """An expression without its positions, its names as what they stand for."""
    if isinstance(expr, (syntax.Name, syntax.Like, syntax.Rest)):
        return (type(expr).__name__, _name(expr.name, frame, numbers))
    if isinstance(expr, tuple):
        return tuple(_print(item, frame, numbers) for item in expr)
    if isinstance(expr, syntax.Node):
        return (type(expr).__name__, *(_print(value, frame, numbers) for value in parts_of(expr)))
    return repr(expr)
