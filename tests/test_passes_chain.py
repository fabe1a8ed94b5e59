"""The classic passes, one by one and chained: as strategy `priority`, saved, reloaded and run after every pass."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from classic import chain, cost, pipeline, summary, untouched
from models import MAIN_MODELS, get_model, largest_error, parse, random_inputs, run_reference

import rewrite_engine as rw
from rewrite_engine.graph import Module, load, read_placed, save, strip
from rewrite_engine.graph.annotated_io import read_annotated
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.passes import (
    AnnotateOps,
    AnnotateTarget,
    LowerLoops,
    MergeComposite,
    MergeRegions,
    PartitionGraph,
    PassError,
    PlanDevices,
    PlanMemory,
    apply,
    load_module,
    save_module,
)

LARGE = ("bert12.legacy", "distilbert6.legacy_dyn", "light_resnet50")
EVERY = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in MAIN_MODELS]
ORDERS = (("npu", "fastlib"), ("fastlib", "npu"), ("fastlib",))


@cache
def board() -> RuleSet:
    return rw.load_rules("board.pat")


@cache
def _module(name: str) -> Module:
    return rw.load(get_model(name), dims=MAIN_MODELS[name])


@pytest.mark.parametrize("targets", ORDERS, ids=",".join)
@pytest.mark.parametrize("name", EVERY)
def test_the_chain_is_priority(name: str, targets: tuple[str, ...]):
    get_model(name)
    placement = rw.place(_module(name), board(), strategy="priority", targets=targets)
    placed = chain(_module(name), board(), targets)
    assert cost(placed) == placement.costs
    assert summary(read_placed(placed.model)) == summary(placement.graph)


@pytest.mark.parametrize("name", EVERY)
def test_saved_reloaded_and_run_after_every_pass(name: str, tmp_path: Path):
    model = get_model(name)
    module = _module(name)
    inputs = random_inputs(model, 1, MAIN_MODELS[name])
    expected = run_reference(model, inputs)
    last = None
    for step in [*pipeline(board(), ("npu", "fastlib")), LowerLoops(), PlanMemory()]:
        module = untouched(step, module)
        folder = tmp_path / step.name
        save_module(module, folder)
        again = load_module(folder, board())
        assert again.source == module.source
        assert [t.name for t in again.machine.targets] == [t.name for t in module.machine.targets]
        assert again.lowered.keys() == module.lowered.keys() and again.memory == module.memory
        assert_same_stage(again.model, module.model)
        assert_same_stage(load(folder / "model.onnx").model, module.model)  # folding leaves annotations alone
        results = run_reference(strip(again.model), inputs)
        assert largest_error(results, expected) < 1e-4, step.name
        if last is not None and step.name != "AnnotateTarget":  # composites may fall apart there
            assert all(np.array_equal(a, b) for a, b in zip(results, last, strict=True)), step.name
        last = results
        assert largest_error(run_reference(again.model, inputs), expected) < 1e-4, step.name
        module = again  # the next pass goes on from the file
    assert module.lowered and module.memory is not None
    assert summary(read_placed(module.model)) == summary(
        rw.place(_module(name), board(), strategy="priority", targets=("npu", "fastlib")).graph
    )


def assert_same_stage(actual: ir.Model, expected: ir.Model) -> None:
    """Equality of what passes read: kernels, what is decided of them, and what stands for values."""
    a, b = read_annotated(actual), read_annotated(expected)
    assert (a.pins, a.regions, a.devices) == (b.pins, b.regions, b.devices)
    assert [s.outputs if isinstance(s, KernelCall) else s.output for s in a.graph.steps] == [
        s.outputs if isinstance(s, KernelCall) else s.output for s in b.graph.steps
    ]
    for left, right in zip(a.kernels, b.kernels, strict=True):
        for field in ("name", "target", "device", "region", "rule", "inputs", "covers", "cost", "host_inputs"):
            assert getattr(left, field) == getattr(right, field), (left.name, field)


def test_half_lowered_modules_go_on(tmp_path: Path):
    """Some kernels lowered, others not: saved, reloaded, lowered to the end, and run by the bundle's own executor."""
    placed = chain(_module("mobilenetv2.legacy"), board(), ("npu", "fastlib"))
    whole = apply(LowerLoops(), placed)
    half = {name: program for k, (name, program) in enumerate(sorted(whole.lowered.items())) if k % 2}
    save_module(Module(placed.model, placed.source, half, placed.machine), tmp_path)
    again = load_module(tmp_path, board())
    assert again.lowered.keys() == half.keys() and len(half) < len(whole.lowered)
    finished = apply(PlanMemory(), apply(LowerLoops(), again))
    assert finished.lowered.keys() == whole.lowered.keys()
    assert all(finished.lowered[name] is again.lowered[name] for name in half)  # what is lowered stays
    with pytest.raises(PassError, match="lowered kernels or a memory plan already"):
        apply(MergeComposite(board()), again)


