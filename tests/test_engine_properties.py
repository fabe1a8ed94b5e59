"""The engine under its own testing kit: random graphs, random rules and random machines, and what always holds.

Quick parts and slow ones: see `drawing`. The numbers of a graph are those of its operators one by one, and these are
held against other implementations.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from brute_force import brute_force
from drawing import (
    HOST,
    Case,
    always,
    assert_copies_cross,
    bound,
    compiled,
    feeds,
    holds,
    numbers,
    on_machines,
    placeable,
    runnable,
)
from hypothesis import strategies as hypothesis
from onnx_node_cases import assert_close, run_model
from random_operators import Trial
from random_operators import run as run_trial

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.extract import solve
from rewrite_engine.graph import (
    ABSENT,
    Terms,
)
from rewrite_engine.graph import from_terms as module_from_terms
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.language import load as load_rules
from rewrite_engine.language import load_text
from rewrite_engine.language.core import CoreRule
from rewrite_engine.loops import document
from rewrite_engine.loops.compiler import find_compiler
from rewrite_engine.machine import build
from rewrite_engine.placement.place import place
from rewrite_engine.placement.rebuild import costs
from rewrite_engine.placement.report import placement_json
from rewrite_engine.resources import patterns_root
from rewrite_engine.testing import strategies as st

SMOOTH = ("Relu", "Add", "Mul", "MatMul", "Transpose", "Reshape", "Concat", "Split", "Softmax", "Conv", "Neg", "Abs",
          "Sigmoid", "Tanh", "Gemm", "ReduceMean", "LayerNormalization", "Max", "Min", "Clip")  # fmt: skip
"""Operators that turn rounding into no more than rounding."""
# ---------------------------------------------------------------- what is placed


@always(12)
def test_costs_bounds_and_copies(examples: int) -> None:
    """(b), (d): no baseline is cheaper, no bound dearer, the cost is that of what was rebuilt; copies are needed."""

    def check(case: Case) -> None:
        graph, rules = case.graph, case.rules
        placement = place(graph, rules)
        total = costs(placement.graph, {t.name: t.launch for t in placement.machine.targets}).total
        assert 0 <= placement.bound <= placement.costs.total == total
        assert (placement.status == "optimal") == (placement.bound == total)
        if placement.saturation == "complete" and placement.status == "optimal":
            assert all(cost is None or total <= cost for cost in placement.baselines.values())
        written = placement_json(placement, {}, {})
        parts = [row["cost"] for part in ("kernels", "copies") for row in written[part]]
        assert written["cost"]["total"] == total == sum(parts) + written["cost"]["launches"]
        assert_copies_cross(placement.graph)

    holds(examples, check, placeable(8))


@always(20)
def test_the_solver_finds_what_brute_force_finds(examples: int) -> None:
    """(c) On small graphs."""
    seen: Counter[str] = Counter()

    def check(case: Case) -> None:
        graph, rules = case.graph, case.rules
        problem = explore(graph, rules.rules, build(rules)).problem
        solution = solve(problem)
        found = audit(problem, solution.choices)
        assert not found.problems and found.cost == solution.cost >= solution.bound
        try:
            best = brute_force(problem, solution.cost, 20_000)
        except TimeoutError:
            seen["too large"] += 1
            return
        seen["compared"] += 1
        assert best is not None and solution.bound <= best <= solution.cost
        assert solution.status != "optimal" or best == solution.cost

    holds(examples, check, placeable(4))
    assert seen["compared"] >= 2 * seen["too large"], seen


# ---------------------------------------------------------------- numbers


@always(25)
def test_numbers_are_kept(examples: int) -> None:
    """(a) What rules, composites and placement make of a graph gives the bits of its operators one by one."""
    holds(examples, assert_numbers_kept, runnable(), hypothesis.integers(0, 99))


def assert_numbers_kept(case: Case, seed: int) -> None:
    module = bound(case.graph)
    original = compiled(module, HOST)
    if original is None:
        return
    given_ = feeds(module, seed)
    expected = numbers(original, given_)
    bundle = rw.compile(module, case.rules, engine="numpy")
    assert not bundle.verify()
    assert_same_numbers(numbers(bundle, given_), expected)


STD = {path.name: load_rules([path]) for path in sorted((patterns_root() / "std").glob("*.pat"))}
BUNDLED = [
    rule
    for name, rules in STD.items()
    for rule in rules.rules
    if rule.kind == "rule" and rule.label == "exact" and Path(rule.span.file).name == name and not rule.defines
]
"""The exact rules of the bundled files."""


@always(40)
def test_bundled_rules_keep_the_numbers_of_what_they_match(examples: int) -> None:
    """(a) On graphs in which one of them matches, with all rules of its file; some are applied."""
    chosen: Counter[bool] = Counter()

    def check(case: Case, seed: int) -> None:
        assert_numbers_kept(case, seed)
        placed = place(api.to_terms(bound(case.graph)), case.rules).graph
        chosen[any(step.rewrites for step in placed.steps if isinstance(step, KernelCall))] += 1

    holds(examples, check, hypothesis.sampled_from(BUNDLED).flatmap(matched), hypothesis.integers(0, 99))
    assert 8 * chosen[True] >= chosen[False], chosen


def matched(rule: CoreRule) -> hypothesis.SearchStrategy[Case]:
    """Graphs that a rule matches, with the rules of its file."""
    return st.matches(rule).map(lambda graph: Case(graph, STD[Path(rule.span.file).name]))


UNSOUND = {
    "a term that is lost": "Sub(Sub(a, b), _) => Sub(a, b)",
    "a sign that is lost": "Mul(Neg(a), b) => Mul(a, b)",
    "a permutation that is lost": "Transpose(Transpose(x, perm=[1, 2, 0]), perm=[1, 2, 0]) => x",
    "the other half": "Relu(Neg(x)) => Relu(x)",
    "another sign that is lost": "Sub(Neg(a), b) => Sub(a, b)",
    "the wrong one of two": "Max(a, Min(a, b)) => b",
    "a bound that is lost": "Softmax(Relu(x), axis=k) => Softmax(x, axis=k)",
    "elements in another order": "Reshape(Transpose(x, perm=[1, 0]), s) => Reshape(x, s)",
    "factors exchanged":
        "MatMul(Transpose(a, perm=[1, 0]), Transpose(b, perm=[1, 0])) => Transpose(MatMul(a, b), perm=[1, 0])",
    "a constant that is lost": "Add(Mul(x, const _), b) => Add(x, b)",
    "an axis that is lost": "Softmax(Softmax(x, axis=0), axis=1) => Softmax(x, axis=1)",
}  # fmt: skip


@pytest.mark.parametrize("title", [*UNSOUND, "a whole graph"])
def test_unsound_rules_do_not_keep_the_numbers(title: str) -> None:
    """Each is found within the examples of the quick part."""
    text = f"rule unsound: {UNSOUND.get(title, 'Abs(x) => x')}"
    rules = load_text(text)
    graphs = st.matches(rules.rules[0]).map(lambda graph: Case(graph, rules))
    with pytest.raises(AssertionError, match=r"Arrays are not|shape|dtype"):
        holds(40, assert_numbers_kept, graphs, hypothesis.integers(0, 99))


def assert_same_numbers(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Equal numbers; zeros of both signs are equal, and so is one NaN to another."""
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        one, other = (
            x.astype(np.float64) if x.dtype.kind == "V" or x.dtype.kind == "f" else x for x in (found[name], array)
        )
        np.testing.assert_array_equal(one, other, err_msg=name)


