"""Matches that a rule file's own tests make, as a place to begin where the search finds none by itself.

In: a rule set. Out: per rule and variant, what was known of the matches that held; candidates near them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rewrite_engine.language.core import CoreRule, Facts, RuleSet, Variant
from rewrite_engine.language.program import Check, Match, Program
from rewrite_engine.operators.dtypes import is_float
from rewrite_engine.testing.coverage import with_checks
from rewrite_engine.testing.in_file import own_tests, run_case
from rewrite_engine.testing.verify.candidate import SIZES, Candidate, numbers, start
from rewrite_engine.testing.verify.draws import Source, chance, choice
from rewrite_engine.testing.verify.plan import Plan

Witnesses = Mapping[tuple[str, int], Sequence[Facts]]
"""By the name of a rule and the index of a variant."""


def witnesses(rules: RuleSet) -> Witnesses:
    """The matches that held in the file's own tests, each once, in the order in which they were met."""
    found: dict[tuple[str, int], list[Facts]] = defaultdict(list)

    def noting(rule: CoreRule, variant: Variant, program: Program) -> Iterable[Check]:
        def held(match: Match) -> None:
            found[rule.name, variant.index].append(match.facts)

        return (*program.checks, Check(rule.span, held))

    noted = with_checks(rules, noting)
    _, tests = own_tests(rules)
    for case in tests:
        run_case(noted, case)
    return found


def near(plan: Plan, source: Source, facts: Facts) -> Candidate:
    """A candidate like a known match, with up to two changes; one from nothing where the match does not fit the plan.

    Constants of which only the rule's questions are known, not the elements, are drawn anew.
    """
    c = start(plan, source)
    fits = len(facts.types) == len(plan.variant.slots) and len(facts.attributes) == len(plan.variant.nodes)
    if not fits or any(facts.types[slot].numel is None for slot in plan.free):
        return c
    c.main = next((facts.types[slot].dtype for slot in plan.free if facts.types[slot].dtype in plan.dtypes), c.main)
    c.written = [dict(given) for given in facts.attributes]
    for slot in plan.free:
        kind, held = facts.types[slot], facts.constants[slot]
        assert kind.shape is not None
        shape = tuple(n for n in kind.shape if isinstance(n, int))
        if held is None and slot in plan.known:
            if not plan.variant.slots[slot].constant:
                continue  # numbers that decide about shapes
            held = numbers(plan, source, shape, kind.dtype, positive=chance(source, 2))
        c.shapes[slot], c.dtypes[slot] = shape, kind.dtype
        if held is not None:
            c.values[slot] = held
    for _ in range(source.integer(0, 2)):
        _change(c, source)
    return c


def _change(c: Candidate, source: Source) -> None:
    """Another number for one size wherever it occurs, or a constant of floats scaled."""
    scaled = [slot for slot, held in sorted(c.values.items()) if is_float(held.dtype.name) and held.size]
    if scaled and source.integer(0, 1):
        slot = choice(source, scaled)
        held = c.values[slot]
        with np.errstate(all="ignore"):
            c.values[slot] = (held * np.asarray(choice(source, (2, 0.5, 3, 0.25)), held.dtype)).astype(held.dtype)
        return
    sizes = sorted({n for slot, shape in c.shapes.items() if slot not in c.values for n in shape})
    if not sizes:
        return
    old, new = choice(source, sizes), choice(source, sorted({n for pool in SIZES for n in pool} | {8, 16}))
    for slot, shape in list(c.shapes.items()):
        if old in shape:
            grown = tuple(new if n == old else n for n in shape)
            c.shapes[slot] = grown
            if slot in c.values:
                c.values[slot] = np.resize(c.values[slot], grown)


__all__ = ["Witnesses", "near", "witnesses"]
