"""Faults that others have met, by the row of the table they stand in: what messages say, and where they point."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from models import parse

import rewrite_engine as rw
from rewrite_engine.diagnostics import PatError, render_all
from rewrite_engine.language import check_files, load, load_text

GOOD = 'rule r: Relu(Relu(x)) => Relu(x)\ntest "t": Relu(Relu(x: float32[2])) => Relu(x)\n'


def messages(folder: Path, content: str | bytes) -> str:
    """What checking a file with that content says."""
    path = folder / "rules.pat"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return render_all(*check_files([path])).replace(f"{path}:", "rules.pat:")


def refused(name: str) -> str:
    module = rw.load(parse(f"g (float[2] x) => (float[2] y) {{ r = Relu(x) {name}y = custom.Twice(r) }}"))
    with pytest.raises(rw.RewriteError) as caught:
        rw.compile(module, load_text(""))
    return str(caught.value)


NAMED = ("", "[n1] ")


@pytest.mark.parametrize("name", NAMED)
def test_row_147_an_operator_that_nobody_knows(name: str) -> None:
    text = refused(name)
    for part in ("custom::Twice", "(y)"):
        assert part in text, text


@pytest.mark.parametrize("name", NAMED)
def test_row_147_the_mend_of_an_operator_that_nobody_knows(name: str) -> None:
    text = refused(name)
    assert text.endswith(
        "declare its meaning in a rule file, in operators that have one: operator custom::Twice(x1) = …"
    )
    mended = load_text("operator custom::Twice(x) = Mul(x, 2)\n")
    module = rw.load(parse(f"g (float[2] x) => (float[2] y) {{ r = Relu(x) {name}y = custom.Twice(r) }}"))
    assert rw.compile(module, mended).run({"x": np.float32([-1, 3])})["y"].tolist() == [0, 6]


@pytest.mark.parametrize(("call", "declaration"), [
    ("custom.Mix(x, x)", "operator custom::Mix(x1, x2) = …"),
    ("custom.Mix(x, \"\", x)", "operator custom::Mix(x1, x2?, x3) = …"),
])  # fmt: skip
def test_row_147_the_mend_has_as_many_operands(call: str, declaration: str) -> None:
    call = call.replace('""', "")
    with pytest.raises(rw.RewriteError, match=re.escape(declaration)):
        rw.compile(rw.load(parse(f"g (float[2] x) => (float[2] y) {{ y = {call} }}")), load_text(""))


@pytest.mark.parametrize("left", ["x", "Relu?(x)", "(Relu(x) | x)"])
def test_row_165_a_left_side_that_matches_anything(left: str, tmp_path: Path) -> None:
    text = messages(tmp_path, f"\nrule grow:\n  {left} => Add(x, 0)\n")
    assert text.startswith("rules.pat:3:"), text
    assert "must be the result of an operator" in text and f"3 |   {left} => Add(x, 0)" in text


@pytest.mark.parametrize("content", [
    b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n").encode(), GOOD.replace("\n", "\r").encode(),
    GOOD.replace(" ", "\t").encode(), GOOD.rstrip("\n").encode(), b"\xef\xbb\xbf" + GOOD.rstrip().encode(),
    (GOOD + "# the end").encode(),
])  # fmt: skip
def test_rows_169_and_172_what_an_editor_leaves_changes_nothing(content: bytes, tmp_path: Path) -> None:
    assert messages(tmp_path, content) == ""
    wrong = content.replace(b"Relu(Relu(x))", b"Relu(Reluu(x))", 1).replace(b"Relu(Relu(x))", b"Relu(Reluu(x))", 0)
    assert messages(tmp_path, wrong).startswith("rules.pat:1:14: error: unknown operator `Reluu`")


@pytest.mark.parametrize("indent", ["\t\t", "  ", "\t ", ""])
def test_row_170_the_caret_stands_under_the_fault(indent: str, tmp_path: Path) -> None:
    text = messages(tmp_path, f"rule r:\n{indent}Add(x,,\ty) => Add(y, x)\n")
    first, line, caret, *_ = text.splitlines()
    column = len(indent) + 7
    assert first.startswith(f"rules.pat:2:{column}: error: "), first
    assert "\t" not in line and line[caret.index("^")] == "," == line[caret.index("^") - 1]


@pytest.mark.parametrize(("text", "spelling"), [
    ("rule r: Relu(Relu(x)) Relu(x)", "`=>`"), ("pattern p(x) Relu(x)", "`=`"), ("rule r: Add(x", "`)`"),
    ("target t on host { supports Relu", "`}`"), ("device d memory 1MiB", "`{`"), ("link host npu: 1us", "`->`"),
])  # fmt: skip
def test_row_171_what_was_expected_is_spelt_as_it_is_written(text: str, spelling: str, tmp_path: Path) -> None:
    said = messages(tmp_path, text + "\n").splitlines()[0]
    assert "expected" in said and spelling in said, said
    for token in ("REWRITES", "RPAR", "LPAR", "RBRACE", "EQUAL", "BAR", "__ANON", "ARROW", "$END"):
        assert token not in said, said


def test_row_172_a_rule_cut_off_at_the_end_points_at_the_last_line(tmp_path: Path) -> None:
    for text in ("\nrule r: Relu(x) =>", "\nrule r: Relu(x", "\nlet a ="):
        assert messages(tmp_path, text).startswith("rules.pat:2:"), text


def test_row_N14_names_given_twice(tmp_path: Path) -> None:
    twice = {
        "rule r: Relu(Relu(x)) => Relu(x)\nrule r: Abs(Abs(x)) => Abs(x)": ("2:1", "rule `r` is declared twice"),
        "target t on host { supports Relu }\ntarget t on host { supports Abs }": ("2:1", "`t` is opened twice in one"),
        "device d { memory 1MiB }\ndevice d { memory 2MiB }": ("2:1", "device `d` is declared twice"),
        "let a = 1\nlet a = 2": ("2:1", "`a` is declared twice"),
    }
    for text, (place, message) in twice.items():
        said = messages(tmp_path, text + "\n")
        assert said.startswith(f"rules.pat:{place}: error: ") and message in said, said
        assert "rules.pat:1:" in said, "the first one is shown too"


@pytest.mark.parametrize("content", ["", "\n", "# nothing\n", "## about\n\n", "\ufeff"])
def test_row_N14_a_file_without_declarations_is_said_to_be_empty(content: str, tmp_path: Path) -> None:
    assert "rules.pat:1:1: warning: " in messages(tmp_path, content)


def test_row_N14_include_cycles_name_their_files(tmp_path: Path) -> None:
    (tmp_path / "a.pat").write_text('include "b.pat"\n')
    (tmp_path / "b.pat").write_text('\ninclude "c.pat"\n')
    (tmp_path / "c.pat").write_text('include "a.pat"\n')
    with pytest.raises(PatError) as caught:
        load([tmp_path / "a.pat"])
    (problem,) = caught.value.problems
    assert "include cycle" in problem.message and all(f"{name}.pat" in problem.message for name in "abc")


@pytest.mark.parametrize(("text", "column", "mend"), [
    ("rule r: Conv2d(x, w) => Conv(x, w)", 9, "`Conv`"),
    ("rule r: Relu(MatMull(x, w)) => MatMul(x, w)", 14, "`MatMul`"),
    ("rule r: Conv(x, w, stride=[1, 1]) => Conv(x, w)", 20, "`strides`"),
    ("rule r: Softmax(x, axes=1) => Softmax(x)", 20, "`axis`"),
    ("rule r: Relu(x) => Softmax(x, axiss=1)", 37, "`axis`"),
    ("target t on host { supports Relu, Sigmiod }", 35, "`Sigmoid`"),
])  # fmt: skip
def test_row_N16_misspelt_operators_and_attributes(text: str, column: int, mend: str, tmp_path: Path) -> None:
    said = messages(tmp_path, text + "\n")
    assert said.startswith(f"rules.pat:1:{column}: ") and f"did you mean {mend}?" in said, said


def test_row_N16_an_operator_of_another_domain_must_be_declared(tmp_path: Path) -> None:
    rule = "rule r: custom::Twice(x) => Add(x, x)\n"
    assert "declare its meaning: operator custom::Twice(" in messages(tmp_path, rule)
    assert messages(tmp_path, "operator custom::Twice(x) = Mul(x, 2)\n" + rule) == ""
