"""The pages about the language: their rule files hold, their tests pass, their errors are those that are shown.

The `pat` blocks of a section are one file. A `pat fail` block is a file of its own, and the block after it shows all
that `check` prints of it.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from rewrite_engine.diagnostics import render_all
from rewrite_engine.language import check_files, functions, load, units
from rewrite_engine.language.format import formatted
from rewrite_engine.testing.in_file import run_file

ROOT = Path(__file__).parents[1]
LANGUAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def sections(page: str) -> dict[str, str]:
    """The text of each section of a page, by title; what looks like a title in an example is none."""
    hidden = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), page)
    starts = [(match.start(), match[1]) for match in re.finditer(r"^## (.+)$", hidden, re.MULTILINE)]
    ends = [start for start, _ in starts[1:]] + [len(page)]
    return {title: page[start:end] for (start, title), end in zip(starts, ends, strict=True)}


def blocks(text: str) -> list[tuple[str, str]]:
    """Kind and text of each block."""
    return [(match[1].strip(), match[2]) for match in FENCE.finditer(text)]


def examples(text: str) -> str:
    """The rule file that a section's examples make."""
    return "\n".join(block for kind, block in blocks(text) if kind == "pat")


FILES = {title: examples(text) for title, text in sections(LANGUAGE).items() if examples(text)}
ERRORS = [
    (block, after)
    for (kind, block), (_, after) in zip(blocks(LANGUAGE), blocks(LANGUAGE)[1:], strict=False)
    if kind == "pat fail"
]


def rows(title: str) -> list[list[str]]:
    """The cells of all tables of a section; `\\|` is no border."""
    lines = [line for line in sections(LANGUAGE)[title].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize("title", FILES)
def test_the_examples_check_clean_and_their_tests_pass(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rules.pat").write_text(FILES[title])
    problems, texts = check_files(["rules.pat"])
    assert render_all(problems, texts) == ""
    results = run_file("rules.pat")
    assert results
    assert [f"{result.span}: {result.title}: {result.reason}" for result in results if not result.passed] == []


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_the_errors_are_those_that_are_shown(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block, shown = ERRORS[number]
    Path("rules.pat").write_text(block)
    assert render_all(*check_files(["rules.pat"])) + "\n" == shown


def test_the_page_has_examples_of_every_kind():
    assert {"Tour", "Declarations", "Patterns", "Guards and values", "Costs and units"} <= set(FILES)
    assert len(ERRORS) >= 4
    assert {kind for kind, _ in blocks(LANGUAGE)} == {"pat", "pat fail", ""}


def test_the_table_of_functions_is_that_of_the_language():
    written = "\n".join(f"| {f.doc} | {f.result} |" for f in functions.TABLE.values())
    assert written in LANGUAGE, f"write these rows:\n{written}"


def test_the_table_of_units_is_that_of_the_language():
    written = {unit for cells in rows("Costs and units") for unit in re.findall(r"`(\w+)`", cells[1])}
    assert written == set(units.names())


def test_every_declaration_of_the_grammar_is_in_the_tables():
    grammar = (ROOT / "grammar" / "pat.lark").read_text(encoding="utf-8")
    items = re.search(r"\n\?item: (.*?)\n\n", grammar, re.DOTALL)[1]
    in_target = re.search(r"\n\?target_item: (.*?)\n\n", grammar, re.DOTALL)[1]
    words = set(re.findall(r'[:|] *"([a-z]+)"', f": {items}\n : {in_target}"))
    assert {"include", "rule", "test", "supports", "without"} <= words
    forms = " ".join(cells[0] for cells in rows("Declarations"))
    assert {word for word in words if f"`{word} " not in forms} == set()


def test_the_rule_file_of_the_readme_holds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (text,) = [block for _, block in blocks(README) if block.startswith("device ")]
    Path("my.pat").write_text(text)
    assert check_files(["my.pat"])[0] == []
    assert load(["my.pat"]).rules
    results = run_file("my.pat")
    assert len(results) >= 2 and all(result.passed for result in results)


ADVICE = [
    (match[1], textwrap.dedent(match[0]).split("\n", 1)[1].rsplit("```", 1)[0])
    for match in re.finditer(
        r"^ *```pat (bad|better)\n.*?^ *```$",
        (ROOT / "patterns" / "README.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
]


def test_the_advice_has_pairs():
    assert [kind for kind, _ in ADVICE] == ["bad", "better"] * 9
    assert len({text for _, text in ADVICE}) == len(ADVICE)


@pytest.mark.parametrize("number", range(len(ADVICE)), ids=lambda number: f"{number // 2 + 1}-{ADVICE[number][0]}")
def test_what_the_advice_shows_is_so(number, tmp_path):
    """Bad files are legal, and do what their tests say; so do the better ones."""
    path = tmp_path / "advice.pat"
    path.write_text(ADVICE[number][1])
    problems, _ = check_files([path])
    assert [problem.message for problem in problems if "is not used" not in problem.message] == []
    results = run_file(path)
    assert results
    assert [f"{result.title}: {result.reason}" for result in results if not result.passed] == []
    assert formatted(ADVICE[number][1], "advice.pat") == ADVICE[number][1]
