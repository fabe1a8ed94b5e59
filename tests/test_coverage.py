"""What tests of rule files reach: declarations, alternatives with optional parts, guard clauses."""

from __future__ import annotations

import json

import pytest

from rewrite_engine.cli import main
from rewrite_engine.testing.coverage import Coverage, measure

RULES = """
device acc { memory 1MiB }
link host <-> acc: 1us + bytes / 80GBps
pattern gate(x) = Mul(x, Sigmoid(x)) | (Mul(x, Tanh(Exp(x)))
                  if x.rank == 1)
target npu on acc {
  requires all(is_static(t) for t in outputs)
  supports Relu, Exp
  composite conv(x, w, b?) = {Relu, Tanh}?(Conv(x, const w, const b?))
    if x.dtype == float32 and w.shape[2] <= 3   # small windows
}
rule twice: Relu(Relu(x)) => Relu(x)
"""
CONV = "Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, {k}, {k}]{b})"
SMALL, LARGE = CONV.format(k=3, b=""), CONV.format(k=5, b="")
BIASED = CONV.format(k=3, b=", const b: float32[4]")


def covered(tmp_path, *tests: str, rules: str = RULES) -> Coverage:
    path = tmp_path / "rules.pat"
    path.write_text(rules + "".join(f'test "{k}": {test}\n' for k, test in enumerate(tests)))
    return measure(path)


def lines(coverage: Coverage, kind: str) -> list[str]:
    return [f"{u.span.line}:{u.span.column} {u.text} {u.why}" for u in coverage.unreached if u.kind == kind]


def test_without_tests_nothing_is_reached(tmp_path):
    found = covered(tmp_path)
    assert found.counts == {"declaration": (0, 5), "alternative": (0, 8), "clause": (0, 4)}
    assert lines(found, "declaration") == [
        "4:1 pattern gate never matches",
        "8:3 supports Exp never matches",
        "8:3 supports Relu never matches",
        "9:3 composite npu.conv never matches",
        "12:1 rule twice never matches",
    ]
    assert lines(found, "clause") == [
        "5:22 x.rank == 1 never asked",
        "7:12 all(is_static(t) for t in outputs) never asked",
        "10:8 x.dtype == float32 never asked",
        "10:31 w.shape[2] <= 3 never asked",
    ]


def test_alternatives_and_optional_parts_are_reached_where_a_match_holds(tmp_path):
    assert lines(covered(tmp_path, f"npu runs {SMALL} in conv"), "alternative") == [
        "4:19 Mul(x, Sigmoid(x)) never matches",
        "4:40 (Mul(x, Tanh(Exp(x))) if x.rank == 1) never matches",
        "9:30 {Relu, Tanh}?(Conv(x, const w, const b?)) never matches with Relu",
        "9:30 {Relu, Tanh}?(Conv(x, const w, const b?)) never matches with Tanh",
        "9:30 {Relu, Tanh}?(Conv(x, const w, const b?)) never matches with it",
        "9:61 const b? never matches with it",
    ]
    tests = (
        f"npu runs Tanh({BIASED}) in conv", f"npu runs {SMALL} in conv",
        "Mul(x: float32[2, 2], Tanh(Exp(x))) is not gate", "Mul(x: float32[8], Sigmoid(x)) is gate",
    )  # fmt: skip
    assert lines(covered(tmp_path, *tests), "alternative") == [
        "4:40 (Mul(x, Tanh(Exp(x))) if x.rank == 1) never matches",
        "9:30 {Relu, Tanh}?(Conv(x, const w, const b?)) never matches with Relu",
    ]


def test_a_clause_is_reached_when_it_held_and_was_the_first_to_fail(tmp_path):
    one = covered(tmp_path, f"{SMALL} is conv")
    assert lines(one, "clause") == [
        "5:22 x.rank == 1 never asked",
        "7:12 all(is_static(t) for t in outputs) never fails first",
        "10:8 x.dtype == float32 never fails first",
        "10:31 w.shape[2] <= 3 never fails first",
    ]
    wrong_twice = LARGE.replace("float32", "float64")
    two = covered(tmp_path, f"{SMALL} is conv", f"{wrong_twice} is not conv")
    assert "10:31 w.shape[2] <= 3 never fails first" in lines(two, "clause")
    assert "10:8 x.dtype == float32 never fails first" not in lines(two, "clause")
    three = covered(tmp_path, f"{LARGE} is not conv")
    assert "10:31 w.shape[2] <= 3 never true" in lines(three, "clause")


