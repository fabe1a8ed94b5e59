"""`chain(start, {Ops}, most=N, others=os)`: one to N operators, each reading the last one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lowering import rule_of
from models import find_model

from rewrite_engine.diagnostics import PatError
from rewrite_engine.egraph import compile as compiling
from rewrite_engine.egraph.explore import explore
from rewrite_engine.graph import load, to_terms
from rewrite_engine.language import load_text
from rewrite_engine.language.lower import choose
from rewrite_engine.machine import build
from rewrite_engine.testing.in_file import run_file

POST = """target t on host {
  flops 1GFLOPS  supports Neg
  composite conv_post(x, w, b?, *others) = chain(conv, {Add, Mul, Relu, Clip, Sub}, most=3, others=others) as post
    where conv = Conv(x, const w, const b)
    if conv.dtype == float32 and all(step.shape == conv.shape for step in post.steps)
       and all(readers(step) <= 1 for step in post.steps)
    cost len(post.steps) * 1ns
}
let most_of_them = 3
pattern tail(v) = chain?(v, {Relu, Abs}, most=most_of_them)
pattern scaled(v, c) = tail(Mul(v, const c))
composite_test
"""
CONV = "Conv(x: float32[1, 2, 8, 8], const w: float32[2, 2, 3, 3])"
Y = "y: float32[1, 2, 6, 6]"


def verdicts(tmp_path: Path, *tests: str) -> list[bool]:
    lines = [f'test "{number}": {test}' for number, test in enumerate(tests)]
    (tmp_path / "chain.pat").write_text(POST.replace("composite_test", "\n".join(lines)))
    return [result.passed for result in run_file(tmp_path / "chain.pat")]


def test_chains_that_match(tmp_path: Path) -> None:
    tests = [
        f"t runs Relu({CONV}) in conv_post",
        f"t runs Relu(Add({CONV}, {Y})) in conv_post",
        f"t runs Relu(Add({Y}, {CONV})) in conv_post",
        f"t runs Clip(Add({CONV}, {Y}), const lo: float32[] = 0, const hi: float32[] = 6) in conv_post",
        f"t runs Clip(Add({CONV}, {Y}), none, const hi: float32[] = 6) in conv_post",
        f"t runs Sub(Mul(Relu({CONV}), {Y}), y) in conv_post",
        f"place Relu(Add({CONV}, {Y})) => Relu(Add(Conv(x, w), y)) on t",
        f"Mul(Relu({CONV}), {Y}) is conv_post",
        "Relu(Abs(Mul(x: float32[2], const c: float32[] = 2))) is scaled",
        "Mul(x: float32[2], const c: float32[] = 2) is scaled",
    ]
    assert verdicts(tmp_path, *tests) == [True] * len(tests)


def test_chains_that_do_not_match(tmp_path: Path) -> None:
    tests = [
        f"t runs {CONV}",  # no step
        f"t runs Relu(Mul(Relu(Add({CONV}, {Y})), y))",  # one step too many
        f"t runs Relu(Add({CONV}, y: float32[2, 2, 6, 6]))",  # another shape
        f"t runs Relu(Add(Neg({CONV}), {Y}))",  # something between
        f"t runs Sub({Y}, {CONV})",  # the last one is not its first operand
        f"t runs Add(Relu({CONV}) as r, Mul(r, {Y}))",  # a step that is read twice
        "Relu(Relu(Relu(Relu(Mul(x: float32[2], const c: float32[] = 2))))) is scaled",
        "Relu(Elu(Mul(x: float32[2], const c: float32[] = 2))) is scaled",
    ]
    assert verdicts(tmp_path, *tests) == [False] * len(tests)


def test_one_variant_per_length() -> None:
    variants = rule_of(POST.replace("composite_test", ""), "t.conv_post").variants
    assert [len(variant.nodes) for variant in variants] == [2, 3, 4, 2, 3, 4]
    node = variants[1].nodes[2]
    assert node.choices == ("Add", "Mul", "Relu", "Clip", "Sub") and node.rest == "others.1"
    assert choose(variants[1], {2: "Mul"}).nodes[2].op == "Mul"
    assert variants[1].nodes[1].choices and not choose(variants[1], {2: "Mul"}).nodes[2].choices


def test_a_chain_that_rewriting_makes(tmp_path: Path) -> None:
    (tmp_path / "r.pat").write_text(
        """rule open: Elu(x) => Relu(Abs(x))
