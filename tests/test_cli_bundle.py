"""The command line around bundles: checks and their tolerance, limits, placements reused and compared."""

from __future__ import annotations

import builtins
import json
import os
import sys
from pathlib import Path

import pytest
from models import parse
from small_machines import BOARD, write_model, write_rules
from test_cli import cli, refused  # noqa: F401 (fixtures)
from test_rounding import CASES

from rewrite_engine.cli import main
from rewrite_engine.placement import place as placing


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A rule file, a model, and its bundle; tests leave them as they are."""
    folder = tmp_path_factory.mktemp("board")
    rules, model = write_rules(folder, BOARD), write_model(folder)
    assert main(["compile", model, "-p", rules, "-o", str(folder / "out"), "--json", "-q"]) == 0
    return folder


def test_kernels_of_tests_are_not_cached_with_the_users():
    assert "rewrite_engine.tests." in os.environ["REWRITE_ENGINE_CACHE"]


def test_a_tolerance_of_ones_own(cli, refused, folder):  # noqa: F811
    found = json.loads(cli("run", folder / "out", "--check", "--json")[1])["check"]["outputs"]
    assert all(row["error"] < row["allowed"] == 1e-4 and row["steps"] is None for row in found)
    status, out, _ = cli("run", folder / "out", "--check", "--tolerance", "0")
    assert status == (1 if any(row["error"] for row in found) else 0) and "allowed 0e+00" in out
    status, out, _ = cli("run", folder / "out", "--check", "--each", "--tolerance", "0.001", "--json")
    assert status == 0 and {row["allowed"] for row in json.loads(out)["each"]["checks"]} == {0.001}
    assert "--tolerance is what --check allows" in refused("run", folder / "out", "--tolerance", "1e-3")
    for wrong in ("-1", "much", "nan", "inf"):
        assert "expected an error of at least 0" in refused("run", folder / "out", "--check", f"--tolerance={wrong}")


def test_errors_in_quantisation_steps(cli, tmp_path):  # noqa: F811
    (tmp_path / "q.onnx").write_bytes(parse(CASES["dequantised and moved"][0]).SerializeToString())
    assert cli("compile", tmp_path / "q.onnx", "-p", "board.pat", "-o", tmp_path / "b")[0] == 0
    _, out, _ = cli("run", tmp_path / "b", "--check")
    assert out.count(" quantisation steps)") == 2, out
    rows = json.loads(cli("run", tmp_path / "b", "--check", "--json")[1])["check"]["outputs"]
    assert all(0 <= row["steps"] <= 4 for row in rows)


def test_a_demo_without_onnx_runtime_says_first_what_it_did(cli, tmp_path, monkeypatch):  # noqa: F811
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    status, out, err = cli("demo", "-o", tmp_path / "demo")
    assert status == 2 and "the check needs ONNX Runtime: install rewrite-engine[check]" in err
    assert (
        "cost " in out and f"bundle     {tmp_path / 'demo'}" in out and Path(tmp_path / "demo" / "graph.json").is_file()
    )


def test_a_search_without_any_answer_ends_with_status_3(cli, folder, monkeypatch):  # noqa: F811
    monkeypatch.setattr(placing, "baselines", lambda explored, options: {})
    monkeypatch.setattr(sys.modules["rewrite_engine.egraph.extract.solve"], "_climb", lambda search, task: None)
    status, out, err = cli("place", folder / "model.onnx", "-p", folder / "board.pat", "--time-limit", "0")
    assert (status, out) == (3, "") and "error: no answer was found in time; give the search more" in err
