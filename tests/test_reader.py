"""The fast reader gives what Lark gives, for every rule file at hand; the stored tables are those of the grammar."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark.exceptions import UnexpectedInput

from rewrite_engine.language import syntax, tables
from rewrite_engine.language.grammar import parser
from rewrite_engine.language.parsing import normalise, parse
from rewrite_engine.language.reader import RESERVED, read
from rewrite_engine.language.tree import Context, convert
from rewrite_engine.resources import patterns_root

HERE = Path(__file__).parent
FILES = sorted([*(HERE / "pat").rglob("*.pat"), *patterns_root().rglob("*.pat")])
EXAMPLE = (HERE / "pat" / "pass" / "tern.pat").read_text()


def by_lark(source: str) -> tuple[object, Context]:
    context = Context("f.pat", tuple(source.split("\n")))
    try:
        return convert(parser().parse(source, start="start"), context), context
    except UnexpectedInput:
        return None, context


def same(source: str) -> bool:
    """Whether both ways agree on a text, positions and problems included; the result says whether it is one."""
    expected, there = by_lark(source)
    here = Context("f.pat", there.lines)
    found = read(source, here)
    assert found == expected
    if expected is not None:
        assert (here.problems, here.broken) == (there.problems, there.broken)
    return found is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_same_tree_as_lark(path: Path) -> None:
    same(normalise(path.read_bytes().decode("utf-8", "replace")))


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("", True),
        ("# nothing", True),
        ("language 1", True),
        ("let a = 1", True),
        ("let a = 1e5\nlet b = 2.5e-3us\nlet c = 3parsecs\nlet d = 1e5x", True),
        ("let a = if b<-c then -1 else 2", True),
        ("link a<->b: 1us", True),
        ("link a->b:1us energy 2pJ", True),
        ("let a = b<->c", False),
        ("rule r: Relu(x)<=>Abs(x)", True),
        ("rule r reassociates for OP in {Relu}: OP(like) => OP(like) if like.rank == 2", True),
        ("rule target: launch(x, flops?) => x", True),
        ("let const = 1", False),
        ("let a = _", False),
        ("let a = b.c.d::E(x)", True),
        ("rule r: a.b::C(x) => x", True),
        ("let a = x[:2] + x[1:] + x[:]", True),
        ("let a = (1, 2) == ((3))", True),
        ('test "a": x: float32[...] is _', True),
        ('test "a', False),
        ("let a = 1 $", False),
        ("let é = 1", False),
        ("target t on host { }", True),
        ("target t on host {", False),
    ],
)
def test_small_texts(text: str, valid: bool) -> None:
    assert same(text) is valid


@pytest.mark.parametrize("word", [*sorted(RESERVED), "_", "[", "1", '"t"'])
def test_a_word_after_a_declaration_does_not_end_the_file(word: str) -> None:
    """Whatever follows a whole declaration is read, or is an error."""
    declarations = ["let a = 1", "pattern p(x) = Relu(x)", "rule r: Abs(Abs(x)) => Abs(x)", "device d { memory 1MiB }",
                    "target t on host { supports Relu }", 'include "a.pat"', "link host -> d: 1us"]  # fmt: skip
    for first in declarations:
        text = f"{first} {word} let b = 2 : :"
        assert not same(text), text
        assert parse(text, "f.pat")[1], text


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_texts_with_a_piece_changed(data: st.DataObject) -> None:
    """Cutting out or doubling a stretch of the example gives the same tree, or a syntax error, both ways."""
    start = data.draw(st.integers(0, len(EXAMPLE)))
    length = data.draw(st.integers(0, 12))
    middle = data.draw(st.sampled_from(["", EXAMPLE[start : start + length] * 2, " ", "=>", "?", "1", ")", "x"]))
    same(EXAMPLE[:start] + middle + EXAMPLE[start + length :])


def test_nesting_is_refused_alike() -> None:
    for depth in (100, 240, 400):
        same("let a = " + "(" * depth + "1" + ")" * depth)
        same("let a = " + "1 + " * depth + "1\nlet b = " + "-" * depth + "1")
    file, problems = parse("let a = " + "1 + " * 400 + "1\nlet b = 2", "f.pat")
    assert [type(item) for item in file.items] == [syntax.Let] and len(problems) == 1


def test_the_stored_tables_are_those_of_the_grammar() -> None:
    stored = json.loads(tables.STORED.read_bytes())
    assert stored == tables.generate(), "run `python -m rewrite_engine.language.tables`"


def test_other_tables_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "{}", json.dumps({"grammar": "0"})):
        (tmp_path / "tables.json").write_text(text)
        monkeypatch.setattr(tables, "STORED", tmp_path / "tables.json")
        tables.tables.cache_clear()
        try:
            assert same("let a = 1")
        finally:
            monkeypatch.undo()
            tables.tables.cache_clear()


def test_a_file_without_errors_needs_no_lark() -> None:
    code = (
        "import sys; from rewrite_engine.language import check_files; "
        f"check_files([{str(HERE / 'pat' / 'pass' / 'tern.pat')!r}]); print('lark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


TESTS = """
let a = 1 test "t": Relu(x: float32[2]) => x
pattern p(x) = Relu(x)
test "one": Relu(x: float32[2]) is p   # test "no": rule
test "two": (x, y) is p where x = Relu(rule: float32[2]); y = Add(rule, 1) rule r: Relu(x) => x
include "b.pat" test "three": place Relu(pattern: float32[2]) => Relu(pattern) on device
operator com.x::F(x) = Relu(x)
target t on host { supports Relu }
test "four": t rejects Relu(x: float32[2]) link a -> host: 1us device a {} test "five": t runs Relu(x: int8[2]) in c
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_tests_can_be_passed_over(path: Path) -> None:
    """What is left is what is there without them; a file with a syntax error is read as a whole."""
    _same_without_tests(path.read_bytes().decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        TESTS,
        'test "a": G(x) is not rule let a = 1',  # read as a whole: `rule let` could begin a rule
        'test "a": G(x) is not rule',
        'test "a" let b = 2',
        'let a = 1 test "b": Relu(',
        "let test = 1",
        "",
    ],
)
def test_tests_that_are_hard_to_tell_can_be_passed_over(text: str) -> None:
    _same_without_tests(text)


def _same_without_tests(text: str) -> None:
    whole, problems = parse(text, "f.pat")
    less, others = parse(text, "f.pat", tests=False)
    if not problems:
        assert [item for item in less.items if not isinstance(item, syntax.TestDecl)] == [
            item for item in whole.items if not isinstance(item, syntax.TestDecl)
        ]
    assert set(others) <= set(problems) and less.source == whole.source