def test_a_folder_that_holds_no_module(tmp_path: Path):
    with pytest.raises(rw.RewriteError, match=r"module\.json: cannot be read"):
        load_module(tmp_path)
    save_module(_module("mobilenetv2.legacy"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "module.json", "source.onnx"]
    assert load_module(tmp_path).machine is None
    (tmp_path / "module.json").write_text('{"schema": "other"}')
    with pytest.raises(rw.RewriteError, match="expected schema rewrite_engine/module/1, found 'other'"):
        load_module(tmp_path)
    (tmp_path / "module.json").write_text("{")
    with pytest.raises(rw.RewriteError, match="damaged"):
        load_module(tmp_path)


# ---- pass by pass, on graphs that are known by hand -----------------------------------------------------------------

RULES = """
device acc { memory 1MiB }
link host <-> acc: 100ns
target host { supports Relu(x), Sigmoid(x), Tanh(x), Exp(x), Neg(x), Add(x, y), Split(x) cost 100ns }
target fast on host { launch 50ns
  supports Relu(x) cost 10ns
  composite pair(x) = Sigmoid(Relu(x)) cost 20ns
  composite triple(x) = Tanh(Sigmoid(Relu(x))) cost 30ns
}
target npu on acc { launch 50ns
  supports Relu(x), Sigmoid(x), Add(x, y), Split(x) cost 1ns
}
"""
CHAIN = "g (float[4] x) => (float[4] d) { a = Relu(x) b = Sigmoid(a) c = Tanh(b) d = Relu(c) }"
NS = 1000


@cache
def small() -> RuleSet:
    return load_text(RULES)


def module_of(text: str = CHAIN) -> Module:
    return rw.load(parse(text))


def kernels(module: Module) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(call.target, call.rule, call.covers) for call in read_annotated(module.model).kernels]


def operators(module: Module) -> list[str]:
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in module.model.graph]


def same_numbers(module: Module, text: str = CHAIN) -> None:
    model = parse(text)
    inputs = random_inputs(model, 3)
    expected = run_reference(model, inputs)
    for plain in (strip(module.model), module.model):
        assert largest_error(run_reference(plain, inputs), expected) == 0
    onnx.checker.check_model(ir.serde.serialize_model(strip(module.model)), full_check=True)


def test_a_reloaded_module_has_the_targets_that_it_had(tmp_path: Path):
    save_module(apply(AnnotateTarget(["fast"], small()), module_of()), tmp_path)
    assert [target.name for target in load_module(tmp_path, small()).machine.targets] == ["host", "fast"]


