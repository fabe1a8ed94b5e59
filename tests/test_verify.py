"""Verification by property: unsound rules are refuted, sound ones are not, and counterexamples hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import load_text
from rewrite_engine.testing.verify import Options, both_sides, bounded, rational, verify
from rewrite_engine.testing.verify.report import RuleReport

UNSOUND = {
    "a shift is not nothing": "rule r: Pad(x, const _, _, _) => x",
    "operands exchanged": "rule r: Sub(a, b) => Sub(b, a)",
    "permutations in the wrong order":
        "rule r: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=[q[i] for i in p])",
    "a bound that is lost": "rule r: Clip(Relu(x), const low, const high) => Clip(x, low, high)",
    "products of powers": "rule r: Mul(Exp(a), Exp(b)) => Exp(Mul(a, b))",
    "a transpose that is lost": "rule r reassociates: MatMul(a, Transpose(b, perm=[1, 0])) => MatMul(a, b)",
    "the other spelling of gelu": 'rule r reassociates: Gelu(x, approximate="none") => Gelu(x, approximate="tanh")',
    "a maximum that is no ramp": "rule r: Max(a, b) => Relu(Sub(a, b))",
    "another axis": "rule r: Softmax(x, axis=0) => Softmax(x, axis=1) if x.rank == 2",
    "another constant": "rule r reassociates: Mul(x, 0.5) => Div(x, 3)",
    "another dtype": "rule r: Cast(Cast(x: float32[...], to=10), to=1) => x",
    "a label that is too strong": "rule r: Add(a, Add(b, c)) => Add(Add(a, b), c)",
    "a shape that is not known": "rule r: Reshape(x, _) as y => x if y.rank == x.rank",
    "an approximation of nothing": "rule r approximates: Sigmoid(x) => Tanh(x)",
    "ties": "rule r: Where(Less(a, b), a, b) => Where(LessOrEqual(a, b), b, a)",
    "a number of axes that is not known":
        "rule r: Transpose(Add(x, y), perm=p) => Add(Transpose(x, perm=p), Transpose(y, perm=p))",
    "a factor that adds an axis":
        "rule r reassociates: MatMul(Mul(x, const c), const w) => MatMul(x, w * c) if c.numel == 1",
    "an overflow between two steps":
        "rule r: QuantizeLinear(Clip(x, const low?, const high?), const s, const z) as q"
        " => QuantizeLinear(x, s, z, like q) if q.dtype in {float8_e4m3fn, float8_e5m2}"
        " and all(low - s * (lowest(q.dtype) - z + 0.25) <= 0)"
        " and all(high - s * (highest(q.dtype) - z - 0.25) >= 0)",
    "columns in place of rows":
        "rule r: Gather(const c: [_, _], i: [_, _], axis=0) => Gather(c, i, axis=1)"
        " if all(transpose(c, [1, 0])[0] == transpose(c, [1, 0])[1])",
    "vectors and batches": "rule r reassociates: MatMul(a, MatMul(b, c)) => MatMul(MatMul(a, b), c)",
}  # fmt: skip

SOUND = {
    "associativity": "rule r reassociates: Add(a, Add(b, c)) => Add(Add(a, b), c)",
    "distributivity, both ways": "rule r reassociates: Mul(a, Add(b, c)) <=> Add(Mul(a, b), Mul(a, c))",
    "products of matrices":
        "rule r reassociates: MatMul(a: [_, _], MatMul(b: [_, _], c: [_, _])) => MatMul(MatMul(a, b), c)",
    "an order that does not matter": "rule r: Max(a, b) => Max(b, a)",
    "movement": "rule r: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=[p[i] for i in q])",
    "ties": "rule r: Where(Less(a, b), a, b) => Where(LessOrEqual(b, a), b, a) if a.dtype == int32",
    "functions are functions": "rule r: Exp(Concat(a, b, axis=k)) => Concat(Exp(a), Exp(b), axis=k)",
    "constants that are computed": "rule r reassociates: Mul(Mul(x, const a), const b) => Mul(x, a * b)"
                                   " if a.numel == 1 and b.numel == 1",
    "the mean of nothing": "rule r: Unsqueeze(ReduceMean(x, const k, keepdims=0), k) => ReduceMean(x, k, keepdims=1)",
    "a narrow guard": "rule r: Slice(x, const s, const e, const _, const k) => x"
                      " if all(s == 0) and all(k == 1) and all(e >= 9999)",
}  # fmt: skip


def report(text: str, **options: object) -> RuleReport:
    rules = verify(load_text(text), Options(**options)).rules  # type: ignore[arg-type]
    return next((rule for rule in rules if not rule.passed), rules[0])


@pytest.mark.parametrize("title", UNSOUND)
def test_unsound_rules_are_refuted(title: str) -> None:
    found = report(UNSOUND[title], examples=200)
    assert found.status == "refuted", found.line()
    assert found.counterexample is not None and "counterexample: r" in found.counterexample.test


@pytest.mark.parametrize("title", SOUND)
@pytest.mark.parametrize("seed", [0, 1])
def test_sound_rules_are_not(title: str, seed: int) -> None:
    found = report(SOUND[title], seed=seed)
    assert found.status == "verified" and found.tier == 3, found.line()


def test_the_python_of_a_counterexample_runs_and_shows_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(UNSOUND["operands exchanged"])
    assert found.counterexample is not None
    scope: dict[str, object] = {}
    exec(found.counterexample.python, scope)
    left, right = scope["left"], scope["right"]
    assert isinstance(left, list) and isinstance(right, list) and not np.array_equal(left[0], right[0])
    assert "array" in capsys.readouterr().out


def test_a_counterexample_is_small() -> None:
    found = report(UNSOUND["a bound that is lost"])
    assert found.counterexample is not None
    text = found.counterexample.test
    assert "float32[1]" in text or "float32[]" in text


@pytest.mark.parametrize(
    "guard",
    ["N > 4 and N < 4", "4 < N <= 4", "N >= 5 and 4.5 >= N", "N == 3 and x.rank == 1 and N == 4", "N == -1 and N > 0"],
)
def test_a_guard_that_nothing_satisfies_is_refused(guard: str) -> None:
    found = report(f"rule r: Relu(x: float32[N]) => x if {guard}")
    assert found.status == "unsatisfiable" and not found.passed and "UNSATISFIABLE" in found.line()


def test_a_search_without_a_match_proves_nothing() -> None:
    """Neither that it is wrong nor that it is right: a warning, with how much was tried."""
    for guard in (
        "N > 70000 and N < 70002",
        "N % 7 == 3 and N % 11 == 5 and N % 13 == 7",
        "(N > 4 or N > 9) and N * N < 0",
    ):
        found = report(f"rule r: Relu(x: float32[N]) => x if {guard}", examples=4)
        assert found.status == "unmatched" and found.passed and found.tries >= 4, found.line()
        assert f"warning: r: not verified: no match was found in {found.tries} tries; a test that fires" in found.line()


@pytest.mark.parametrize("guard", ["N >= 4 and N <= 4", "N > 2 and N < 4", "N == 4 and N > 3", "N > 1 and 9 > N"])
def test_bounds_that_leave_something_contradict_nothing(guard: str) -> None:
    assert report(f"rule r: Relu(Relu(x: float32[N])) => Relu(x) if {guard}", examples=4).status == "verified"


def test_the_same_seed_gives_the_same_report() -> None:
    text = "\n".join(rule.replace("rule r", f"rule r{k}") for k, rule in enumerate(list(UNSOUND.values())[:4]))
    first, second = (verify(load_text(text), Options(seed=5)) for _ in range(2))
    assert [r.line() for r in first.rules] == [r.line() for r in second.rules]
    assert [r.counterexample for r in first.rules] == [r.counterexample for r in second.rules]


def test_counterexamples_are_kept(tmp_path: Path) -> None:
    found = report(UNSOUND["operands exchanged"], database=str(tmp_path))
    assert found.status == "refuted" and any(tmp_path.rglob("*"))
    again = report(UNSOUND["operands exchanged"], database=str(tmp_path), examples=0)
    assert again.status == "refuted" and again.counterexample is not None
    assert report(SOUND["an order that does not matter"], database=str(tmp_path)).passed


def test_guards_say_what_they_protect_against() -> None:
    found = report("rule r: Pad(x, const p, _, _) => x if all(p == 0)", protections=True)
    assert [p.clause for p in found.protections] == ["all(p == 0)"]
    assert "Pad(" in found.protections[0].outside


def test_a_graph_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RewriteError, match="no values for x"):
        both_sides('test "t": Neg(x: float32[2]) => x')
    with pytest.raises(RewriteError, match="one test"):
        both_sides("rule r: Relu(Relu(x)) => Relu(x)")


@pytest.mark.parametrize("op", ["tanh", "erf", "atan", "sign", "sin", "exp", "sqrt", "floor"])
def test_of_what_may_be_nan_nothing_is_bounded(op: str) -> None:
    """Not even by the range of the function: a sum that overflows is inf in one order and NaN in another."""
    lost = bounded.Bound(np.array([-np.inf, 1.0, 0.5]), np.array([np.inf, np.inf, 0.0]))
    found = bounded.Bounded(real=False).apply(op, [lost], "float32", "float32")
    assert np.isinf(found.error[:2]).all() and np.isfinite(found.error[2])


def test_exact_numbers_of_no_axes_are_stored_as_numbers() -> None:
    algebra = rational.Rational(0)
    nothing = algebra.apply(
        "div", [algebra.constant(0.0, "float32"), algebra.constant(0.0, "float32")], "float32", "float32"
    )
    found = algebra.put((1,), (np.asarray(0),), nothing, "float32", None)
    assert isinstance(found[0], float) and not algebra.differ(found, found)