rule close: Neg(chain(x, {Relu, Abs}, most=3)) => Sigmoid(x)
rule gather: Tanh(chain(x, {Add, Mul}, most=2, others=os)) => Sum(x, *os)
test "made": Neg(Relu(Elu(x: float32[2]))) => Sigmoid(x)
test "too long": Neg(Relu(Abs(Elu(x: float32[2])))) => Sigmoid(x)
test "two lists": Tanh(Mul(Add(x: float32[2], y: float32[2]), z: float32[2])) => Sum(x, y, z)
"""
    )
    assert [result.passed for result in run_file(tmp_path / "r.pat")] == [True, False, True]


def test_too_many_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdicts(tmp_path, f"t runs Relu(Add(Relu({CONV}), {Y}))") == [True]
    monkeypatch.setattr(compiling, "MOST_WAYS", 2)
    (result,) = run_file(tmp_path / "chain.pat")
    assert "`t.conv_post` matches more than 2 different sequences of operators" in result.reason


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ("chain(x, {Relu, Abs})", "a chain needs `most`, the number of its steps"),
        ("chain(x, {Relu, Abs}, most=0)", "expected a whole number from 1 to 16"),
        ("chain(x, {Relu, Abs}, most=17)", "expected a whole number from 1 to 16"),
        ("chain(x, {Relu, Abs}, most=2.5)", "expected a whole number from 1 to 16"),
        ("chain(x, {Relu, Abs}, most=several)", "expected a whole number from 1 to 16"),
        ("chain(x, {Rellu}, most=1)", "unknown operator `Rellu`"),
        ("chain(x, {1}, most=1)", "expected the name of an operator in the set"),
        ("chain(x, {Relu}, most=1, moist=2)", "a chain has no `moist`"),
        ("chain(x, {Relu}, most=1, most=2)", "`most` is given twice"),
        ("chain(x, {Relu}, most=1, others=[1])", "`others` of a chain is one name, of a list of values"),
        ("chain(x, y, most=1)", "a chain needs where it starts and a set of operators"),
        ("chain({Relu}, most=1)", "a chain needs where it starts and a set of operators"),
        ("chain(x, {Constant}, most=1)", "Constant reads no input, so it cannot be a step of a chain"),
        ("chain(chain(x, {Add}, most=1, others=os), {Sub}, most=1, others=os)", "`os` already holds other inputs"),
        ("Relu(x) if len(x.steps) == 1", "only a chain has steps"),
    ],
)
def test_what_is_wrong(chain: str, message: str) -> None:
    with pytest.raises(PatError) as caught:
        load_text(f"target t on host {{ composite c(x) = {chain} }}")
    assert message in [problem.message for problem in caught.value.problems]


def test_where_a_chain_cannot_stand() -> None:
    for text, message in [
        ("target t on host { supports chain(x, {Relu}, most=1) }", "`supports` takes single operators"),
        ('test "t": host runs chain(x: float32[2], {Relu}, most=1)', "a test writes each operator of its graph out"),
    ]:
        with pytest.raises(PatError, match=re.escape(message)):
            load_text(text)


def test_only_the_sequences_that_a_model_has_are_compiled() -> None:
    """Eleven operators at up to six steps are two million sequences; ResNet-50 has a dozen of them."""
    rules = load_text(
        """target t on host { flops 1TFLOPS composite c(x, *others) =
      chain(conv, {Add, Mul, Relu, Clip, Sub, Div, Sqrt, Erf, Tanh, Sum, Pow}, most=6, others=others)
    where conv = Conv(x, const w, _) | BatchNormalization(x, w, _, _, _) cost 1us }"""
    )
    terms = to_terms(load(find_model("light_resnet50")))
    explored = explore(terms, rules.rules, build(rules))
    fused = {tuple(n.op for n in e.fused.variant.nodes) for e in explored.enodes if e.fused is not None}
    assert ("BatchNormalization", "Sum", "Relu") in fused and all("Erf" not in ops for ops in fused)
    assert 2 <= len(fused) <= 12
