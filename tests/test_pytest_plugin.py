"""The pytest plugin: which rule files it collects, and how what fails is shown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rewrite_engine.testing import coverage, in_file

pytest_plugins = ["pytester"]

LOADED = coverage, in_file  # NumPy, which they import, cannot be loaded by several of the inner runs
RULES = """pattern silu(x) = Mul(x, Sigmoid(x))
rule twice: Relu(Relu(x)) => Relu(x)
target host { composite gate(x) = silu(x) }
test "fires": Relu(Relu(x: float32[8])) => Relu(x)
test "swish": Mul(x: float32[8], Sigmoid(x)) is gate
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest("-p", "no:cacheprovider", "-v", *arguments)


def test_each_test_rule_and_composite_is_an_item(pytester):
    pytester.makefile(".pat", rules=RULES)
    result = run(pytester)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines_random([
        "rules.pat::rule twice PASSED*", "rules.pat::composite gate of host PASSED*", "rules.pat::fires PASSED*",
        "rules.pat::swish PASSED*",
    ])  # fmt: skip
    assert run(pytester, "-k", "swish").parseoutcomes() == {"passed": 1, "deselected": 3}


def test_a_test_that_fails_is_shown_with_its_place_and_reason(pytester):
    pytester.makefile(".pat", rules=RULES + 'test "wrong": Relu(Tanh(x: float32[8])) => Relu(x)\n')
    result = run(pytester)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines([
        "*rules.pat:6:1: error: wrong: the rules*lead there*",
        '6 | test "wrong": Relu(Tanh(x: float32?8?)) => Relu(x)',
        "  | ^^^^*",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_rule_that_no_test_fires_is_shown_with_its_place(pytester):
    pytester.makefile(".pat", rules=RULES + "rule idle: Exp(Log(x)) => x\n")
    result = run(pytester, "-k", "idle")
    result.assert_outcomes(failed=1, deselected=4)
    result.stdout.fnmatch_lines([
        "*rules.pat:6:1: error: no test makes the rule idle match",
        "6 | rule idle: Exp(Log(x)) => x",
        "  | ^^^^*",
    ])  # fmt: skip


def test_a_file_that_does_not_check_is_one_error_with_every_problem(pytester):
    pytester.makefile(".pat", rules=RULES + "rule a: Rleu(x) => x\nrule b: Relu(x) => y\n")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*rules.pat:6:9: error: unknown operator `Rleu`", "*did you mean `Relu`?", "*:7:20: *"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_graph_that_cannot_be_built_is_shown_with_its_place(pytester):
    pytester.makefile(".pat", rules=RULES + 'test "open": Relu(_) is silu\n')
    result = run(pytester)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*rules.pat:6:19: FAILED: *: a test graph has no wildcards*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_warnings_of_a_file_are_warnings(pytester):
    pytester.makefile(".pat", rules=RULES + "let unused = 1\n")
    result = run(pytester)
    result.assert_outcomes(passed=4, warnings=1)
    result.stdout.fnmatch_lines(["*PatWarning: *rules.pat:6:5: warning: *unused*"])


def test_files_without_tests_are_collected_when_asked(pytester):
    pytester.makefile(".pat", rules='# test "none": x\nrule twice: Relu(Relu(x)) => Relu(x)\n')
    run(pytester).assert_outcomes()
    run(pytester, "--pat").assert_outcomes(failed=1)


def test_only_configured_folders_are_searched(pytester):
    pytester.makeini("[pytest]\npat_paths = rules")
    pytester.mkdir("rules").joinpath("in.pat").write_text(RULES)
    pytester.mkdir("other").joinpath("out.pat").write_text(RULES)
    assert run(pytester).parseoutcomes() == {"passed": 4}
    assert run(pytester, "other").parseoutcomes() == {}
    assert run(pytester, "other/out.pat").parseoutcomes() == {"passed": 4}


def test_each_test_runs_once(pytester, monkeypatch):
    ran = []
    original = in_file.run_case
    monkeypatch.setattr(in_file, "run_case", lambda rules, case: ran.append(case.title) or original(rules, case))
    pytester.makefile(".pat", rules=RULES)
    pytester.inline_run("-p", "no:cacheprovider")
    assert sorted(ran) == ["fires", "swish"]


def test_rules_are_verified_where_it_is_asked_for_and_summarised(pytester):
    pytester.makefile(".pat", rules=RULES + "rule wrong: Sub(a, b) => Sub(b, a)\n")
    chosen = ("-k", "verified", "--pat-seed", "3", "--pat-seed", "4", "--pat-examples", "9")
    result = run(pytester, *chosen)
    result.assert_outcomes(passed=4, failed=2, deselected=5)
    result.stdout.fnmatch_lines_random([
        "rules.pat::rule twice verified by seed 3 PASSED*",
        "rules.pat::composite gate of host verified by seed 4 PASSED*",
        "*test \"counterexample: wrong\":",
        "*= verification of rules =*",
        "*verified: twice: tier 3 (floats)*9 matches*; seed 4, * s", "*REFUTED: wrong: *; seed 3, * s",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*Traceback*")
    low = run(pytester, "-k", "wrong and verified", "--pat-tier", "1")
    low.assert_outcomes(passed=1, deselected=7)
    low.stdout.fnmatch_lines(["*verified: wrong: tier 1 (shapes and dtypes)*; seed 0, * s"])


@pytest.mark.parametrize(("profile", "items"), [("quick", 1), ("usual", 1), ("thorough", 5)])
def test_profiles_say_how_thoroughly(pytester, profile, items):
    pytester.makefile(".pat", rules=RULES)
    found = run(pytester, "--collect-only", "-q", "-k", "twice and verified", "--pat-profile", profile)
    wanted = [f"<VerifiedItem rule twice verified by seed {seed}>" for seed in range(items)]
    assert [line.strip() for line in found.outlines if "verified" in line] == wanted


def test_too_few_examples_are_refused(pytester):
    pytester.makefile(".pat", rules=RULES)
    found = run(pytester, "--pat-examples", "0")
    assert found.ret != 0 and "expected at least 1, found 0" in found.stdout.str() + found.stderr.str()


def test_without_rule_files_nothing_is_loaded():
    code = (
        "import sys, rewrite_engine.testing.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith(('numpy', 'onnx', 'egglog', 'rewrite_engine.'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['rewrite_engine.testing', 'rewrite_engine.testing.pytest_plugin']"


def test_an_inherited_composite_is_tested_where_its_base_is(pytester):
    pytester.makefile(
        ".pat",
        t="""device acc { memory 1MiB }
link host <-> acc: 1us + bytes / 1GBps
target base on acc { launch 1us composite two(x) = Relu(Abs(x)) cost 1us }
target more on acc extends base { launch 2us composite own(x) = Tanh(Abs(x)) cost 1us }
test "fires": base runs Relu(Abs(x: float32[4])) in two
""",
    )
    run(pytester).assert_outcomes(passed=3, failed=1)
