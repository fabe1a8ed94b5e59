"""Placed graphs as ONNX models: the round trip loses nothing, without annotations the numbers are the original's."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from models import MAIN_MODELS, get_model, largest_error, parse, random_inputs, run_reference
from placing import place_at_random

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import (
    BodyNode,
    CopyCall,
    KernelCall,
    NotPlacedError,
    PlacedGraph,
    bundled_model,
    load,
    model_bytes,
    read_placed,
    save,
    strip,
    to_terms,
    write_placed,
)
from rewrite_engine.graph.subgraphs import Subgraph
from rewrite_engine.operators import TensorType

BRANCHES = """g (float[2,3] x, bool c) => (float[2,3] y, float[1,3] s) {
  r = Relu(x)
  s, t = Split<num_outputs=2, axis=0>(r)
  z = If (c) <then_branch = a () => (float[2,3] p) { q = Neg(r) p = Add(q, x) },
              else_branch = b () => (float[2,3] p) { p = Identity(r) }>
  lo = Constant<value_float=-0.25>()
  y = Clip(z, , lo)
}"""


def branches() -> onnx.ModelProto:
    return parse(BRANCHES)


def same(a: object, b: object) -> bool:
    """Equality of nested plain values and arrays; graphs by what they print."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, Subgraph):
        return isinstance(b, Subgraph) and len(a.captured) == len(b.captured) and len(a.graph) == len(b.graph)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (BodyNode, KernelCall, CopyCall)):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return type(a) is type(b) and a == b


def assert_same(actual: PlacedGraph, expected: PlacedGraph) -> None:
    for field in ("name", "inputs", "outputs", "output_names", "types", "devices"):
        assert getattr(actual, field) == getattr(expected, field)
    assert list(actual.parameters) == list(expected.parameters)
    assert all(same(actual.parameters[name], expected.parameters[name]) for name in expected.parameters)
    by_name = lambda step: step.name if isinstance(step, KernelCall) else step.output
    left, right = ({by_name(step): step for step in graph.steps} for graph in (actual, expected))
    assert left.keys() == right.keys()
    for name, step in right.items():
        for field in fields(step):
            a, b = getattr(left[name], field.name), getattr(step, field.name)
            if isinstance(b, dict):
                a, b = dict(sorted(a.items())), dict(sorted(b.items()))
            assert same(a, b), f"{name}: {field.name}: {a} is not {b}"


def assert_runs_in_order(graph: PlacedGraph) -> None:
    known = {*graph.inputs, *graph.parameters}
    for step in graph.steps:
        read = (step.value,) if isinstance(step, CopyCall) else step.inputs
        assert known.issuperset(read)
        known.update((step.output,) if isinstance(step, CopyCall) else step.outputs)
    assert known.issuperset(graph.outputs)


LARGE = ("light_resnet50", "bert12.legacy", "distilbert6.legacy_dyn")  # one draw is enough


@pytest.mark.parametrize(
    ("name", "seed"), [(n, s) for n in ("branches", *MAIN_MODELS) for s in range(1 if n in LARGE else 4)]
)
def test_round_trip_and_numbers(name, seed, tmp_path: Path):
    model, dims = (branches(), {}) if name == "branches" else (get_model(name), MAIN_MODELS[name])
    module = load(model, dims=dims)
    placed = place_at_random(to_terms(module), seed)
    written = write_placed(placed)
    assert_same(read_placed(written), placed)
    assert_runs_in_order(read_placed(written))

    save(replace(module, model=written), tmp_path / "placed.onnx")
    assert_same(read_placed(load(tmp_path / "placed.onnx").model), placed)

    inputs = {**random_inputs(model, seed, dims), **({"c": np.array(bool(seed % 2))} if name == "branches" else {})}
    expected = run_reference(model, inputs)
    plain = strip(written)
    assert not plain.functions and {node.domain for node in plain.graph.all_nodes()} == {""}
    assert not any(node.metadata_props for node in plain.graph.all_nodes())
    assert largest_error(run_reference(plain, inputs), expected) < 1e-5
    assert largest_error(run_reference(written, inputs), expected) < 1e-5  # functions make it run as it stands
    assert [o.name for o in plain.graph.outputs] == [o.name for o in module.model.graph.outputs]
    onnx.checker.check_model(ir.serde.serialize_model(plain), full_check=True)


