"""Faults that others have met, by the row of the table they stand in: what the search chooses, and how it grows."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from brute_force import brute_force
from models import parse
from onnx import TensorProto, helper
from small_machines import BOARD, write_model, write_rules
from test_extract import check, small
from work import lines_run

import rewrite_engine as rw
from rewrite_engine.diagnostics import PatError, RewriteError
from rewrite_engine.egraph.extract import solve
from rewrite_engine.graph.placed import CopyCall, KernelCall
from rewrite_engine.language import load_text
from rewrite_engine.placement.place import Placement

ROOFLINE = "target host { flops 1GFLOPS bandwidth 1GBps }\n"


def placed(graph: str, rules: str, **options: object) -> Placement:
    return rw.place(rw.load(parse(graph)), load_text(rules), **options)


def ran(placement: Placement) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.target, step.covers) for step in placement.graph.steps if isinstance(step, KernelCall)]


# ---------------------------------------------------------------- what is chosen


@pytest.mark.parametrize("around", [1, 2, 3])
def test_row_148_a_way_that_needs_itself_is_never_taken(around: int) -> None:
    """k is a leaf for 9, or f of itself, by way of more values, for 1: the leaf it is."""
    names = ["x", "k", *(f"v{i}" for i in range(around - 1))]
    loop = [*names[1:], "k"]
    kernels = [("k", 0, 9, ["x"]), *((a, 0, 1, [b]) for a, b in zip(loop[1:], loop, strict=False))]
    problem = small(names, kernels, "k")
    solution = solve(problem)
    check(problem, solution)
    assert (solution.cost, solution.status) == (9, "optimal")
    assert brute_force(problem, 9) == 9


def test_row_151_nothing_can_compute_it() -> None:
    """The message has the value and the operator, and says what to add."""
    rules = "device acc { memory 1MiB }\nlink host <-> acc: 1ns\ntarget npu on acc { supports Relu(x) cost 1ns }\n"
    rules += "operator custom::Odd(x: T) -> T\n"
    model = parse("g (float[2] x) => (float[2] y) { a = Relu(x) y = custom.Odd(a) }".replace("custom.Odd", "Relu"))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Odd", "custom"
    model.opset_import.append(helper.make_opsetid("custom", 1))
    with pytest.raises(RewriteError) as caught:
        rw.place(rw.load(model), load_text(rules), targets=("npu",))
    assert "y" in str(caught.value) and "Odd" in str(caught.value), caught.value


@pytest.mark.parametrize("huge", [2**54, 2**56, 2**62, 2**63 - 1, 2**80])
@pytest.mark.parametrize("depth", [1, 2, 10])
def test_row_152_costs_beyond_all_bounds_never_wrap(huge: int, depth: int) -> None:
    """They are not chosen where there is another way, for kernels, copies and launches; else the message says so."""
    names = ["x", *(f"v{i}" for i in range(depth))]
    dear = [(b, 1, huge, [a]) for a, b in itertools.pairwise(names)]
    cheap = [(b, 0, 5, [a]) for a, b in itertools.pairwise(names)]
    solution = solve(small(names, [*dear, *cheap], names[-1]))
    assert (solution.cost, solution.status) == (5 * depth, "optimal")
    free = [(b, 1, 1, [a]) for a, b in itertools.pairwise(names)]
    for launches, link in (((0, huge), 10), ((0, 50), huge)):
        assert solve(small(names, [*free, *cheap], names[-1], launches=launches, link=link)).cost == 5 * depth
        with pytest.raises(RewriteError, match=r"every placement costs .* or more .*look at the units"):
            solve(small(names, free, names[-1], launches=launches, link=link))
    with pytest.raises(RewriteError, match=r"every placement costs .* or more .*look at the units") as caught:
        solve(small(names, dear, names[-1]))
    assert f"the output `{names[-1]}`" in str(caught.value) and "no link" not in str(caught.value)


@pytest.mark.parametrize("cost", ["0ns - 1ns", "1ns - 2ns", "(2 - 3) * 1ns"])
def test_row_154_a_cost_below_nothing_is_refused_where_it_stands(cost: str) -> None:
    graph = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    with pytest.raises((PatError, RewriteError)) as caught:
        placed(graph, f"target fast on host {{\n  supports Relu(x) cost {cost}\n}}")
    message = str(caught.value)
    assert ":2:" in message, message
    assert "at least nothing, found -" in message, message


@pytest.mark.parametrize("text", ["target fast on host { supports Relu(x) cost -1ns }"])
def test_row_154_a_sign_is_a_fault_of_the_file(text: str) -> None:
    with pytest.raises((PatError, RewriteError)):
        placed("g (float[2] x) => (float[2] y) { y = Relu(x) }", text)


EVEN = """
target one on host { launch 10ns supports Relu(x), Neg(x), Abs(x) cost 7ns }
target two on host { launch 10ns supports Relu(x), Neg(x), Abs(x) cost 7ns }
target host { supports Relu(x), Neg(x), Abs(x) cost 1us }
"""
SAME = "g (float[4] x) => (float[4] p, float[4] q) { a = Relu(x) b = Neg(x) p = Abs(a) q = Abs(b) }"


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 20), marks=pytest.mark.slow)])
def test_row_156_equal_costs_give_the_same_bytes(seeds: range, tmp_path: Path) -> None:
    rules, model = write_rules(tmp_path, EVEN), write_model(tmp_path, SAME)
    found = set()
    for seed in seeds:
        out = tmp_path / f"out{seed}"
        command = [sys.executable, "-m", "rewrite_engine", "place", model, "-p", rules, "-o", str(out)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": str(seed)})
        found.add((out / "placement.json").read_bytes() + (out / "model.onnx").read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("readers", [1, 2, 3])
def test_row_157_what_is_shared_is_paid_once(readers: int) -> None:
    values = ["x", "s", *(f"r{i}" for i in range(readers)), "y"]
    kernels = [("s", 0, 6, ["x"]), *((f"r{i}", 0, 1, ["s", "s"]) for i in range(readers)), ("y", 0, 1, values[2:-1])]
    problem = small(values, kernels, "y")
    assert solve(problem).cost == 6 + readers + 1
    text = "g (float[4] x) => (float[4] y) { s = Relu(x) y = Add(s, s) }"
    assert placed(text, "target host { supports Relu(x) cost 6ns\n supports Add(x, y) cost 3ns }").costs.total == 9000


def copies(placement: Placement) -> int:
    return sum(isinstance(step, CopyCall) for step in placement.graph.steps)


@pytest.mark.parametrize(("fee", "targets"), [("1ns", {"npu", "host"}), ("1us", {"host"})])
def test_row_161_what_a_choice_costs_elsewhere_counts(fee: str, targets: set[str]) -> None:
    """The accelerator is quicker at a alone: taken where the copy to b, which only the host knows, does not undo it."""
    rules = (
        f"device acc {{ memory 1MiB }}\nlink host <-> acc: {fee}\ntarget npu on acc {{ supports Relu(x) cost 1ns }}\n"
    )
    rules += "target host { supports Relu(x), Abs(x), Neg(x) cost 100ns }"
    text = "g (float[4] x) => (float[4] y, float[4] z) { a = Relu(x) y = Abs(a) z = Neg(a) }"
    placement = placed(text, rules)
    assert {target for target, _ in ran(placement)} == targets
    assert copies(placement) == (2 if "npu" in targets else 0)  # x there, a back: once for both its readers


def test_row_162_the_largest_regions_are_not_the_quickest() -> None:
    """Many small operators that are cheap anywhere, one large one: what pays is the large one alone."""
    rules = """device acc { memory 1MiB }
