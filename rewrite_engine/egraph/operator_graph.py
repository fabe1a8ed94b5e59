"""Every operator of a frozen e-graph, of the model and made by rules: what explanations walk; nothing matches on it.

In: the frozen functions with classes numbered. Out: operators by what they compute and by what they read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rewrite_engine.graph.terms import ABSENT

if TYPE_CHECKING:
    from rewrite_engine.egraph.freeze import _Graph

Originals = Mapping[tuple[str, tuple[int, ...], int], list[str]]
"""The model's own operators: (operator, input classes, attributes' identity) -> first outputs."""


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """An operator of the e-graph: classes of its inputs (ABSENT: not there) and results (ABSENT: nobody reads it).

    `names` are the first outputs of the model's operators that it is; without any, a rule made it.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, object]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OperatorGraph:
    """All operators, in an order that depends on the model alone, and by number who computes and who reads a class.

    `readers` gives, per class, its readers in the model as it was given, and whether it is an output of the model.
    """

    operators: tuple[Applied, ...]
    makers: Mapping[int, tuple[int, ...]]
    users: Mapping[int, tuple[int, ...]]
    readers: Mapping[int, tuple[int, bool]]


def model_operators(graph: _Graph) -> dict[tuple[str, tuple[int, ...], int], list[str]]:
    """The model's own operators by what they are in the e-graph; equal ones are one."""
    terms = graph.encoding.terms
    found: dict[tuple[str, tuple[int, ...], int], list[str]] = defaultdict(list)
    for node in terms.nodes:
        inputs = tuple(ABSENT if i == ABSENT else graph.refs[i] for i in node.inputs)
        attributes = graph.encoding.attribute_id(node.attributes)
        found[node.op, inputs, attributes].append(next(terms.values[o].name for o in node.outputs if o != ABSENT))
    return found


def operator_graph(graph: _Graph, originals: Originals) -> OperatorGraph:
    """The operators of a frozen e-graph, those of the model first, in its order."""
    position = {name: k for k, names in enumerate(originals.values()) for name in names}
    parts: dict[int, dict[int, int]] = defaultdict(dict)
    for row in graph.rows("Out"):
        parts[graph.number[row.inputs[0]]][graph.integer(row.inputs[1])] = graph.number[row.output]
    found: list[tuple[tuple[object, ...], Applied]] = []
    for table in sorted(t for t in graph.encoding.tables if not t.fused):
        for row in graph.rows(table.symbol):
            inputs = tuple(ABSENT if i in graph.absent else i for i in graph.operands(row, table))
            number, result = graph.integer(row.inputs[-1]), graph.number[row.output]
            outputs = (
                (result,) if table.outputs == 1 else tuple(parts[result].get(k, ABSENT) for k in range(table.outputs))
            )
            attributes = graph.encoding.attributes[number]
            assert isinstance(attributes, Mapping)
            names = tuple(originals.get((table.op, inputs, number), ()))
            first = min((position[name] for name in names), default=len(position))
            applied = Applied(table.op, inputs, outputs, attributes, names)
            found.append(((first, table.op, inputs, outputs, number), applied))
    found.sort(key=lambda pair: pair[0])
    operators = tuple(applied for _, applied in found)
    readers = {
        graph.number[row.inputs[0]]: (graph.integer(row.output) // 2, graph.integer(row.output) % 2 == 1)
        for row in graph.rows("rd")
    }
    return OperatorGraph(
        operators, _index([a.outputs for a in operators]), _index([a.inputs for a in operators]), readers
    )


def _index(classes: list[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Class -> numbers of the operators that have it, ascending."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, members in enumerate(classes):
        for member in dict.fromkeys(members):
            if member != ABSENT:
                found[member].append(number)
    return {member: tuple(numbers) for member, numbers in sorted(found.items())}
