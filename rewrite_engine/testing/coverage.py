"""What the tests of a rule file reach: declarations, alternatives, guard clauses.

In: a rule file. Out: a `Coverage`. The file's own tests run on rules whose checks take notes: a declaration is reached
when a match of it held, an alternative (or an optional part, there and not) when a match that takes it held, a guard
clause when it has been true in one test and was the first to fail in another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import load, syntax
from rewrite_engine.language.compile import conjuncts
from rewrite_engine.language.core import CoreRule, RuleSet, Variant, Way
from rewrite_engine.language.program import Check, Match, Program
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.walk import walk
from rewrite_engine.testing.in_file import TestResult, own_tests, run_case

MOST_SHOWN = 72
"""Characters of an alternative or a clause that are shown."""


@dataclass(frozen=True, slots=True, order=True)
class Unreached:
    """What no test reaches: `kind` is "declaration", "alternative" or "clause"; `text` says which, `why` what lacks."""

    span: Span
    kind: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """The tests of a file, what they do not reach, and per kind how many of how many are reached."""

    file: str
    results: tuple[TestResult, ...]
    counts: Mapping[str, tuple[int, int]]
    unreached: tuple[Unreached, ...]


@dataclass(slots=True)
class Notes:
    """What happened in tests: matches that held, by `declared_as` and variant; what clauses decided, by their place."""

    held: set[tuple[str, int]] = field(default_factory=set)
    decided: dict[Span, set[bool]] = field(default_factory=lambda: defaultdict(set))


def measure(path: str | Path) -> Coverage:
    """Runs the tests of one file and says what they reach of it. Raises PatError where the file does not hold."""
    rules = load([path])
    here, tests = own_tests(rules)
    watched, notes = watch(rules)
    results = tuple(run_case(watched, case) for case in tests)
    text = rules.sources[here][0]
    parts = {
        "declaration": _declarations(rules, here, notes),
        "alternative": _alternatives(rules, here, notes, text),
        "clause": _clauses(rules, here, notes, text),
    }
    counts = {kind: (sum(found is None for found in items), len(items)) for kind, items in parts.items()}
    unreached = sorted(found for items in parts.values() for found in items if found is not None)
    return Coverage(here, results, counts, tuple(unreached))


# ---------------------------------------------------------------- taking notes


def watch(rules: RuleSet) -> tuple[RuleSet, Notes]:
    """The rules with checks that take notes, and the notes, which tests that run on those rules fill."""
    notes = Notes()

    def watched(rule: CoreRule, variant: Variant, program: Program) -> Iterable[Check]:
        """Checks that note what they decide, and a last one that notes that the match holds."""
        key = (declared_as(rule), variant.index)

        def held(match: Match) -> None:
            notes.held.add(key)

        def reached(match: Match) -> None:
            for span in program.settled:
                notes.decided[span].add(True)

        noted = (_noted(check, notes) for check in program.checks)
        return (Check(rule.span, reached), *noted, Check(rule.span, held))

    return with_checks(rules, watched), notes


def with_checks(rules: RuleSet, checks: Callable[[CoreRule, Variant, Program], Iterable[Check]]) -> RuleSet:
    """The rules, with the checks of each variant replaced."""

    def changed(rule: CoreRule, variant: Variant) -> Variant:
        program = variant.program
        assert isinstance(program, Program)
        return replace(variant, program=replace(program, checks=tuple(checks(rule, variant, program))))

    return replace(
        rules,
        rules=tuple(replace(rule, variants=tuple(changed(rule, v) for v in rule.variants)) for rule in rules.rules),
    )


def declared_as(rule: CoreRule) -> str:
    """One name for what was declared once: what targets inherit unchanged is tested where it is anywhere."""
    if rule.kind != "composite" or rule.target is None:
        return rule.name
    return f"{rule.span} {rule.name.removeprefix(f'{rule.target}.')}"


def _noted(check: Check, notes: Notes) -> Check:
    def run(match: Match) -> str | None:
        holds = False
        try:
            reason = check.run(match)
            holds = reason is None
        finally:
            notes.decided[check.span].add(holds)
        return reason

    return replace(check, run=run)


# ---------------------------------------------------------------- what there is to reach: None where it is reached


def _declarations(rules: RuleSet, here: str, notes: Notes) -> list[Unreached | None]:
    """Each rule, composite and pattern, and each operator that a target supports."""
    held: dict[tuple[Span, str], bool] = {}
    titles: dict[tuple[Span, str], str] = {}
    for rule in rules.rules:
        if rule.span.file != here or rule.defines:
            continue
        for variant in rule.variants:
            title = f"supports {variant.nodes[0].op}" if rule.kind == "supports" else f"{rule.kind} {rule.name}"
            key = (rule.span, title if rule.kind == "supports" else declared_as(rule))
            titles.setdefault(key, title)
            held[key] = held.get(key, False) or (declared_as(rule), variant.index) in notes.held
    return [None if found else Unreached(key[0], "declaration", titles[key], "never matches")
            for key, found in held.items()]  # fmt: skip


def _alternatives(rules: RuleSet, here: str, notes: Notes, text: str) -> list[Unreached | None]:
    """Each way at each fork that stands in the file, whichever declarations use it."""
    held: dict[Way, bool] = {}
    for rule in rules.rules:
        for variant in rule.variants:
            for way in variant.ways:
                if way.span.file == here:
                    held[way] = held.get(way, False) or (declared_as(rule), variant.index) in notes.held
    forks = {
        node.span: node
        for node in walk(_own(rules, here))
        if isinstance(node, syntax.Alternatives | syntax.CallPattern)
    }
    return [None if found else _way(way, forks, text) for way, found in held.items()]


def _way(way: Way, forks: Mapping[Span, syntax.Node], text: str) -> Unreached:
    node = forks.get(way.span)
    if way.kind == "alternative" and isinstance(node, syntax.Alternatives):
        span = node.items[way.index].span
        return Unreached(span, "alternative", _excerpt(text, span), "never matches")
    shown = _excerpt(text, way.span)
    if way.kind == "operator" and isinstance(node, syntax.CallPattern):
        return Unreached(way.span, "alternative", shown, f"never matches with {node.names[way.index]}")
    return Unreached(way.span, "alternative", shown, f"never matches {'without' if way.index else 'with'} it")


def _clauses(rules: RuleSet, here: str, notes: Notes, text: str) -> list[Unreached | None]:
    """Each clause of each guard and each condition of a target, where some variant asks it."""
    asked = {
        check.span
        for rule in rules.rules
        for variant in rule.variants
        if isinstance(variant.program, Program)
        for check in variant.program.checks
    }
    written = dict.fromkeys(clause.span for guard in _guards(rules, here) for clause in conjuncts(guard))
    return [_clause(span, notes.decided.get(span, set()), text) for span in written if span in asked]


def _clause(span: Span, decided: set[bool], text: str) -> Unreached | None:
    why = {(): "never asked", (True,): "never fails first", (False,): "never true"}.get(tuple(decided))
    return None if why is None else Unreached(span, "clause", _excerpt(text, span), why)


def guard_clauses(rules: RuleSet, here: str) -> frozenset[Span]:
    """Where the clauses of the guards of a file stand."""
    return frozenset(clause.span for guard in _guards(rules, here) for clause in conjuncts(guard))


def _guards(rules: RuleSet, here: str) -> Iterable[syntax.Expr]:
    for node in walk(_own(rules, here)):
        guard = node.guard if isinstance(node, syntax.Tail | syntax.Requires) else None
        if guard is not None:
            yield guard


def _own(rules: RuleSet, here: str) -> tuple[syntax.Declaration, ...]:
    """The declarations of the file itself."""
    assert isinstance(rules.scope, Scope)
    return next(file.items for file in rules.scope.files if file.path == here)


def _excerpt(text: str, span: Span) -> str:
    """The text of a span on one line, without comments; its beginning where it is long."""
    lines = text.splitlines()[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    shown = " ".join(" ".join(line.partition(" #")[0] for line in lines).split())
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