def test_the_largest_composite_becomes_a_function():
    merged = untouched(MergeComposite(small(), ["fast"]), module_of())
    assert operators(merged) == ["rewrite_engine.composite::fast.triple.1", "Relu"]
    assert kernels(merged) == [("", "fast.triple", ("a", "b", "c")), ("", "", ("d",))]
    function = merged.model.functions["rewrite_engine.composite", "fast.triple.1", ""]
    assert [node.op_type for node in function] == ["Relu", "Sigmoid", "Tanh"]
    assert [v.name for node in strip(merged.model).graph for v in node.outputs] == ["a", "b", "c", "d"]
    same_numbers(merged)


def test_an_earlier_target_that_can_run_the_operator_itself_comes_first():
    """The accelerator takes Sigmoid, so nothing ends in a pair; for the library alone there is one."""
    text = CHAIN.replace("c = Tanh(b)", "c = Exp(b)")
    assert operators(untouched(MergeComposite(small(), ["npu", "fast"]), module_of(text))) == [
        "Relu", "Sigmoid", "Exp", "Relu",
    ]  # fmt: skip
    merged = untouched(MergeComposite(small(), ["fast", "npu"]), module_of(text))
    assert operators(merged) == ["rewrite_engine.composite::fast.pair.1", "Exp", "Relu"]


def test_an_inner_value_that_is_read_elsewhere_stays_computed():
    text = "g (float[4] x) => (float[4] b, float[4] c) { a = Relu(x) b = Sigmoid(a) c = Neg(a) }"
    merged = untouched(MergeComposite(small(), ["fast"]), module_of(text))
    assert operators(merged) == ["Relu", "rewrite_engine.composite::fast.pair.1", "Neg"]
    same_numbers(merged, text)
    annotated = untouched(AnnotateTarget(["fast"]), merged)
    assert kernels(annotated) == [
        ("fast", "fast.supports.0", ("a",)), ("fast", "fast.pair", ("a", "b")), ("host", "host.supports.0", ("c",)),
    ]  # fmt: skip


def test_each_operator_or_composite_gets_the_first_target_that_can():
    merged = apply(MergeComposite(small(), ["fast", "npu"]), module_of(CHAIN.replace("c = Tanh(b)", "c = Exp(b)")))
    assert [k[0] for k in kernels(untouched(AnnotateTarget(["fast", "npu"]), merged))] == ["fast", "host", "fast"]
    assert [k[0] for k in kernels(untouched(AnnotateTarget(["fast"]), merged))] == ["fast", "host", "fast"]
    apart = untouched(AnnotateTarget(["npu"]), merged)  # the composite is not the accelerator's: its parts are
    assert [(k[0], k[2]) for k in kernels(apart)] == [
        ("npu", ("a",)), ("npu", ("b",)), ("host", ("c",)), ("npu", ("d",)),
    ]  # fmt: skip
    same_numbers(apart, CHAIN.replace("c = Tanh(b)", "c = Exp(b)"))
    with pytest.raises(PassError, match="AnnotateTarget: unknown target `nbu`; the machine has host, fast, npu"):
        apply(AnnotateTarget(["nbu"]), merged)
    with pytest.raises(PassError, match="nothing says what targets can run"):
        apply(AnnotateTarget(["npu"]), module_of())


def test_operators_by_a_map():
    found = untouched(AnnotateOps({"Relu": "acc", "Sigmoid": "npu"}, "host", small()), module_of())
    assert [k[0] for k in kernels(found)] == ["npu", "npu", "host", "npu"]
    merged = apply(MergeComposite(small(), ["fast"]), module_of())
    assert [k[1] for k in kernels(untouched(AnnotateOps({}, "fast"), merged))] == ["fast.triple", "fast.supports.0"]
    split = untouched(AnnotateOps({"Sigmoid": "acc"}, "fast"), merged)  # the composite would take Sigmoid along
    assert [k[0] for k in kernels(split)] == ["fast", "npu", "host", "fast"]
    with pytest.raises(PassError, match="AnnotateOps: no target or device is called `nbu`"):
        apply(AnnotateOps({"Relu": "nbu"}, "host", small()), module_of())


