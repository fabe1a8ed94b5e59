"""Parsing rule files: the tree and its positions, what may vary in the text, recovery after errors, deep nesting."""

from __future__ import annotations

import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from rewrite_engine.language import parse, syntax
from rewrite_engine.language.grammar import ENTRY_POINTS, parser, whole_words
from rewrite_engine.language.walk import walk
from rewrite_engine.resources import grammar_text, patterns_root

FILES = Path(__file__).parent / "pat"
EXAMPLE = (FILES / "pass" / "tern.pat").read_text()


def parsed(text: str) -> tuple[syntax.Declaration, ...]:
    file, problems = parse(text, "t.pat")
    assert problems == []
    return file.items


def test_the_worked_example_is_read_whole() -> None:
    items = parsed(EXAMPLE)
    kinds = [type(item).__name__ for item in items]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "DeviceDecl": 1, "Include": 1, "Let": 6, "LinkDecl": 1, "PatternDecl": 4, "RuleDecl": 6, "TargetDecl": 3,
        "TestDecl": 12,
    }  # fmt: skip
    tern = next(item for item in items if isinstance(item, syntax.TargetDecl) and item.name == "tern")
    assert [type(item).__name__ for item in tern.items] == [
        "Limit", "Limit", "Limit", "OptionDecl", "Requires", "Composite", "Supports", "Supports", "Supports",
        "Composite", "Composite",
    ]  # fmt: skip
    qconv = tern.items[5]
    assert isinstance(qconv, syntax.Composite)
    assert qconv.doc == "Dense or depthwise; bias, requantisation and activation ride the accumulator."
    assert [(p.name, p.optional) for p in qconv.parameters] == [("xv", False), ("wv", False), ("bv", True)]
    assert qconv.parameters[0].type == syntax.TypePattern(qconv.parameters[0].type.span, "q8", (1, "C", "H", "W"))  # type: ignore[union-attr]
    assert [give.name for give in qconv.tail.give] == ["multiplier", "strides", "pads"]
    assert (qconv.span.line, qconv.span.column, qconv.span.end_line, qconv.span.end_column) == (34, 3, 44, 76)


def test_positions_name_the_text_of_every_node() -> None:
    lines = EXAMPLE.split("\n")
    seen = 0
    for node in walk(parsed(EXAMPLE)):
        if isinstance(node, syntax.Name | syntax.ValuePattern) and node.span.line == node.span.end_line:
            text = lines[node.span.line - 1][node.span.column - 1 : node.span.end_column - 1]
            assert node.name in text
            seen += isinstance(node, syntax.Name) and text == node.name
    assert seen > 150


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("  ", " \t"),
    ],
    ids=["byte order mark", "CRLF", "CR", "no final newline", "tabs"],
)
def test_what_changes_nothing(change: object) -> None:
    assert callable(change)
    assert parse(change(EXAMPLE), "t.pat")[0].items == parse(EXAMPLE, "t.pat")[0].items


def test_positions_of_problems_do_not_depend_on_line_ends() -> None:
    text = "let a = 3\n\tlet b = = 4\nrule r: X(x -> x\n"
    expected = parse(text, "t.pat")[1]
    assert [(p.span.line, p.span.column) for p in expected] == [(2, 10), (3, 13)]
    for changed in (text.replace("\n", "\r\n"), "\ufeff" + text, text.rstrip("\n")):
        assert parse(changed, "t.pat")[1] == expected


def test_precedence() -> None:
    (rule,) = parsed(
        "rule r: A(x: float32[1]) as a | B(x) as b => x if a and not b.c == 1 or 2 + 3 * -x < y in {1} with k = 1"
    )
    assert isinstance(rule, syntax.RuleDecl)
    assert isinstance(rule.left, syntax.Alternatives)
    assert [type(item) for item in rule.left.items] == [syntax.CapturePattern] * 2
    guard = rule.tail.guard
    assert isinstance(guard, syntax.Binary) and guard.op == "or"
    assert isinstance(guard.left, syntax.Binary) and guard.left.op == "and"
    assert isinstance(guard.left.right, syntax.Unary) and guard.left.right.op == "not"
    assert isinstance(guard.right, syntax.Compare) and [op for op, _ in guard.right.rest] == ["<", "in"]
    assert isinstance(guard.right.first, syntax.Binary) and guard.right.first.op == "+"


def test_numbers_are_exact() -> None:
    lets = parsed("let a = 0.1 let b = 1e-5 let c = 12 let d = 1.5GBps let e = 2e3us let f = inf let g = 12e5")
    values = [item.value for item in lets if isinstance(item, syntax.Let)]
    numbers = [value.value for value in values if isinstance(value, syntax.Number)]
    assert numbers == [Fraction(1, 10), Fraction(1, 100000), 12, float("inf"), 1200000]
    quantities = [(value.number, value.unit) for value in values if isinstance(value, syntax.Quantity)]
    assert quantities == [(Fraction(3, 2), "GBps"), (2000, "us")]


