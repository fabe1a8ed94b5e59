"""What Python says in rule files: predicates that guards call, and capabilities as functions of the matched node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rewrite_engine as rw
from rewrite_engine.language.capabilities import Capability, MatchedNode
from rewrite_engine.language.core import Facts, Refusal
from rewrite_engine.language.evaluate import answer
from rewrite_engine.language.predicates import as_function
from rewrite_engine.language.values import Unknown
from rewrite_engine.operators.types import TensorType
from tests.plugging import clip_and_split, module, rules_of, targets_of

# ---------------------------------------------------------------- predicates


def test_guards_call_predicates() -> None:
    seen: list[Any] = []

    def wide(shape: tuple[int, ...], least: int = 32) -> bool:
        seen.append((shape, least))
        return shape[-1] >= least

    guard = "supports Relu(x) if wide(x.shape) supports Neg(x) if wide(x.shape, 64)"
    placement = rw.place(module(), rules_of(guard, predicates={"wide": wide}))
    assert targets_of(placement)["a"] == "t" and targets_of(placement)["b"] == "host"
    assert ((1, 4, 32, 32), 32) in seen and ((1, 4, 32, 32), 64) in seen


def test_a_predicate_gets_elements_of_constants() -> None:
    def small(values: np.ndarray) -> bool:
        return bool(np.abs(values).max() < 7)

    items = "supports Clip(x, none, const top) if small(top)"
    assert targets_of(rw.place(clip_and_split(), rules_of(items, predicates={"small": small})))["c"] == "t"
    items = "supports Clip(x, none, const top) if small(2 * top)"
    assert targets_of(rw.place(clip_and_split(), rules_of(items, predicates={"small": small})))["c"] == "host"


def test_unknown_arguments_are_not_passed() -> None:
    def never(*arguments: object) -> bool:
        raise AssertionError(arguments)

    row = as_function("never", never)
    assert row.function is not None
    found = row.function((1, Unknown("size of axis 1", dimension="n")))
    assert isinstance(found, Unknown) and found.dimension == "n"
    unsure = as_function("unsure", lambda size: None).function
    assert unsure is not None and isinstance(unsure(3), Unknown)


@pytest.mark.parametrize(
    ("predicate", "reason"),
    [
        (lambda shape: 1 // 0, "predicate `odd` failed: ZeroDivisionError"),
        (lambda shape: 3, "predicate `odd` returned 3; expected True, False or None"),
    ],
)
def test_what_a_predicate_raises_is_a_refusal(predicate: Any, reason: str) -> None:
    rules = rules_of("supports Relu(x) if odd(x.shape)", predicates={"odd": predicate})
    rule = next(rule for rule in rules.rules if rule.kind == "supports")
    kind = TensorType("float32", (2, 2))
    found = answer(rule, rule.variants[0], Facts((kind, kind), (None, None), (False, False), ({},)))
    assert isinstance(found, Refusal) and reason in found.reason and found.span.line == 4
    assert targets_of(rw.place(module(), rules))["a"] == "host"


@pytest.mark.parametrize(
    ("name", "predicate", "message"),
    [
        ("max", lambda x: True, "a function of the language has that name"),
        ("Odd", lambda x: True, "starts with a small letter"),
        ("odd", 3, "expected a Python function, found int"),
        ("odd", lambda *, x: True, "`x` takes a keyword only"),
    ],
)
def test_what_is_no_predicate(name: str, predicate: Any, message: str) -> None:
    with pytest.raises(rw.RewriteError, match=message):
        rules_of(predicates={name: predicate})


def test_calls_of_predicates_are_checked() -> None:
    with pytest.raises(rw.PatError, match=r"odd\(\) takes 1 argument, found 2"):
        rules_of("supports Relu(x) if odd(x.shape, 2)", predicates={"odd": lambda shape: True})
    with pytest.raises(rw.PatError, match="did you mean `odd_sized`"):
        rules_of("supports Relu(x) if odd_size(x.shape)", predicates={"odd_sized": lambda shape: True})


# ---------------------------------------------------------------- capabilities


def test_a_function_is_a_capability() -> None:
    seen: list[MatchedNode] = []

    @rw.supports("Relu", "Neg", target="t")
    def pointwise(node: MatchedNode) -> bool:
        seen.append(node)
        return node.op == "Relu"

    rules = rw.with_capabilities(rules_of("supports Mul"), [pointwise])
    placement = rw.place(module(), rules)
    assert targets_of(placement)["a"] == "t" and targets_of(placement)["b"] == "host"
    rule = {step.name: step.rule for step in placement.graph.steps if hasattr(step, "rule")}
    assert rule["t.Relu.1"] == "t.python.pointwise" and placement.rules["t.python.pointwise"]
    node = next(node for node in seen if node.op == "Relu")
    assert node.inputs[0] is not None and node.inputs[0].shape == (1, 4, 32, 32)
    assert not node.inputs[0].is_constant and node.inputs[0].dtype == "float32"
    assert node.outputs[0] is not None and node.outputs[0].shape == (1, 4, 32, 32)


def test_capabilities_see_absent_inputs_constants_and_all_results() -> None:
    seen: dict[str, MatchedNode] = {}

    @rw.supports("Clip", "Split", target="t")
    def look(node: MatchedNode) -> bool:
        seen[node.op] = node
        return True

    placement = rw.place(clip_and_split(), rw.with_capabilities(rules_of(), [look]))
    assert set(targets_of(placement).values()) == {"t"}
    x, low, top = seen["Clip"].inputs
    assert x is not None and low is None and top is not None and top.is_constant and top.constant == 6.0
    assert seen["Split"].attributes["axis"] == 1
    assert [kind.shape for kind in seen["Split"].outputs if kind is not None] == [(1, 2, 32, 32)] * 2


def test_bare_forms_of_rule_files_take_absent_inputs_too() -> None:
    assert targets_of(rw.place(clip_and_split(), rules_of("supports Clip, Split")))["c"] == "t"


@pytest.mark.parametrize(("verdict", "cost"), [("12.5ns", 12500), (2e-8, 20000), (0, 0)])
def test_a_capability_says_its_cost(verdict: Any, cost: int) -> None:
    capability = Capability(("Relu",), "t", "relu", lambda node: verdict)
    placement = rw.place(module(), rw.with_capabilities(rules_of(), [capability]))
    found = next(step for step in placement.graph.steps if getattr(step, "rule", "") == "t.python.relu")
    assert found.cost == cost and getattr(found, "cost_source", "") == "formula"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda node: node.nothing, "capability `t.python.relu` failed: AttributeError"),
        (lambda node: None, "returned None; expected True, False or a time"),
        (lambda node: -1, "returned -1; expected"),
        (lambda node: "5 parsecs", "returned '5 parsecs'; expected"),
        (lambda node: float("nan"), "returned nan; expected"),
    ],
)
def test_a_capability_that_fails_is_a_warning_and_a_refusal(function: Any, message: str) -> None:
    rules = rw.with_capabilities(rules_of(), [Capability(("Relu",), "t", "relu", function)])
    with pytest.warns(RuntimeWarning, match=message):
        placement = rw.place(module(), rules)
    assert targets_of(placement)["a"] == "host"


def test_composites_ask_python_capabilities() -> None:
    capability = Capability(("Neg",), "t", "neg", lambda node: "40ns")
    items = "composite both(x) = Neg(r) as n where r = Relu(x) if supported(n) cost n.cost / 2"
    without, joined = rules_of(items), rw.with_capabilities(rules_of(items), [capability])
    assert targets_of(rw.place(module(), without))["b"] == "host"
    placement = rw.place(module(), joined)
    both = next(step for step in placement.graph.steps if getattr(step, "rule", "") == "t.both")
    assert both.cost == 20000


@pytest.mark.parametrize(
    ("operators", "target", "message"),
    [
        (("Relu",), "hots", "no target is called `hots`; there are host, t; did you mean `host`"),
        (("Rellu",), "t", "unknown operator `Rellu`; did you mean `Relu`"),
    ],
)
def test_capabilities_of_nothing(operators: tuple[str, ...], target: str, message: str) -> None:
    capability = Capability(operators, target, "relu", lambda node: True)
    with pytest.raises(rw.RewriteError, match=message):
        rw.with_capabilities(rules_of(), [capability])


def test_a_target_has_each_capability_once() -> None:
    capability = Capability(("Relu",), "t", "relu", lambda node: True)
    with pytest.raises(rw.RewriteError, match=r"two capabilities `t.python.relu`"):
        rw.with_capabilities(rules_of(), [capability, capability])
    with pytest.raises(rw.RewriteError, match="does not name a capability"):
        rw.supports("Relu", target="t")(lambda node: True)
