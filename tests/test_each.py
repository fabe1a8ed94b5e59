"""`for OP in {…}`: one declaration per operator, and names of operators in guards and costs."""

from __future__ import annotations

from fractions import Fraction

import pytest
from lowering import facts_of, rule_of

from rewrite_engine.diagnostics import PatError
from rewrite_engine.language import load_text
from rewrite_engine.language.core import Answer, Refusal
from rewrite_engine.language.evaluate import answer
from rewrite_engine.testing.in_file import run_file

PRODUCT = """target t on host {
  composite act for OP in {Relu, Abs}, Q in {Neg, Exp} (x) = OP(Q(x))
    if OP == Relu or Q != Exp cost if OP in {Relu} then 1us else 2us
}"""


def test_one_declaration_per_operator() -> None:
    text = "rule r for OP in {Conv, ConvTranspose}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)"
    rules = load_text(text).rules
    assert [(rule.name, rule.variants[0].nodes[0].op) for rule in rules] == [
        ("r[Conv]", "Conv"),
        ("r[ConvTranspose]", "ConvTranspose"),
    ]
    assert [rule.variants[0].template.nodes[0].op for rule in rules] == ["Conv", "ConvTranspose"]  # type: ignore[union-attr]


def test_several_clauses_give_every_combination() -> None:
    names = [rule.name for rule in load_text(PRODUCT).rules]
    assert names == ["t.act[Relu, Neg]", "t.act[Relu, Exp]", "t.act[Abs, Neg]", "t.act[Abs, Exp]"]


@pytest.mark.parametrize(
    ("name", "cost"), [("Relu, Exp", Fraction(1, 10**6)), ("Abs, Neg", Fraction(2, 10**6)), ("Abs, Exp", None)]
)
def test_guards_and_costs_ask_which_operator(name: str, cost: Fraction | None) -> None:
    rule = rule_of(PRODUCT, f"t.act[{name}]")
    found = answer(rule, rule.variants[0], facts_of(rule.variants[0], {"x": "float32[2]"}))
    assert isinstance(found, Refusal) if cost is None else isinstance(found, Answer) and found.cost == cost


def test_the_tests_of_a_file_name_one_or_all(tmp_path) -> None:
    path = tmp_path / "each.pat"
    path.write_text(
        PRODUCT
        + """
rule gone for OP in {Conv, ConvTranspose}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)
test "any": t runs Relu(Neg(x: float32[2])) in act
test "this one": t runs Relu(Neg(x: float32[2])) in act[Relu, Neg]
test "another one": t runs Relu(Neg(x: float32[2])) in act[Abs, Neg]
test "is": Abs(Neg(x: float32[2])) is act
test "refused": t rejects Abs(Exp(x: float32[2]))
test "bias": ConvTranspose(x: float32[1, 2, 8, 8], const w: float32[2, 2, 3, 3], const b: float32[2] = 0, group=2)
  => ConvTranspose(x, w, group=2)
test "no bias": Conv(x: float32[1, 2, 8, 8], const w: float32[2, 2, 3, 3], const b: float32[2] = 1) => Conv(x, w)
"""
    )
    assert [(r.title, r.passed) for r in run_file(path)] == [
        ("any", True), ("this one", True), ("another one", False), ("is", True), ("refused", True), ("bias", True),
        ("no bias", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("OP in {Conv, Convo}", "unknown operator `Convo`"),
        ("OP in {Conv, Conv}", "`Conv` stands twice in the set"),
        ("OP in {Conv, 3}", "expected the name of an operator in the set"),
        ("OP in {Conv}, Q in {Relu}", "`Q` is not used"),
        ("OP in {Conv}, OP in {Relu}", "`OP` is declared twice"),
        ("OP in {Conv, Relu}", "Relu takes 1 input, found 3"),
    ],
)
def test_wrong_clauses(clause: str, message: str) -> None:
    with pytest.raises(PatError) as caught:
        load_text(f"rule r for {clause}: OP(x, w, const b) as c => OP(x, w, like c) if all(b == 0)")
    assert message in [problem.message for problem in caught.value.problems]


def test_too_many_combinations() -> None:
    many = "{Relu, Abs, Neg, Exp, Log, Sqrt, Tanh, Sigmoid, Erf}"
    with pytest.raises(PatError, match="`r` would be 729 declarations, at most 512"):
        load_text(f"rule r for A in {many}, B in {many}, C in {many}: A(B(C(x))) => C(B(A(x)))")
