"""A finished walk, and its final numbers: slots, nodes (operands first), results, and the kernel's inputs in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import core, names, syntax
from rewrite_engine.language.core import CoreRule, Variant
from rewrite_engine.language.declared import Inner
from rewrite_engine.language.expand import Builder
from rewrite_engine.language.forks import TypeClause
from rewrite_engine.language.names import Frame, LoweringError
from rewrite_engine.language.scope import TargetScope


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A declaration to be lowered, whatever kind it is."""

    name: str
    kind: str  # "rule" | "composite" | "supports" | "pattern"
    span: Span
    pattern: syntax.Name | syntax.Pattern
    tail: syntax.Tail
    label: str = "exact"
    template: syntax.Expr | None = None
    target: TargetScope | None = None
    cost: syntax.Expr | None = None
    energy: syntax.Expr | None = None
    parameters: tuple[syntax.Parameter, ...] = ()
    doc: str = ""
    siblings: tuple[syntax.Name | syntax.Pattern, ...] = ()  # all forms of a `supports`
    supports: Mapping[str, tuple[tuple[CoreRule, Variant], ...]] | None = None
    inner: Mapping[str, Inner] = field(default_factory=dict)  # of the template


@dataclass(slots=True, eq=False)
class Draft:
    """One finished walk: the builder's state, the frame of the declaration, the results, the code generator's names."""

    source: Source
    builder: Builder
    frame: Frame
    roots: list[int]
    attributes: list[int] = field(default_factory=list)


class Layout:
    """Final numbers of slots and nodes (operands first), and the order of the kernel's inputs."""

    def __init__(self, draft: Draft) -> None:
        builder = draft.builder
        roots = [builder.root(slot) for slot in range(len(builder.slots))]
        kept = list(dict.fromkeys(sorted(roots)))
        position = {slot: number for number, slot in enumerate(kept)}
        self.numbers = {slot: position[root] for slot, root in enumerate(roots)}
        self.kept = kept
        self.constant = {self.numbers[c.slot] for c in builder.cells if c.state == names.SLOT and c.constant}
        self.constant |= {self.numbers[s] for s, slot in enumerate(builder.slots) if slot.constant}
        self.node_order = self._sorted(draft)
        self.node_numbers = {node: number for number, node in enumerate(self.node_order)}
        self.makers = {self.numbers[slot]: self.node_numbers[node] for slot, (node, _) in builder.makers.items()}
        self.chains = {
            self.numbers[slot]: tuple(self.numbers[step] for step in steps) for slot, steps in builder.chains.items()
        }
        self.roots = tuple(self.numbers[slot] for slot in draft.roots)
        self.order = tuple(dict.fromkeys(self._inputs(draft)))
        for clause in builder.clauses:
            if isinstance(clause, TypeClause) and clause.cell.state == names.SLOT:
                self._bind_dimensions(builder, clause)

    def _sorted(self, draft: Draft) -> list[int]:
        """Nodes, operands first; a name that is used before it is bound may have them in another order."""
        builder = draft.builder
        makers = {builder.root(slot): node for slot, (node, _) in builder.makers.items()}
        order: list[int] = []
        placed: set[int] = set()
        waiting = list(range(len(builder.nodes)))
        while waiting:
            later = []
            for node in waiting:
                needs = {makers.get(builder.root(s), -1) for s in builder.nodes[node].inputs if s != core.ABSENT}
                if needs - {-1} <= placed:
                    order.append(node)
                    placed.add(node)
                else:
                    later.append(node)
            if len(later) == len(waiting):
                raise LoweringError(builder.nodes[later[0]].span, "this operator reads its own result")
            waiting = later
        return order

    def _inputs(self, draft: Draft) -> list[int | str]:
        builder, source = draft.builder, draft.source
        free = [n for n in range(len(self.kept)) if n not in self.makers]
        lists: list[int | str] = [*builder.lists]
        if source.kind == "supports":
            node = builder.nodes[0]
            written: list[int | str] = [self.numbers[slot] for slot in node.inputs if slot != core.ABSENT]
            return [*written, *([node.rest] if node.rest is not None else [])]
        if source.kind == "rule":
            literal = {self.numbers[s] for s, slot in enumerate(builder.slots) if slot.literal is not None}
            return [*(n for n in free if n not in literal), *lists]
        given: list[int | str] = []
        for parameter in source.parameters:
            cell = builder.cell(draft.frame, parameter.name)
            if cell.state == names.LIST:
                given += cell.lists
            elif cell.state == names.SLOT and self.numbers[cell.slot] in self.makers:
                if source.kind == "composite":
                    message = f"`{parameter.name}` is computed inside the composite, so it cannot be passed"
                    raise LoweringError(parameter.span, message)
            elif cell.state == names.SLOT:
                given.append(self.numbers[cell.slot])
        if source.kind == "pattern":
            return given
        named = [n for n in free if not builder.slots[self.kept[n]].name.startswith("$")]
        return [*given, *named, *free, *lists]

    def _bind_dimensions(self, builder: Builder, clause: TypeClause) -> None:
        for name in (clause.type.dtype, *clause.type.dims):
            if isinstance(name, str) and name in clause.frame.names.dimensions:
                cell = builder.cell(clause.frame, name)
                if cell.state == names.OPEN and cell.thunk is not None:
                    builder.literal_cell(cell, clause.span)
                elif cell.state == names.OPEN:
                    cell.state = names.DIMENSION
                elif cell.state == names.SLOT:
                    raise LoweringError(clause.span, f"`{name}` is a value already, so it cannot be a dimension")
