"""The bundled rules and composites are verified; every exact algebra agrees with floats on what programs compute."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.expr import call, maximum, select
from rewrite_engine.resources import patterns_root
from rewrite_engine.testing.verify import Options, bounded, interpreter, verify_file
from rewrite_engine.testing.verify.field import PRIME, Field
from rewrite_engine.testing.verify.interpreter import Undecided
from rewrite_engine.testing.verify.rational import Rational

STANDARD = sorted((patterns_root() / "std").glob("*.pat"))
TARGETS = sorted((patterns_root() / "targets").glob("*.pat"))


HARD = frozenset({"grouped_query", "sdpa", "rotary", "skip_norm"})  # many variants, narrow guards
FILES = [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in HARD else []) for p in STANDARD]


@pytest.mark.parametrize("path", FILES)
def test_rules_of_the_standard_library_are_verified(path: Path) -> None:
    report = verify_file(path, Options(examples=6, shrink=False))
    assert [rule.line() for rule in report.failed()] == []
    assert all(rule.tier == 3 for rule in report.rules)


@pytest.mark.slow
@pytest.mark.parametrize("path", [*STANDARD, *TARGETS], ids=lambda path: path.stem)
def test_rules_and_composites_are_verified_by_several_seeds(path: Path) -> None:
    for seed in range(3):
        report = verify_file(path, Options(seed=seed, shrink=False))
        assert [rule.line() for rule in report.failed()] == []


def _program(body):
    """A program of two inputs x and y of four elements."""
    b = Builder()
    x, y = b.input((4,), "float32"), b.input((4,), "float32")
    return b.program([b.map(body, x, y)])


POLYNOMIAL = _program(lambda x, y: (x + y) * (x - y) / y + x * 0.5)
ORDERED = _program(lambda x, y: select(x < y, maximum(x, y * 2), call("abs", x)) + call("floor", y * 0.5))
X, Y = np.array([1, -2, 3, 0], "float32"), np.array([2, 4, -3, 1], "float32")


def floats(program) -> np.ndarray:
    from rewrite_engine.loops.execute import run

    out = np.empty(4, "float32")
    run(program, [X, Y], [out])
    return out


def test_the_field_computes_what_floats_do() -> None:
    algebra = Field(0)
    (found,) = interpreter.run(POLYNOMIAL, [algebra.constant(v, "float32") for v in (X, Y)], algebra)
    wanted = [Fraction(float(v)) for v in floats(POLYNOMIAL)]
    assert found.tolist() == [v.numerator * pow(v.denominator, -1, PRIME) % PRIME for v in wanted]
    assert not algebra.random and not algebra.rounded


def test_what_has_an_order_is_not_decided_in_the_field_but_by_fractions() -> None:
    with pytest.raises(Undecided, match="order"):
        interpreter.run(ORDERED, [Field(0).constant(v, "float32") for v in (X, Y)], Field(0))
    algebra = Rational(0)
    (found,) = interpreter.run(ORDERED, [algebra.constant(v, "float32") for v in (X, Y)], algebra)
    assert [float(v) for v in found] == floats(ORDERED).tolist()


def test_functions_are_the_same_random_ones_on_both_sides() -> None:
    once, other = _program(lambda x, y: call("exp", x + y)), _program(lambda x, y: call("exp", y + x))
    apart = _program(lambda x, y: call("exp", x) * call("exp", y))
    for make in (Field, Rational):
        results = []
        for program in (once, other, apart):
            algebra = make(7)
            results.append(interpreter.run(program, [algebra.constant(v, "float32") for v in (X, Y)], algebra)[0])
        assert (results[0] == results[1]).all() and (results[0] != results[2]).any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_bounds_hold(dtype: str) -> None:
    """What floats compute lies within the bound around what is computed in double precision."""
    import ml_dtypes

    from rewrite_engine.loops.execute import run

    numpy = np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" else np.dtype(dtype)
    random = np.random.default_rng(0)
    for _ in range(20):
        b = Builder()
        x, y = b.input((8, 5), dtype), b.input((5, 3), dtype)
        from rewrite_engine.loops.operators.contractions import matmul

        product = matmul(b, x, y)
        program = b.program([b.map(lambda v: call("tanh", v * v - 0.1) / (call("exp", v) + 1), product)])
        arrays = [random.standard_normal(s).astype(numpy) for s in ((8, 5), (5, 3))]
        out = np.empty((8, 3), numpy)
        run(program, arrays, [out])
        algebra = bounded.Bounded(real=False)
        (found,) = interpreter.run(program, [algebra.given(a, dtype) for a in arrays], algebra)
        assert (np.abs(out.astype(np.float64) - found.center) <= found.error).all()
        assert (found.error < 1).all()
