"""docs/explain.md: what its commands print is what stands there, character by character."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import onnx
import pytest
from onnx import parser

from rewrite_engine.cli import main
from rewrite_engine.language import check_files
from rewrite_engine.testing.in_file import run_file

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [(match[1].strip(), match[2]) for match in FENCE.finditer(PAGE)]
COMMANDS = [text for kind, text in BLOCKS if kind == "console"]

pytestmark = pytest.mark.second_python


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the models and the rule files of the page."""
    monkeypatch.chdir(tmp_path)
    for kind, text in BLOCKS:
        what, _, name = kind.partition(" ")
        if what == "onnx":
            onnx.save(parser.parse_model(text), name)
        elif what == "pat":
            Path(name).write_text(text, encoding="utf-8")
            assert check_files([name])[0] == []
    return tmp_path


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_commands_print_what_stands_there(number, folder, capsys):
    command, _, expected = COMMANDS[number].partition("\n")
    assert command.startswith("$ rewrite-engine ")
    assert main(command.split()[2:]) == 0
    assert capsys.readouterr().out == expected


def test_the_python_prints_what_stands_there(folder):
    ((_, code), (_, expected)) = [(kind, text) for kind, text in BLOCKS if kind in ("python", "text")]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "docs/explain.md", "exec"), {})
    assert out.getvalue() == expected


def test_the_page_shows_every_kind_of_command():
    shown = "\n".join(command.partition("\n")[0] for command in COMMANDS)
    assert len(COMMANDS) >= 6
    assert all(part in shown for part in (" match ", " explain ", " --node ", " --dim "))
    assert {kind.partition(" ")[0] for kind, _ in BLOCKS} == {"onnx", "pat", "console", "python", "text"}


def test_the_table_that_almost_fits_is_a_rule_file_that_holds(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert check_files(["examples/almost.pat"])[0] == []
    results = run_file("examples/almost.pat")
    assert len(results) >= 4 and all(result.passed for result in results)
