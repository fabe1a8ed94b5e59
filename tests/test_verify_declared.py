"""Declared operators in rules are verified by what they compute; fits of quantised operators; faults are not hidden."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite_engine.language import load_text
from rewrite_engine.testing.verify import Options, RuleReport, verify

OPERATORS = """
operator com.x::Silu(x) = Mul(x, Sigmoid(x))
operator com.x::Twice(x) = com.x::Silu(com.x::Silu(x))
operator com.x::Scale(x, c) = Mul(x, c)
operator com.x::Leak(x) = LeakyRelu(x, alpha=alpha?)
operator com.x::Both(x) = (s, com.x::Silu(e)) where s, e = Split(x, axis=0, num_outputs=2)
operator com.x::Add(a, sa, za, b, sb, zb, sy, zy) =
  QuantizeLinear(Add(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)), sy, zy)
operator com.x::Same(x) = x
"""
SOUND = {
    "fused": "rule r reassociates: Mul(Sigmoid(x), x) => com.x::Silu(x)",
    "nested": "rule r: com.x::Silu(com.x::Silu(x)) => com.x::Twice(x)",
    "taken apart": "rule r: com.x::Twice(x) => com.x::Silu(com.x::Silu(x))",
    "constants": "rule r reassociates: com.x::Scale(com.x::Scale(x, const a), const b) => com.x::Scale(x, a * b)"
                 " if a.numel == 1 and b.numel == 1",
    "attributes": "rule r: com.x::Leak(x, alpha=0.5) => LeakyRelu(x, alpha=0.5)",
    "codes": "rule r: com.x::Add(a, sa, za, b, sb, zb, sy, zy) => com.x::Add(b, sb, zb, a, sa, za, sy, zy)",
    "an operand as it is": "rule r: com.x::Same(x) => x",
}  # fmt: skip
UNSOUND = {
    "half of it": "rule r: com.x::Silu(x) => Sigmoid(x)",
    "once for twice": "rule r: com.x::Twice(x) => com.x::Silu(x)",
    "another attribute": "rule r: com.x::Leak(x) => LeakyRelu(x, alpha=0.5)",
    "another scale":
        "rule r: com.x::Add(a, sa, za, b, _, _, sy, zy) => com.x::Add(a, sa, za, b, sa, za, sy, zy)",
    "results exchanged": "rule r: (s, e) => (e, s) where s, e = com.x::Both(_)",
}  # fmt: skip


def report(text: str, **options: object) -> RuleReport:
    (found,) = verify(load_text(text), Options(**options)).rules  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("title", SOUND)
def test_sound_rules_reach_the_third_tier(title: str) -> None:
    found = report(OPERATORS + SOUND[title], examples=12)
    assert found.status == "verified" and found.tier == 3 and found.matches >= 4, found.line()


@pytest.mark.parametrize("title", UNSOUND)
def test_unsound_rules_are_refuted(title: str) -> None:
    found = report(OPERATORS + UNSOUND[title], examples=60)
    assert found.status == "refuted", found.line()


def test_the_python_of_a_counterexample_holds_the_declarations(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(OPERATORS + UNSOUND["once for twice"])
    assert found.counterexample is not None
    scope: dict[str, object] = {}
    exec(found.counterexample.python, scope)
    left, right = scope["left"], scope["right"]
    assert isinstance(left, list) and isinstance(right, list) and not np.array_equal(left[0], right[0])
    assert "com.x::Both" not in found.counterexample.python


FITS = {
    "a scale per row": "rule r reassociates: QLinearMatMul(a, const sa, const za, b, const sb, const zb, const ys,"
        " const yz) => QuantizeLinear(MatMul(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb)), ys, yz)"
        " if sb.numel == 1",
    "zero points of another shape":
        "rule r: DequantizeLinear(x, const s, none) => DequantizeLinear(x, s, full([0], 0))",
    "codes that are not saturated":
        "rule r: QuantizeLinear(Clip(x, -1000, 1000), const s, const z: float8_e5m2[]) as q"
        " => QuantizeLinear(x, s, z, like q) if s.dtype == float32 and item(s) == 0.015625",
    "a negative scale":
        "rule r reassociates: MatMul(Softmax(Mul(MatMul(q: float32[B, H, _, D], Transpose(k: [B, H, L, D],"
        " perm=[0, 1, 3, 2])), const c)), v: [B, H, L, _]) => Attention(q, k, v, scale=item(c)) if c.numel == 1",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("title", FITS)
def test_what_operators_ask_beyond_types_is_looked_at(title: str) -> None:
    found = report(FITS[title], examples=200, shrink=False)
    assert found.status == "refuted", found.line()


def test_loop_nests_that_fail_are_always_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from rewrite_engine.loops import execute

    calls = []
    original = execute.run

    def failing(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) % 3 == 0:
            raise ValueError("cannot reshape")
        original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(execute, "run", failing)
    found = report("rule r: Relu(Relu(x)) => Relu(x)")
    assert "the loop nests of Relu, Relu fail: cannot reshape" in found.notes
