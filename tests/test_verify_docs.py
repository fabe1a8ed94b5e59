"""The unsound rules of the tutorial are refuted, with tests that hold; what the command prints."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from rewrite_engine.cli import main
from rewrite_engine.language import load, load_text
from rewrite_engine.testing.in_file import run_case
from rewrite_engine.testing.verify import Options, Report, verify, verify_file

ROOT = Path(__file__).parents[1]
UNSOUND = ROOT / "examples" / "unsound.pat"
NAMES = re.findall(r"^rule (\w+)", UNSOUND.read_text(), re.MULTILINE)


@cache
def unsound() -> Report:
    return verify_file(UNSOUND)


@pytest.mark.parametrize("name", NAMES)
def test_every_unsound_rule_is_refuted_and_the_test_that_is_printed_holds_without_it(name: str) -> None:
    (found,) = [rule for rule in unsound().rules if rule.name == name]
    assert found.status == "refuted" and found.counterexample is not None
    mended = f"rule {name}: Neg(Neg(x)) => x\n"
    rules = load_text(mended + found.counterexample.test)
    assert [run_case(rules, case).reason for case in rules.tests] == [""]


def test_the_test_that_is_printed_fails_while_the_rule_is_there() -> None:
    failed = 0
    for rule in unsound().rules:
        assert rule.counterexample is not None
        rules = load_text(UNSOUND.read_text() + rule.counterexample.test)
        failed += not run_case(rules, rules.tests[-1]).passed
    assert failed >= 4  # those for which the other side is the cheaper one, so that it is chosen


def test_the_command_prints_tiers_and_counterexamples(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.pat").write_text("rule twice: Neg(Neg(x)) => x\n")
    Path("bad.pat").write_text("rule twice: Neg(Neg(x)) => Neg(x)\n")
    assert main(["test", "good.pat"]) == 0
    assert re.search(
        r"good\.pat:1:1: verified: twice: tier 3 \(floats\); .*\n1 rules verified, 0 not\n", capsys.readouterr().out
    )
    assert main(["test", "good.pat", "bad.pat"]) == 1
    out = capsys.readouterr().out
    assert "bad.pat:1:1: REFUTED: twice" in out and 'test "counterexample: twice"' in out and "both_sides(" in out
    assert main(["test", "bad.pat", "--no-verify"]) == 0
    capsys.readouterr()
    assert main(["test", "bad.pat", "--json", "--tier", "2"]) in (0, 1)
    (row,) = json.loads(capsys.readouterr().out)["rules"]
    assert row["rule"] == "twice" and row["tier"] == 2


def test_a_file_answers_for_its_own_rules_only(tmp_path) -> None:
    (tmp_path / "base.pat").write_text("rule wrong: Neg(x) => x\n")
    (tmp_path / "top.pat").write_text('include "base.pat"\nrule right: Neg(Neg(x)) => x\n')
    report = verify(load([tmp_path / "top.pat"]), Options(examples=6))
    assert [rule.name for rule in report.rules] == ["right"]
