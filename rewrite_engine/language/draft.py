"""One declaration to its variants: each path through its forks is built, numbered, compiled; equal ones are merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import checks, core, names, syntax
from rewrite_engine.language.compile import Asked, Compiler, Env, ReadsAbsent
from rewrite_engine.language.core import CoreRule, PatternNode, Slot, Variant
from rewrite_engine.language.expand import Builder
from rewrite_engine.language.fingerprint import variant_key
from rewrite_engine.language.forks import (
    MOST_DRAFTS,
    AttributeClause,
    Choices,
    DraftNode,
    EqualClause,
    GuardClause,
    LiteralClause,
    TypeClause,
)
from rewrite_engine.language.layout import Draft, Layout, Source
from rewrite_engine.language.names import Frame, LoweringError, Names, NamesCache, Pruned
from rewrite_engine.language.program import Check, Given, Match, Program, RestFlags, Run
from rewrite_engine.language.results import result_count
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.language.template import TemplateBuilder
from rewrite_engine.language.units import Quantity
from rewrite_engine.language.values import EvaluationError

NO_NAMES = Names(frozenset(), frozenset(), frozenset(), frozenset(), frozenset(), ())
EVERYTHING = "*"
"""The `rest` of a bare `supports Relu`: all its inputs."""


def expand_all(scope: Scope, cache: NamesCache, source: Source) -> list[Variant]:
    """The variants of a declaration, in the order of its alternatives. Raises `LoweringError`."""
    lets = scope.lets_in(source.span.file)
    options = source.target.options if source.target is not None else {}
    patterns = [p for p in (source.pattern, *source.siblings) if not isinstance(p, syntax.Name)]
    declared = names.names_of(source.parameters, patterns, source.tail, lets, options)
    choices = Choices()
    found: dict[object, Variant] = {}
    for walked in range(MOST_DRAFTS + 1):
        if walked == MOST_DRAFTS:
            message = f"`{source.name}` expands into more than {MOST_DRAFTS} combinations of alternatives"
            raise LoweringError(source.span, message, "split it into several declarations")
        builder = Builder(choices, scope, cache, embeds=source.kind == "composite")
        try:
            draft = _walk(scope, source, builder, Frame(source.span.file, declared, source.target))
        except Pruned:
            draft = None
        ways = choices.taken
        more = choices.advance()
        if draft is not None:
            layout = Layout(draft)
            key = variant_key(draft, layout.numbers) if more or found else None
            known = found.get(key)
            if known is None:
                found[key] = dataclasses.replace(_variant(scope, draft, layout), ways=tuple(ways))
            elif ways:
                found[key] = dataclasses.replace(known, ways=tuple(dict.fromkeys((*known.ways, *ways))))
        if not more:
            break
    return list(found.values())


def _walk(scope: Scope, source: Source, builder: Builder, frame: Frame) -> Draft:
    for parameter in source.parameters:
        cell = builder.cell(frame, parameter.name)
        if parameter.optional:
            frame.optional.add(parameter.name)
        if parameter.type is not None:
            builder.clauses.append(TypeClause(parameter.type.span, cell, parameter.type, frame))
    builder.declare_where(source.tail.where, frame)
    if isinstance(source.pattern, syntax.Name):
        builder.nodes.append(DraftNode(source.pattern.name, source.pattern.span, rest=EVERYTHING))
        roots = [builder.output(0, 0)]
    else:
        roots = builder.results(source.pattern, frame, [True] * result_count(scope, source.pattern))
    builder.build_unreferenced(frame.names.where, frame.names.referenced, frame)
    draft = Draft(source, builder, frame, roots)
    if source.kind in ("rule", "pattern"):
        builder.tail(source.tail, frame)
    else:
        _kernel_tail(draft)
    if source.kind == "supports" and len(builder.nodes) != 1:
        raise LoweringError(source.pattern.span, "`supports` speaks of one operator", "write a composite")
    if core.ABSENT in roots:
        raise Pruned
    if not builder.nodes:
        if source.kind == "pattern":  # one of its alternatives is a bare value: nothing to look for
            raise Pruned
        raise LoweringError(source.pattern.span, "a pattern needs at least one operator")
    return draft


def _kernel_tail(draft: Draft) -> None:
    """The guard of a capability, and its `with` values: attributes for the code generator, which costs may read too."""
    builder, frame, tail = draft.builder, draft.frame, draft.source.tail
    if tail.guard is not None:
        builder.clauses.append(GuardClause(tail.guard.span, tail.guard, frame))
    for give in tail.give:
        draft.attributes.append(len(builder.given))
        cell = builder.cell(frame, give.name)
        if cell.state == names.OPEN and cell.thunk is None:
            cell.state, cell.given = names.GIVEN, len(builder.given)
        builder.add_given(give, frame)


def _variant(scope: Scope, draft: Draft, layout: Layout) -> Variant:
    source, builder = draft.source, draft.builder
    compiler = Compiler(
        scope,
        source.target,
        layout.numbers,
        layout.node_numbers,
        layout.order,
        layout.roots,
        source.supports,
        layout.chains,
    )
    given, given_asked = _given(compiler, draft)
    clauses, settled = _checks(compiler, draft)
    cost, profile = _cost(compiler, draft, source.cost)
    energy, _ = _cost(compiler, draft, source.energy)
    template, template_program = None, None
    if source.template is not None:
        env = Env(draft.frame, source.template.span.file)
        template, template_program = TemplateBuilder(compiler, env, layout.makers, given_asked, source.inner).build(
            source.template, len(layout.roots)
        )
    nodes = _nodes(builder, layout)
    asked = compiler.asked
    if asked.supports and source.supports is not None:
        _ask_for_supports(asked, nodes, source.supports)
    slots = []
    for number, slot in enumerate(layout.kept):
        drafted = builder.slots[slot]
        constant = number in layout.constant
        reads = number in asked.values or drafted.literal is not None
        slots.append(Slot(drafted.name, constant, reads, number in asked.constant, number in asked.readers))
    rest = {
        key: RestFlags(False, key in asked.values, key in asked.constant, key in asked.readers)
        for key in (*builder.lists, EVERYTHING)
    }
    program = Program(
        span=source.span,
        checks=tuple(clauses),
        settled=tuple(settled),
        given=tuple(given),
        attributes=tuple(i for i in draft.attributes if given[i].run is not _skip),
        template=template_program,
        cost=cost,
        cost_span=source.cost.span if source.cost is not None else None,
        energy=energy,
        energy_span=source.energy.span if source.energy is not None else None,
        profile=profile,
        order=layout.order,
        rest=rest,
        variables=compiler.variables,
        capabilities=source.supports or {},
        roofline=_roofline(compiler, source.target) if asked.supports else (None, None),
        captures=tuple(
            (name, layout.node_numbers[cell.node], cell.attribute)
            for name, cell in draft.frame.cells.items()
            if cell.state == names.ATTRIBUTE
        ),
    )
    inputs = tuple(entry for entry in layout.order if isinstance(entry, int))
    return Variant(0, _unique_names(slots), nodes, layout.roots, inputs, template, program)


def _nodes(builder: Builder, layout: Layout) -> tuple[PatternNode, ...]:
    def number(slot: int) -> int:
        return core.ABSENT if slot == core.ABSENT else layout.numbers[slot]

    found = []
    for index in layout.node_order:
        node = builder.nodes[index]
        inputs, outputs = (tuple(number(slot) for slot in slots) for slots in (node.inputs, node.outputs))
        found.append(PatternNode(node.op, inputs, outputs, node.rest, node.choices, node.span))
    return tuple(found)


def _unique_names(slots: list[Slot]) -> tuple[Slot, ...]:
    """Each name once: made-up ones are numbered where they meet."""
    taken: dict[str, int] = {}
    found = []
    for slot in slots:
        count = taken[slot.name] = taken.get(slot.name, 0) + 1
        found.append(slot if count == 1 else dataclasses.replace(slot, name=f"${slot.name.lstrip('$')}.{count}"))
    return tuple(found)


def _skip(match: Match) -> object:
    raise EvaluationError("it reads an absent capture")


def _given(compiler: Compiler, draft: Draft) -> tuple[list[Given], dict[int, Asked]]:
    """The `with` values, and what each asks for; one that reads an absent capture has no value in this variant."""
    found: list[Given] = []
    asked_by: dict[int, Asked] = {}
    total = compiler.asked
    for index, give in enumerate(draft.builder.given):
        compiler.asked = Asked()
        run: Run
        try:
            code = compiler.compile(give.value, Env(give.frame, give.value.span.file))
            run = code.run
            if code.typed:
                compiler.typed.add(index)
        except ReadsAbsent:
            run = _skip
        found.append(Given(give.name, give.span, run))
        asked_by[index] = compiler.asked
        total.include(compiler.asked)
    compiler.asked = total
    for index in asked_by:  # a value that reads itself, directly or not
        reached: set[int] = set()
        pending = list(asked_by[index].given)
        while pending:
            other = pending.pop()
            if other not in reached:
                reached.add(other)
                pending += asked_by[other].given
        if index in reached:
            raise LoweringError(found[index].span, f"`{found[index].name}` is computed from itself")
    return found, asked_by


def _checks(compiler: Compiler, draft: Draft) -> tuple[list[Check], list[Span]]:
    """Types, literals and attributes first, then what the target requires, then guards in the order written.

    And the clauses of guards that hold for every match of this variant.
    """
    builder, target = draft.builder, draft.source.target
    early: dict[type, list[Check]] = {TypeClause: [], LiteralClause: [], AttributeClause: []}
    late: list[Check] = []
    settled: list[Span] = []
    for clause in builder.clauses:
        match clause:
            case TypeClause():
                if clause.cell.state == names.SLOT:
                    early[TypeClause].append(checks.type_check(compiler, builder, clause))
            case LiteralClause():
                early[LiteralClause].append(checks.literal_check(compiler, clause))
            case AttributeClause():
                early[AttributeClause].append(checks.attribute_check(compiler, clause))
            case EqualClause():
                late.append(checks.equal_check(compiler, clause))
            case GuardClause():
                late += checks.guard_checks(compiler, clause.guard, Env(clause.frame, clause.span.file), settled)
    named = {op: frozenset(facts.attributes) for op, facts in compiler.scope.declared.items()}
    for index, node in enumerate(builder.nodes):
        if named.keys() & {node.op, *node.choices}:
            number = compiler.node_numbers[index]
            early[AttributeClause].insert(0, checks.named_check(node.span, number, named))
    required: list[Check] = []
    if target is not None:
        for guard in target.requires:
            env = Env(Frame(guard.span.file, NO_NAMES, target), guard.span.file)
            required += checks.guard_checks(compiler, guard, env, settled)
    return [check for kind in early.values() for check in kind] + required + late, settled


def _cost(compiler: Compiler, draft: Draft, cost: syntax.Expr | None) -> tuple[Run | None, str | None]:
    """A formula to run, or the key of a measured cost."""
    if cost is None:
        return None, None
    if isinstance(cost, syntax.Call) and isinstance(cost.function, syntax.Name) and cost.function.name == "profile":
        if len(cost.args) == 1 and isinstance(cost.args[0], syntax.Text):
            return None, cost.args[0].value
        raise LoweringError(cost.span, 'profile() takes the name of a measurement: profile("conv_i8")')
    try:
        return compiler.compile(cost, Env(draft.frame, cost.span.file, costs=True)).run, None
    except ReadsAbsent as absent:
        hint = f"write `if present({absent}) then … else …`"
        raise LoweringError(cost.span, f"the cost reads `{absent}`, which may be absent", hint) from None


def _ask_for_supports(
    asked: Asked, nodes: tuple[PatternNode, ...], supports: Mapping[str, tuple[tuple[CoreRule, Variant], ...]]
) -> None:
    """What the forms of `supports` ask of an operator's operands, the composite asks too."""
    for node in nodes:
        for _, form in (form for op in node.choices or (node.op,) for form in supports.get(op, ())):
            written = form.nodes[0].inputs
            assert isinstance(form.program, Program)
            flags = form.program.rest.get(form.nodes[0].rest or "", RestFlags())
            for position, slot in enumerate(node.inputs):
                if slot == core.ABSENT:
                    continue
                wants: Slot | RestFlags = flags
                if position < len(written) and written[position] != core.ABSENT:
                    wants = form.slots[written[position]]
                if wants.reads_value:
                    asked.values.add(slot)
                if wants.reads_value or wants.asks_constant or wants.constant:
                    asked.constant.add(slot)


def _roofline(compiler: Compiler, target: TargetScope | None) -> tuple[Fraction | None, Fraction | None]:
    found: list[Fraction | None] = []
    for limit in (target.flops, target.bandwidth) if target is not None else (None, None):
        code = compiler.compile(limit, Env(None, limit.span.file)) if limit is not None else None
        found.append(code.value.amount if code is not None and isinstance(code.value, Quantity) else None)
    return found[0], found[1]
