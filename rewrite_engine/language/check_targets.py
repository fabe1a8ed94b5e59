"""Machines and targets: devices, links, limits, options, and the capabilities of each target."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine import operators
from rewrite_engine.diagnostics import Problem, Span, did_you_mean
from rewrite_engine.language import locate, syntax, units
from rewrite_engine.language.amounts import amount, link_problem
from rewrite_engine.language.bindings import bind
from rewrite_engine.language.check_expressions import Reader, read
from rewrite_engine.language.check_patterns import bare, check_patterns
from rewrite_engine.language.check_templates import find_operator
from rewrite_engine.language.check_unused import unused_names
from rewrite_engine.language.dimensions import COST_NAMES
from rewrite_engine.language.expand_chain import is_chain
from rewrite_engine.language.overlap import no_dearer
from rewrite_engine.language.scope import HOST, Scope, TargetScope
from rewrite_engine.language.walk import names_read, walk

_LIMITS = {"launch": units.TIME, "flops": units.FLOP_RATE, "bandwidth": units.BANDWIDTH}
_ENDS = frozenset({"inputs", "outputs"})
_COSTS = frozenset(COST_NAMES)
Used = set[tuple[str, str]]


def check_machine(scope: Scope, sources: Mapping[str, str], problems: list[Problem], used: Used) -> None:
    """Devices and links."""
    for device in scope.devices.values():
        seen: set[str] = set()
        for field, value in device.fields:
            if field in seen:
                problems.append(Problem(value.span, f"`{field}` of device `{device.name}` is given twice"))
            seen.add(field)
            _amount(value, Reader(scope, device.span.file, problems, used), units.BYTES)
    for link in scope.links:
        for name in (link.source, link.destination):
            _device(name, link.span, scope, sources, problems)
        if link.source == link.destination:
            problems.append(Problem(link.span, f"the link goes from `{link.source}` to itself"))
        reader = Reader(scope, link.span.file, problems, used, extra=frozenset({"bytes"}), in_cost=True)
        for formula, wanted in ((link.cost, units.TIME), (link.energy, units.ENERGY)):
            before = len(problems)
            if formula is not None:
                read(formula, reader, wanted)
            if formula is not None and len(problems) == before and not scope.incomplete:
                found = link_problem(formula, scope, wanted)
                problems += [] if found is None else [found]


def _amount(
    expr: syntax.Expr,
    reader: Reader,
    wanted: units.Dimension,
    target: TargetScope | None = None,
    *,
    positive: bool = False,
) -> None:
    """A number of a machine, which no match enters: its unit, and that it is no less than it may be."""
    before, reader.amount = len(reader.problems), True
    read(expr, reader, wanted)
    if len(reader.problems) == before and not reader.scope.incomplete:
        found = amount(expr, reader.scope, target, positive=positive)
        if isinstance(found, Problem):
            reader.problems.append(found)


def _device(name: str, within: Span, scope: Scope, sources: Mapping[str, str], problems: list[Problem]) -> None:
    broken = frozenset().union(*scope.broken.values())
    if name not in scope.devices and name not in broken and "*" not in broken and not scope.incomplete:
        span = locate.word(sources, within, name)
        hint = did_you_mean(name, scope.devices) or f"declare it: device {name} {{ memory … }}"
        problems.append(Problem(span, f"unknown device `{name}`", hint))


def check_target(
    target: TargetScope, scope: Scope, sources: Mapping[str, str], problems: list[Problem], used: Used
) -> None:
    """One target: every opening, limit, option, condition and capability."""
    options = frozenset(target.options)
    for opening in target.openings:
        if opening.device is not None:
            _device(opening.device, opening.span, scope, sources, problems)
        for item in opening.items:
            match item:
                case syntax.Limit():
                    if target.name == HOST and item.kind == "launch":
                        problems.append(Problem(item.span, "target `host` has launch 0: it starts no regions"))
                    reader = Reader(scope, item.span.file, problems, used, options=options)
                    _amount(item.value, reader, _LIMITS[item.kind], target, positive=item.kind != "launch")
                case syntax.OptionDecl():
                    read(item.value, Reader(scope, item.span.file, problems, used))
                case syntax.Requires():
                    read(item.guard, Reader(scope, item.span.file, problems, used, extra=_ENDS, options=options))
                case syntax.Supports():
                    _supports(item, scope, options, problems, used)
                case syntax.Composite():
                    _composite(item, scope, options, sources, problems, used)


def _supports(
    item: syntax.Supports, scope: Scope, options: frozenset[str], problems: list[Problem], used: Used
) -> None:
    for form in item.forms:
        if isinstance(form, syntax.Name):
            find_operator(form.name, form.span, problems, scope.declared)
    asked = names_read(item.tail.guard, *(give.value for give in item.tail.give), item.cost, item.energy)
    readers = []
    for form in item.forms:
        patterns = [] if isinstance(form, syntax.Name) else [form]
        found = bind(scope, item.span.file, (), patterns, item.tail, problems)
        readers.append(Reader(scope, item.span.file, problems, used, found, _ENDS, options))
    everything = {name for reader in readers for name in reader.bindings.names}
    for form, reader in zip(item.forms, readers, strict=True):
        if isinstance(form, syntax.Name):
            check_patterns([*item.tail.where], reader)
        else:
            _single(form, scope, item.span.file, problems)
            check_patterns([form, *item.tail.where], reader)
        for name in sorted((asked & everything) - reader.bindings.names.keys()):
            shown = form.name if isinstance(form, syntax.Name) else "this form"
            hint = f"write `{form.name}({name}, …)`" if isinstance(form, syntax.Name) else None
            problems.append(
                Problem(form.span, f"the condition or cost reads `{name}`, which {shown} does not bind", hint)
            )
            reader.bindings.names[name] = next(r for r in readers if name in r.bindings.names).bindings.names[name]
        _reads(item.tail, item.cost, item.energy, reader)
        unused_names(reader, "supports")


def _single(form: syntax.Pattern, scope: Scope, file: str, problems: list[Problem]) -> None:
    """A form is one operator: its inputs are captures."""
    inner = form
    while isinstance(inner, syntax.CapturePattern | syntax.GuardedPattern):
        inner = inner.pattern
    word = isinstance(form, syntax.ValuePattern) and form == syntax.ValuePattern(form.span, form.name)
    if word and isinstance(form, syntax.ValuePattern) and form.name not in scope.patterns_in(file):
        find_operator(form.name, form.span, problems, scope.declared)  # `supports relu`
        return
    plain = syntax.ValuePattern | syntax.AnyPattern | syntax.NonePattern | syntax.LiteralPattern | syntax.Rest
    operator = isinstance(inner, syntax.CallPattern) and not inner.optional_call and not inner.optional_value
    known = (
        operator
        and isinstance(inner, syntax.CallPattern)
        and not is_chain(inner)
        and not any(name in scope.patterns_in(file) for name in inner.names)
    )
    if not known or not isinstance(inner, syntax.CallPattern) or not all(isinstance(a, plain) for a in inner.args):
        problems.append(
            Problem(form.span, "`supports` takes single operators", "a group of operators is a `composite`")
        )


def _composite(
    item: syntax.Composite,
    scope: Scope,
    options: frozenset[str],
    sources: Mapping[str, str],
    problems: list[Problem],
    used: Used,
) -> None:
    file = item.span.file
    results = item.pattern.items if isinstance(item.pattern, syntax.TuplePattern) else (item.pattern,)
    for result in results:
        loose = bare(scope, file, result, item.tail)
        if loose is not None:
            message = "a composite must be the result of an operator: this matches any value"
            problems.append(Problem(loose.span, message))
    found = bind(scope, file, item.parameters, [item.pattern], item.tail, problems)
    reader = Reader(scope, file, problems, used, found, _ENDS, options, own_capabilities=True)
    types = [parameter.type for parameter in item.parameters if parameter.type is not None]
    check_patterns([item.pattern, *item.tail.where, *types], reader)
    _reads(item.tail, item.cost, item.energy, reader)
    unused_names(reader, "composite")


def _reads(tail: syntax.Tail, cost: syntax.Expr | None, energy: syntax.Expr | None, reader: Reader) -> None:
    if tail.guard is not None:
        read(tail.guard, reader)
    for give in tail.give:
        read(give.value, reader)
    reader.in_cost, reader.extra = True, reader.extra | _COSTS
    for formula, wanted in ((cost, units.TIME), (energy, units.ENERGY)):
        if formula is not None:
            before = len(reader.problems)
            read(formula, reader, wanted)
            if len(reader.problems) == before:
                _negative(formula, reader, wanted)


def _negative(formula: syntax.Expr, reader: Reader, wanted: units.Dimension) -> None:
    """A cost of numbers alone that is less than nothing; what depends on the match is found out there."""
    parts = list(walk((formula,)))
    minus = any(isinstance(part, syntax.Unary | syntax.Binary) and part.op == "-" for part in parts)
    lets = reader.scope.lets_in(reader.file)
    if minus and all(part.name in lets for part in parts if isinstance(part, syntax.Name)):
        from rewrite_engine.language.evaluate import evaluate_quantity

        found = evaluate_quantity(formula, reader.scope, wanted)
        if isinstance(found, Problem):
            reader.problems.append(found)


def covered(scope: Scope) -> list[Problem]:
    """Warnings for an operator that an earlier `supports` of the target takes in any case and at no higher cost."""
    found: list[Problem] = []
    for target in scope.targets.values():
        earlier: dict[str, list[tuple[syntax.Expr | None, Span]]] = {}
        own = {id(part) for opening in target.openings for part in opening.items}  # what it extends warned already
        for item in (item for item in target.items if isinstance(item, syntax.Supports)):
            for form in item.forms:
                pattern: object = form
                while isinstance(pattern, syntax.CapturePattern):
                    pattern = pattern.pattern
                names = (form.name,) if isinstance(form, syntax.Name) else getattr(pattern, "names", ())
                for name in names:
                    first = next((span for cost, span in earlier.get(name, ()) if no_dearer(cost, item.cost)), None)
                    if first is not None and id(item) in own:
                        message = f"`{name}` is covered by an earlier `supports` of `{target.name}` that costs no more"
                        found.append(
                            Problem(form.span, message, severity="warning", notes=((first, "it is this one"),))
                        )
                if isinstance(form, syntax.Name) and item.tail == syntax.Tail() and operators.find(form.name):
                    earlier.setdefault(form.name, []).append((item.cost, form.span))
    return found
