"""Rules of the standard library keep the numbers: each test `G => G'` is computed on both sides by the loop nests.

Also that models as exported hold what the hard patterns describe, and what the benchmarks' tables print.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import find_model, get_model, largest_error, random_inputs, run_reference

from rewrite_engine.api import place
from rewrite_engine.egraph.explore import explore
from rewrite_engine.graph import load as load_model
from rewrite_engine.graph import strip, to_terms
from rewrite_engine.graph.placed import BodyNode, KernelCall
from rewrite_engine.graph.placed_io import write_placed
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.language import load, load_text, syntax
from rewrite_engine.language.core import RuleSet
from rewrite_engine.language.core import TestCase as Case
from rewrite_engine.loops.execute import run
from rewrite_engine.loops.lower import lower
from rewrite_engine.machine import build
from rewrite_engine.resources import patterns_root
from rewrite_engine.testing.graphs import GraphBuilder

STANDARD = sorted((patterns_root() / "std").glob("*.pat"))
APPROXIMATE = {
    "sigmoid becomes the operator, where approximations are allowed": 0.03,  # GELU to two digits
}
"""Tests of rules that are labelled `approximates`, and how far apart the sides may be."""

SEEDS = 3


@cache
def rules_of(path: Path) -> RuleSet:
    return load([path])


def rewrites(path: Path) -> list[Case]:
    """The file's own tests that say what a graph becomes."""
    rules = rules_of(path)
    own = list(rules.sources)[-1]
    return [case for case in rules.tests if case.file == own and _declaration(case).verdict == "becomes"]


def _declaration(case: Case) -> syntax.TestDecl:
    assert isinstance(case.declaration, syntax.TestDecl)
    return case.declaration


def both_sides(rules: RuleSet, case: Case) -> tuple[Terms, int]:
    """One graph that computes what the test starts with, then what it becomes; and how many results the first has."""
    test = _declaration(case)
    builder = GraphBuilder(rules.scope, {path: text for path, (text, _) in rules.sources.items()})  # type: ignore[arg-type]
    before = builder.graph(test.subject, test.where)
    assert test.result is not None
    return builder.terms([*before, *builder.result(test.result)]), len(before)


def is_static(terms: Terms) -> bool:
    return all(value.type.numel is not None for value in terms.values)


def computed(terms: Terms, random: np.random.Generator) -> list[np.ndarray]:
    """The results of a graph on random inputs: whole numbers are 0 or 1, as they may be positions."""
    names = {index: value.name for index, value in enumerate(terms.values)} | {ABSENT: ""}
    produced = {index for node in terms.nodes for index in node.outputs}
    given = [i for i, value in enumerate(terms.values) if i not in produced]
    body = tuple(
        BodyNode(n.op, n.attributes, tuple(names[i] for i in n.inputs), tuple(names[i] for i in n.outputs))
        for n in terms.nodes
    )
    results = [i for i in dict.fromkeys(terms.outputs) if i in produced]
    call = KernelCall(
        name="k", target="host", device="host", region="", rule="host", inputs=tuple(names[i] for i in given),
        outputs=tuple(names[i] for i in results), host_inputs=frozenset(), body=body, inner_types={}, attributes={},
        cost=0, cost_source="roofline", covers=(),
    )  # fmt: skip
    constants = {names[i]: value for i in given if (value := terms.values[i].constant) is not None}
    program = lower(call, {value.name: value.type for value in terms.values}, constants)
    arrays = {i: _array(terms, i, random) for i in given}
    outputs = {i: np.empty_like(_array(terms, i, random)) for i in results}
    with np.errstate(all="ignore"):
        run(program, [arrays[i] for i in given], [outputs[i] for i in results])
    everything = arrays | outputs
    return [everything[i] for i in terms.outputs]


def _array(terms: Terms, index: int, random: np.random.Generator) -> np.ndarray:
    value = terms.values[index]
    if value.constant is not None:
        return value.constant
    assert value.type.shape is not None
    shape = [size for size in value.type.shape if isinstance(size, int)]
    kind = np.dtype(value.type.dtype)
    drawn = random.standard_normal(shape) * 3 if kind.kind == "f" else random.integers(0, 2, shape)
    return np.asarray(drawn).astype(kind)


