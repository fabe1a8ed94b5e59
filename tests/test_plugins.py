"""Plug-ins: what installed packages add, what is said of missing and broken ones; strategies; the page's examples."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import rewrite_engine as rw
from rewrite_engine.egraph.problem import Choice
from tests.plugging import module, rules_of, targets_of

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


# ---------------------------------------------------------------- installed packages


def install(example: Path, folder: Path) -> None:
    """What an installer leaves of a package: its files, and a dist-info folder with the entry points."""
    project = tomllib.loads((example / "pyproject.toml").read_text())
    name, version = project["project"]["name"].replace("-", "_"), project["project"]["version"]
    for file in project["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]:
        shutil.copy(example / file, folder / file)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['project']['name']}\nVersion: {version}\n")
    groups = project["project"]["entry-points"].items()
    rows = [line for group, points in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))]
    (info / "entry_points.txt").write_text("\n".join(rows) + "\n")


def offer(folder: Path, group: str, name: str, value: str, package: str) -> None:
    """An entry point of a package that has nothing else."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


def run(folder: Path, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Python with the packages of `folder` installed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120
    )


SCRIPT = """
import json, sys, warnings
import numpy as np
import rewrite_engine as rw
from tests.plugging import module, rules_of, targets_of

rules = rules_of("supports Relu, Neg, Add, Mul")
guards = "supports Relu(x) if fits_tiles(x.shape) supports Neg(x) if not fits_tiles(x.shape)"
greedy = rw.place(module(), rules, strategy="greedy")
best = rw.place(module(), rules)
bundle = rw.compile(module(), rules, targets={"t": "stack"})
bundle.save("bundle")
x = np.linspace(-2, 2, 4096, dtype=np.float32).reshape(1, 4, 32, 32)
executor = rw.Bundle.open("bundle").executor("numpy")
y = executor.run({"x": x})["y"]
a = np.maximum(x, 0)
print(json.dumps({
    "greedy": [greedy.strategy, greedy.costs.total, greedy.bound], "best": best.costs.total,
    "error": float(abs(y - np.exp(a - a) * x).max()),
    "ran": sorted({(time.function.split("_")[0], time.ran) for time in executor.times}),
    "predicates": targets_of(rw.place(module(), rules_of(guards))),
}))
"""


def test_example_packages_run_where_they_are_installed(tmp_path: Path) -> None:
    for example in sorted(EXAMPLES.glob("plugin_*")):
        install(example, tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    done = run(tmp_path, "-c", SCRIPT, cwd=work)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    name, cost, bound = found["greedy"]
    assert name == "greedy" and bound <= found["best"] <= cost
    assert found["error"] == 0
    assert ["t", "target"] in found["ran"] and ["host", "numpy"] in found["ran"]
    assert ["t", "numpy"] not in found["ran"]
    assert found["predicates"]["a"] == "t" and found["predicates"]["b"] == "host"
    metadata = json.loads((work / "bundle" / "metadata.json").read_text())
    made = [f for f in metadata["functions"].values() if f["target"] == "t"]
    assert made and all((f["generator"], f["generator_version"]) == ("stack", "1.0") for f in made)
    assert all((work / "bundle" / f"{f['kernel']}.bin").is_file() for f in made)
    done = run(tmp_path, "-m", "rewrite_engine", "run", "bundle", "--engine", "numpy", "--json", cwd=work)
    assert {kernel["ran"] for kernel in json.loads(done.stdout)["kernels"]} == {"target", "numpy", "copy"}, done.stderr
    # Without the package, the bundle says what is missing.
    with pytest.raises(rw.RewriteError, match="code generator `stack`, which is not installed; install the package"):
        rw.Bundle.open(work / "bundle").executor()


def test_the_example_rule_file_needs_its_package(tmp_path: Path) -> None:
    install(EXAMPLES / "plugin_predicate", tmp_path)
    file = str(EXAMPLES / "plugin_predicate" / "tiles.pat")
    done = run(tmp_path, "-m", "rewrite_engine", "test", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    with pytest.raises(rw.PatError, match="unknown function `fits_tiles`"):
        rw.load_rules(file)


def test_a_broken_package_is_named(tmp_path: Path) -> None:
    offer(tmp_path, "rewrite_engine.strategies", "absent", "no_such_module:it", "broken-pack")
    offer(tmp_path, "rewrite_engine.codegens", "silly", "math:pi", "silly-pack")
    for number in (1, 2):
        offer(tmp_path, "rewrite_engine.predicates", "twice", "math:isnan", f"pack{number}")
    code = """
import rewrite_engine as rw
from tests.plugging import module, rules_of
for attempt in (
    lambda: rw.place(module(), rules_of(), strategy="absent"),
    lambda: rw.place(module(), rules_of(), strategy="absnt"),
    lambda: rw.compile(module(), rules_of(), targets={"t": "silly"}),
    lambda: rules_of("supports Relu(x) if twice(x.rank)"),
):
    try:
        attempt()
    except rw.RewriteError as error:
        print(error)
"""
    done = run(tmp_path, "-c", code)
    absent, misspelt, silly, twice = done.stdout.splitlines()
    assert "strategy `absent` (no_such_module:it) of broken-pack 1.0 cannot be loaded: ModuleNotFoundError" in absent
    assert "unknown strategy `absnt`" in misspelt and "did you mean `absent`?" in misspelt
    assert "code generator `silly` (math:pi) of silly-pack 1.0: expected name, version, generate and load" in silly
    assert twice == "predicate `twice` is offered by pack1 1.0 and pack2 1.0; uninstall all but one"


# ---------------------------------------------------------------- strategies


def test_a_callable_is_a_strategy() -> None:
    rules = rules_of("supports Relu, Neg, Add, Mul")

    def on_the_host(explored: Any, options: Any) -> list[Choice]:
        problem = explored.problem
        mine = [k for k, kernel in enumerate(problem.kernels) if kernel.target == 0]
        return [Choice(kernel, number) for number, kernel in enumerate(mine)]

    placement = rw.place(module(), rules, strategy=on_the_host)
    best = rw.place(module(), rules)
    assert placement.strategy == "on_the_host" and set(targets_of(placement).values()) == {"host"}
    assert placement.costs.total == placement.baselines["single:host"]
    assert placement.status == "feasible" and placement.bound == best.costs.total < placement.costs.total


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "strategy `mine` returned no placement: an output reads `y`"),
        ([Choice(10**6, 0)], "kernels, found a choice of 1000000"),
        ([3], "expected a Solution, a list of Choice or None"),
        (None, "strategy `mine` finds no placement"),
    ],
)
def test_what_a_strategy_returns_is_audited(answer: Any, message: str) -> None:
    def mine(explored: Any, options: Any) -> Any:
        return answer

    with pytest.raises(rw.RewriteError, match=message):
        rw.place(module(), rules_of(), strategy=mine)


def test_a_strategy_that_fails_is_named() -> None:
    def mine(explored: Any, options: Any) -> Any:
        return 1 // 0

    with pytest.raises(rw.RewriteError, match="strategy `mine` failed: ZeroDivisionError"):
        rw.place(module(), rules_of(), strategy=mine)


# ---------------------------------------------------------------- the page about them


def python_blocks(page: Path) -> list[str]:
    """The Python examples of a page."""
    parts = page.read_text(encoding="utf-8").split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(ROOT / "docs" / "plugins.md")
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/plugins.md", "exec"), names)