def test_everything_is_reached(tmp_path):
    rules = "pattern p(x) = Relu(x) | Tanh(x)\nrule r: Relu(Exp(x)) => Exp(x) if x.rank == 1\n"
    tests = (
        "Relu(x: float32[8]) is p", "Tanh(x: float32[8]) is p", "Relu(Exp(x: float32[8])) => Exp(x)",
        "Relu(Exp(x: float32[8, 8])) is not r",
    )  # fmt: skip
    found = covered(tmp_path, *tests, rules=rules)
    assert found.counts == {"declaration": (2, 2), "alternative": (2, 2), "clause": (1, 1)}
    assert found.unreached == () and all(result.passed for result in found.results)


def test_a_file_answers_for_itself_alone(tmp_path):
    (tmp_path / "base.pat").write_text("pattern act(x) = Relu(x) | Tanh(x)\n")
    (tmp_path / "top.pat").write_text(
        'include "base.pat"\npattern twice(x) = act(act(x))\ntest "t": Relu(Tanh(x: float32[8])) is twice\n'
    )
    assert measure(tmp_path / "top.pat").counts["alternative"] == (0, 0)
    assert measure(tmp_path / "base.pat").counts["alternative"] == (0, 2)


@pytest.mark.parametrize("json_", [False, True])
def test_the_command(tmp_path, capsys, json_):
    path = tmp_path / "rules.pat"
    path.write_text(RULES + 'test "t": Relu(Relu(x: float32[8])) => Relu(x)\n')
    assert main(["test", "--coverage", str(path), *(["--json"] if json_ else [])]) == 0
    out = capsys.readouterr().out
    if not json_:
        assert f"{path}:10:31: clause `w.shape[2] <= 3` never asked\n" in out
        assert f"{path}: reached 20% of 5 declarations, 0% of 8 alternatives, 0% of 4 clauses\n1 passed" in out
        return
    found = json.loads(out)
    assert [row["title"] for row in found["tests"]] == ["t"]
    assert found["coverage"][0]["reached"]["declarations"] == {"reached": 1, "total": 5}
    row = {"line": 10, "column": 31, "kind": "clause", "text": "w.shape[2] <= 3", "why": "never asked"}
    assert row in found["coverage"][0]["unreached"]


def test_a_clause_that_a_setting_decides_is_not_counted(tmp_path):
    rules = "target host { option version = 2 composite c(x) = Relu(x) if version >= 2 and x.rank == 1 }\n"
    assert lines(covered(tmp_path, rules=rules), "clause") == ["1:79 x.rank == 1 never asked"]


@pytest.mark.parametrize(
    ("clause", "with_bias", "without"),
    [
        ("present(b)", "never fails first", "never true"),
        ("not present(b)", "never true", "never fails first"),
        ("(present(b) or x.rank == 4)", "never fails first", "never fails first"),
        ("(x.rank == 3 or not present(b))", "never true", "never fails first"),
        ("(if present(b) then x.rank == 4 else x.rank == 3)", "never fails first", "never true"),
        ("all(b == 1)", "never fails first", "never asked"),
    ],
)
def test_clauses_that_variants_decide(tmp_path, clause, with_bias, without):
    """What is known as soon as an input is there, or is not, counts like what a match decides."""
    rules = f"pattern conv(x, w, b?) = Conv(x, const w, const b) if {clause}\n"
    for bias, why in ((", const b: float32[4] = 1", with_bias), ("", without)):
        verdict = "is not" if why == "never true" else "is"
        found = lines(covered(tmp_path, f"{CONV.format(k=3, b=bias)} {verdict} conv", rules=rules), "clause")
        assert len(found) == 1 and found[0].endswith(f" {why}"), found


INHERITED = """device acc { memory 1MiB }
link host <-> acc: 1us + bytes / 1GBps
target base on acc {
  launch 1us
  option n = 4
  composite two(x) = Relu(Abs(x)) if x.shape[0] % n == 0 cost 1us
}
target more on acc extends base { launch 2us }
target other on acc extends base {
  launch 2us
  composite own(x) = Tanh(Abs(x)) cost 1us
}
"""


@pytest.mark.parametrize("target", ["base", "more", "other"])
def test_what_is_inherited_unchanged_is_tested_where_it_is_anywhere(tmp_path, target):
    test = f"{target} runs Relu(Abs(x: float32[4])) in two"
    found = covered(tmp_path, test, rules=INHERITED)
    assert lines(found, "declaration") == ["11:3 composite other.own never matches"]
    assert found.counts["declaration"] == (1, 2)
    assert lines(covered(tmp_path, rules=INHERITED), "declaration") == [
        "6:3 composite base.two never matches", "11:3 composite other.own never matches"
    ]  # fmt: skip
