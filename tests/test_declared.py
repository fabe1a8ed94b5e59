"""`operator com.x::Op(…) = PATTERN`: facts, checks, types through the body, rewriting, placing, running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from rewrite_engine import api
from rewrite_engine.diagnostics import PatError, RewriteError
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.language import load_text
from rewrite_engine.language.meaning import expand, infer
from rewrite_engine.operators.types import TensorType
from rewrite_engine.passes import LowerLoops, Place, PlanMemory, Sequential, load_module, save_module
from rewrite_engine.testing.in_file import run_file

OPERATORS = """
operator com.x::Silu(x) = Mul(x, Sigmoid(x))
operator com.x::Norm(x, w, b?) = LayerNormalization(x, w, b, axis=-1, epsilon=epsilon)
operator com.x::Act(x, y?) = Clip(Mul(r, r), none, y) where r = LeakyRelu(x, alpha=alpha?)
operator com.x::Both(x) = (s, com.x::Silu(e)) where s, e = Split(x, axis=axis, num_outputs=2)
operator com.x::Halves(x: float32[...], *xs) = Mul(Concat(x, *xs, axis=-1), 0.5) if x.rank == 2
"""
TARGET = """
target t on host { flops 1GFLOPS
  composite c(x) = Relu(com.x::Silu(x)) cost 1ps
  supports com.x::Norm(x, w) as y if y.epsilon <= 1 cost 1ps
  supports Neg
}
rule fuse: com.x::Silu(Neg(x)) => com.x::Act(x, alpha=2)
"""


def results(tmp_path: Path, *tests: str) -> list[bool]:
    lines = [f'test "{number}": {test}' for number, test in enumerate(tests)]
    (tmp_path / "o.pat").write_text(OPERATORS + TARGET + "\n".join(lines))
    return [result.passed for result in run_file(tmp_path / "o.pat")]


def test_rules_capabilities_and_placement(tmp_path: Path) -> None:
    tests = [
        "com.x::Silu(x: float32[2]) => Mul(x, Sigmoid(x))",
        "t runs Relu(com.x::Silu(x: float32[2])) in c",
        "t runs com.x::Norm(x: float32[2, 3], w: float32[3], epsilon=0.5)",
        "place com.x::Silu(x: float32[2]) => Mul(x, Sigmoid(x)) on host",
        "com.x::Silu(Neg(x: float32[2])) => Clip(Mul(LeakyRelu(x, alpha=2), LeakyRelu(x, alpha=2)))",
        "com.x::Act(x: float32[2], m: float32[]) => Clip(Mul(r, r), none, m) where r = LeakyRelu(x)",
        "com.x::Norm(x: float32[2, 3], w: float32[3], epsilon=2) => LayerNormalization(x, w, axis=-1, epsilon=2)",
        "(a, b) => (s, Mul(e, Sigmoid(e))) where a, b = com.x::Both(x: float32[4], axis=0); "
        "s, e = Split(x, axis=0, num_outputs=2)",
        "com.x::Halves(x: float32[1, 2], y: float32[1, 3]) => Mul(Concat(x, y, axis=-1), 0.5)",
        "com.x::Halves(x: float32[1, 2]) => Mul(Concat(x, axis=-1), 0.5)",
    ]
    assert results(tmp_path, *tests) == [True] * len(tests)


def test_what_does_not_hold(tmp_path: Path) -> None:
    tests = [
        "com.x::Silu(x: float32[2]) => Mul(x, Tanh(x))",
        "t runs com.x::Norm(x: float32[2, 3], w: float32[3], epsilon=2)",
        "t runs com.x::Norm(x: float32[2, 3], w: float32[3], b: float32[3], epsilon=0.5)",
        "t runs com.x::Silu(x: float32[2])",
        "com.x::Norm(x: float32[2, 3], w: float32[3]) => LayerNormalization(x, w, axis=-1)",  # no epsilon
        "com.x::Halves(x: float32[2]) => Mul(Concat(x, axis=-1), 0.5)",  # its guard
    ]
    assert results(tmp_path, *tests) == [False] * len(tests)


def test_facts_come_from_the_declaration() -> None:
    scope = load_text(OPERATORS).scope
    norm, both, halves = (scope.operator(f"com.x::{name}") for name in ("Norm", "Both", "Halves"))  # type: ignore[attr-defined]
    assert (norm.min_inputs, norm.max_inputs, [f.kind for f in norm.inputs]) == (2, 3, ["single", "single", "optional"])
    assert [(a.name, a.type, a.required) for a in norm.attributes.values()] == [("epsilon", "float", True)]
    assert (len(both.outputs), both.attributes["axis"].type, both.domain) == (2, "int", "com.x")
    assert (halves.max_inputs, halves.inputs[0].dtypes) == (None, ("float32",))
    act = scope.operator("com.x::Act")  # type: ignore[attr-defined]
    assert not act.attributes["alpha"].required


def test_types_follow_through_the_body() -> None:
    meanings = load_text(OPERATORS).meanings
    kind = TensorType("float16", ("N", 6))
    assert infer(meanings["com.x::Silu"], {}, [kind], [], 1) == (kind,)
    halves = infer(meanings["com.x::Both"], {"axis": 1}, [kind], [], 2)
    assert halves == (TensorType("float16", ("N", 3)),) * 2
    assert infer(meanings["com.x::Both"], {"axis": 1}, [kind], [], 1) == halves[:1]
    unknown = infer(meanings["com.x::Halves"], {}, [TensorType("float32", (2,))], [], 1)
    assert unknown == (TensorType("?", None),)
    body = expand(meanings["com.x::Act"], {}, [kind, TensorType("float16", ())], [], 1)
    assert body is not None and [node.op for node in body.nodes] == ["LeakyRelu", "Mul", "Clip"]
    assert body.nodes[1].inputs == (("node", 0, 0), ("node", 0, 0)) and body.nodes[2].inputs[1:] == (
        ("absent",),
        ("input", 1),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operator Silu(x) = Mul(x, Sigmoid(x))", "`Silu` has no domain: those operators are ONNX's own"),
        ("operator com.x::F(x) = Mul(x, y)", "`y` is not an input of com.x::F"),
        ("operator com.x::F(x, y) = Relu(x)", "parameter `y` is not used"),
        ("operator com.x::F(x) = Rellu(x)", "unknown operator `Rellu`"),
        ("operator com.x::F(x) = Relu(x, x)", "Relu takes 1 input, found 2"),
        ("operator com.x::F(x) = Relu(x) | Abs(x)", "the meaning of an operator has no alternatives"),
        ("operator com.x::F(x) = Relu(Abs?(x))", "the meaning of an operator leaves nothing open"),
        ("operator com.x::F(x) = Relu(_)", "the meaning of an operator has no wildcards, tuples or conditions inside"),
        ("pattern p(x) = Relu(x)\noperator com.x::F(x) = p(x)", "`p` is a pattern, which may match several things"),
        ("operator com.x::F(x) = Relu(x) with k = 1", "`with` has no meaning here: the pattern says what is computed"),
        ("operator com.x::F(x, b?) = Add(x, b)", "`b` may be absent, but Add needs its B"),
        ("operator com.x::F(x) = Relu(com.x::F(x))", "operator `com.x::F` is built from itself"),
        (
            "operator com.x::F(x) = com.x::G(x) operator com.x::G(x) = Relu(com.x::F(x))",
            "operator `com.x::F` is built from itself",
        ),
        ("operator com.x::F(x) = Relu(x) operator com.x::F(x) = Abs(x)", "operator `com.x::F` is declared twice"),
        (OPERATORS + "rule r: com.x::Silu(x, y) => x", "com.x::Silu takes 1 input, found 2"),
        (OPERATORS + "rule r: com.x::Norm(x, w, alpha=1) => x", "com.x::Norm has no attribute `alpha`"),
        (OPERATORS + "rule r: com.x::Sillu(x) => x", "unknown operator `com.x::Sillu`"),
        (OPERATORS + "rule r: Relu(x) => com.x::Norm(x, x)", "com.x::Norm needs the attribute `epsilon`"),
        (OPERATORS + "rule r: com.x::Halves(x: int8[2]) => x", "input x of com.x::Halves cannot be int8"),
        ("operator com.x::F(x, x=1) = Relu(x)", "`x` is an input of com.x::F already"),
        ("operator com.x::F(x, k=1, k=2) = Relu(x)", "attribute `k` is declared twice"),
        ("operator com.x::F(x, k=1 + j) = Relu(x)", "unknown name `j`"),
        ("operator com.x::F(x, x, k=1) = Relu(x)", "parameter `x` is declared twice"),
        ("pattern p(x, k=1) = Relu(x)", "expected `)`, `,`, `:` or `?`, found `=`"),
        ("operator com.x::F(x, k=1) = Relu(x) rule r: Relu(x) => com.x::F(x)", "com.x::F needs the attribute `k`"),
        ("operator com.x::F(x, k=1) = Relu(x) rule r: Relu(x) => com.x::F(x, j=1)", "com.x::F has no attribute `j`"),
        (
            'operator com.x::F(x, k={"a", "b"}) = Relu(x) rule r: com.x::F(x, k=1) => x',
            'attribute `k` of com.x::F is a text in `"`, found a number',
        ),
        (
            'operator com.x::F(x, k=a) = LeakyRelu(x, alpha=a) rule r: com.x::F(x, k="s") => x',
            "attribute `k` of com.x::F is a number, found a text",
        ),
    ],
)
def test_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(PatError) as caught:
        load_text(text)
    assert message in [problem.message for problem in caught.value.problems]


ATTRIBUTES = """
let small = {1, 2}
operator com.x::Exact(x, k=1) = Relu(x)
operator com.x::Left(x, k=1?, m={"a", "b"}?) = Relu(x)
operator com.x::Any(x, k=a?) = Relu(x)
operator com.x::Guarded(x, k=a?) = Relu(x) if a > 0 and a < 3
operator com.x::Named(x, k=small) = Relu(x)
operator com.x::Given(x, slope=a, k=1?) = LeakyRelu(x, alpha=a)
operator com.x::Both(x, alpha={0.1, 0.5}) = LeakyRelu(x, alpha=alpha)
operator com.x::Inner(x, k=1?) = com.x::Exact(Abs(x), k=k?)
operator com.x::Two(x, k=1) = (Relu(x), Abs(x))
"""


@pytest.mark.parametrize(
    ("op", "attributes", "holds"),
    [
        ("Exact", {"k": 1}, True),
        ("Exact", {"k": 2}, False),
        ("Exact", {}, False),
        ("Exact", {"k": 1, "m": 0}, False),
        ("Left", {}, True),
        ("Left", {"k": 1, "m": "b"}, True),
        ("Left", {"m": "c"}, False),
        ("Left", {"k": 0, "m": "a"}, False),
        ("Any", {}, True),
        ("Any", {"k": -7}, True),
        ("Any", {"m": 1}, False),
        ("Guarded", {"k": 2}, True),
        ("Guarded", {"k": 3}, False),
        ("Guarded", {}, True),
        ("Named", {"k": 2}, True),
        ("Named", {"k": 3}, False),
        ("Given", {"slope": 0.5}, True),
        ("Given", {"slope": 0.5, "k": 2}, False),
        ("Given", {"alpha": 0.5}, False),
        ("Given", {"a": 0.5, "slope": 0.5}, False),
        ("Both", {"alpha": 0.5}, True),
        ("Both", {"alpha": 0.2}, False),
        ("Both", {}, False),
        ("Inner", {"k": 1}, True),
        ("Two", {"k": 1}, True),
        ("Two", {"k": 2}, False),
    ],
)
def test_attributes_that_a_declaration_names(op: str, attributes: dict[str, object], holds: bool) -> None:
    meaning = load_text(ATTRIBUTES).meanings[f"com.x::{op}"]
    for count in range(1, 2 + (op == "Two")):
        assert (expand(meaning, attributes, [TensorType("float32", (2,))], [], count) is not None) == holds
        others = {**attributes, "unnamed": 1}
        assert expand(meaning, others, [TensorType("float32", (2,))], [], count) is None


def test_attributes_reach_the_body() -> None:
    """What is captured beside the inputs is handed on, and is called as the declaration calls it."""
    scope = load_text(ATTRIBUTES)
    body = expand(scope.meanings["com.x::Given"], {"slope": 0.25}, [TensorType("float32", (2,))], [], 1)
    assert body is not None and body.attributes[0]["alpha"] == 0.25
    given = scope.scope.operator("com.x::Given")  # type: ignore[attr-defined]
    assert {a.name: (a.type, a.required) for a in given.attributes.values()} == {
        "slope": ("float", True),
        "k": ("any", False),
    }


@pytest.mark.parametrize(("attributes", "holds"), [({"k": 1}, True), ({"k": 7}, True), ({}, True), ({"m": 1}, False)])
def test_no_pattern_matches_attributes_that_are_not_declared(attributes: dict[str, Any], holds: bool) -> None:
    """Neither a rule, a composite, a capability nor a named pattern: what they would compute is not known."""
    rules = load_text("""operator com.x::F(x, k=j?) = Relu(x)
      target t on host { flops 1GFLOPS supports com.x::F composite c(x) = Abs(com.x::F(x)) }
      pattern p(x) = com.x::F(x)
      rule twice: com.x::F(com.x::F(x)) => com.x::F(x)
      rule like_it: com.x::F(Neg(x)) as f => Abs(com.x::F(x, like f))""")
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("F", ["a"], ["b"], domain="com.x", **attributes),
        helper.make_node("F", ["b"], ["c"], domain="com.x", **attributes),
        helper.make_node("Abs", ["c"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y"))
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=imports)
    found = {match.rule for match in api.match(api.load(model), rules).matches}
    assert found == ({"t.supports.0", "t.c", "p", "twice", "like_it"} if holds else set())


def test_the_reason_names_the_attribute() -> None:
    from rewrite_engine.language.meaning import refusal

    meaning = load_text(ATTRIBUTES).meanings["com.x::Left"].rule
    kind = TensorType("float32", (2,))
    assert refusal(meaning, {"channels_last": 1}, [kind], [], 1) == (
        "operator com.x::Left has attribute channels_last=1 that its declaration does not name"
    )
    assert refusal(meaning, {"k": 3}, [kind], [], 1) == "`k` of com.x::Left is 3, not 1"
    assert refusal(meaning, {"k": 1}, [kind], [], 1) == ""
    assert refusal(meaning, {}, [kind, kind], [], 1) == "com.x::Left is declared for other inputs or results"


def test_a_model_with_such_operators_runs(tmp_path: Path) -> None:
    """The model says no types behind them; the host runs their bodies, and a composite that holds one runs too."""
    nodes = [
        helper.make_node("Silu", ["x"], ["a"], domain="com.x"),
        helper.make_node("Transpose", ["a"], ["b"]),
        helper.make_node("Silu", ["b"], ["c"], domain="com.x"),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])]
    made = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", given, made), opset_imports=imports), tmp_path / "m.onnx")
    rules = load_text(OPERATORS + TARGET)
    module = api.load(tmp_path / "m.onnx")
    bundle = api.compile(module, rules)
    placement = api.place(module, rules)
    calls = {
        call.rule: [node.op for node in call.body] for call in placement.graph.steps if isinstance(call, KernelCall)
    }
    assert calls["t.c"] == ["com.x::Silu", "Relu"]
    assert not any("::" in op for rule, ops in calls.items() if rule != "t.c" for op in ops)
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)

    def silu(v: np.ndarray) -> np.ndarray:
        return np.asarray(v / (1 + np.exp(-v)))

    (found,) = bundle.run({"x": x}).values()
    np.testing.assert_allclose(found, np.maximum(silu(silu(x).T), 0), rtol=1e-5, atol=1e-6)


def test_the_passes_lower_such_operators_too(tmp_path: Path) -> None:
    """In a chain, and going on from a saved module: the rules that passes were given know the meanings."""
    nodes = [helper.make_node("Silu", ["x"], ["a"], domain="com.x"), helper.make_node("Relu", ["a"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", onnx.TensorProto.FLOAT, [2, 3])], [value("y", onnx.TensorProto.FLOAT, None)]
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)]
    rules, module = load_text(OPERATORS + TARGET), api.load(helper.make_model(graph, opset_imports=imports))
    placed = Place(rules).run(module)
    whole = Sequential([Place(rules), LowerLoops(), PlanMemory()])(module)
    assert whole.memory is not None and whole.lowered.keys() == LowerLoops(rules).run(placed).lowered.keys()
    save_module(placed, tmp_path / "m")
    assert LowerLoops().run(load_module(tmp_path / "m", rules)).lowered.keys() == whole.lowered.keys()
    with pytest.raises(RewriteError, match="there is no loop nest for this operator"):
        LowerLoops().run(load_module(tmp_path / "m"))


def test_nothing_runs_an_operator_whose_meaning_does_not_hold(tmp_path: Path) -> None:
    """Unless ONNX Runtime has it: the message says both why its body is not it, and why it cannot run as it is."""
    nodes = [helper.make_node("Halves", ["x"], ["y"], domain="com.x")]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y"))
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)]
    module = api.load(helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=imports))
    message = "the declared meaning of `com.x::Halves` does not hold: `x.rank == 2` does not hold: 1 == 2; and ONNX Run"
    with pytest.raises(RewriteError, match=message):
        api.compile(module, load_text(OPERATORS))


@pytest.mark.parametrize("strategy", ["priority", "largest", "dp", "op-map", "single:host", "single:t"])
def test_baselines_run_the_bodies(strategy: str) -> None:
    """Nothing computes such an operator as it is: its body is what the model gives, of two results and of others."""
    nodes = [
        helper.make_node("Silu", ["x"], ["a"], domain="com.x"),
        helper.make_node("Both", ["a"], ["b", "c"], domain="com.x", axis=0),
        helper.make_node("Mul", ["b", "c"], ["d"]),
        helper.make_node("Silu", ["d"], ["e"], domain="com.x"),
        helper.make_node("Relu", ["e"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 3])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)]
    module = api.load(helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=imports))
    rules = load_text(OPERATORS + TARGET)
    placed = api.place(module, rules, strategy=strategy)
    found = api.place(module, rules).baselines
    assert all(cost is not None and cost >= placed.bound for cost in found.values())
    calls = [call for call in placed.graph.steps if isinstance(call, KernelCall)]
    assert ("t.c" in {call.rule for call in calls}) == (strategy not in ("single:host", "op-map"))
    given = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)

    def silu(v: np.ndarray) -> np.ndarray:
        return np.asarray(v / (1 + np.exp(-v)))

    halves = silu(given)[:2], silu(silu(given)[2:])
    (result,) = api.compile(module, rules, placement=placed).run({"x": given}).values()
    np.testing.assert_allclose(result, np.maximum(silu(halves[0] * halves[1]), 0), rtol=1e-5, atol=1e-6)
