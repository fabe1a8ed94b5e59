"""The order and the shape in which statements run: results written in parts where they are made, chains by points.

In: the statements of a program. Out: statements that do the same. A Concat (and what follows it element by element) is
cut into its parts, and a part that a reduction makes becomes that reduction's epilogue: it writes at its offset.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rewrite_engine.loops.boxes import boxes
from rewrite_engine.loops.compose import joined
from rewrite_engine.loops.compute import Buffer, Compute, Scan, Statement, readers
from rewrite_engine.loops.expr import loads
from rewrite_engine.loops.group import Group, grouped


def scheduled(
    statements: Sequence[Statement], tensors: Mapping[str, Buffer], kept: Collection[str]
) -> list[Statement | Group]:
    """The statements as they run; what is `kept` is read afterwards, too. Those inside scans are not looked at."""
    return grouped(in_parts(statements, kept), tensors, kept)


def in_parts(statements: Sequence[Statement], kept: Collection[str]) -> list[Statement]:
    """The statements, some of which write a part of their tensor only; together they write all of it."""
    reading = readers(statements)
    reductions: dict[str, Compute] = {}
    gone: set[str] = set()
    done: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Scan):
            inner = tuple(in_parts(statement.statements, (*kept, *statement.wanted)))
            statement = replace(statement, statements=inner)
        if isinstance(statement, Compute) and statement.is_pointwise:
            alone = {n: reductions[n] for n in statement.reads if n in reductions and len(reading[n]) == 1}
            parts = _parts(statement, {n: r for n, r in alone.items() if n not in kept})
            if parts is not None:
                gone.update(name for name in alone if not any(name in part.reads for part in parts))
                done += parts
                continue
        if isinstance(statement, Compute) and statement.combine is not None and not statement.is_scatter:
            reductions[statement.out] = statement
        done.append(statement)
    return [statement for statement in done if gone.isdisjoint(statement.outputs)]


def _parts(compute: Compute, reductions: Mapping[str, Compute]) -> list[Compute] | None:
    """The boxes of a compute, those that read one reduction merged with it; None where none is."""
    cut = boxes(compute) if reductions else []
    if len(cut) < 2:
        return None
    readings = [sorted({node.name for node in loads(box.body)} & reductions.keys()) for box in cut]
    parts = []
    for box, names in zip(cut, readings, strict=True):
        whole = len(names) == 1 and sum(names[0] in other for other in readings) == 1
        merged = joined(reductions[names[0]], box) if whole else None
        parts.append(merged or box)
    return parts if any(part not in cut for part in parts) else None
