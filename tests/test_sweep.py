"""Experiments: how they are read, run, resumed after a kill, and exported."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_machines import BOARD, write_model, write_rules

from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.sweep.experiment import Experiment, read_experiment


def write(folder: Path, text: str, name: str = "e.toml") -> Path:
    """An experiment beside the small model and board."""
    write_rules(folder, BOARD)
    write_model(folder)
    (folder / name).write_text('models = ["model.onnx"]\nrules = ["board.pat"]\n' + text)
    return folder / name


def settings(experiment: Experiment, path: str) -> list[str]:
    return [dict(instance.settings)[path] for instance in experiment.instances]


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[set]\n"npu.launch" = ["1us", "5us"]', ["1us", "5us"]),
        ('[set]\n"npu.launch" = "1us"', ["1us"]),
        ('[set]\n"npu.launch" = { from = "1us", to = "100us", steps = 3 }', ["1us", "10us", "100us"]),
        ('[set]\n"npu.launch" = { from = "0us", to = "10us", steps = 3 }', ["0us", "5us", "10us"]),
        ('[set]\n"npu.launch" = { from = "10us", to = "20us", steps = 3, scale = "linear" }', ["10us", "15us", "20us"]),
    ],
)
def test_lists_and_ranges(tmp_path: Path, text: str, found: list[str]) -> None:
    assert settings(read_experiment(write(tmp_path, text)), "npu.launch") == found


def test_draws_follow_the_seed_and_stay_in_their_ranges(tmp_path: Path) -> None:
    text = '[random]\ncount = 8\n"npu.launch" = { from = "1us", to = "9us" }\n"acc.memory" = ["1MiB", "2MiB"]'
    first = read_experiment(write(tmp_path, text))
    assert first == read_experiment(write(tmp_path, text))
    assert settings(first, "npu.launch") != settings(
        read_experiment(write(tmp_path, "seed = 1\n" + text)), "npu.launch"
    )
    assert all(1 <= float(value.removesuffix("us")) <= 9 for value in settings(first, "npu.launch"))
    assert set(settings(first, "acc.memory")) == {"1MiB", "2MiB"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strategy = 1", "unknown key `strategy`; known are .*; did you mean `strategies`"),
        ("strategies = []", "`strategies`: expected a list with at least one entry"),
        ("strategies = [1]", "`strategies`: expected strings"),
        ("seed = -1", "`seed`: expected a whole number"),
        ("gap = 1", "`gap`: expected a number"),
        ('[set]\n"a.b" = { from = 1, to = 2 }', "`a.b`: expected at least 2 `steps`"),
        ('[set]\n"a.b" = { from = "1us", to = "2ms", steps = 2 }', "`from` at most `to` in one unit"),
        ('[set]\n"a.b" = { from = 2, to = 1, steps = 2 }', "`from` at most `to` in one unit"),
        ('[set]\n"a.b" = { start = 2, to = 1, steps = 2 }', "expected a range of from, to, scale, steps"),
        ("[random]\n", "a `count` of at least 1"),
        ('[random]\ncount = 1\n"a.b" = 3', "expected a list or"),
        ("= 3", "an experiment is a TOML file"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        read_experiment(write(tmp_path, text))


def test_results_errors_and_a_second_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'strategies = ["optimal", "single:nosuch"]\n[set]\n"npu.launch" = ["10ns", "100ns"]'
    path = write(tmp_path, text)
    assert main(["sweep", str(path), "--json", "--jobs", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["instances"], report["run"], report["errors"]) == (4, 4, 2)
    found = rows(tmp_path / "e")
    assert [row["npu.launch"] for row in found] == ["10ns", "10ns", "100ns", "100ns"]
    assert "single:npu" in found[1]["error"] and not found[1]["cost"]
    for row in (found[0], found[2]):
        assert row["status"] == "optimal" and row["cost"] == row["bound"]
        assert all(int(row["cost"]) <= int(v) for k, v in row.items() if k.startswith("baseline") and v)
    assert int(found[0]["baseline single:npu"]) < int(found[2]["baseline single:npu"])
    before = (tmp_path / "e" / "results.csv").read_bytes()
    assert main(["sweep", str(path), "--json", "-q"]) == 1
    assert json.loads(capsys.readouterr().out)["run"] == 0
    assert (tmp_path / "e" / "results.csv").read_bytes() == before
    write_rules(tmp_path, BOARD.replace("cost 10ns", "cost 11ns"))
    assert main(["sweep", str(path), "--json", "-q", "--jobs", "1"]) == 1
    assert json.loads(capsys.readouterr().out)["run"] == 4, "results are filed by the content of the rule files"


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, '[set]\n"npu.launch" = { from = "10ns", to = "900ns", steps = 40 }')
    command = [sys.executable, "-m", "rewrite_engine", "sweep", str(path), "--jobs", "1", "-q"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    base = tmp_path / "e" / "results.sqlite"

    def kept() -> dict[str, str]:
        try:
            with sqlite3.connect(f"file:{base}?mode=ro", uri=True) as store:
                return dict(store.execute("SELECT key, result FROM results").fetchall())
        except sqlite3.OperationalError:
            return {}

    deadline = time.monotonic() + 60
    while len(kept()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = kept()
    assert 3 <= len(before) < 40
    assert main(["sweep", str(path), "--json", "-q", "--jobs", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == 40 - len(before)
    after = kept()
    assert len(after) == 40 and len(rows(tmp_path / "e")) == 40
    assert before.items() <= after.items(), "finished results stay as they were, with the seconds they took"


def test_a_database_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "results.sqlite").write_text("not a database, but long enough to be read as the head of one" * 9)
    assert main(["sweep", str(path)]) == 2
    assert "results.sqlite: file is not a database; choose another folder" in capsys.readouterr().err
