"""Sizes that follow from the data: such models are placed with one element for each, and say so; no bundle is made."""

from __future__ import annotations

import json

import onnx
import pytest
from onnx.parser import parse_model

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.cli import main
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import CopyCall, KernelCall
from rewrite_engine.language import load_text
from rewrite_engine.language.evaluate import UnboundCost
from rewrite_engine.passes import AnnotateTarget, MergeComposite, MergeRegions, PartitionGraph, PlanDevices, Sequential

HEAD = '<ir_version: 10, opset_import: ["": 21]> '
RULES = """
device npu0 { memory 1MiB }
link host <-> npu0: 1us + bytes / 1GBps
target host { flops 1GFLOPS bandwidth 1GBps }
target npu on npu0 { launch 1ns flops 1TFLOPS bandwidth 1TBps supports Relu, Abs }
"""
BY_BYTES = RULES.replace("supports Relu, Abs", "supports Relu(x) cost x.bytes / 1TBps supports Abs")
OPERATORS = {
    "Compress": ("float[4, 8] x, bool[4] c", "s = Compress<axis = 0>(x, c)", 8),
    "NonZero": ("float[4, 8] x", "i = NonZero(x) s = Cast<to = 1>(i)", 2),
    "Unique": ("float[4, 8] x", "s = Unique<axis = 0>(x)", 8),
    "a computed shape": ("float[32] x, int64[2] n", "s = Reshape(x, n)", 1),
}


def kernels_of(placed):
    return [step for step in placed.graph.steps if isinstance(step, KernelCall)]


def module(operator: str, dims: str = "M, N"):
    inputs, lines, _ = OPERATORS[operator]
    return rw.load(parse_model(f"{HEAD} g ({inputs}) => (float[{dims}] y) {{ {lines} r = Relu(s) y = Abs(r) }}"))


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_counts_as_one_element_and_is_said(operator):
    placed = rw.place(module(operator), load_text(RULES, "t.pat"))
    kernels = {step.outputs[0]: step for step in kernels_of(placed)}
    elements = OPERATORS[operator][2]
    assert kernels["y"].cost == 2 * 4 * elements * 1000  # picoseconds: what is read and what is written, at 1 GB/s
    (warning,) = placed.warnings
    assert warning.startswith("sizes of `") and "count as 1 in costs, and memory is not planned" in warning


def test_copies_count_one_element_too():
    pinned = rw.place(module("Compress"), load_text(RULES, "t.pat"), pins={"r": "npu"})
    assert [step.cost for step in pinned.graph.steps if isinstance(step, CopyCall)] == [
        1_000_000 + 32_000
    ] * 2  # 8 floats: there, and the result back


def test_a_formula_that_reads_such_a_size_is_refused_and_explained():
    given = module("Compress")
    placed = rw.place(given, load_text(BY_BYTES, "t.pat"), pins={"y": "npu"})
    assert {step.outputs[0]: step.target for step in kernels_of(placed)} == {"s": "host", "r": "host", "y": "npu"}
    told = str(rw.explain(given, load_text(BY_BYTES, "t.pat"), node="r"))
    assert (
        "the cost cannot be told: dimension `" in told and "it follows from the data, so that no --dim binds it" in told
    )
    with pytest.raises(RewriteError, match="pinned to `npu`, but nothing there can compute it"):
        rw.place(given, load_text(BY_BYTES, "t.pat"), pins={"r": "npu"})


def test_sizes_of_inputs_are_asked_for_first():
    text = HEAD + "g (float[N, 8] x) => (float[A, B] y) { i = NonZero(x) y = Cast<to = 1>(i) }"
    loose = rw.load(parse_model(text))
    rules = load_text(RULES, "t.pat")
    with pytest.raises(UnboundCost, match="from others or from the data: bind those of the inputs, --dim N=SIZE"):
        rw.place(loose, rules)
    assert rw.place(rw.load(parse_model(text), dims={"N": 4}), rules).warnings


def test_what_is_written_and_what_is_not_compiled(tmp_path, capsys):
    given, rules = module("Compress"), load_text(RULES, "t.pat")
    files = api.report(given, rw.place(given, rules))
    assert json.loads(files["placement.json"])["memory"] == {} and files["model.onnx"]
    with pytest.raises(
        RewriteError, match=r"`r` is float32\[.*, 8\]: its size follows from the data, so that no --dim"
    ):
        rw.compile(given, rules)
    onnx.save(
        parse_model(HEAD + "g (float[4, 8] x, bool[4] c) => (float[M, N] y) { y = Compress<axis = 0>(x, c) }"),
        tmp_path / "m.onnx",
    )
    (tmp_path / "t.pat").write_text(RULES)
    options = [str(tmp_path / "m.onnx"), "-p", str(tmp_path / "t.pat")]
    assert main(["place", *options, "-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert "warning: sizes of" in told.err and "host" in told.out and (tmp_path / "out" / "model.onnx").exists()
    assert main(["compile", *options, "-o", str(tmp_path / "bundle")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_chain_of_passes_copies_them():
    rules = load_text(RULES, "t.pat")
    chain = Sequential(
        [MergeComposite(rules), AnnotateTarget(["npu"]), MergeRegions(), PartitionGraph(), PlanDevices()]
    )
    done = chain(module("Compress"))
    assert [node.op_type for node in done.model.graph].count("DeviceCopy") == 2


@pytest.mark.parametrize(
    "others", ["", ", float[N] b", ", float[4] b"], ids=["alone", "beside a name", "beside a size"]
)
def test_an_input_without_a_rank_is_to_be_declared(others):
    """No --dim binds what has no dimension: no message proposes one."""
    body = "r = Relu(x)" + (" y = Add(r, b)" if others else " y = Abs(r)")
    proto = parse_model(f"{HEAD} g (float[2] x{others}) => (float[M] y) {{ {body} }}")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    given, rules = rw.load(proto), load_text(RULES, "t.pat")
    with pytest.raises(RewriteError) as caught:
        rw.compile(given, rules)
    told = str(caught.value)
    assert "follows from the data" not in told
    assert "--dim NAME" not in told and "--dim x" not in told
    if others != ", float[N] b":  # there is something to bind first
        assert "the model gives no shape to its input `x`: declare one in the model" in told
        assert any("input `x`" in text for text in rw.place(given, rules).warnings)


def test_with_all_names_bound_what_is_left_is_to_be_declared():
    proto = parse_model(f"{HEAD} g (float[2] x, float[N] b) => (float[M] y) {{ y = Add(x, b) }}")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(RewriteError, match="the model gives no shape to its input `x`: declare one"):
        rw.compile(rw.load(proto, dims={"N": 4}), load_text(RULES, "t.pat"))
