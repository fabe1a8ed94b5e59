"""What guards protect against: matches just outside of one clause, and what the rule would do to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rewrite_engine.diagnostics import Span
from rewrite_engine.language.core import CoreRule, Refusal, RuleSet
from rewrite_engine.language.program import Match, Program
from rewrite_engine.language.subjects import OfGuard
from rewrite_engine.testing.verify.draws import Seeded
from rewrite_engine.testing.verify.instance import Plans
from rewrite_engine.testing.verify.judge import judge
from rewrite_engine.testing.verify.plan import roomy
from rewrite_engine.testing.verify.repair import find_match
from rewrite_engine.testing.verify.report import Protection
from rewrite_engine.testing.verify.show import graph_text
from rewrite_engine.testing.verify.sides import Invalid, NoProgram, sides

ATTEMPTS = 24


def protections(rules: RuleSet, plans: Plans, seed: int) -> tuple[Protection, ...]:
    """One for each clause of a rule's guard, in its first variant that has one: what happens just outside of it."""
    found: dict[Any, Protection] = {}
    rule = plans.rule
    if rule.kind != "rule":
        return ()
    for index in range(min(len(rule.variants), 4)):
        plan = plans.draw(index, Seeded(seed))
        for number, (check, subject) in enumerate(plan.checks):
            if isinstance(subject, OfGuard) and check.span not in found:
                outside = _outside(rule, plans, index, number, seed)
                found[check.span] = Protection(check.span, _text(rules, check.span), outside)
    return tuple(found.values())


def _text(rules: RuleSet, span: Span) -> str:
    text, _ = rules.sources[span.file]
    lines = text.splitlines()
    if span.line == span.end_line:
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]
    return f"{lines[span.line - 1][span.column - 1 :].strip()} …"


def _outside(rule: CoreRule, plans: Plans, index: int, number: int, seed: int) -> str:
    """What the rule would do without a clause, where only that clause does not hold."""
    refused = ""
    for attempt in range(ATTEMPTS):
        source = Seeded(("outside", seed, rule.name, index, number, attempt))
        plan = plans.draw(index, source)
        candidate = find_match(plan, source, rule, skip=number)
        if candidate is None:
            continue
        program = plan.variant.program
        assert isinstance(program, Program)
        try:
            holds = program.checks[number].run(roomy(Match(plan.variant, candidate.facts()))) is None
        except Exception:  # whatever a clause raises, it does not hold
            holds = False
        if holds:
            continue
        checks = tuple(check for k, check in enumerate(program.checks) if k != number)
        open_variant = replace(plan.variant, program=replace(program, checks=checks))
        candidate.plan = replace(plan, variant=open_variant)
        try:
            both = sides(rule, candidate)
            if isinstance(both, Refusal):
                refused = f"nothing is built: {both.reason}"
                continue
            verdict = judge(both, candidate.plan, attempt)
        except Invalid as invalid:
            return str(invalid)
        except NoProgram:
            continue
        text, where = graph_text(both.left, {}, frozenset())
        if verdict.difference is not None:
            return f"{verdict.difference.message}: {text}{where}"
        refused = refused or "no difference was found"
    return refused or "nothing was found outside of it"
