"""The engine under its own testing kit: random graphs, random rules and random machines, and what always holds.

Quick parts and slow ones: see `drawing`. The numbers of a graph are those of its operators one by one, and these are
held against other implementations.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from brute_force import brute_force
from drawing import Case, always, holds, on_machines
from hypothesis import event
from hypothesis import strategies as hypothesis
from onnx_node_cases import assert_close, run_model
from random_operators import Trial
from random_operators import run as run_trial
from test_placed_io import assert_same

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.memory import MemoryPlan
from rewrite_engine.diagnostics import RewriteError, Span
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.extract import solve
from rewrite_engine.graph import (
    ABSENT,
    CopyCall,
    KernelCall,
    PlacedGraph,
    Terms,
    load,
    model_bytes,
    read_placed,
    write_placed,
)
from rewrite_engine.graph import from_terms as module_from_terms
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.language.format import formatted
from rewrite_engine.loops import document
from rewrite_engine.loops.compiler import find_compiler
from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.loops.serialize import from_json, to_json
from rewrite_engine.machine import build
from rewrite_engine.operators import find
from rewrite_engine.passes import LowerLoops, Place, PlanMemory, load_module, save_module
from rewrite_engine.placement.place import Placement, place
from rewrite_engine.placement.rebuild import costs
from rewrite_engine.placement.report import placement_json
from rewrite_engine.testing import strategies as st

SIZES = {"N": 3}
"""What symbolic dimensions are bound to."""
RUNNABLE = [op for op in st.drawable() if op in OPERATORS and not find(op).random]
"""Operators whose numbers are compared: those with a loop nest that give the same numbers each time."""
SMOOTH = ("Relu", "Add", "Mul", "MatMul", "Transpose", "Reshape", "Concat", "Split", "Softmax", "Conv", "Neg", "Abs",
          "Sigmoid", "Tanh", "Gemm", "ReduceMean", "LayerNormalization", "Max", "Min", "Clip")  # fmt: skip
"""Operators that turn rounding into no more than rounding."""
FUSED = ("Relu", "Add", "Mul", "Neg", "Abs", "Sub", "Sigmoid", "Identity", "Transpose", "Reshape", "Not", "MatMul")
"""Operators that the composites and rules of drawn machines speak of."""
HOST = load_text("", "host.pat")
"""A machine of the host alone."""


def bound(graph: Terms) -> rw.Module:
    """The module of a graph, imported as a model is, its dimensions bound."""
    names = {d for value in graph.values for d in value.type.shape or () if isinstance(d, str)}
    inputs = {d for i in graph.inputs for d in graph.values[i].type.shape or () if isinstance(d, str)}
    proto = ir.to_proto(module_from_terms(graph).model)
    return load(proto, dims={name: SIZES.get(name, 3) for name in sorted(names & inputs)})


def feeds(module: rw.Module, seed: int = 0) -> dict[str, np.ndarray]:
    terms = api.to_terms(module)
    return random_inputs({terms.values[i].name: terms.values[i].type for i in terms.inputs}, seed)


def numbers(bundle: Bundle, given_: Mapping[str, np.ndarray], engine: str = "numpy") -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bundle.run(given_, engine)


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


def report(module: rw.Module, placement: Placement, rules: RuleSet) -> dict[str, bytes]:
    return api.report(module, placement, rules=rules)


def assert_copies_cross(graph: PlacedGraph) -> None:
    """A value is copied exactly where it is read on another device than its own: once for a value and a device."""
    read: dict[str, set[str]] = {}
    original = {}
    seen: set[tuple[str, str]] = set()
    for step in graph.steps:
        if isinstance(step, CopyCall):
            assert step.source != step.destination
            assert (graph.devices[step.value], graph.devices[step.output]) == (step.source, step.destination)
            assert graph.types[step.value] == graph.types[step.output]
            assert (step.value, step.destination) not in seen
            seen.add((step.value, step.destination))
            root = original[step.output] = original.get(step.value, step.value)
            assert (root, step.destination) not in read, "one copy of a value on a device"
            read[root, step.destination] = set()
        for name in (step.value,) if isinstance(step, CopyCall) else step.inputs:
            if isinstance(step, KernelCall):
                expected = "host" if name in step.host_inputs else step.device
                assert graph.devices[name] == expected, f"{step.name} reads {name} on {graph.devices[name]}"
            if name in original:
                read[original[name], graph.devices[name]].add(name)
        if isinstance(step, KernelCall):
            assert all(graph.devices[name] == step.device for name in step.outputs)
    for name in graph.outputs:
        assert graph.devices[name] == "host"
        if name in original:
            read[original[name], "host"].add(name)
    assert all(read.values()), "a copy that nobody reads"
    for name, root in original.items():
        assert graph.devices[name] != graph.devices[root], f"{name} is a copy of {root} on its own device"


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


@always(10)
def test_numbers_are_kept(examples: int) -> None:
    """(a) What rules, composites and placement make of a graph gives the bits of its operators one by one."""

    def check(case: Case, seed: int) -> None:
        graph, rules = case.graph, case.rules
        module = bound(graph)
        original = compiled(module, HOST)
        if original is None:
            return
        given_ = feeds(module, seed)
        expected = numbers(original, given_)
        bundle = rw.compile(module, rules, engine="numpy")
        assert not bundle.verify()
        assert_same_numbers(numbers(bundle, given_), expected)

    holds(examples, check, runnable(), hypothesis.integers(0, 99))


def runnable(max_nodes: int = 8) -> hypothesis.SearchStrategy[Case]:
    """Graphs that can be lowered; about every other one of few operators, so that rules and composites match."""
    sizes = {"min_nodes": 1, "max_nodes": max_nodes}
    return on_machines(st.graphs(operators=FUSED, **sizes) | st.graphs(operators=RUNNABLE, **sizes))


def placeable(max_nodes: int) -> hypothesis.SearchStrategy[Case]:
    """Graphs of any operators whose sizes are known; about every other one of few operators."""
    sizes = {"min_nodes": 1, "max_nodes": max_nodes, "dynamic": False}
    return on_machines(st.graphs(operators=FUSED, **sizes) | st.graphs(**sizes))


def compiled(module: rw.Module, rules: RuleSet) -> Bundle | None:
    """The bundle; None, and an event, where an operator is refused by name."""
    try:
        return rw.compile(module, rules, engine="numpy")
    except RewriteError as error:
        event(str(error)[:60])
        return None


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
            if outcome.kind == "split" and outcome.reason.startswith("reference"):
                continue  # ONNX Runtime agrees
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


# ---------------------------------------------------------------- what is written


@always(8)
def test_what_is_written_reloads_equal(examples: int) -> None:
    """(f) The module at every stage, the placed model, and all of a bundle's files."""

    def check(case: Case) -> None:
        graph, rules = case.graph, case.rules
        module = bound(graph)
        if compiled(module, HOST) is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            staged = module
            for number, pass_ in enumerate((None, Place(rules), LowerLoops(), PlanMemory())):
                staged = staged if pass_ is None else pass_.run(staged)
                save_module(staged, f"{folder}/{number}")
                again = load_module(f"{folder}/{number}", rules)
                assert model_bytes(again.model) == model_bytes(staged.model)
                assert again.source == staged.source and again.memory == staged.memory
                assert {k: to_json(v) for k, v in again.lowered.items()} == {
                    k: to_json(v) for k, v in staged.lowered.items()
                }
                if pass_ is not None:
                    assert_same(read_placed(again.model), read_placed(staged.model))
                    assert [t.name for t in again.machine.targets] == [t.name for t in staged.machine.targets]
            placement = rw.place(module, rules)
            assert_same(read_placed(staged.model), placement.graph)
            bundle = rw.compile(module, rules, placement=placement, engine="numpy")
            bundle.save(f"{folder}/bundle")
            opened = Bundle.open(f"{folder}/bundle")
            assert (opened.graph, opened.plan, opened.functions) == (bundle.graph, bundle.plan, bundle.functions)
            assert opened.files() == bundle.files() and opened.metadata == bundle.metadata
            assert MemoryPlan.from_json(json.loads(json.dumps(bundle.plan.to_json()))) == bundle.plan
            for program in bundle.programs.values():
                data = json.loads(json.dumps(to_json(program)))
                assert to_json(from_json(data)) == data
            file = Path(folder, "bundle", "placement.json")
            followed = api.reuse(module, rules, file)
            files = report(module, followed, rules)
            assert files["model.onnx"] == bundle.extra_files["model.onnx"]
            same, before = json.loads(files["placement.json"]), json.loads(file.read_bytes())
            assert {key for key in same if same[key] != before[key]} <= {"strategy"}

    holds(examples, check, runnable(6))


