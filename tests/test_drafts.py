"""`test --write`: drafts of the tests that a rule file lacks."""

from __future__ import annotations

import json

from rewrite_engine.cli import main
from rewrite_engine.language import load_text
from rewrite_engine.testing.coverage import measure
from rewrite_engine.testing.drafts import drafts

RULES = """device acc { memory 1MiB }
link host <-> acc: 1us + bytes / 80GBps
target npu on acc {
  composite conv_act(x, w, b?) = Relu?(Conv(x, const w, const b?)) if x.dtype == float32 cost 10ns
}
pattern silu(x) = Mul(x, Sigmoid(x)) if x.rank == 2
pattern both(x) = (Relu(a), Tanh(b)) where a, b = Split(x, _)
rule relu_relu: Relu(Relu(x)) => Relu(x)
rule drop: Transpose(x, perm=p) => x if p == iota(x.rank)
rule tested: Neg(Neg(x)) => x
test "there": Neg(Neg(x: float32[2])) => x"""


def test_what_has_no_test_gets_one_that_passes(tmp_path):
    path = tmp_path / "rules.pat"
    path.write_text(RULES)
    found = drafts(path)
    titles = [text.split('"')[1] for text in found]
    assert {"conv_act matches", "silu matches", "both matches", "relu_relu matches", "drop matches"} <= set(titles)
    assert "drop needs p == iota(x.rank)" in titles and not any("tested" in title for title in titles)
    assert found == drafts(path)


def test_the_command_appends_and_never_overwrites(tmp_path, capsys):
    path = tmp_path / "rules.pat"
    path.write_text(RULES)
    assert main(["test", str(path), "--write", "--no-verify"]) == 0
    assert "tests drafted" in capsys.readouterr().out
    text = path.read_text()
    assert text.startswith(RULES + "\n\n") and load_text(text, "rules.pat").tests
    coverage = measure(path)
    assert all(result.passed for result in coverage.results) and len(coverage.results) > 5
    reached, total = coverage.counts["declaration"]
    assert reached == total
    assert main(["test", str(path), "--write", "--no-verify"]) == 0
    assert path.read_text() == text and "0 tests drafted" in capsys.readouterr().out


def test_targets_that_extend_another_have_titles_of_their_own(tmp_path):
    path = tmp_path / "rules.pat"
    path.write_text(RULES + "\ntarget more on acc extends npu { supports Abs }\ntarget third on acc extends more {}\n")
    assert main(["test", str(path), "--write", "--no-verify"]) == 0
    titles = [test.title for test in load_text(path.read_text(), "rules.pat").tests]
    assert {"conv_act of npu matches", "conv_act of more matches", "conv_act of third matches"} <= set(titles)
    assert len([title for title in titles if "x.dtype == float32" in title]) == 1
    coverage = measure(path)
    assert all(result.passed for result in coverage.results)


def test_with_json_they_are_printed_alone(tmp_path, capsys):
    path = tmp_path / "rules.pat"
    path.write_text(RULES)
    assert main(["test", str(path), "--write", "--json", "--no-verify"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["drafts"][str(path)] == drafts(path) and path.read_text() == RULES


EMPTY = """device acc { memory 1MiB }
link host <-> acc: 1us + bytes / 1GBps
target wide on acc {
  launch 1us
  option array = 16
  composite rows(x: float32[1, C, _, _]) = Relu(Abs(x)) if C % array == 0 cost 1us
  composite pairs(x) = Tanh(Abs(x)) if x.shape[-1] % 2 == 0 and x.rank == 2 cost 1us
  composite nothing(x: float32[N]) = Exp(Abs(x)) if N == 0 cost 1us
}
"""


def test_drafts_have_elements_unless_nothing_else_fits(tmp_path):
    (tmp_path / "e.pat").write_text(EMPTY)
    texts = drafts(tmp_path / "e.pat")
    empty = [text for text in texts if "[0" in text or ", 0" in text]
    assert {name for name in ("rows matches", "pairs matches") if any(name in text for text in texts)} == {
        "rows matches", "pairs matches"
    }  # fmt: skip
    assert all("nothing matches" in text for text in empty) and empty


def test_what_has_no_draft_is_said(tmp_path, capsys):
    path = tmp_path / "n.pat"
    path.write_text(
        "target t on host {\n"
        "  composite easy(x) = Relu(Abs(x)) cost 1us\n"
        "  composite odd(x, w) = MatMul(x, const w)\n"
        "    if x.shape[0] * 7 + x.shape[1] * 5 == 11804 and all(w == 271) cost 1us\n"
        "}\n"
    )
    without: list[str] = []
    drafts(path, without)
    assert without == ["odd"]
    assert main(["test", str(path), "--write", "--no-verify"]) == 0
    assert "no match was found for `odd`: write a test that it is to pass" in capsys.readouterr().out
