"""The placement problem as JSON and as MPS: HiGHS finds the same optimum where the program is exact."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from brute_force import random_problem
from small_machines import BOARD, write_model, write_rules

from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.export import to_json, to_mps
from rewrite_engine.egraph.extract import solve


def test_mps_is_a_lower_bound_and_exact_without_launches(tmp_path: Path) -> None:
    highspy = pytest.importorskip("highspy", reason="highspy is not installed")
    exact = below = 0
    for seed in range(40):
        problem = random_problem(seed, operators=7)
        free = replace(problem, targets=tuple(replace(target, launch=0) for target in problem.targets))
        with contextlib.suppress(RewriteError):
            for each in (problem, free):
                best = solve(each)
                path = tmp_path / "p.mps"
                path.write_text(to_mps(each))
                model = highspy.Highs()
                model.setOptionValue("output_flag", False)
                assert model.readModel(str(path)) == highspy.HighsStatus.kOk
                model.run()
                value = round(model.getInfo().objective_function_value)
                assert value <= best.cost, seed
                exact += each is free and value == best.cost
                below += each is problem and value < best.cost
    assert exact >= 15 and below >= 3


def test_place_writes_the_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, model = write_rules(tmp_path, BOARD), write_model(tmp_path)
    for name in ("p.json", "p.mps"):
        assert main(["place", model, "-p", rules, "-q", "--problem", str(tmp_path / name)]) == 0
    table = json.loads((tmp_path / "p.json").read_text())
    assert table["schema"] == "rewrite_engine/problem/1"
    assert [target["name"] for target in table["targets"]] == ["host", "fast", "npu"]
    assert table["devices"] == ["host", "acc"]
    assert (tmp_path / "p.mps").read_text().startswith("NAME placement\nROWS\n N cost\n")
    capsys.readouterr()
    assert main(["place", model, "-p", rules, "--problem", str(tmp_path / "p.txt")]) == 2
    assert "--problem: expected a file that ends in .json or .mps, found" in capsys.readouterr().err


def test_json_holds_everything() -> None:
    problem = random_problem(3)
    table = json.loads(to_json(problem))
    assert len(table["kernels"]) == len(problem.kernels) and len(table["copies"]) == len(problem.copies)
    assert [tuple(root) for root in table["roots"]] == list(problem.roots)