def test_regions_are_convex_and_acyclic():
    """Relu and the sum cannot be one region: Exp, on the host, would wait for it and it for Exp."""
    text = "g (float[4] x) => (float[4] d) { a = Relu(x) b = Exp(a) c = Sigmoid(a) d = Add(b, c) }"
    annotated = apply(AnnotateTarget(["npu"], small()), module_of(text))
    regions = {c.covers[0]: c.region for c in read_annotated(untouched(MergeRegions(), annotated).model).kernels}
    assert regions["a"] == regions["c"] != regions["d"] and regions["b"] not in (regions["a"], regions["d"])
    straight = apply(MergeRegions(), apply(AnnotateTarget(["npu"], small()), module_of()))
    assert [c.region for c in read_annotated(straight.model).kernels] == [
        "npu.region.1", "npu.region.1", "host.region.1", "npu.region.2",
    ]  # fmt: skip
    same_numbers(straight)
    with pytest.raises(PassError, match=r"no target is chosen for Relu \(`a`\); run AnnotateTarget or"):
        apply(MergeRegions(small()), module_of())


def test_regions_become_functions_of_their_targets_domain():
    annotated = apply(MergeRegions(), apply(AnnotateTarget(["npu"], small()), module_of()))
    partitioned = untouched(PartitionGraph(), annotated)
    assert operators(partitioned) == [
        "rewrite_engine.region.npu::npu.region.1", "rewrite_engine.region.host::host.region.1",
        "rewrite_engine.region.npu::npu.region.2",
    ]  # fmt: skip
    same_numbers(partitioned)
    alone = untouched(PartitionGraph(), apply(AnnotateTarget(["npu"], small()), module_of()))
    assert len(operators(alone)) == 4  # without MergeRegions each kernel is a region of its own
    with pytest.raises(PassError, match="has region functions or copies already"):
        apply(MergeRegions(), partitioned)
    with pytest.raises(PassError, match="the module is not placed"):
        apply(LowerLoops(), partitioned)


def test_partition_and_device_planning_commute():
    merged = apply(MergeRegions(), apply(AnnotateTarget(["npu"], small()), module_of()))
    one = apply(PlanDevices(), apply(PartitionGraph(), merged))
    other = apply(PartitionGraph(), untouched(PlanDevices(), merged))
    assert summary(read_placed(one.model)) == summary(read_placed(other.model)) and cost(one) == cost(other)


def test_several_results_outputs_twice_and_inputs_as_outputs():
    text = """g (float[4] x) => (float[2] p, float[2] q, float[4] r, float[4] s) {
      p, t = Split <num_outputs = 2> (x)  q = Relu(t)  r = Relu(x)  s = Relu(x)
    }"""
    for targets in (["npu"], ["fast"], ["fast", "npu"]):
        placement = rw.place(module_of(text), small(), strategy="priority", targets=targets)
        module = module_of(text)
        for step in pipeline(small(), targets):
            module = untouched(step, module)
            same_numbers(module, text)
        assert summary(read_placed(module.model)) == summary(placement.graph)
        assert [v.name for v in module.model.graph.outputs] == ["p", "q", "r", "s"]


def test_graphs_inside_operators_stay_whole(tmp_path: Path):
    text = """g (float[4] x, bool c) => (float[4] y) {
      a = Relu(x)  b = Sigmoid(a)
      z = If (c) <then_branch = t () => (float[4] p) { p = Neg(b) },
                  else_branch = e () => (float[4] q) { q = Identity(a) }>
      y = Relu(z)
    }"""
    model, module = parse(text), module_of(text)
    inputs = random_inputs(model, 1)
    for step in pipeline(small(), ["npu", "fast"]):
        module = untouched(step, module)
        save(module, tmp_path / "m.onnx")
        again = load(tmp_path / "m.onnx")
        assert largest_error(run_reference(strip(again.model), inputs), run_reference(model, inputs)) == 0