@always(10)
def test_lowered_equals_reference(examples: int) -> None:
    """(e) Each operator of a graph, on the numbers that it meets there, against ONNX Runtime and the reference."""
    pytest.importorskip("onnxruntime")
    seen: Counter[str] = Counter()

    def check(case: Case, seed: int) -> None:
        module = bound(case.graph)
        bundle = compiled(module, HOST)
        if bundle is None:
            return
        terms = api.to_terms(module)
        for trial in trials(terms, feeds(module, seed)):
            outcome = run_trial(trial)
            seen[outcome.kind] += 1
            if outcome.kind in ("differs", "split") and trial.op in document.DIFFERENCES:
                continue
            nan = any(x.dtype.kind == "f" and np.isnan(x).any() for x in trial.feeds.values())
            if outcome.kind == "split" and (nan or outcome.reason.startswith("reference")):
                continue  # ONNX Runtime agrees; or it does not, and ONNX's own reference does, about NaN
            assert outcome.kind in ("agrees", "alone", "refused"), f"{outcome.kind} {trial.shown()}: {outcome.reason}"

    holds(examples, check, runnable(), hypothesis.integers(0, 99))
    assert seen["agrees"] >= 0.8 * sum(seen.values()), seen


def trials(terms: Terms, given_: Mapping[str, np.ndarray]) -> list[Trial]:
    """A model for each operator of a graph, with the operands that it has when the graph runs."""
    arrays: dict[int, np.ndarray] = {i: v.constant for i, v in enumerate(terms.values) if v.constant is not None}
    arrays |= {i: given_[terms.values[i].name] for i in terms.inputs}
    found = []
    for node in terms.nodes:
        operands = [i for i in dict.fromkeys(node.inputs) if i != ABSENT]
        kept = [*operands, *(o for o in node.outputs if o != ABSENT)]
        place_ = {ABSENT: ABSENT} | {old: new for new, old in enumerate(kept)}
        values = tuple(replace(terms.values[i], constant=None) for i in kept)
        inputs, outputs = (tuple(place_[i] for i in side) for side in (node.inputs, node.outputs))
        one = Terms(values, (replace(node, inputs=inputs, outputs=outputs),), inputs=tuple(place_[i] for i in operands),
                    outputs=tuple(o for o in outputs if o != ABSENT))  # fmt: skip
        model = ir.to_proto(module_from_terms(one).model)
        operand = {terms.values[i].name: arrays[i] for i in operands}
        first = arrays[operands[0]].dtype.name if operands else ""
        found.append(Trial(node.op, first, model, operand))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results, _ = run_model(model, operand)
        arrays |= dict(zip((o for o in node.outputs if o != ABSENT), results, strict=True))
    return found


@always(3)
def test_c_computes_what_numpy_computes(examples: int) -> None:
    """(a) The same bundle in C, within rounding."""
    if find_compiler() is None:
        pytest.skip("there is no C compiler")

    def check(case: Case, seed: int) -> None:
        graph, rules = case.graph, case.rules
        module = bound(graph)
        if compiled(module, HOST) is None:
            return
        bundle = rw.compile(module, rules, engine="c")
        given_ = feeds(module, seed)
        expected, found = numbers(bundle, given_), numbers(bundle, given_, "c")
        for name, array in expected.items():
            assert_close(found[name], array, 1e-4, 1e-5)

    graphs = on_machines(st.graphs(min_nodes=1, max_nodes=5, operators=SMOOTH))
    holds(examples, check, graphs, hypothesis.integers(0, 99))
