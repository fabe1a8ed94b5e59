"""No argument of the command line that takes a value takes an empty one."""

from __future__ import annotations

import argparse

import pytest

from rewrite_engine.cli.parser import build_parser


def _verbs() -> dict[str, argparse.ArgumentParser]:
    (verbs,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(verbs.choices)


def _cases() -> list[tuple[str, list[str]]]:
    cases = []
    for verb, parser in _verbs().items():
        valued = [action for action in parser._actions if action.nargs != 0]
        needed = [a for a in valued if a.required]
        for tested in valued:
            words = [verb]
            for action in sorted({*needed, tested}, key=valued.index):
                words += [*action.option_strings[-1:], "" if action is tested else "x"]
            cases.append((f"{verb} {tested.option_strings[-1:] or tested.dest}", words))
    return cases


@pytest.mark.parametrize("words", [words for _, words in _cases()], ids=[title for title, _ in _cases()])
def test_an_empty_value_is_refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert any(words in message for words in ("found", "invalid choice", "invalid int value"))


@pytest.mark.parametrize("words", [["--targets", ","], ["--allow", " , "], ["-o", "  "]])
def test_a_value_without_anything_in_it_is_refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["place", "m.onnx", "-p", "r.pat", *words])
    assert ended.value.code == 2 and f"argument {words[0]}" in capsys.readouterr().err


def test_defaults_are_as_they_were() -> None:
    found = build_parser().parse_args(["compile", "m.onnx", "-p", "r.pat", "-o", "out"])
    assert found.patterns == ["r.pat"] and found.allow == "exact,reassociates" and not found.targets and not found.host