def test_writing_twice_gives_the_same_bytes():
    terms = to_terms(load(bundled_model()))
    first, second = (model_bytes(write_placed(place_at_random(terms, 1))) for _ in range(2))
    assert first == second
    assert model_bytes(write_placed(read_placed(write_placed(place_at_random(terms, 1))))) == first


# ---- small cases ----------------------------------------------------------------------------------------------------

TYPE = TensorType("float32", (2,))


def kernel(
    name: str, inputs: str, output: str, region: str = "r1", op: str = "Add", target: str = "tern"
) -> KernelCall:
    reads = tuple(inputs.split())
    return KernelCall(
        name, target, "npu0", region, f"{target}.{op}", reads, (output,), frozenset(),
        (BodyNode(op, {}, reads, (output,)),), {}, {}, 5, "formula", (output,),
    )  # fmt: skip


def graph_of(steps, outputs, inputs=("x",), output_names=()) -> PlacedGraph:
    values = [*inputs, *(s.output if isinstance(s, CopyCall) else s.outputs[0] for s in steps)]
    devices = dict.fromkeys(values, "npu0") | dict.fromkeys(inputs, "host")
    return PlacedGraph("g", inputs, outputs, {}, tuple(steps), dict.fromkeys(values, TYPE), devices, output_names)


def test_regions_are_functions_and_interleaved_steps_are_sorted():
    copy = CopyCall("x", "x.on.npu0", "host", "npu0", 8, 3)
    steps = [
        copy,
        kernel("a", "x.on.npu0 x.on.npu0", "a", "one"),
        kernel("b", "x.on.npu0 x.on.npu0", "b", "two"),
        kernel("c", "a a", "c", "one"),
        kernel("d", "b c", "d", "two"),
    ]
    model = write_placed(graph_of(steps, ("d",)))
    assert [(node.domain, node.op_type) for node in model.graph] == [
        ("rewrite_engine", "DeviceCopy"),
        ("rewrite_engine.region.tern", "one"),
        ("rewrite_engine.region.tern", "two"),
    ]
    assert [str(v.name) for v in model.graph[2].inputs] == ["x.on.npu0", "c"]
    again = read_placed(model)
    assert [s.name for s in again.steps[1:]] == ["a", "c", "b", "d"]
    assert_runs_in_order(again)


def test_a_cycle_among_regions_is_refused():
    steps = [
        kernel("a", "x x", "a", "one"),
        kernel("b", "a a", "b", "two"),
        kernel("c", "a b", "c", "one"),
    ]
    with pytest.raises(RewriteError, match="regions wait for each other in a cycle: one, two"):
        write_placed(graph_of(steps, ("c",)))


def test_outputs_under_another_name():
    placed = graph_of([kernel("a", "x x", "a")], ("a", "a", "x"), output_names=("a", "again", "echo"))
    assert_same(read_placed(write_placed(placed)), placed)
    x = np.array([1, 2], np.float32)
    for model in (write_placed(placed), strip(write_placed(placed))):
        assert [r.tolist() for r in run_reference(model, {"x": x})] == [[2, 4], [2, 4], [1, 2]]


def test_results_that_nobody_reads_are_kept():
    placed = graph_of([kernel("a", "x x", "a"), kernel("b", "x x", "b"), kernel("c", "x x", "c", "alone")], ("a",))
    assert_same(read_placed(write_placed(placed)), placed)


def test_a_model_that_is_not_placed_says_so():
    with pytest.raises(NotPlacedError, match="is not a placed model"):
        read_placed(load(bundled_model()).model)
    model = write_placed(graph_of([kernel("a", "x x", "a")], ("a",)))
    extra = ir.Node("", "Relu", [model.graph.inputs[0]], outputs=[ir.Value(name="loose")])
    model.graph.append(extra)
    with pytest.raises(NotPlacedError, match=r"Relu \(`loose`\) is not in any region"):
        read_placed(model)


def test_facts_are_kept_exactly():
    from rewrite_engine.graph.facts import dump_facts, load_facts

    facts = {"a": (1, 2.5, "x", None, True), "b": {"c": (float("inf"),)}, "t": TensorType("int8", (1, "n", None))}
    assert load_facts(dump_facts(facts)) == facts
    assert np.isnan(load_facts(dump_facts({"n": float("nan")}))["n"])
    with pytest.raises(RewriteError, match="found <object"):
        dump_facts({"a": object()})
