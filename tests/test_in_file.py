"""The tests that rule files hold: each verdict passes where it should, and fails for the right reason."""

from __future__ import annotations

import re

import pytest

from rewrite_engine.diagnostics import PatError
from rewrite_engine.language import load_text
from rewrite_engine.testing.in_file import run_case, run_file

RULES = """
device acc { memory 1MiB }
link host <-> acc: 1us + bytes / 80GBps
let narrow(x) = is_static(x) and x.shape[-1] <= 64
target npu on acc {
  launch 100ns
  supports Relu(x), Sigmoid(x) if narrow(x) cost 1ns
  supports Split(x, _) cost 1ns
  composite conv_act(x, w, b?) = Relu?(Conv(x, const w, const b?)) if x.dtype == float32 cost 10ns
  composite two(x) = (Relu(a), Sigmoid(b)) where a, b = Split(x, _) cost 1ns
}
target fast on host { supports Tanh(x) cost 1ns }
pattern silu(x) = Mul(x, Sigmoid(x))
rule relu_relu: Relu(Relu(x)) => Relu(x)
rule double: Add(x, x) => Mul(x, 2)
rule shifts: Add(Add(x, const a), const b) => Add(x, a + b)
"""

PASSES = {
    "one operator": "npu runs Relu(x: float32[8])",
    "two operators": "npu runs Sigmoid(Relu(x: float32[8]))",
    "the host runs everything": "host runs Erf(Exp(x: float64[2]))",
    "a composite": "npu runs Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3])) in conv_act",
    "an optional input": "npu runs Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3], const b: float32[4])"
    " in conv_act",
    "results of one operator": "npu runs Sigmoid(b) where a, b = Split(x: float32[8], num_outputs=2)",
    "an operator that it does not know": "npu rejects Tanh(x: float32[8])",
    "a guard": "npu rejects Relu(x: float32[65])",
    "a size that is not known": "npu rejects Relu(x: float32[n])",
    "sizes that do not matter": "fast runs Tanh(x: float32[n])",
    "one of several": "npu rejects Relu(Tanh(x: float32[8]))",
    "a pattern": "Mul(x: float32[8], Sigmoid(x)) is silu",
    "the other order": "Mul(Sigmoid(x: float32[8]), x) is silu",
    "a composite by its name": "Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3])) is conv_act",
    "another value": "Mul(x: float32[8], Sigmoid(y: float32[8])) is not silu",
    "part of it": "Relu(Mul(x: float32[8], Sigmoid(x))) is not silu",
    "more than it": "(s, Mul(x: float32[8], s)) is not silu where s = Sigmoid(x)",
    "a composite of two results": "(Relu(a), Sigmoid(b)) is two where a, b = Split(x: float32[8], num_outputs=2)",
    "one result of the two": "Relu(a) is not two where a, b = Split(x: float32[8], num_outputs=2)",
    "weights that are computed": "Conv(x: float32[1, 3, 8, 8], w: float32[4, 3, 3, 3]) is not conv_act",
    "a pattern of its own": "Mul(x: float32[8], Sigmoid(x)) is Mul(a, Sigmoid(a))",
    "a named pattern with arguments": "Relu(Mul(x: float32[8], Sigmoid(x))) is Relu(silu(_))",
    "alternatives": "Tanh(x: float32[8]) is Relu(x) | Tanh(x)",
    "a guarded pattern": "Tanh(x: float32[8]) is (Tanh(y) if y.shape == [8])",
    "a pattern of two results": "(Relu(a), Sigmoid(b)) is (Relu(_), Sigmoid(_))"
    " where a, b = Split(x: float32[8], num_outputs=2)",
    "what a rule looks for": "Relu(Relu(x: float32[8])) is relu_relu",
    "what a rule does not look for": "Relu(Tanh(x: float32[8])) is not relu_relu",
    "a rewrite": "Relu(Relu(x: float32[8])) => Relu(x)",
    "several steps": "Relu(Relu(Relu(Relu(x: float32[8])))) => Relu(x)",
    "a constant that is made": "Add(x: float32[8], x) => Mul(x, 2)",
    "constants that are added": "Add(Add(x: float32[2], const a: float32[2] = 1), const b: float32[2] = 2)"
    " => Add(x, [3, 3])",
    "too small for the link": "place Relu(x: float32[8]) => Relu(x) on host",
    "on its own device": "place Tanh(x: float32[65536]) => Tanh(x) on fast",
    "large enough": "place Relu(x: float32[65536, 64]) => Relu(x) on npu",
    "rewritten and placed": "place Relu(Relu(x: float32[65536, 64])) => Relu(x) on npu",
}
FAILS = {
    "npu runs Tanh(Relu(x: float32[8]))": r"npu does not run Tanh \(tanh\.\d+\)",
    "npu runs Relu(x: float32[8, 65])": r"npu does not run Relu",
    "npu runs Conv(x: float64[1, 3, 8, 8], const w: float64[4, 3, 3, 3]) in conv_act": "`npu.conv_act` covers nothing",
    "npu runs Sigmoid(Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3]))) in conv_act":
        r"`npu.conv_act` covers conv\.\d+, relu\.\d+; expected conv\.\d+, relu\.\d+, sigmoid\.\d+",
    "npu rejects Relu(x: float32[8])": "npu runs all of it",
    "npu rejects Sigmoid(Relu(x: float32[8]))": "npu runs all of it",
    "Mul(x: float32[8], Sigmoid(y: float32[8])) is silu": "it is not silu",
    "Relu(Mul(x: float32[8], Sigmoid(x))) is silu": "it is not silu",
    "Mul(x: float32[8], Sigmoid(x)) is not silu": "it is silu",
    "Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3])) is not conv_act": "it is conv_act",
    "Mul(x: float32[8], Sigmoid(y: float32[8])) is Mul(a, Sigmoid(a))": "it is not matched by that pattern",
    "Tanh(x: float32[8]) is (Tanh(y) if y.shape == [9])": "it is not matched by that pattern",
    "Relu(Relu(x: float32[8])) is not relu_relu": "it is relu_relu",
    "Relu(Tanh(x: float32[8])) is relu_relu": "it is not relu_relu",
    "Relu(Sigmoid(x: float32[8])) => Relu(x)": "the rules lead there from another value|the rules do not lead there",
    "Relu(x: float32[8]) => Sigmoid(x)": "the rules do not lead there",
    "Add(x: float32[8], x) => Mul(x, 3)": "the rules do not lead there",
    "Tanh(Relu(x: float32[8])) => Relu(x)": "the rules lead there from another value",
    "place Relu(x: float32[8]) => Relu(x) on npu": "the optimum runs on host",
    "place Relu(x: float32[65536, 64]) => Relu(x) on host": "the optimum runs on npu",
    "place Tanh(x: float32[65536]) => Sigmoid(x) on fast": "the optimum computes something else: Tanh",
    "place Relu(Relu(x: float32[8])) => Relu(Relu(x)) on host": "the optimum computes something else: Relu",
}  # fmt: skip


