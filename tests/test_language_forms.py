"""Every form of the language, each in a small rule file of its own: it loads without a word and passes its own tests.

The second table holds what the language refuses, and what the message says.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rewrite_engine.language import check_files
from rewrite_engine.testing.in_file import run_file

FILES = Path(__file__).parent / "pat"
FORMS = dict(re.findall(r"^---- (.*)\n((?:(?!---- ).*\n)*)", (FILES / "forms.txt").read_text("utf-8"), re.MULTILINE))

REFUSED = {
    "target t on host { supports Relu }\ntarget t on host { supports Abs }": "target `t` is opened twice in one file",
    "rule r: Relu(x) => Conv(x, w)": "the left side never binds `w`",
    "rule r: Add(x, y) <=> Neg(x)": "`y` is captured but never read",
    "pattern p(x) = p(Relu(x))": "pattern `p` is built from itself",
    "target t on host { supports Relu(x) if supported(x) }": "supported() can be asked in composites only",
    "target t on host { supports Relu(x) as y cost y.cost }": "`.cost` can be read in composites only",
    "rule r: Clip(x, const a?) => Relu(x) if a == 0 or x.rank == 2": "`a` may be absent",
    "rule r: Clip(x, const a?) => Relu(x) if not a == 0": "`a` may be absent",
    "target t on host { supports Conv(x: int8[...], w) cost 1us }": "int8 comes as QDQ",
    "pattern const(x) = Relu(x)": "`const` is a reserved word",
    "target t on host { supports Relu cost 3parsecs }": "unknown unit `parsecs`",
    "target t on host { supports Relu cost bytes / 1TFLOPS }": "divide by a rate such as 8GBps",
    "rule r: Relu(Relu(\u201cx\u201d)) => Relu(x)": "U+201C",
    "rule r: Relu(Relu(\u00a0x)) => Relu(x)": "U+00A0",
    "device d { memory 1us }": "expected bytes",
    "link host -> nowhere: 1us": "unknown device `nowhere`",
    "target t on nowhere { supports Relu }": "unknown device `nowhere`",
    'rule r: Relu(Relu(x)) => Softmax(x, axis="a")': "attribute `axis` of Softmax is a whole number",
    "target t on host { supports Relu cost 0us - 1us }": "expected at least nothing",
    "target t on host { supports Relu energy -1pJ }": "expected at least nothing",
    "rule r: ReduceMean(x, [1], axes=[1]) => x": "the input `axes` of ReduceMean is given twice",
    "rule r: Relu(Relu(x)) => ReduceMean(x, [1], axes=[1])": "the input `axes` of ReduceMean is given twice",
    "rule r: Relu" + "(Relu" * 2000 + "(x)" + ")" * 2000 + " => Relu(x)": "deep",
}


def test_there_are_as_many_as_the_page_has() -> None:
    assert len(FORMS) == 94


@pytest.mark.parametrize("name", FORMS)
def test_it_loads_and_passes_its_tests(name: str, tmp_path: Path) -> None:
    path = tmp_path / "form.pat"
    path.write_text(FORMS[name], "utf-8")
    problems, _ = check_files([path])
    wrong = [str(problem) for problem in problems if "is not used" not in problem.message]
    assert wrong == []
    results = run_file(path)
    assert [f"{result.title}: {result.reason}" for result in results if not result.passed] == []


@pytest.mark.parametrize("change", ["mark", "returns", "tabs", "no last newline"])
def test_what_changes_nothing(change: str, tmp_path: Path) -> None:
    path = tmp_path / "form.pat"
    text = "rule r: Relu(Relu(x)) => Relu(x)\nrule s:  Abs(Abs(_)) => Abs(y)\n"
    changed = {
        "mark": "\ufeff" + text, "returns": text.replace("\n", "\r\n"), "tabs": text.replace("  ", "\t "),
        "no last newline": text.rstrip(),
    }[change]  # fmt: skip
    assert changed != text
    path.write_bytes(changed.encode())
    (problem,) = check_files([path])[0]
    assert (problem.span.line, problem.span.column, problem.message) == (2, 29, "the left side never binds `y`")


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_it_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "form.pat"
    path.write_text(text + "\n")
    problems, _ = check_files([path])
    assert any(REFUSED[text] in f"{p.message} {p.hint}" for p in problems if p.severity == "error"), problems
