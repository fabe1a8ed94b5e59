"""Which operators can stand at the nodes of a pattern that leaves a choice, going by the rows that the e-graph has.

In: a variant with `choices` (a chain) and the rows of every table. Out: the tables, and which further inputs are there,
of each way that may match. It only narrows down what is declared to egglog, which does the matching: a way is left out
when no row of some node reads what the nodes before it give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewrite_engine.egraph.encode import Table
from rewrite_engine.language.core import ABSENT, PatternNode, Variant

Present = tuple[bool, ...]
"""Of the inputs that follow those written, which are there."""


@dataclass(frozen=True, slots=True)
class Way:
    """One table per node of the pattern; `present` for the nodes with further inputs, by number."""

    tables: tuple[Table, ...]
    present: Mapping[int, Present]


class Rows:
    """The rows of a frozen e-graph, by table."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self.absent = {row.output for row in self._read("Absent")}
        self._outputs: dict[int, dict[Any, Any]] | None = None
        self._rows: dict[Table, list[tuple[tuple[Any, ...], Any]]] = {}

    def _read(self, name: str) -> Sequence[Any]:
        return self._functions[name].rows if name in self._functions else ()

    def of(self, table: Table) -> list[tuple[tuple[Any, ...], Any]]:
        """(inputs, result) of each row, in either order of the inputs where these may be swapped."""
        found = self._rows.get(table)
        if found is None:
            found = [(tuple(row.inputs[: table.inputs]), row.output) for row in self._read(table.symbol)]
            if table.either:
                found += [((right, left), output) for (left, right), output in found]
            self._rows[table] = found
        return found

    def outputs(self, results: set[Any], table: Table, position: int, integer: Any) -> set[Any]:
        """The values of one output of a table's results."""
        if table.outputs == 1:
            return results
        if self._outputs is None:
            self._outputs = {}
            for row in self._read("Out"):
                self._outputs.setdefault(integer(row.inputs[1]), {})[row.inputs[0]] = row.output
        known = self._outputs.get(position, {})
        return {known[result] for result in results if result in known}


def ways(variant: Variant, fitting: Sequence[Sequence[Table]], rows: Rows, integer: Any) -> Iterator[Way]:
    """Every way that may match; `fitting` are the tables for each node, in order."""
    pending: list[tuple[tuple[Table, ...], dict[int, Present], dict[int, set[Any]]]] = [((), {}, {})]
    while pending:
        tables, present, values = pending.pop()
        index = len(tables)
        if index == len(variant.nodes):
            yield Way(tables, present)
            continue
        node = variant.nodes[index]
        further = []
        for table in fitting[index]:
            for mask, results in _narrowed(node, table, values, rows).items():
                inner = dict(values)
                for position, slot in enumerate(node.outputs):
                    if slot != ABSENT:
                        found = rows.outputs(results, table, position, integer)
                        inner[slot] = found & inner[slot] if slot in inner else found
                if all(inner[slot] for slot in node.outputs if slot != ABSENT):
                    there = {**present, index: mask} if node.rest is not None else present
                    further.append(((*tables, table), there, inner))
        pending += reversed(further)


def _narrowed(node: PatternNode, table: Table, values: Mapping[int, set[Any]], rows: Rows) -> dict[Present, set[Any]]:
    """The results of the rows whose inputs agree with the values known so far, by which further inputs they have."""
    found: dict[Present, set[Any]] = {}
    written = node.inputs
    for inputs, result in rows.of(table):
        if all(
            (given in rows.absent) if slot == ABSENT else (slot not in values or given in values[slot])
            for slot, given in zip(written, inputs, strict=False)
        ):
            mask = tuple(given not in rows.absent for given in inputs[len(written) :])
            found.setdefault(mask, set()).add(result)
    return dict(sorted(found.items(), reverse=True))