def farthest(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> float:
    """The largest difference, relative where numbers are large; infinite where only one side is a number."""
    found = 0.0
    for one, other in zip(before, after, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        a, b = one.astype(np.float64), other.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        known = np.isfinite(a)
        found = max(found, float(np.max(np.abs(a - b)[known] / np.maximum(1, np.abs(a[known])), initial=0)))
    return found


CASES = [pytest.param(path, case, id=f"{path.stem}: {case.title}") for path in STANDARD for case in rewrites(path)]


@pytest.mark.parametrize(("path", "case"), CASES)
def test_both_sides_compute_the_same(path: Path, case: Case) -> None:
    rules = rules_of(path)
    terms, first = both_sides(rules, case)
    if not is_static(terms):
        assert path.stem == "algebra"  # where the shape is the point
        pytest.skip("its shapes are only known at run time")
    own = [rule for rule in rules.rules if rule.kind == "rule" and rule.span.file == case.file]
    foreign = any("::" in node.op for node in terms.nodes)  # which ONNX Runtime computes, in an order of its own
    exact = all(rule.label == "exact" for rule in own) and not foreign
    allowed = 0.0 if exact else APPROXIMATE.get(case.title, 2e-5)
    for seed in range(SEEDS):
        results = computed(terms, np.random.default_rng([seed, 7]))
        assert farthest(results[:first], results[first:]) <= allowed


def test_a_wrong_rule_is_noticed() -> None:
    rules = load_text('test "no": Gelu(x: float32[64]) => Gelu(x, approximate="tanh")\n'
                      'test "neither": Transpose(x: float32[3, 3]) => x')  # fmt: skip
    for case in rules.tests:
        results = computed(both_sides(rules, case)[0], np.random.default_rng(0))
        assert farthest(results[:1], results[1:]) > 1e-4


GUARDED = """
test "guarded": MatMul(Where(IsNaN(p), const zero: float32[] = 0, p), v: float32[1, 2, 3, 4]) => Attention(q, k, v, m)
  where s = Mul(MatMul(q: float32[1, 2, 3, 4], Transpose(k: float32[1, 2, 3, 4], perm=[0, 1, 3, 2])), 0.5);
        p = Softmax(Add(s, m), axis=-1); m = Add(b: float32[3, 3], const low: float32[3, 1] = [[0], [-inf], [0]])
test "plain": MatMul(p, v: float32[1, 2, 3, 4]) => Attention(q, k, v, m)
  where s = Mul(MatMul(q: float32[1, 2, 3, 4], Transpose(k: float32[1, 2, 3, 4], perm=[0, 1, 3, 2])), 0.5);
        p = Softmax(Add(s, m), axis=-1); m = Add(b: float32[3, 3], const low: float32[3, 1] = [[0], [-inf], [0]])
"""


def test_rows_that_see_no_key() -> None:
    """Zeros with the guard, as the operator has it; NaN without, which is why that rule is an approximation."""
    rules = load_text(GUARDED)
    guarded, plain = (computed(both_sides(rules, case)[0], np.random.default_rng(3)) for case in rules.tests)
    assert farthest(guarded[:1], guarded[1:]) < 1e-6 and not guarded[1][0, :, 1].any()
    assert np.isnan(plain[0][0, :, 1]).all() and not plain[1][0, :, 1].any()
    labels = {rule.name: rule.label for rule in rules_of(patterns_root() / "std/sdpa.pat").rules}
    assert (labels["fuse_sdpa_guarded"], labels["fuse_sdpa_masked"]) == ("reassociates", "approximates")


@pytest.mark.parametrize(
    ("file", "pattern", "model", "count"),
    [
        ("sdpa", "sdpa_guarded", "bert12.legacy", 12),
        ("sdpa", "sdpa_guarded", "gpt2_12.dynamo", 12),
        ("sdpa", "sdpa_guarded", "vit12.dynamo", 12),
        ("sdpa", "sdpa_plain", "albert12.legacy", 12),
        ("skip_norm", "layer_normalised", "bert12.legacy", 25),
        ("gelu", "gelu_erf_spelled", "bert12.legacy", 12),
        ("gelu", "gelu_tanh_spelled", "gpt2_12.dynamo", 12),
        ("qdq_conv", "qdq_conv", "resnet18.legacy.qdq", 20),
    ],
)
def test_models_hold_them(file: str, pattern: str, model: str, count: int) -> None:
    """Each layer once: where the same root matches in several ways, it counts once."""
    rules = rules_of(patterns_root() / f"std/{file}.pat")
    explored = explore(to_terms(load_model(find_model(model))), rules.rules, build(rules))
    assert len({match.roots for match in explored.matches if match.rule.name == pattern}) == count


@cache
def benchmark(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent.parent / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_table_counts_every_pattern() -> None:
    rows = [benchmark("hard_patterns").row(*entry) for entry in benchmark("hard_patterns").HARD]
    assert len(rows) == 17
    assert [row for row in rows if not (1 <= row.lines <= 30 and row.fire and row.refuse)] == []
    (gemm,) = (row for row in rows if row.title == "batch norm into Gemm")
    assert (gemm.lines, gemm.ways, gemm.fire, gemm.refuse) == (6, 2, 2, 1)


def test_both_tools_find_the_same_roots() -> None:
    pytest.importorskip("onnxscript", reason="the rewriter that is compared with is not installed")
    match, module = benchmark("match"), load_model(find_model("bert12.legacy"))
    patterns = match.shapes()
    found, _ = match.ours(patterns, module)
    assert found == match.theirs(patterns, module)[0]
    assert sum(map(bool, found.values())) == 20
    assert set(match.matching(patterns, module)[0]) == {name for name, roots in found.items() if roots}


def test_large_patterns_compile() -> None:
    """Operands in either order are for egglog to try: a pattern is no more variants than it says."""
    match, module = benchmark("match"), load_model(find_model("bert12.legacy"))
    for text, nodes in ((match.nested(12), 12), (match.wide(40), 40)):
        assert [len(variant.nodes) for variant in load_text(text).rules[-1].variants] == [nodes]
        assert match.compiled(text, module) > 0


@pytest.mark.parametrize(
    ("name", "built"),
    [
        ("bert12.legacy", {"Attention": 12, "Gelu": 12, "Softmax": 0, "Erf": 0}),
        ("gpt2_12.dynamo", {"Attention": 12, "Gelu": 12, "Softmax": 0, "Tanh": 0}),
    ],
)
def test_rewritten_models_compute_the_same(name: str, built: dict[str, int]) -> None:
    """The optimum on the host takes the operators, and ONNX Runtime computes the same from both models."""
    pytest.importorskip("onnxruntime", reason="the reference is not installed")
    module = load_model(find_model(name))
    rules = load([patterns_root() / "std/sdpa.pat", patterns_root() / "std/gelu.pat"])
    placement = place(module, rules)
    calls = [step for step in placement.graph.steps if isinstance(step, KernelCall)]
    operators = Counter(node.op for call in calls for node in call.body)
    assert {op: operators[op] for op in built} == built
    model, plain = get_model(name), strip(write_placed(placement.graph))
    feed = random_inputs(model, 5)
    assert largest_error(run_reference(plain, feed), run_reference(model, feed)) <= 1e-5
