"""Drafts of missing tests: for what no test of a rule file makes match, a small graph that does, and near misses.

In: a rule file. Out: `test` blocks as text, each of which passes: one that the rule, composite or pattern matches, and
per clause of its guard one that only that clause refuses, where one is found.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rewrite_engine.diagnostics import RewriteError, Span
from rewrite_engine.language import load, load_text
from rewrite_engine.language.core import CoreRule, RuleSet
from rewrite_engine.language.lower import expand_rest
from rewrite_engine.language.program import Match, Program
from rewrite_engine.testing.coverage import declared_as, guard_clauses, watch
from rewrite_engine.testing.in_file import own_tests, run_case
from rewrite_engine.testing.verify.candidate import Candidate, Unfit, settle
from rewrite_engine.testing.verify.draws import Recorded, Seeded, Source
from rewrite_engine.testing.verify.numbers import numbers_in
from rewrite_engine.testing.verify.plan import plan, roomy
from rewrite_engine.testing.verify.repair import find_match, first_failing
from rewrite_engine.testing.verify.show import graph_text
from rewrite_engine.testing.verify.sides import left_side

TRIES = 12
FILLS = (1, 2, 3, 4, 8, 16, 32, 64)
"""Sizes that are tried where a match was found with 0 only."""
ATTEMPTS = 60


def drafts(path: str | Path, without: list[str] | None = None) -> list[str]:
    """The missing tests of one file, in the order of its declarations. Raises PatError where the file does not hold.

    `without` is given the names of declarations that no test reaches and for which no match was found.
    """
    rules = load([path])
    here, cases = own_tests(rules)
    watched, notes = watch(rules)
    for case in cases:
        run_case(watched, case)
    reached = {name for name, _ in notes.held}
    clauses = guard_clauses(rules, here)
    shared = Counter((_name(rule), rule.span) for rule in rules.rules)
    found: dict[str, str] = {}  # titles by what is tested: targets that extend another refuse the same graphs
    for rule in rules.rules:
        own = rule.span.file == here and rule.kind in ("rule", "composite", "pattern") and not rule.defines
        if own and declared_as(rule) not in reached and not rule.name.endswith("<="):
            label = f"{_name(rule)} of {rule.target}" if shared[_name(rule), rule.span] > 1 else _name(rule)
            texts = _of(rules, here, rule, label, clauses)
            if not texts and without is not None and label not in without:
                without.append(label)
            for text in texts:
                title, _, body = text.partition(":\n")
                found.setdefault(body, title)
    return [f"{title}:\n{body}" for body, title in found.items()]


def _name(rule: CoreRule) -> str:
    """Its name in a file: that of a composite without its target's."""
    return rule.name if rule.target is None else rule.name.removeprefix(f"{rule.target}.")


def _of(rules: RuleSet, here: str, rule: CoreRule, label: str, clauses: frozenset[Span]) -> list[str]:
    name = _name(rule)
    numbers = numbers_in(rules, rule)
    fires = _smallest(rule, None, numbers)
    if fires is None:
        return []
    graph, where = graph_text(left_side(fires), {}, frozenset())
    verdict = f"{rule.target} runs {graph} in {name}" if rule.kind == "composite" else f"{graph} is {name}"
    texts = [f'test "{label} matches":\n  {verdict}{where}']
    for span in sorted(clauses & _asked(rule)):
        missed = _smallest(rule, span, numbers)
        if missed is not None:
            graph, where = graph_text(left_side(missed), {}, frozenset())
            clause = _written(rules.sources[span.file][0], span)
            texts.append(f'test "{label} needs {clause}":\n  {graph} is not {name.partition("[")[0]}{where}')
    return [text for text in texts if _passes(rules, here, text)]


def _asked(rule: CoreRule) -> frozenset[Span]:
    programs = [variant.program for variant in rule.variants if isinstance(variant.program, Program)]
    return frozenset(check.span for program in programs for check in program.checks)


def _smallest(rule: CoreRule, refused: Span | None, numbers: Sequence[float]) -> Candidate | None:
    """The smallest match among some; with `refused`, one for which every clause but that one holds.

    One with a size of 0 says little: other sizes are tried before it is taken.
    """
    first: list[Source] = [Recorded(()), *map(Seeded, range(TRIES))]
    found = [c for source in first for c in _matches(rule, source, refused, numbers)]
    best = min(found, key=_size, default=None)
    if best is not None and _is_empty(best):
        return next(
            (full for size in itertools.product(FILLS, (1, 3)) if (full := _filled(best, *size, refused)) is not None),
            best,
        )
    return best


def _filled(empty: Candidate, size: int, window: int, refused: Span | None) -> Candidate | None:
    """The same match with so many in place of none, in windows and images so many; None where it is none then."""
    c = replace(empty, shapes={}, values={}, types={}, effective=[])
    for slot, shape in empty.shapes.items():
        c.shapes[slot] = tuple(n or (size if axis < 2 else window) for axis, n in enumerate(shape))
        if slot in empty.values and 0 not in shape:
            c.values[slot] = empty.values[slot]
    checks = c.plan.checks
    skip = next((k for k, (check, _) in enumerate(checks) if refused is not None and check.span == refused), None)
    try:
        settle(c, Recorded(()))
    except Unfit:
        return None
    return c if first_failing(c.plan, roomy(Match(c.plan.variant, c.facts()))) == skip else None


def _is_empty(candidate: Candidate) -> bool:
    return any(kind.numel == 0 for kind in candidate.types.values())


def _matches(rule: CoreRule, source: Source, refused: Span | None, numbers: Sequence[float]) -> Iterable[Candidate]:
    for variant in rule.variants[:4]:
        full = expand_rest(variant, {k: 2 for k, node in enumerate(variant.nodes) if node.rest is not None})
        program = full.program
        assert isinstance(program, Program)
        skip = None
        if refused is not None:
            skip = next((k for k, check in enumerate(program.checks) if check.span == refused), None)
            if skip is None:
                continue
        if any(node.choices for node in full.nodes):
            continue
        found = find_match(plan(full, numbers), source, rule, skip, attempts=ATTEMPTS)
        if found is not None and (skip is None or _refuses(found, skip)):
            yield found


def _refuses(candidate: Candidate, check: int) -> bool:
    """Whether that check, and no other, does not hold or cannot be worked out."""
    plan_ = candidate.plan
    return first_failing(plan_, roomy(Match(plan_.variant, candidate.facts()))) == check


def _size(candidate: Candidate) -> tuple[bool, int, bool, int]:
    """Elements to compute, few operators, rather float32, few elements."""
    kinds = list(candidate.types.values())
    unusual = any(kind.dtype in ("bfloat16", "float16", "float64") for kind in kinds)
    counts = [kind.numel or 0 for kind in kinds]
    return 0 in counts, len(candidate.plan.variant.nodes), unusual, sum(counts)


def _passes(rules: RuleSet, here: str, text: str) -> bool:
    """Whether a draft is a test that passes beside what the file says; others are no help."""
    try:
        loaded = load_text(f"{rules.sources[here][0]}\n{text}\n", here)
    except RewriteError:
        return False
    case = loaded.tests[-1]
    return run_case(loaded, case).passed


def _written(text: str, span: Span) -> str:
    """A clause as it is written, on one line, fit for a title."""
    lines = text.splitlines()[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return " ".join(" ".join(lines).replace('"', "'").split())[:60]