def outcome(test: str, rules: str = RULES):
    """The one result of a file with this test at its end."""
    loaded = load_text(f'{rules}\ntest "it": {test}\n', "rules.pat")
    (case,) = loaded.tests
    return run_case(loaded, case)


@pytest.mark.parametrize("title", PASSES)
def test_passes(title):
    result = outcome(PASSES[title])
    assert result.passed and result.reason == "", result.reason


@pytest.mark.parametrize("test", FAILS)
def test_fails_for_the_right_reason(test):
    result = outcome(test)
    assert not result.passed and re.fullmatch(f"(?:{FAILS[test]}).*", result.reason), result.reason


def test_verdicts_about_capabilities_use_no_rewrites():
    assert not outcome("fast runs Tanh(Tanh(x: float32[8]))", RULES.replace("Tanh(x) cost", "Erf(x) cost")).passed
    rules = RULES + "rule odd: Erf(x) => Tanh(x)\n"
    assert outcome("fast rejects Erf(x: float32[8])", rules).passed
    assert outcome("place Erf(x: float32[65536]) => Tanh(x) on fast", rules).passed


def test_a_graph_that_cannot_be_built_says_where():
    for graph, message in {
        "Relu(x)": "input `x` has no type",
        "Relu(_)": "no wildcards",
    }.items():
        with pytest.raises(PatError, match=message) as caught:
            outcome(f"npu runs {graph}")
        assert all(problem.span.file == "rules.pat" for problem in caught.value.problems)


def test_a_file_runs_its_own_tests_alone(tmp_path):
    (tmp_path / "base.pat").write_text(RULES + 'test "of the base": npu runs Relu(x: float32[8])\n')
    (tmp_path / "top.pat").write_text(
        'include "base.pat"\n'
        'test "of the top": npu runs Tanh(x: float32[8])\ntest "also": npu runs Relu(x: float32[8])\n'
    )
    results = run_file(tmp_path / "top.pat")
    assert [(r.title, r.passed) for r in results] == [("of the top", False), ("also", True)]
    assert [r.span.line for r in results] == [2, 3]
    assert [r.title for r in run_file(tmp_path / "base.pat")] == ["of the base"]


def test_results_that_do_not_depend_on_names(tmp_path):
    """A value that is called like another file's: the graph of each test is its own."""
    rules = RULES + 'test "one": Relu(Relu(relu: float32[8])) => Relu(relu)\n'
    loaded = load_text(rules, "rules.pat")
    assert all(run_case(loaded, case).passed for case in loaded.tests)
