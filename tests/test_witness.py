"""Matches of a file's own tests, near which verification searches where it finds none by itself."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite_engine.language import load_text
from rewrite_engine.language.program import Match
from rewrite_engine.testing.verify import Options, verify
from rewrite_engine.testing.verify.candidate import settle
from rewrite_engine.testing.verify.draws import Seeded
from rewrite_engine.testing.verify.instance import Plans
from rewrite_engine.testing.verify.repair import first_failing, roomy
from rewrite_engine.testing.verify.witness import near, witnesses

NARROW = """
target t on host {{
  composite odd(x, w) = MatMul(x, const w) if x.shape[0] * 7 + x.shape[1] * 5 == 118 and all(w == {w}) cost 1us
}}
test "it runs": t runs MatMul(x: float32[9, 11], const w: float32[11, 2] = 271)
test "it does not": t rejects MatMul(x: float32[9, 12], const w: float32[12, 2] = 271)
"""


def test_matches_that_held_are_noted_and_no_others() -> None:
    rules = load_text(NARROW.format(w=271))
    found = witnesses(rules)
    assert {key: len(facts) for key, facts in found.items()} == {("t.odd", 0): 1}
    (facts,) = found["t.odd", 0]
    assert facts.types[0].shape == (9, 11) and np.all(facts.constants[1] == 271)


def test_a_narrow_pattern_is_verified_near_its_test() -> None:
    report = verify(load_text(NARROW.format(w=271)), Options(examples=4))
    assert report.rules[0].status == "verified" and report.rules[0].matches == 4


def test_without_a_test_that_fires_nothing_is_proven() -> None:
    report = verify(load_text(NARROW.format(w=271).split("test")[0]), Options(examples=4))
    assert report.rules[0].status == "unmatched"


@pytest.mark.parametrize("seed", range(20))
def test_candidates_near_a_match_mostly_fit(seed: int) -> None:
    rules = load_text(NARROW.format(w=271))
    plans = Plans(rules.rules[0], (), {})
    source = Seeded(seed)
    plan = plans.draw(0, source)
    candidate = near(plan, source, witnesses(rules)["t.odd", 0][0])
    settle(candidate, source)
    changed = candidate.shapes[0] != (9, 11) or not np.all(candidate.values[1] == 271)
    assert changed or first_failing(plan, roomy(Match(plan.variant, candidate.facts()))) is None
