"""Experiments: how they are read, run, resumed after a kill, and exported."""

from __future__ import annotations

import csv
import dataclasses
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

import rewrite_engine as rw
from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.explore import explore
from rewrite_engine.graph import to_terms
from rewrite_engine.language import load
from rewrite_engine.language.library import with_machine
from rewrite_engine.machine import build
from rewrite_engine.placement.sharing import on_machine
from rewrite_engine.sweep.experiment import Experiment, key_of, read_experiment
from rewrite_engine.sweep.worker import Memory, run


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


SHARED = """
models = ["model.onnx"]
rules = ["board.pat"]
strategies = ["optimal", "dp"]
objectives = ["latency", "energy", "makespan"]
[set]
"npu.launch" = ["10ns", "500ns"]
"acc.memory" = ["32B", "1MiB"]
"host->acc.rate" = ["1GBps", "8GBps"]
"npu.flops" = ["1GFLOPS", "50GFLOPS"]
"""
ROOFLINE = """
device acc { memory 1MiB }
link host <-> acc: 100ns + bytes / 8GBps energy bytes * 2pJ
target npu on acc { launch 100ns flops 2GFLOPS option wide = 1 option memory = 1
  supports Relu(x) if wide == 1 energy 3pJ
  supports Sigmoid(x) if memory == 1 cost 1ns energy 1pJ
}
"""


def test_instances_that_share_an_exploration_have_the_results_of_those_that_do_not(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    write_rules(tmp_path, ROOFLINE)
    path.write_text(SHARED)
    experiment = read_experiment(path)
    shared = Memory()
    for instance in experiment.instances:
        told = instance.to_json()
        mine, alone = (run(told, experiment.limits, memory) for memory in (shared, Memory()))
        assert "error" not in mine and {**mine, "seconds": 0} == {**alone, "seconds": 0}, told
    assert len(experiment.instances) == 96
    assert shared.graphs.explored == 4 and len(shared.rules) == 2, "two rooflines, in two units of cost"


def test_an_exploration_on_another_machine_is_that_of_the_machine(tmp_path: Path) -> None:
    model = rw.load(write_model(tmp_path))
    rules = write_rules(tmp_path, ROOFLINE)
    told = {"npu.launch": "7us", "acc.memory": "2KiB", "host->acc.cost": "3us", "acc->host.rate": "5MBps"}
    base = load([rules])
    first = explore(to_terms(model), base.rules, build(base))
    changed = with_machine(base, told)
    again = explore(to_terms(model), base.rules, build(load([rules], settings=told)))
    moved = on_machine(first, build(changed))
    problems = [dataclasses.astuple(explored.problem) for explored in (first, moved, again)]
    assert problems[0] != problems[1] == problems[2]
    assert moved.machine.devices == again.machine.devices and moved.machine.targets == again.machine.targets


def test_an_option_that_is_called_as_a_number_of_the_machine_is_none(tmp_path: Path) -> None:
    """`npu.memory` decides what the target runs: nothing is shared."""
    path = write(tmp_path, "")
    write_rules(tmp_path, ROOFLINE)
    path.write_text(SHARED.partition("[set]")[0] + '[set]\n"npu.memory" = [1, 2]\n')
    memory = Memory()
    found = [run(instance.to_json(), {}, memory)["baselines"] for instance in read_experiment(path).instances]
    assert found[0]["single:npu"] != found[6]["single:npu"] and memory.graphs.explored == 4


def test_mistakes_in_settings_are_those_of_the_rule_files(tmp_path: Path) -> None:
    path = write(tmp_path, '[set]\n"npu.launch" = ["3B"]\n')
    (instance,) = read_experiment(path).instances
    assert "--set npu.launch=3B" in run(instance.to_json(), {}, Memory())["error"]
    for wrong in ("nup.launch", "host->cca.rate", "acc.memroy"):
        told = {**instance.to_json(), "settings": {wrong: "1us"}}
        message = f"--set {wrong}: the rule files declare no such setting; did you mean"
        assert message in run(told, {}, Memory())["error"]


def test_values_of_inputs(tmp_path: Path) -> None:
    """As `--value`: the input is a constant, and decides which operator there is."""
    write_rules(tmp_path, BOARD)
    then, other = "then_ () => (float[8] t) { t = Relu(x) }", "else_ () => (float[8] e) { e = Sigmoid(x) }"
    body = f"y = If <then_branch = {then}, else_branch = {other}> (b)"
    write_model(tmp_path, f"g (float[8] x, bool b) => (float[8] y) {{ {body} }}")
    entries = ", ".join(f'{{ path = "model.onnx", values = {{ b = {value} }} }}' for value in ("true", "false"))
    (tmp_path / "v.toml").write_text(f'models = [{entries}]\nrules = ["board.pat"]\ntargets = [["fast"]]\n')
    assert main(["sweep", str(tmp_path / "v.toml"), "-q", "--jobs", "1"]) == 0
    found = rows(tmp_path / "v")
    assert [int(row["baseline single:fast"]) >= 110_000 for row in found] == [True, False], "it knows Relu alone"
    one, two = read_experiment(tmp_path / "v.toml").instances
    files = {one.model.path: "m", "board.pat": "r", str(tmp_path / "board.pat"): "r"}
    assert key_of(one, {}, files, "1") != key_of(two, {}, files, "1")


@pytest.mark.parametrize("wrong", ['"text"', "{ a = 1 }", '[1, "a"]', "3"])
def test_values_that_are_none(tmp_path: Path, wrong: str) -> None:
    entry = "values = 3" if wrong == "3" else f"values = {{ b = {wrong} }}"
    (tmp_path / "v.toml").write_text(f'models = [{{ path = "m.onnx", {entry} }}]\nrules = ["board.pat"]\n')
    with pytest.raises(RewriteError, match=r"`values` of m\.onnx: expected numbers, true, false or lists of them"):
        read_experiment(tmp_path / "v.toml")


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