@always(20)
def test_placed_models_of_any_operator_reload_equal(examples: int) -> None:
    """(f) Also where nothing can be lowered: If, dimensions that are not bound, operators without a loop nest."""

    def check(case: Case) -> None:
        placement = place(case.graph, case.rules)
        written = write_placed(placement.graph)
        content = model_bytes(written)
        assert_same(read_placed(written), placement.graph)
        again = load(onnx.load_model_from_string(content), fold=False)
        assert_same(read_placed(again.model), placement.graph)
        assert model_bytes(write_placed(read_placed(again.model))) == model_bytes(write_placed(read_placed(written)))

    holds(examples, check, placeable(8))


@always(30)
def test_rule_text_says_the_same_in_the_one_format(examples: int) -> None:
    """(f) The formatter, read again: the same rules, and a text that it leaves as it is."""

    def check(rules: RuleSet) -> None:
        (path,) = rules.sources
        text, _ = rules.sources[path]
        shown = formatted(text, path)
        assert formatted(shown, path) == shown
        again = load_text(shown, path)
        for part in ("devices", "links", "targets"):
            assert [said(x) for x in getattr(again, part)] == [said(x) for x in getattr(rules, part)]
        assert [said(r) for r in again.rules] == [said(r) for r in rules.rules]

    holds(examples, check, st.machines())


def said(part: object) -> object:
    """Plain values of a rule without positions and compiled guards."""
    if isinstance(part, Span) or callable(part):
        return None
    if is_dataclass(part):
        return (type(part).__name__, *(said(getattr(part, field.name)) for field in fields(part)))
    if isinstance(part, tuple | list):
        return [said(x) for x in part]
    if isinstance(part, dict):
        return {key: said(value) for key, value in part.items()}
    return repr(part)
