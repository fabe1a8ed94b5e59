"""`extends`, `without`, `option`, `requires`: what a target takes over from another one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from lowering import facts_of

from rewrite_engine.diagnostics import PatError
from rewrite_engine.language import check_files, load, load_text
from rewrite_engine.language.core import Answer, Refusal, RuleSet
from rewrite_engine.language.evaluate import answer
from rewrite_engine.testing.in_file import run_file

BASE = """
device npu0 { memory 1MiB }
device npu1 { memory 1MiB }
target big on npu0 {
  launch 12us flops 4TFLOPS bandwidth 64GBps
  option arch = 69
  requires all(t.rank <= 4 for t in inputs)
  supports Relu, Abs if arch >= 69 cost (if arch >= 70 then 1us else 2us)
  supports {Sub, Mul}(a, b) if a.shape == b.shape
  composite one(x) = Exp(Neg(x))
  composite two for OP in {Sin, Cos} (x) = OP(Neg(x)) cost arch * 1us
}
"""


def names(rules: RuleSet, target: str) -> list[str]:
    return [rule.name for rule in rules.rules if rule.target == target]


def ask(rules: RuleSet, name: str, op: str, kind: str = "float32[2, 3]") -> Answer | Refusal:
    rule = next(rule for rule in rules.rules if rule.name == name)
    variant = next(v for v in rule.variants if any(node.op == op for node in v.nodes))
    leaves = {slot.name: kind for slot in variant.slots}
    return answer(rule, variant, facts_of(variant, leaves))


def test_everything_is_taken_over() -> None:
    rules = load_text(BASE + "target small extends big {}")
    big, small = rules.targets[1:]
    assert (small.name, small.device) == ("small", "npu0")
    assert (small.launch, small.flops, small.bandwidth) == (big.launch, big.flops, big.bandwidth)
    assert [name.replace("small.", "big.") for name in names(rules, "small")] == names(rules, "big")
    assert isinstance(ask(rules, "small.one", "Exp"), Answer)
    refused = ask(rules, "small.one", "Exp", "float32[1, 1, 1, 1, 1]")
    assert isinstance(refused, Refusal) and "rank" in refused.reason


def test_options_mean_those_of_the_extending_target() -> None:
    rules = load_text(BASE + "target small on npu1 extends big { option arch = 72  launch 1us }")
    assert (rules.targets[2].device, rules.targets[2].launch) == ("npu1", Fraction(1, 10**6))
    for target, arch, cost in (("big", 69, 2), ("small", 72, 1)):
        found = ask(rules, f"{target}.two[Sin]", "Sin")
        assert isinstance(found, Answer) and found.cost == Fraction(arch, 10**6)
        found = ask(rules, f"{target}.supports.0", "Relu")
        assert isinstance(found, Answer) and found.cost == Fraction(cost, 10**6)
    old = load_text(BASE + "target small extends big { option arch = 68 }")
    assert isinstance(ask(old, "small.supports.0", "Relu"), Refusal)
    changed = load_text(BASE + "target small extends big { option arch = 68 }", settings={"small.arch": "70"})
    assert isinstance(ask(changed, "small.supports.0", "Relu"), Answer)
    found = ask(changed, "big.supports.0", "Relu")
    assert isinstance(found, Answer) and found.cost == Fraction(2, 10**6)


def test_conditions_add_up() -> None:
    rules = load_text(BASE + "target small extends big { requires all(t.dtype == float16 for t in inputs) }")
    assert isinstance(ask(rules, "small.one", "Exp"), Refusal)
    assert isinstance(ask(rules, "small.one", "Exp", "float16[2]"), Answer)
    assert isinstance(ask(rules, "small.one", "Exp", "float16[1, 1, 1, 1, 1]"), Refusal)
    assert isinstance(ask(rules, "big.one", "Exp"), Answer)


@pytest.mark.parametrize(
    ("without", "left"),
    [
        ("without one", ["supports.0", "supports.1", "two[Sin]", "two[Cos]"]),
        ("without two", ["supports.0", "supports.1", "one"]),
        ("without Relu", ["supports.0", "supports.1", "one", "two[Sin]", "two[Cos]"]),
        ("without Relu without Abs", ["supports.0", "one", "two[Sin]", "two[Cos]"]),
        ("without Mul", ["supports.0", "supports.1", "one", "two[Sin]", "two[Cos]"]),
        ("without Mul without Sub without one without two", ["supports.0"]),
    ],
)
def test_without(without: str, left: list[str]) -> None:
    rules = load_text(BASE + f"target small extends big {{ {without} }}")
    assert names(rules, "small") == [f"small.{name}" for name in left]
    operators = {
        node.op
        for rule in rules.rules
        if rule.target == "small" and rule.kind == "supports"
        for variant in rule.variants
        for node in variant.nodes
    }
    assert operators == {op for op in ("Relu", "Abs", "Sub", "Mul") if f"without {op}" not in without}
    assert len(names(rules, "big")) == 5


def test_a_chain_of_targets_and_a_replaced_composite() -> None:
    text = (
        BASE
        + """
    target tiny extends small { supports Tanh }
    target small extends big { without one  composite one(x) = Log(Abs(x)) }
    """
    )
    rules = load_text(text)
    rule = next(rule for rule in rules.rules if rule.name == "tiny.one")
    assert [node.op for node in rule.variants[0].nodes] == ["Abs", "Log"]
    assert names(rules, "tiny") == [
        "tiny.supports.0", "tiny.supports.1", "tiny.supports.2", "tiny.two[Sin]", "tiny.two[Cos]", "tiny.one",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("target s extends bigg {}", "unknown target `bigg`", "did you mean `big`?"),
        ("target s extends s {}", "targets extend each other: s -> s", None),
        (
            "target s extends t {} target t extends u {} target u extends s {}",
            "targets extend each other: s -> t -> u -> s",
            None,
        ),
        ("target s extends big { without ones }", "target `big` has no `ones` to leave out", "did you mean `one`?"),
        ("target s extends big { without Rellu }", "target `big` has no `Rellu` to leave out", "did you mean `Relu`?"),
        (
            "target s on npu0 { without one }",
            "`without` leaves out what an extended target can do, but `s` extends none",
            "write `target s on DEVICE extends T {`",
        ),
        (
            "target s extends big { composite one(x) = Log(Abs(x)) }",
            "composite `one` comes from `big` already",
            "write `without one` to replace it",
        ),
        (
            "target host extends big {}",
            "target `host` extends no other: it runs every operator already",
            None,
        ),
    ],
)
def test_what_is_wrong(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(PatError) as caught:
        load_text(BASE + text)
    assert [(problem.message, problem.hint) for problem in caught.value.problems] == [(message, hint)]


def test_the_span_is_one_word() -> None:
    with pytest.raises(PatError) as caught:
        load_text("device d { memory 1KiB }\ntarget extendss extends other {}")
    assert str(caught.value).endswith(f"2 | target extendss extends other {{}}\n  | {' ' * 24}^^^^^")


def test_openings_agree_on_what_they_extend(tmp_path) -> None:
    text = "target other on npu0 { supports Elu } target s extends big { supports Selu }"
    (tmp_path / "a.pat").write_text(BASE + text)
    (tmp_path / "b.pat").write_text("target s extends big { without one }")
    (tmp_path / "c.pat").write_text("target s extends other {}")
    both = load([tmp_path / "a.pat", tmp_path / "b.pat"])
    assert "s.one" not in names(both, "s") and "s.supports.2" in names(both, "s")
    problems, _ = check_files([tmp_path / "a.pat", tmp_path / "c.pat"])
    assert [problem.message for problem in problems] == ["target `s` extends `other` here, but `big` elsewhere"]


def test_warnings_of_the_base_are_not_repeated() -> None:
    text = "target a on host { supports Relu supports Relu } target b extends a {} target c extends a { supports Relu }"
    warnings = load_text(text).warnings
    assert len(warnings) == 2 and "`a`" in warnings[0] and "`c`" in warnings[1]


def test_place_and_reject(tmp_path) -> None:
    path = tmp_path / "lite.pat"
    path.write_text(
        BASE
        + """target small extends big { without one }
test "kept": small runs Sin(Neg(x: float32[2])) in two
test "gone": small rejects Exp(Neg(x: float32[2]))
test "there": big runs Exp(Neg(x: float32[2])) in one
"""
    )
    assert [result.passed for result in run_file(path)] == [True, True, True]
