"""`target T extends B { without … }`: what a target takes over from another one, and what it leaves out.

In: the targets of all files by name, each with its own openings only. Out: the same targets with what they extend: its
capabilities first, its limits, options and conditions where they give none of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rewrite_engine.diagnostics import Problem, Span, did_you_mean
from rewrite_engine.language import locate, syntax
from rewrite_engine.language.dimensions import dimension_of
from rewrite_engine.language.syntax import Composite, OptionDecl, Supports, TargetDecl, Without

if TYPE_CHECKING:
    from rewrite_engine.language.scope import TargetScope

HOST = "host"
Capability = Supports | Composite


def resolve(
    targets: Mapping[str, TargetScope],
    sources: Mapping[str, str],
    forgiven: frozenset[str],
    problems: list[Problem],
) -> dict[str, TargetScope]:
    """The targets with all that they extend; `forgiven` are names that may be declared where a file is broken."""
    bases = {name: _base(target, targets, sources, forgiven, problems) for name, target in targets.items()}
    found: dict[str, TargetScope] = {}
    for name in targets:
        chain = [name]
        while (base := bases[chain[-1]]) is not None and base not in found:
            if base in chain:
                _cycle(targets, [*chain[chain.index(base) :], base], sources, problems)
                bases[chain[-1]] = None
                break
            chain.append(base)
        for here in reversed(chain):
            if here not in found:
                inherited = bases[here]
                found[here] = _extended(targets[here], None if inherited is None else found[inherited], problems)
    return {name: found[name] for name in targets}


def _base(
    target: TargetScope,
    targets: Mapping[str, TargetScope],
    sources: Mapping[str, str],
    forgiven: frozenset[str],
    problems: list[Problem],
) -> str | None:
    """The name of the target that this one extends."""
    first: TargetDecl | None = None
    for opening in target.openings:
        if opening.extends is None:
            continue
        span = locate.word(sources, opening.span, "extends")
        if target.name == HOST:
            problems.append(Problem(span, "target `host` extends no other: it runs every operator already"))
        elif first is not None and opening.extends != first.extends:
            message = f"target `{target.name}` extends `{opening.extends}` here, but `{first.extends}` elsewhere"
            problems.append(Problem(span, message, notes=((first.span, "opened here"),)))
        elif opening.extends not in targets:
            if opening.extends not in forgiven and "*" not in forgiven:
                hint = did_you_mean(opening.extends, [name for name in targets if name != target.name])
                at = locate.word(sources, _from(span, opening), opening.extends)
                problems.append(Problem(at, f"unknown target `{opening.extends}`", hint))
        else:
            first = first or opening
    return None if first is None else first.extends


def _from(span: Span, opening: TargetDecl) -> Span:
    """The rest of an opening from `span` on."""
    return Span(span.file, span.line, span.column, opening.span.end_line, opening.span.end_column)


def _cycle(
    targets: Mapping[str, TargetScope], names: list[str], sources: Mapping[str, str], problems: list[Problem]
) -> None:
    opening = next(o for o in targets[names[0]].openings if o.extends == names[1])
    span = locate.word(sources, opening.span, "extends")
    problems.append(Problem(span, f"targets extend each other: {' -> '.join(names)}"))


def _extended(target: TargetScope, base: TargetScope | None, problems: list[Problem]) -> TargetScope:
    left_out = [item for opening in target.openings for item in opening.items if isinstance(item, Without)]
    if base is None:
        for item in left_out:
            message = f"`without` leaves out what an extended target can do, but `{target.name}` extends none"
            if not any(opening.extends for opening in target.openings):  # else that is wrong already
                problems.append(Problem(item.span, message, f"write `target {target.name} on DEVICE extends T {{`"))
        return target
    inherited: list[Capability] = list(base.items)
    for item in left_out:
        known = {name for capability in base.items for name in _names(capability)}
        if item.name not in known:
            message = f"target `{base.name}` has no `{item.name}` to leave out"
            problems.append(Problem(item.span, message, did_you_mean(item.name, known)))
        inherited = [kept for capability in inherited if (kept := _less(capability, item.name)) is not None]
    mine = {item.name: item for item in target.items if isinstance(item, Composite)}
    for capability in inherited:
        if isinstance(capability, Composite) and capability.name in mine:
            name = capability.name
            problems.append(
                Problem(
                    mine[name].span,
                    f"composite `{name}` comes from `{base.name}` already",
                    f"write `without {name}` to replace it",
                    notes=((capability.span, "this one"),),
                )
            )
    for option in (item for opening in target.openings for item in opening.items if isinstance(item, OptionDecl)):
        before = dimension_of(base.options[option.name], {}) if option.name in base.options else None
        now = dimension_of(option.value, {})
        if before is not None and now is not None and before != now:
            message = f"option `{option.name}` of `{base.name}` is {before}, found {now}"
            problems.append(Problem(option.span, message))
    given = any(opening.device is not None for opening in target.openings)
    return replace(
        target,
        device=target.device if given else base.device,
        launch=base.launch if target.launch is None else target.launch,
        flops=base.flops if target.flops is None else target.flops,
        bandwidth=base.bandwidth if target.bandwidth is None else target.bandwidth,
        options={**base.options, **target.options},
        requires=(*base.requires, *target.requires),
        items=(*inherited, *target.items),
    )


def _names(capability: Capability) -> Iterator[str]:
    """What `without` may say to leave a capability out: a composite's name (`c` for every `c[…]`), an operator."""
    if isinstance(capability, Composite):
        yield from (capability.name, capability.name.partition("[")[0])
        return
    for form in capability.forms:
        yield from _operators(form)


def _operators(form: syntax.Name | syntax.Pattern) -> tuple[str, ...]:
    while isinstance(form, syntax.CapturePattern | syntax.GuardedPattern):
        form = form.pattern
    match form:
        case syntax.Name():
            return (form.name,)
        case syntax.CallPattern():
            return form.names
        case _:
            return ()


def _less(capability: Capability, name: str) -> Capability | None:
    """The capability without what is called `name`; None when nothing of it is left."""
    if name not in _names(capability):
        return capability
    if isinstance(capability, Composite):
        return None
    forms = tuple(left for form in capability.forms if (left := _without(form, name)) is not None)
    return replace(capability, forms=forms) if forms else None


def _without(form: syntax.Name | syntax.Pattern, name: str) -> syntax.Name | syntax.Pattern | None:
    match form:
        case syntax.Name():
            return None if form.name == name else form
        case syntax.CallPattern():
            names = tuple(other for other in form.names if other != name)
            return replace(form, names=names) if names else None
        case syntax.CapturePattern() | syntax.GuardedPattern():
            inner = _without(form.pattern, name)
            return None if inner is None or isinstance(inner, syntax.Name) else replace(form, pattern=inner)
        case _:
            return form
