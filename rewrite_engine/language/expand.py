"""From a pattern to its conjunctive drafts: alternatives, optional parts, named patterns and `where` expanded.

Each draft is built from scratch by one deterministic walk that asks `Choices` at every fork; replaying the walk with
the next combination gives the next draft. Names are unified on the way (patterns are DAGs); commutativity is not
expanded.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import core, names, syntax
from rewrite_engine.language.expand_calls import named_results, operator_node
from rewrite_engine.language.expand_chain import chain_result, is_chain
from rewrite_engine.language.forks import (
    Choices,
    Clause,
    DraftGiven,
    DraftNode,
    DraftSlot,
    EqualClause,
    GuardClause,
    TypeClause,
)
from rewrite_engine.language.names import Cell, Frame, LoweringError, NamesCache, Pruned
from rewrite_engine.language.scope import Scope

DEEPEST = 120
"""How deep calls may nest, named patterns included."""


class Builder:
    """One walk over a declaration. Slots are united by a union-find; `finish` in `drafts` numbers them."""

    def __init__(self, choices: Choices, scope: Scope, cache: NamesCache, *, embeds: bool) -> None:
        self.choices, self.scope, self.cache, self.embeds = choices, scope, cache, embeds
        self.slots: list[DraftSlot] = []
        self.parents: list[int] = []
        self.nodes: list[DraftNode] = []
        self.makers: dict[int, tuple[int, int]] = {}  # slot -> node, output
        self.cells: list[Cell] = []
        self.clauses: list[Clause] = []
        self.given: list[DraftGiven] = []
        self.lists: list[str] = []
        self.chains: dict[int, tuple[int, ...]] = {}  # slot of the last step -> slots of all steps
        self.depth = 0

    # ---- slots and cells

    def slot(self, name: str, user: bool = False) -> int:
        self.slots.append(DraftSlot(name, user))
        self.parents.append(len(self.parents))
        return len(self.slots) - 1

    def root(self, slot: int) -> int:
        while self.parents[slot] != slot:
            self.parents[slot] = self.parents[self.parents[slot]]
            slot = self.parents[slot]
        return slot

    def unite(self, left: int, right: int, name: str, span: Span) -> None:
        left, right = self.root(left), self.root(right)
        if left == right:
            return
        if left in self.makers and right in self.makers:
            raise LoweringError(span, f"`{name}` names two different operators")
        keep, drop = min(left, right), max(left, right)
        kept, dropped = self.slots[keep], self.slots[drop]
        if dropped.user and not kept.user:
            kept.name, kept.user = dropped.name, True
        kept.literal = kept.literal or dropped.literal
        if drop in self.makers:
            self.makers[keep] = self.makers.pop(drop)
        self.parents[drop] = keep

    def cell(self, frame: Frame, name: str) -> Cell:
        found = frame.cells.get(name)
        if found is None:
            found = frame.cells[name] = Cell(name, len(self.cells), frame.depth == 0)
            self.cells.append(found)
        return found

    def name_slot(self, slot: int, cell: Cell) -> None:
        """The user's names win over made-up ones, the first one wins among them."""
        made = self.slots[self.root(slot)]
        if not made.user:
            made.name, made.user = (cell.name, True) if cell.user else (f"${cell.name}", False)

    def bind(self, cell: Cell, slot: int, span: Span) -> None:
        """`as`, `where`: the name stands for the value in `slot`, or for nothing."""
        if cell.state == names.OPEN:
            if slot == core.ABSENT:
                cell.state = names.ABSENT
                return
            cell.state, cell.slot = names.SLOT, slot
            self.name_slot(slot, cell)
        elif cell.state == names.SLOT and slot != core.ABSENT:
            self.unite(cell.slot, slot, cell.name, span)
        elif not (cell.state == names.ABSENT and slot == core.ABSENT):
            raise Pruned

    def use(self, cell: Cell, optional: bool, may_be_absent: bool, span: Span) -> int:
        """The slot of a name at an input; `optional` says that it may be absent, `may_be_absent` that the input may."""
        skippable = may_be_absent and (optional or cell.anything)
        if cell.state == names.ABSENT:
            if skippable:
                return core.ABSENT
            raise Pruned
        if cell.state == names.SLOT:
            return cell.slot
        if cell.state != names.OPEN:
            raise LoweringError(span, f"`{cell.name}` is not a value of the graph, so it cannot be an input")
        if cell.building:
            raise LoweringError(span, f"`{cell.name}` is defined by itself")
        if cell.thunk is not None:
            return self._force(cell, may_be_absent)
        if skippable and (self.choices.omit(span) if optional else self.choices.choose(2)):
            cell.state = names.ABSENT
            return core.ABSENT
        cell.state, cell.slot = names.SLOT, self.slot(f"${cell.name}")
        if not cell.anything:
            self.name_slot(cell.slot, cell)
        return cell.slot

    def _force(self, cell: Cell, may_be_absent: bool) -> int:
        assert cell.thunk is not None
        pattern, origin = cell.thunk
        cell.building = True
        if isinstance(pattern, syntax.Binding):
            self.build_where(pattern, origin)
        else:
            self.bind(cell, self.build(pattern, origin, may_be_absent), pattern.span)
        cell.building = False
        return cell.slot if cell.state == names.SLOT else core.ABSENT

    # ---- where and tails

    def declare_where(self, where: Sequence[syntax.Binding], frame: Frame) -> None:
        """Inner nodes are built when first used."""
        for binding in where:
            for name in binding.names:
                if name != "_":
                    cell = self.cell(frame, name)
                    if cell.thunk is None and cell.state == names.OPEN:
                        cell.thunk = (binding, frame)
                    elif cell.state != names.OPEN:  # a parameter that the caller has bound already
                        self.build_where(binding, frame)

    def build_where(self, binding: syntax.Binding, frame: Frame) -> None:
        wanted = [name != "_" for name in binding.names]
        slots = self.results(binding.pattern, frame, wanted)
        for name, slot in zip(binding.names, slots, strict=True):
            if name != "_":
                cell = self.cell(frame, name)
                cell.thunk = None
                self.bind(cell, slot, binding.span)

    def tail(self, tail: syntax.Tail, frame: Frame) -> None:
        """The guard and the `with` values of a named pattern or an alternative, once its pattern is built."""
        if tail.guard is not None:
            self.clauses.append(GuardClause(tail.guard.span, tail.guard, frame))
        for give in tail.give:
            cell = self.cell(frame, give.name)
            if cell.state == names.OPEN and cell.thunk is None:
                cell.state, cell.given = names.GIVEN, len(self.given)
                self.add_given(give, frame)
            elif cell.state == names.SLOT:
                raise LoweringError(give.span, f"`{give.name}` is a value of the graph already; give another name")
            else:
                if cell.thunk is not None:
                    self.literal_cell(cell, give.span)
                self.clauses.append(EqualClause(give.span, give.name, cell, give.value, frame))

    def add_given(self, give: syntax.Give, frame: Frame) -> None:
        """One more `with` value, numbered in order."""
        self.given.append(DraftGiven(give.name, give.span, give.value, frame))

    def named(self, name: str, file: str) -> syntax.PatternDecl | None:
        """The named pattern that a file sees under a name."""
        return self.scope.patterns_in(file).get(name)

    def literal_cell(self, cell: Cell, span: Span) -> None:
        """An argument that is used as a number: it must be a literal."""
        assert cell.thunk is not None
        pattern, origin = cell.thunk
        if not isinstance(pattern, syntax.LiteralPattern):
            raise LoweringError(span, f"`{cell.name}` is a number here, but the caller passes a pattern")
        cell.state, cell.value, cell.thunk = names.CONSTANT, pattern.value, (pattern, origin)

    # ---- patterns

    def build(self, pattern: Any, frame: Frame, may_be_absent: bool = False) -> int:
        """The slot of the value that `pattern` matches, or ABSENT."""
        match pattern:
            case syntax.ValuePattern():
                cell = self.cell(frame, pattern.name)
                cell.constant |= pattern.constant
                if pattern.type is not None:
                    self.clauses.append(TypeClause(pattern.type.span, cell, pattern.type, frame))
                optional = pattern.optional or pattern.name in frame.optional
                return self.use(cell, optional, may_be_absent, pattern.span)
            case syntax.AnyPattern():
                return self._anything(pattern, may_be_absent)
            case syntax.NonePattern():
                if not may_be_absent:
                    raise Pruned
                return core.ABSENT
            case syntax.LiteralPattern():
                slot = self.slot("$literal")
                self.slots[slot].constant = True
                self.slots[slot].literal = (pattern.value, frame)
                return slot
            case syntax.CapturePattern():
                slot = self.build(pattern.pattern, frame, may_be_absent)
                cell = self.cell(frame, pattern.name)
                self.bind(cell, slot, pattern.span)
                if pattern.type is not None:
                    self.clauses.append(TypeClause(pattern.type.span, cell, pattern.type, frame))
                return slot
            case syntax.OutputPattern():
                return self.output(self._node_of(pattern.pattern, frame), pattern.index)
            case _:
                return self._forked(pattern, frame, may_be_absent)

    def _alternative(self, pattern: syntax.Alternatives) -> syntax.Pattern:
        return pattern.items[self.choices.choose_at(pattern.span, "alternative", len(pattern.items))]

    def _anything(self, pattern: syntax.AnyPattern, may_be_absent: bool) -> int:
        if may_be_absent and self.choices.choose(2):
            return core.ABSENT
        slot = self.slot("$_")
        self.slots[slot].constant = pattern.constant or self.embeds
        return slot

    def _forked(self, pattern: Any, frame: Frame, may_be_absent: bool) -> int:
        match pattern:
            case syntax.CallPattern(optional_value=True) if may_be_absent and self.choices.omit(pattern.span):
                return core.ABSENT
            case syntax.CallPattern():
                return self.results(pattern, frame, [True])[0]
            case syntax.Alternatives():
                return self.build(self._alternative(pattern), frame, may_be_absent)
            case syntax.GuardedPattern():
                self.declare_where(pattern.tail.where, frame)
                slot = self.build(pattern.pattern, frame, may_be_absent)
                self._own_where(pattern, frame)
                self.tail(pattern.tail, frame)
                return slot
            case _:
                raise LoweringError(pattern.span, "several results can only stand where results are named")

    def results(self, pattern: Any, frame: Frame, wanted: Sequence[bool]) -> list[int]:
        """The slots of the first results of `pattern`; ABSENT where one is not wanted."""
        match pattern:
            case syntax.CallPattern() if is_chain(pattern) and len(wanted) == 1:
                return [chain_result(self, pattern, frame)]
            case syntax.CallPattern():
                may_be_skipped = pattern.optional_call and len(wanted) == 1 and bool(pattern.args)
                if may_be_skipped and self.choices.omit(pattern.span, "call"):
                    return [self.build(pattern.args[0], frame)]
                self.depth += 1
                if self.depth > DEEPEST:
                    raise LoweringError(pattern.span, f"the pattern nests deeper than {DEEPEST} calls")
                name = pattern.names[0]
                if len(pattern.names) > 1:
                    name = pattern.names[self.choices.choose_at(pattern.span, "operator", len(pattern.names))]
                if name[:1].isupper() or "::" in name:
                    node = operator_node(self, name, pattern, frame)
                    slots = [self.output(node, i) if want else core.ABSENT for i, want in enumerate(wanted)]
                else:
                    slots = named_results(self, name, pattern, frame, wanted)
                self.depth -= 1
                return slots
            case syntax.TuplePattern():
                if len(pattern.items) != len(wanted):
                    raise LoweringError(pattern.span, f"expected {len(wanted)} results, found {len(pattern.items)}")
                return [self.build(item, frame) for item in pattern.items]
            case syntax.Alternatives():
                return self.results(self._alternative(pattern), frame, wanted)
            case syntax.GuardedPattern():
                self.declare_where(pattern.tail.where, frame)
                slots = self.results(pattern.pattern, frame, wanted)
                self._own_where(pattern, frame)
                self.tail(pattern.tail, frame)
                return slots
            case syntax.CapturePattern() if len(wanted) > 1:
                slots = self.results(pattern.pattern, frame, [True, *wanted[1:]])
                self.bind(self.cell(frame, pattern.name), slots[0], pattern.span)
                return slots
            case _ if len(wanted) == 1:
                return [self.build(pattern, frame)]
            case _:
                raise LoweringError(pattern.span, f"expected an operator with {len(wanted)} results")

    def output(self, node: int, index: int) -> int:
        outputs = self.nodes[node].outputs
        while len(outputs) <= index:
            outputs.append(core.ABSENT)
        if outputs[index] == core.ABSENT:
            outputs[index] = self.slot(f"${self.nodes[node].op}")
            self.makers[outputs[index]] = (node, index)
        return outputs[index]

    def _node_of(self, pattern: Any, frame: Frame) -> int:
        """The operator whose output is named by `P[i]`."""
        if isinstance(pattern, syntax.CallPattern) and len(pattern.names) == 1:
            name = pattern.names[0]
            if name[:1].isupper() or "::" in name:
                return operator_node(self, name, pattern, frame)
        made = self.makers.get(self.root(self.build(pattern, frame)))
        if made is None:
            raise LoweringError(pattern.span, "only the result of an operator has further outputs")
        return made[0]

    def build_unreferenced(self, where: Sequence[syntax.Binding], referenced: Container[str], frame: Frame) -> None:
        """Inner nodes that no pattern mentions (a guard or the template does) must match all the same."""
        for binding in where:
            named = [name for name in binding.names if name != "_"]
            if not any(name in referenced for name in named):
                cell = self.cell(frame, named[0]) if named else None
                if cell is None or cell.thunk is not None:
                    self.build_where(binding, frame)

    def _own_where(self, pattern: syntax.GuardedPattern, frame: Frame) -> None:
        """The same for the inner nodes of an alternative, once its pattern is built."""
        if pattern.tail.where:
            self.build_unreferenced(pattern.tail.where, names.mentioned(pattern), frame)