def test_pattern_forms() -> None:
    text = (
        "pattern p(x) = com.x::Op?({A, B}(x, *r), dq(none, _, const _, b?)?, -1.5, sqrt(2), [1, 2], inf, a=q?, P=-1)[1]"
    )
    (decl,) = parsed(text)
    assert isinstance(decl, syntax.PatternDecl)
    output = decl.pattern
    assert isinstance(output, syntax.OutputPattern) and output.index == 1
    call = output.pattern
    assert isinstance(call, syntax.CallPattern) and call.names == ("com.x::Op",)
    assert call.optional_call and not call.optional_value
    inner, maybe, *literals = call.args
    assert isinstance(inner, syntax.CallPattern) and inner.names == ("A", "B")
    assert isinstance(inner.args[1], syntax.Rest) and inner.args[1].name == "r"
    assert isinstance(maybe, syntax.CallPattern) and maybe.optional_value and not maybe.optional_call
    assert [type(arg).__name__ for arg in maybe.args] == ["NonePattern", "AnyPattern", "AnyPattern", "ValuePattern"]
    assert all(isinstance(literal, syntax.LiteralPattern) for literal in literals) and len(literals) == 4
    assert [(k.name, k.optional) for k in call.keywords] == [("a", True), ("P", False)]


def test_documentation_belongs_to_the_next_declaration() -> None:
    items = parsed(
        "## of the file\n\n## one\n## two\npattern p(x) = R(x)\n# no\nrule r: R(x) => x\n## three\nrule s: R(x) => x"
    )
    assert [getattr(item, "doc", "") for item in items] == ["one\ntwo", "", "three"]


def test_words_end_where_identifiers_end() -> None:
    assert parse("target t on host { supports Relu ifx.rank == 1 }", "t.pat")[1]
    (target,) = parsed("target t on host { supports Relu if(x.rank == 1)cost(2us) }")
    assert isinstance(target, syntax.TargetDecl)


def test_every_error_of_a_file_and_what_is_whole_is_kept() -> None:
    text = """
let one = = 1
target t on host {
  supports Relu
  suports Sigmoid
  composite broken(x = Relu(x)
  composite whole(x) = Abs(x)
}
rule r: Relu(x) -> x
let two = 2
"""
    file, problems = parse(text, "t.pat")
    assert [(p.span.line, p.span.column) for p in problems] == [(2, 11), (5, 3), (6, 22), (9, 17)]
    target, two = file.items
    assert isinstance(target, syntax.TargetDecl) and isinstance(two, syntax.Let)
    assert [getattr(item, "name", "supports") for item in target.items] == ["supports", "whole"]
    assert file.broken == {"one", "r", "broken"}


@pytest.mark.parametrize(
    "text",
    [
        "rule r: " + "Relu(" * 3000 + "x" + ")" * 3000 + " => x",
        "rule r: " + "Relu(" * 3000,
        "let a = " + "(" * 3000 + "1" + ")" * 3000,
        "let a = " + "- " * 3000 + "1",
        "let a = " + "not " * 3000 + "b",
        "let a = " + "1 + " * 3000 + "1",
        "let a = " + "if b then 1 else " * 3000 + "1",
        "let a = b" + ".c" * 3000,
        "let a = b" + "[0]" * 3000,
        "let a = " + "[" * 3000 + "]" * 3000,
        "target t on host { supports Relu if " + "f(" * 3000 + "x" + ")" * 3000 + " }",
    ],
    ids=lambda text: text[:24],
)
def test_nesting_is_read_or_refused(text: str) -> None:
    file, problems = parse(text, "t.pat")
    if problems:
        assert "nested" in problems[0].message or "expected" in problems[0].message
        assert not any(isinstance(item, syntax.RuleDecl | syntax.Let) for item in file.items)
    else:
        assert isinstance(file.items[0], syntax.Let) and isinstance(file.items[0].value, syntax.Number)


def test_damaged_files_never_crash_and_always_say_something() -> None:
    """Random damage to the worked example: a problem inside the file, or a text that still parses."""
    source = random.Random(7)
    pieces = [
        "(",
        ")",
        "{",
        "}",
        "[",
        '"',
        "=>",
        "=",
        ",",
        "let",
        "\n",
        "rule",
        "\u201c",
        "\u00a0",
        "target t",
        "#",
        "\x00",
        "if",
        "'",
    ]
    damaged = 0
    for _ in range(150):
        text = EXAMPLE
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(text))
            text = text[:at] + source.choice(pieces) + text[at + source.choice((0, 0, 1, 40)) :]
        file, problems = parse(text, "t.pat")
        lines = file.source.split("\n")
        for problem in problems:
            assert 1 <= problem.span.line <= len(lines)
            assert 1 <= problem.span.column <= len(lines[problem.span.line - 1]) + 1
        assert problems == sorted(problems, key=lambda p: (p.span, p.message))
        damaged += bool(problems)
    assert damaged > 100


def test_the_grammar_is_clean_in_strict_mode() -> None:
    pytest.importorskip("interegular")
    import lark

    lark.Lark(grammar_text(), parser="lalr", start=list(ENTRY_POINTS), strict=True, edit_terminals=whole_words)


def test_a_broken_cache_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    parser.cache_clear()
    parser()
    (stored,) = (tmp_path / "rewrite_engine").iterdir()
    for content in (b"", b"garbage", stored.read_bytes()[:100]):
        stored.write_bytes(content)
        parser.cache_clear()
        assert parse("let a = 1", "t.pat")[1] == []
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    parser.cache_clear()
    assert parse("let a = 1", "t.pat")[1] == []
    parser.cache_clear()


def test_importing_the_language_imports_no_parser() -> None:
    code = "import sys, rewrite_engine.language; print('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_bundled_files_are_found() -> None:
    assert "start:" in grammar_text()
    assert patterns_root().name == "patterns"
