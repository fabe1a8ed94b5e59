"""`run --check --each`: the first kernel whose result differs from the model's own value, and times per kernel."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from test_compiled_bundle import compiled, inputs, own_cache  # noqa: F401 (a fixture)

import rewrite_engine as rw
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.check_each import compare_each
from rewrite_engine.cli import main
from rewrite_engine.files import SOURCE

pytest.importorskip("onnxruntime")

TWO = "g (float[8,24] x) => (float[8,24] y) { y = Neg(x) }"


def with_wrong_relu() -> Bundle:
    """The bundle of MatMul, Relu, Softmax, Sub in which Relu computes Neg."""
    bundle, wrong = compiled(engine="numpy"), compiled(TWO, engine="numpy")
    (program,) = wrong.programs.values()
    symbol = next(symbol for symbol in bundle.functions if "Relu" in symbol)
    return replace(bundle, programs={**bundle.programs, symbol: program})


def test_a_good_bundle_agrees_kernel_by_kernel():
    bundle = compiled()
    report = compare_each(bundle, bundle.extra_files[SOURCE], 3)
    assert report.first is None and report.compared == report.kernels == 4
    assert [check.value for check in report.checks] == ["a", "b", "s", "y"]
    assert 0 < max(check.error for check in report.checks) < 1e-5
    given = compare_each(bundle, bundle.extra_files[SOURCE], inputs=inputs())
    assert given.first is None and given.checks != report.checks


def test_the_first_kernel_that_differs_is_named():
    bundle = with_wrong_relu()
    report = compare_each(bundle, bundle.extra_files[SOURCE], 3)
    # The kernels after it are given the model's own values.
    assert [check.error > check.allowed for check in report.checks] == [False, True, False, False]
    first = report.first
    assert first is not None
    assert (first.kernel, first.rule, first.value) == ("t.Relu.1", "t.supports.0", "b")
    assert first.error > 0.1 and first.ran == "numpy"


def test_a_value_that_is_nan_differs():
    bundle = compiled()
    report = compare_each(bundle, bundle.extra_files[SOURCE], 3)
    broken = replace(report, checks=(replace(report.checks[0], error=float("nan")),))
    assert broken.first is broken.checks[0]


def test_what_onnx_runtime_cannot_read():
    with pytest.raises(rw.RewriteError, match="the reference model cannot be read"):
        compare_each(compiled(), b"nonsense")


def test_the_command_line(tmp_path, capsys, monkeypatch):
    compiled().save(tmp_path / "good")
    run = ["run", str(tmp_path / "good"), "--check", "--each", "--repeat", "2"]
    assert main(run) == 0
    said = capsys.readouterr().out
    assert "each       4 of 4 kernels compute values of the model: all agree" in said
    assert sum(line.endswith(" ms  t.MatMul.1") for line in said.splitlines()) == 1
    assert main([*run, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["each"]["first"] is None and len(found["each"]["checks"]) == 4
    assert len(found["kernels"]) >= 4 and all(row["seconds"] > 0 for row in found["kernels"])
    monkeypatch.setattr(Bundle, "open", lambda *_: with_wrong_relu())
    assert main(run) == 1
    said = capsys.readouterr().out
    assert "the first that differs is t.Relu.1\n  rule t.supports.0, value b: error" in said
    assert main([*run, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["each"]["first"]["kernel"] == "t.Relu.1"
    assert main(["run", str(tmp_path / "good"), "--each"]) == 2
    assert "--each compares kernel by kernel: give --check too" in capsys.readouterr().err


def test_an_observer_sees_results_before_their_memory_is_used_again():
    bundle = compiled()
    executor = bundle.executor()
    seen: dict[str, np.ndarray] = {}
    outputs = executor.run(inputs(), lambda step, results: seen.update({n: a.copy() for n, a in results.items()}))
    np.testing.assert_array_equal(seen["b"], np.maximum(seen["a"], 0))
    np.testing.assert_array_equal(outputs["y"], seen["y"])
