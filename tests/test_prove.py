"""Tier 4: Z3 proves rules for the shapes at hand, and finds what random numbers do not."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import load_text
from rewrite_engine.testing.verify import Options, verify
from rewrite_engine.testing.verify.report import RuleReport

with_z3 = pytest.mark.skipif(find_spec("z3") is None, reason="z3-solver is not installed")

PROVED = {
    "distributivity": "rule r reassociates: Mul(a, Add(b, c)) => Add(Mul(a, b), Mul(a, c))",
    "products of matrices":
        "rule r reassociates: MatMul(a: [_, _], MatMul(b: [_, _], c: [_, _])) => MatMul(MatMul(a, b), c)",
    "order": "rule r: Relu(Max(a, b)) => Max(Relu(a), Relu(b))",
    "functions": "rule r: Exp(Concat(a, b, axis=k)) => Concat(Exp(a), Exp(b), axis=k)",
    "integers that wrap": "rule r: Sub(Add(a: int8[...], b), b) => a",
    "truth values": "rule r: Not(And(a, b)) => Or(Not(a), Not(b))",
    "choices": "rule r: Where(Not(c), a, b) => Where(c, b, a)",
    "casts": "rule r: Cast(Cast(x: int8[...], to=6), to=3) => x",
    "reductions": "rule r: Neg(ReduceMax(x: float32[...], const k) as m) => ReduceMin(Neg(x), k, like m)",
}  # fmt: skip

APART = {
    "one number of many": "rule r: Where(Equal(x: float32[...], 4097), 0, x) => x",
    "an overflow": "rule r: Cast(Cast(x: int32[...], to=3), to=6) => x",
    "a difference of two": "rule r: Relu(Sub(Relu(x), 5000)) => Relu(Sub(x, 5001))",
}


def report(text: str, tiers: int = 4, examples: int = 8) -> RuleReport:
    return verify(load_text(text), Options(tiers=tiers, examples=examples)).rules[0]


@with_z3
@pytest.mark.parametrize("title", PROVED)
def test_sound_rules_are_proved(title: str) -> None:
    found = report(PROVED[title])
    assert (found.status, found.tier) == ("verified", 4), found.line()
    assert found.proved and "and no more" in found.line()


@with_z3
@pytest.mark.parametrize("title", APART)
def test_what_tells_the_sides_apart_is_found(title: str) -> None:
    found = report(APART[title])
    assert found.status == "refuted", found.line()
    assert found.counterexample is not None


@with_z3
def test_it_finds_what_random_numbers_do_not() -> None:
    rule = "rule r: Where(Equal(Mul(x: float32[...], x), 1522756), 0, x) => x"
    assert report(rule, tiers=3).status == "verified"
    found = report(rule)
    assert found.status == "refuted" and found.counterexample is not None
    assert "1234" in found.counterexample.python


@with_z3
@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("rule r: Div(a: int32[...], const b) => a if all(b == 1)", "`div` of int32"),
        ("rule r: Mul(Mul(x, const a), const b) => Mul(x, a * b) if all(a == 0.1) and all(b == 0.1)", "rounded"),
    ],
)
def test_what_is_left_open_is_said(rule: str, why: str) -> None:
    notes = report(rule.replace("rule r:", "rule r reassociates:")).notes
    assert any("not proved by Z3" in note and why in note for note in notes), notes


def test_without_z3_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(RewriteError, match=r"rewrite-engine\[prove\]"):
        report(PROVED["order"])
    assert report(PROVED["order"], tiers=3).tier == 3
    assert main(["doctor"]) == 0
    assert "z3-solver" in capsys.readouterr().out
