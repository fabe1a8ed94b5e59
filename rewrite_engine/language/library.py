"""From the paths of rule files to a checked `RuleSet`, or to every problem in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite_engine.diagnostics import PatError, Problem, RewriteError, render
from rewrite_engine.language import check, scope, sources
from rewrite_engine.language.amounts import amount
from rewrite_engine.language.predicates import Predicate, as_function
from rewrite_engine.language.scope import Scope
from rewrite_engine.pause import collector_paused
from rewrite_engine.resources import patterns_root

if TYPE_CHECKING:
    from rewrite_engine.language.core import CoreRule, DeviceSpec, LinkSpec, RuleSet, TargetSpec
    from rewrite_engine.language.lower import Later
    from rewrite_engine.language.syntax import Expr

NO_SETTINGS: Mapping[str, str] = {}
NO_PREDICATES: Mapping[str, Predicate] = {}


def load(
    paths: Sequence[str | Path],
    search: Sequence[Path] | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
    predicates: Mapping[str, Predicate] = NO_PREDICATES,
) -> RuleSet:
    """The rule set of some files; a bare name is also looked for in the folders `search` (the bundled patterns).

    `settings` change numbers and options: `{"tern.arch": "73", "npu0.memory": "32MiB", "host->npu0.rate": "16GBps"}`.
    `predicates` are Python functions that guards may call by name, beside those of installed packages.
    The tests of files that are only included are passed over, and their named patterns are lowered when `rules` is read
    to its end: `check_files` looks at everything.
    Raises `PatError` with every problem of all files, `RewriteError` for a missing file or a wrong setting.
    """
    with collector_paused():
        return _rule_set(sources.read(paths, _search(search), every_test=False), settings, predicates)


def load_text(
    text: str,
    path: str = "<text>",
    search: Sequence[Path] | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
    predicates: Mapping[str, Predicate] = NO_PREDICATES,
) -> RuleSet:
    """The rule set of a text.

    >>> [rule.name for rule in load_text("rule twice: Relu(Relu(x)) => Relu(x)").rules]
    ['twice']
    """
    return _rule_set(sources.read_text(text, path, _search(search)), settings, predicates)


def check_files(
    paths: Sequence[str | Path], search: Sequence[Path] | None = None
) -> tuple[list[Problem], dict[str, str]]:
    """Every error and warning of some files, in source order, and the texts that `render` needs to show them.

    Raises `RewriteError` for a file that cannot be found or read.
    """
    from rewrite_engine.language import lower

    found = sources.read(paths, _search(search))
    names, problems = _checked(found)
    if not _errors(problems):  # what only shows when patterns are expanded
        problems = _in_order([*problems, *lower.core_rules(names)[1]])
    return problems, found.texts


def _search(search: Sequence[Path] | None) -> Sequence[Path]:
    return (patterns_root(),) if search is None else search


def _checked(
    found: sources.Sources, predicates: Mapping[str, Predicate] = NO_PREDICATES
) -> tuple[Scope, list[Problem]]:
    """The scope and all problems that checking finds."""
    names, problems = scope.build(found.files, found.visible, found.blind())
    names = dataclasses.replace(names, predicates=dict(predicates))
    problems = [*found.problems, *problems, *check.check(names, frozenset(found.named))]
    wrong = {problem.span.file for problem in _errors(problems)}  # there, a warning may only follow from an error
    return names, _in_order([p for p in problems if p.severity == "error" or p.span.file not in wrong])


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    unique = {(p.span, p.severity, p.message): p for p in problems}
    return [unique[key] for key in sorted(unique)]


def _errors(problems: Sequence[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


def _rule_set(
    found: sources.Sources, settings: Mapping[str, str], predicates: Mapping[str, Predicate] = NO_PREDICATES
) -> RuleSet:
    from rewrite_engine.language import core, lower
    from rewrite_engine.language.settings import apply

    for name, function in predicates.items():
        as_function(name, function)  # raises where it is none
    names, problems = _checked(found, predicates)
    if _errors(problems):
        raise PatError(_errors(problems), found.texts)
    if settings:
        names = apply(names, settings)
    rules, further, later = lower.used_rules(names)
    own, wrong = later([pattern for pattern in names.all_patterns() if pattern.span.file in found.named])
    further = [*further, *wrong]
    names = dataclasses.replace(names, meanings=lower.meanings(names, rules))
    if _errors(further):
        raise PatError(_in_order(_errors(further)), found.texts)
    return core.RuleSet(
        devices=_devices(names),
        links=_links(names),
        targets=_targets(names),
        rules=core.Rules(rules, lambda: _patterns(names, later, own, found.texts)),
        tests=tuple(core.TestCase(test.title, test.span, test, test.span.file) for test in names.tests),
        sources={file.path: (file.source, found.digests[file.path]) for file in found.files},
        warnings=tuple(render(problem, found.texts) for problem in _in_order([*problems, *further])),
        meanings=names.meanings,
        scope=names,
    )


def with_machine(rules: RuleSet, settings: Mapping[str, str]) -> RuleSet:
    """A rule set with other launches, memories and links, see `settings.of_machine`; the rules themselves stay.

    Raises RewriteError as reading the files with these settings does.
    """
    from rewrite_engine.language.settings import apply

    assert isinstance(rules.scope, Scope)
    names = apply(rules.scope, settings)
    return dataclasses.replace(
        rules, devices=_devices(names), links=_links(names), targets=_targets(names), scope=names
    )


def _patterns(names: Scope, later: Later, known: Sequence[CoreRule], texts: Mapping[str, str]) -> list[CoreRule]:
    """The named patterns in loading order; `known` are lowered already."""
    place = {rule.span: rule for rule in known}
    lowered, problems = later([pattern for pattern in names.all_patterns() if pattern.span not in place])
    if problems:
        raise PatError(_in_order(problems), dict(texts))
    place |= {rule.span: rule for rule in lowered}
    return [place[pattern.span] for pattern in names.all_patterns()]


def _amount(expr: Expr, names: Scope, target: scope.TargetScope | None, *, positive: bool = False) -> Fraction:
    """The amount of a number that no match enters. The check has looked at it; settings may have changed it since."""
    found = amount(expr, names, target, positive=positive)
    if isinstance(found, Problem):
        raise RewriteError(f"{found.span}: {found.message}")
    return found


def _devices(names: Scope) -> tuple[DeviceSpec, ...]:
    from rewrite_engine.language.core import DeviceSpec

    return tuple(
        DeviceSpec(
            name=device.name,
            memory=next(
                (int(_amount(value, names, None)) for field, value in device.fields if field == "memory"), None
            ),
            span=device.span,
        )
        for device in names.devices.values()
    )


def _links(names: Scope) -> tuple[LinkSpec, ...]:
    from rewrite_engine.language.core import LinkSpec

    found = []
    for link in names.links:
        found.append(LinkSpec(link.source, link.destination, link.cost, link.energy, link.span))
        if link.both:
            found.append(LinkSpec(link.destination, link.source, link.cost, link.energy, link.span))
    return tuple(found)


def _targets(names: Scope) -> tuple[TargetSpec, ...]:
    from rewrite_engine.language.core import TargetSpec

    return tuple(
        TargetSpec(
            name=target.name,
            device=target.device,
            launch=_amount(target.launch, names, target) if target.launch else Fraction(0),
            flops=_amount(target.flops, names, target, positive=True) if target.flops else None,
            bandwidth=_amount(target.bandwidth, names, target, positive=True) if target.bandwidth else None,
            span=target.span,
        )
        for target in names.targets.values()
    )
