"""From checked declarations to core rules: what the e-graph compiles and `evaluate` answers for.

In: a `Scope` without errors. Out: core rules in order (rules, then each target's capabilities, then named patterns) and
the problems met: too many variants, names that cannot be resolved. The expansion itself is in `expand`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from rewrite_engine.diagnostics import Problem
from rewrite_engine.language import declared, syntax
from rewrite_engine.language.convert import as_expression, as_pattern, captures
from rewrite_engine.language.core import ABSENT, CoreRule, Slot, Template, Variant
from rewrite_engine.language.draft import expand_all
from rewrite_engine.language.layout import Source
from rewrite_engine.language.lower_operators import operator_sources, with_outputs
from rewrite_engine.language.meaning import Meaning
from rewrite_engine.language.names import LoweringError, NamesCache
from rewrite_engine.language.program import Program, RestFlags
from rewrite_engine.language.results import result_count
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.pause import collector_paused

Supports = Mapping[str, tuple[tuple[CoreRule, Variant], ...]]


@collector_paused()
def core_rules(scope: Scope) -> tuple[list[CoreRule], list[Problem]]:
    """Every rule, capability and named pattern of `scope` in core form; `<=>` gives two rules, "r" and "r<="."""
    used, problems, later = used_rules(scope)
    patterns, further = later(scope.all_patterns())
    return [*used, *patterns], [*problems, *further]


Later = Callable[[Sequence[syntax.PatternDecl]], tuple[list[CoreRule], list[Problem]]]
"""Lowers named patterns."""


@collector_paused()
def used_rules(scope: Scope) -> tuple[list[CoreRule], list[Problem], Later]:
    """Every rule and capability of `scope` in core form, and what lowers its named patterns."""
    cache = NamesCache(scope)
    found: list[CoreRule] = []
    problems: list[Problem] = []

    def lower(sources: Sequence[Source]) -> CoreRule | None:
        try:
            rule = _lower(scope, cache, sources)
        except LoweringError as error:
            problems.append(Problem(error.span, str(error), error.hint))
            return None
        found.append(rule)
        return rule

    meanings: dict[str, Meaning] = {}
    for operator in declared.in_order(scope.operators):
        lets = scope.lets_in(operator.span.file)
        scope = dataclasses.replace(scope, meanings=dict(meanings))
        rule = lower(operator_sources(operator, lets))
        if rule is not None:
            found[-1] = rule = dataclasses.replace(rule, defines=operator.name)
            meanings[operator.name] = Meaning(scope.declared[operator.name], rule)
    scope = dataclasses.replace(scope, meanings=meanings)
    for decl in scope.rules:
        try:
            directions = _directions(scope, decl)
        except LoweringError as error:
            problems.append(Problem(error.span, str(error), error.hint))
            continue
        for source in directions:
            lower([source])
    for target in scope.targets.values():
        supports: dict[str, list[tuple[CoreRule, Variant]]] = {}
        forms = [item for item in target.items if isinstance(item, syntax.Supports)]
        for number, capability in enumerate(forms):
            rule = lower(_supports(target, capability, number))
            for variant in rule.variants if rule is not None else ():
                assert rule is not None
                supports.setdefault(variant.nodes[0].op, []).append((rule, variant))
        for rule in scope.capabilities:  # Python's
            if rule.target == target.name:
                found.append(rule)
                for variant in rule.variants:
                    supports.setdefault(variant.nodes[0].op, []).append((rule, variant))
        capabilities = {op: tuple(forms) for op, forms in supports.items()}
        for item in target.items:
            if isinstance(item, syntax.Composite):
                lower([_composite(target, item, capabilities)])

    @collector_paused()
    def later(patterns: Sequence[syntax.PatternDecl]) -> tuple[list[CoreRule], list[Problem]]:
        found.clear()
        problems.clear()
        for pattern in patterns:
            lower([_pattern(pattern)])
        return list(found), list(problems)

    return list(found), list(problems), later


def _lower(scope: Scope, cache: NamesCache, sources: Sequence[Source]) -> CoreRule:
    first = sources[0]
    variants = [variant for source in sources for variant in expand_all(scope, cache, source)]
    if not variants:
        raise LoweringError(first.span, "no combination of alternatives and optional parts can match")
    numbered = tuple(dataclasses.replace(variant, index=i) for i, variant in enumerate(variants))
    target = first.target.name if first.target is not None else None
    return CoreRule(first.name, first.kind, target, first.label, first.span, numbered, first.doc)


def _directions(scope: Scope, decl: syntax.RuleDecl) -> list[Source]:
    forth = Source(
        name=decl.name, kind="rule", span=decl.span, pattern=decl.left, tail=decl.tail, label=decl.label,
        template=decl.right,
    )  # fmt: skip
    if not decl.both:
        return [forth]
    if decl.tail.where:
        span = decl.tail.where[0].span
        raise LoweringError(span, "`where` has no meaning in the other direction of `<=>`", "write two rules instead")
    left, right = as_expression(decl.left), as_pattern(decl.right, captures(decl.left))
    back = dataclasses.replace(forth, name=f"{decl.name}<=", pattern=right, template=left)
    count = result_count(scope, decl.left)
    if count > 1 and isinstance(right, syntax.CallPattern):  # one operator for all results
        back = with_outputs(back, right, count)
    return [forth, back]


def _supports(target: TargetScope, item: syntax.Supports, number: int) -> list[Source]:
    base = Source(
        name=f"{target.name}.supports.{number}", kind="supports", span=item.span, pattern=syntax.AnyPattern(item.span),
        tail=item.tail, target=target, cost=item.cost, energy=item.energy, siblings=item.forms,
    )  # fmt: skip
    return [dataclasses.replace(base, pattern=form) for form in item.forms]


def _composite(target: TargetScope, item: syntax.Composite, supports: Supports) -> Source:
    return Source(
        name=f"{target.name}.{item.name}", kind="composite", span=item.span, pattern=item.pattern, tail=item.tail,
        target=target, cost=item.cost, energy=item.energy, parameters=item.parameters, doc=item.doc, supports=supports,
    )  # fmt: skip


def _pattern(decl: syntax.PatternDecl) -> Source:
    return Source(
        name=decl.name, kind="pattern", span=decl.span, pattern=decl.pattern, tail=decl.tail, parameters=decl.parameters
    )


def anonymous(scope: Scope, pattern: syntax.Pattern, name: str) -> CoreRule:
    """A pattern without a declaration, as a named pattern without parameters. Raises `LoweringError`."""
    source = Source(name=name, kind="pattern", span=pattern.span, pattern=pattern, tail=syntax.Tail())
    return _lower(scope, NamesCache(scope), [source])


def choose(variant: Variant, chosen: Mapping[int, str]) -> Variant:
    """The variant with one operator at each node of `chosen` that leaves a choice, as the steps of a chain do."""
    nodes = list(variant.nodes)
    for index, op in chosen.items():
        assert not nodes[index].choices or op in nodes[index].choices
        nodes[index] = dataclasses.replace(nodes[index], op=op, choices=())
    return dataclasses.replace(variant, nodes=tuple(nodes))


def meanings(scope: Scope, rules: Sequence[CoreRule]) -> dict[str, Meaning]:
    """What declared operators compute, by name; `rules` are those of `core_rules`."""
    return {rule.defines: Meaning(scope.declared[rule.defines], rule) for rule in rules if rule.defines}


def expand_rest(variant: Variant, counts: Mapping[int, int | Sequence[bool]]) -> Variant:
    """The variant with the remaining inputs of its nodes as slots of their own ("xs[0]", "xs[1]", …).

    `counts` gives, per node with a `rest`, how many inputs follow those written; or, as a list of truth values, which
    of them are present. Template inputs `("rest", name)` become those slots, and so do a kernel's inputs.
    """
    program = variant.program
    assert isinstance(program, Program)
    slots = list(variant.slots)
    nodes = list(variant.nodes)
    lists: dict[str, tuple[int, ...]] = dict(variant.lists)
    for index, node in enumerate(variant.nodes):
        if node.rest is None:
            continue
        count = counts.get(index, 0)
        present = [True] * count if isinstance(count, int) else list(count)
        if node.rest not in lists:
            flags = program.rest.get(node.rest, RestFlags())
            label = "input" if node.rest == "*" else node.rest
            members = []
            for position, there in enumerate(present):
                members.append(len(slots) if there else ABSENT)
                if there:
                    slots.append(Slot(f"{label}[{position}]", *dataclasses.astuple(flags)))
            lists[node.rest] = tuple(members)
        inputs = [*node.inputs, *lists[node.rest]]
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        nodes[index] = dataclasses.replace(node, inputs=tuple(inputs), rest=None)
    lists = {name: tuple(slot for slot in members if slot != ABSENT) for name, members in lists.items()}
    order: list[int] = []
    for entry in program.order:
        order += [entry] if isinstance(entry, int) else lists.get(entry, ())
    return dataclasses.replace(
        variant,
        slots=tuple(slots),
        nodes=tuple(nodes),
        inputs=tuple(dict.fromkeys(order)),
        template=None if variant.template is None else _expand_template(variant.template, lists),
        lists=lists,
    )


def _expand_template(template: Template, lists: Mapping[str, tuple[int, ...]]) -> Template:
    nodes = []
    for node in template.nodes:
        inputs: list[tuple[str | int, ...]] = []
        for reference in node.inputs:
            if reference[0] == "rest":
                inputs += [("slot", slot) for slot in lists.get(str(reference[1]), ())]
            else:
                inputs.append(reference)
        nodes.append(dataclasses.replace(node, inputs=tuple(inputs)))
    return dataclasses.replace(template, nodes=tuple(nodes))


__all__ = ["Later", "anonymous", "choose", "core_rules", "expand_rest", "meanings", "used_rules"]
