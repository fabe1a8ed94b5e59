"""docs/testing.md: its commands print what stands there, its Python runs, its rule files are as it says."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import onnx
import pytest
from onnx import parser

from rewrite_engine.cli import main
from rewrite_engine.cli.parser import build_parser
from rewrite_engine.testing import strategies as st

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [(match[1].strip(), match[2]) for match in FENCE.finditer(PAGE)]
COMMANDS = [text for kind, text in BLOCKS if kind == "console"]
PYTHON = [text for kind, text in BLOCKS if kind == "python"]
PRINTED = [text for kind, text in BLOCKS if not kind]
DRAWN = re.compile(r"found \[.*\]|matches in [a-z0-9, ]+|\d+(?:\.\d+)?(?:e-?\d+)?")
"""What depends on the examples that are drawn: numbers, and dtypes in the order in which they came."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page, and its `python` first on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for kind, text in BLOCKS:
        what, _, name = kind.partition(" ")
        if what == "onnx":
            onnx.save(parser.parse_model(text), name)
        elif name and what in ("pat", "python"):
            Path(name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_commands_print_what_stands_there(number: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, expected = COMMANDS[number].partition("\n")
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "rewrite-engine" and main(arguments) == 0
    assert DRAWN.sub("_", capsys.readouterr().out) == DRAWN.sub("_", expected)
    if "--write" in arguments:
        assert Path("gate.pat").read_text(encoding="utf-8") == Path("written").read_text(encoding="utf-8")
    if "reduce" in arguments:
        assert [node.op_type for node in onnx.load("small.onnx").graph.node] == ["Softmax"]


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_python_runs(number: int) -> None:
    exec(compile(PYTHON[number], f"docs/testing.md, block {number}", "exec"), {"__name__": "page"})


def test_the_counterexample_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = PRINTED
    text = (ROOT / "examples" / "unsound.pat").read_text(encoding="utf-8")
    Path("examples").mkdir()
    Path("examples/unsound.pat").write_text(text[: text.index("## The permutation")], encoding="utf-8")
    assert main(["test", "examples/unsound.pat"]) == 1
    assert shown in capsys.readouterr().out


def test_every_option_and_strategy_is_there() -> None:
    known = vars(build_parser().parse_args(["test", "x.pat"]))
    for name in ("no_verify", "tier", "examples", "seed", "json", "write", "coverage"):
        assert name in known and f"`--{name.replace('_', '-')}" in PAGE
    for name in st.__all__:
        assert name == "drawable" or re.search(rf"`{name}(\(.*\))?`", PAGE), name


def test_the_page_shows_every_kind_of_block() -> None:
    assert [kind.partition(" ")[0] for kind, _ in BLOCKS].count("console") == len(COMMANDS) >= 4 and len(PYTHON) >= 5
    assert {kind.partition(" ")[0] for kind, _ in BLOCKS} == {"", "console", "onnx", "pat", "python"}