link host <-> acc: 50ns
target npu on acc { launch 20ns  supports Relu(x), Neg(x), Abs(x) cost 3ns  supports Exp(x) cost 10ns }
target host { supports Relu(x), Neg(x), Abs(x), Tanh(x) cost 4ns  supports Exp(x) cost 1us }"""
    small_ones = " ".join(f"a{i + 1} = {('Relu', 'Neg', 'Abs')[i % 3]}(a{i})" for i in range(6))
    text = f"g (float[4] x) => (float[4] y) {{ a0 = Tanh(x) {small_ones} b = Tanh(a6) y = Exp(b) }}"
    placement = placed(text, rules)
    assert [covers for target, covers in ran(placement) if target == "npu"] == [("y",)]
    assert placement.costs.total <= min(value for value in placement.baselines.values() if value is not None)
    assert placement.costs.total < (placement.baselines["largest"] or 0)


def test_row_N6_names_and_the_order_of_nodes_do_not_count() -> None:
    text = "g (float[4] x) => (float[4] y)"
    text += " { a = Relu(x) b = Sigmoid(a) c = Abs(a) d = Relu(c) e = Add(b, d) y = Sigmoid(e) }"
    rules = BOARD + ROOFLINE
    first = parse(text)
    expected = placed(text, rules)
    for seed in range(6):
        rng = random.Random(seed)
        names = {name: f"n{rng.random()}" for node in first.graph.node for name in node.output if name != "y"}
        model = onnx.ModelProto()
        model.CopyFrom(first)
        for node in model.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        nodes = list(model.graph.node)
        rng.shuffle(nodes)
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        found = rw.place(rw.load(model), load_text(rules))
        renamed = {(target, tuple(names.get(name, name) for name in covers)) for target, covers in ran(expected)}
        assert set(ran(found)) == renamed and found.costs == expected.costs


# ---------------------------------------------------------------- how it grows


def chain(length: int, op: str = "Relu", odd: str = "Tanh", every: int = 0) -> onnx.ModelProto:
    kinds = [odd if every and i % every == every - 1 else op for i in range(length)]
    nodes = [helper.make_node(kind, [f"v{i}"], [f"v{i + 1}"]) for i, kind in enumerate(kinds)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("v0", f"v{length}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def test_row_143_a_deep_graph_goes_the_whole_road() -> None:
    """5,000 operators in a row, with a recursion limit that would not carry a hundredth of that."""
    module = rw.load(chain(5000))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        placement = rw.place(module, load_text("target host { supports Relu(x) cost 1ns }"))
    finally:
        sys.setrecursionlimit(limit)
    assert placement.costs.total == 5000 * 1000 and len(ran(placement)) == 5000


def work(length: int) -> int:
    module, rules = rw.load(chain(length, every=100)), load_text(BOARD + ROOFLINE)
    return lines_run(lambda: rw.place(module, rules, strategy="priority"))


def test_row_75_work_grows_with_the_model_and_no_faster() -> None:
    """A chain with one operator in a hundred that the targets do not know; four times as long, about four times."""
    assert work(1200) < 6 * work(300)


@pytest.mark.parametrize("layers", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_row_76_layers_that_read_all_earlier_ones(layers: int) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["v0"])]
    for i in range(1, layers):
        nodes.append(helper.make_node("Concat", [f"v{k}" for k in range(i)], [f"c{i}"], axis=0))
        nodes.append(helper.make_node("ReduceMax", [f"c{i}"], [f"r{i}"], keepdims=1))
        nodes.append(helper.make_node("Sigmoid" if i % 3 else "Tanh", [f"r{i}"], [f"v{i}"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", f"v{layers - 1}")]
    graph = helper.make_graph(nodes, "dense", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    for strategy in ("priority", "optimal"):
        placement = rw.place(rw.load(model), load_text(BOARD + ROOFLINE), strategy=strategy, time_limit=10)
        assert placement.status in ("optimal", "feasible", "limit") and placement.bound <= placement.costs.total


@pytest.mark.parametrize("text", [
    "c = ConstantOfShape(big) y = Add(x, c)",
    "e = Expand(x, big) y = Add(x, e)",
    "t = Tile(x, many) y = Neg(t)",
])  # fmt: skip
def test_row_59_what_would_bloat_the_model_stays_as_it_is(text: str) -> None:
    graph = "g (float[1, 1] x) => (float[p, q] y) <int64[2] big = {4096, 4096}, int64[2] many = {4096, 4096}>"
    module = rw.load(parse(f"{graph} {{ {text} }}"))
    held = sum(int(np.prod(value.shape)) for value in module.model.graph.initializers.values() if value.shape)
    assert held <= 8
    data = json.dumps([node.op_type for node in module.model.graph])
    assert text.split("(")[0].split()[-1] in data
