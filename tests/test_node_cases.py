"""ONNX's own backend tests: node tests in NumPy and in C, models converted from PyTorch; a perturbed result is seen."""

from __future__ import annotations

import functools
import re
import unittest
import warnings
from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx_node_cases
import pytest
from c_programs import need_compiler
from onnx_node_cases import Verdict, all_cases, judge, judge_in_c, operators_of

from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.testing.onnx_backend import NumpyBackend

LEAST = 1785
"""Of the node tests of onnx 1.23 (1,884) so many pass; the others are refused for a reason of `REFUSED`."""

REFUSED: Mapping[str, str] = {
    r"sequences and optionals|sequences, maps": "a sequence, map or optional is no tensor",
    r"shape of optional_input is not known": "an optional is no tensor",
    r"strings": "a string has no arithmetic",
    r"operator Optional\w+ ": "an optional is no tensor",
    r"operator ImageDecoder ": "decoding of images is a library's work",
    r"operator TfIdfVectorizer ": "a search in a table of n-grams",
    r"operator (Bernoulli|RandomUniformLike) |draws random numbers": "random numbers differ by definition",
    r"operator ai.onnx.ml::": "operators of classical machine learning",
    r"operator Scan .* below opset 9": "has a batch axis, which no later opset has",
    r"operator Cast .* is unallowed for Opset": "casts to float8_e8m0fnu came with opset 24",
    r"Input to 'Range' op should be scalars": "the model is not valid: Range takes scalars",
}
"""Reasons for which a node test may be refused, as patterns of the message."""


def small_sample() -> list[object]:
    """One case for each set of operators, and some of opsets and dtypes after the project's."""
    found: dict[tuple[str, ...], object] = {}
    for case in all_cases():
        if not case.name.endswith("_expanded"):
            found.setdefault(operators_of(case.model), case)
    later = [case for case in all_cases() if case.model.opset_import[0].version > 23][::20]
    return [*found.values(), *(case for case in later if case not in found.values())]


@functools.cache
def sampled() -> tuple[Verdict, ...]:
    return tuple(judge(case) for case in small_sample())


def assert_right(verdicts: tuple[Verdict, ...] | list[Verdict]) -> None:
    wrong = [v for v in verdicts if v.outcome in ("mismatch", "error")]
    assert not wrong, "\n".join(f"{v.name}: {v.reason}" for v in wrong)
    refused = [v for v in verdicts if v.outcome == "unsupported"]
    unexplained = [v for v in refused if not any(re.search(reason, v.reason) for reason in REFUSED)]
    assert not unexplained, "\n".join(f"{v.name}: {v.reason}" for v in unexplained)


def test_a_case_of_every_operator() -> None:
    assert_right(sampled())
    passed = {op for verdict in sampled() if verdict.outcome == "pass" for op in verdict.operators}
    assert OPERATORS.keys() - passed <= {"GlobalLpPool"}  # ONNX has no node test of it


def test_a_perturbed_last_output_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    execute = onnx_node_cases._execute

    def perturbed(program: object, feeds: object) -> list[np.ndarray]:
        *others, last = execute(program, feeds)
        if last.dtype.kind in "biu":
            return [*others, last ^ last.dtype.type(1)]
        wide = last.astype(np.float64)
        return [*others, np.where(np.isfinite(wide), wide * 2 + 1, 7).astype(last.dtype)]

    monkeypatch.setattr(onnx_node_cases, "_execute", perturbed)
    passing = {verdict.name for verdict in sampled() if verdict.outcome == "pass"}
    cases = [case for case in small_sample() if case.name in passing]
    still = [case.name for case in cases[::4] if judge(case).outcome == "pass"]
    assert not still


@pytest.mark.slow
def test_every_case_in_numpy() -> None:
    verdicts = [judge(case) for case in all_cases()]
    assert_right(verdicts)
    assert Counter(v.outcome for v in verdicts)["pass"] >= LEAST


@pytest.mark.slow
def test_every_case_in_c(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    need_compiler()
    monkeypatch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path))
    verdicts = judge_in_c(all_cases())
    assert_right(verdicts)
    passed = [v for v in verdicts if v.outcome == "pass"]
    assert len(passed) >= LEAST
    assert sum(1 for v in passed if v.reason) <= 20  # host operators, which run in NumPy


@pytest.mark.slow
def test_models_converted_from_pytorch() -> None:
    import onnx.backend.test

    suite = onnx.backend.test.BackendTest(NumpyBackend, __name__)
    suite.include(r"test_.*_cpu")
    kinds = {name: case for name, case in suite.test_cases.items() if "PyTorch" in name}
    tests = unittest.TestSuite()
    for case in kinds.values():
        tests.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests.run(result)
    failed = [str(test).split()[0] for test, _ in (*result.failures, *result.errors)]
    ran = result.testsRun - len(result.skipped)
    assert len(kinds) == 2 and ran - len(failed) >= 114, failed
