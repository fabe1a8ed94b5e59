"""Strategies on graphs whose placements are known by hand; baselines are never better than the optimum."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import parse

import rewrite_engine as rw
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import CopyCall, KernelCall
from rewrite_engine.language import load_text

RULES = """
device acc { memory 1MiB }
link host <-> acc: 100ns
target host { supports Relu(x), Sigmoid(x), Tanh(x), Exp(x), Neg(x) cost 100ns }
target fast on host { launch 50ns
  supports Relu(x) cost 10ns
  composite pair(x) = Sigmoid(Relu(x)) cost 20ns
}
target npu on acc { launch 50ns
  supports Relu(x), Sigmoid(x), Tanh(x) cost 1ns
}
"""
CHAIN = "g (float[4] x) => (float[4] d) { a = Relu(x) b = Sigmoid(a) c = Tanh(b) d = Relu(c) }"
NS = 1000


def place(graph: str = CHAIN, rules: str = RULES, **options):
    return rw.place(rw.load(parse(graph)), load_text(rules), **options)


def where(placement) -> dict[str, str]:
    """Operator of the model (its result) -> target that computes it."""
    calls = [step for step in placement.graph.steps if isinstance(step, KernelCall)]
    return {name: call.target for call in calls for name in call.covers}


def everywhere(targets: str) -> dict[str, str]:
    return dict(zip("abcd", targets.split(), strict=True))


def test_the_optimum():
    """A pair and two launches of the library around the host's Tanh: 20 + 100 + 10 + 2 * 50."""
    found = place()
    assert (found.costs.total, found.bound, found.status) == (230 * NS, 230 * NS, "optimal")
    assert where(found) == everywhere("fast fast host fast")
    assert dict(found.baselines) == {
        "priority": 381 * NS,
        "largest": 254 * NS,
        "dp": 230 * NS,
        "single:host": 400 * NS,
        "single:fast": 230 * NS,
        "single:npu": 254 * NS,
    }


def test_priority_takes_the_first_target_that_can_and_the_largest_kernel():
    """The library first: only Tanh goes over the link, 20 + 1 + 10 + 2 copies + 3 launches."""
    found = place(strategy="priority")
    assert where(found) == everywhere("fast fast npu fast") and found.costs.total == 381 * NS
    assert (found.bound, found.status) == (230 * NS, "feasible")
    found = place(strategy="priority", targets=("npu", "fast"))
    assert where(found) == everywhere("npu npu npu npu") and found.costs.total == 254 * NS
    found = place(strategy="priority", targets=("fast", "npu"))
    assert where(found) == everywhere("fast fast npu fast")


def test_single_leaves_the_rest_to_the_host():
    assert where(place(strategy="single:fast")) == everywhere("fast fast host fast")
    assert where(place(strategy="single:npu")) == everywhere("npu npu npu npu")
    assert where(place(strategy="single:host")) == everywhere("host host host host")


LARGEST = """
device acc { memory 1MiB }
link host <-> acc: 100ns
target one on host { launch 50ns  supports Relu(x), Sigmoid(x) cost 10ns }
target two on acc { launch 50ns  supports Sigmoid(x), Tanh(x), Exp(x) cost 10ns }
"""


def test_largest_serves_the_largest_set_first():
    chain = "g (float[4] x) => (float[4] {0}) {{ a = Relu(x) b = Relu(a) c = Sigmoid(b) d = Tanh(c) e = Exp(d) {1} }}"
    found = place(chain.format("e", ""), LARGEST, strategy="largest")  # three against three: the first target
    assert where(found) == {"a": "one", "b": "one", "c": "one", "d": "two", "e": "two"}
    found = place(chain.format("f", "f = Tanh(e)"), LARGEST, strategy="largest")  # three against four
    assert where(found) == {"a": "one", "b": "one", "c": "two", "d": "two", "e": "two", "f": "two"}


def test_op_map_sends_operators_where_it_says():
    found = place(strategy="op-map", mapping={"Relu": "npu", "Sigmoid": "fast"})  # the pair would take Relu along
    assert where(found) == everywhere("npu host host npu")
    found = place(strategy="op-map", mapping={"Relu": "fast", "Sigmoid": "fast"})
    assert where(found) == everywhere("fast fast host fast")
    assert found.baselines["op-map"] == found.costs.total == 230 * NS
    found = place(strategy="op-map", mapping={"Tanh": "acc"}, fallback="npu")  # a device stands for its targets
    assert where(found) == everywhere("npu npu npu npu")


def test_op_map_of_an_operator_with_several_results():
    rules = """
    device acc {}
    link host <-> acc: 1ns
    target npu on acc { supports Split(x, _), Relu(x) cost 1ns }
    """
    graph = "g (float[4] x) => (float[2] y, float[2] z) { a, b = Split <num_outputs = 2> (x) y = Relu(a) z = Relu(b) }"
    assert where(place(graph, rules, strategy="op-map", mapping={"Split": "npu"})) == {
        "a": "npu",
        "y": "host",
        "z": "host",
    }
    assert where(place(graph, rules, strategy="op-map", mapping={"Relu": "npu"})) == {
        "a": "host",
        "y": "npu",
        "z": "npu",
    }


def test_targets_restrict():
    found = place(targets=("npu",))
    assert where(found) == everywhere("npu npu npu npu") and found.baselines.keys() == {
        "priority", "largest", "dp", "single:host", "single:npu"
    }  # fmt: skip
    assert where(place(targets=("host",))) == everywhere("host host host host")


@pytest.mark.parametrize("strategy", ["optimal", "priority", "largest", "dp", "single:fast"])
def test_pins_hold_for_every_strategy(strategy):
    for target, device in (("npu", "acc"), ("host", "host")):
        for pin in {target, device} - ({"host"} if strategy == "single:fast" and target == "npu" else set()):
            try:
                found = place(strategy=strategy, pins={"c": pin})
            except RewriteError as error:  # the library alone cannot
                assert strategy == "single:fast" and target == "npu" and "finds no placement" in str(error)
                continue
            assert where(found)["c"] == target


def test_a_pin_keeps_a_value_out_of_other_targets_composites():
    """`a` on the host costs 100; then the accelerator runs the rest: two copies, 50 and 3."""
    found = place(pins={"a": "host"})
    assert where(found) == everywhere("host npu npu npu") and found.costs.total == 353 * NS
    assert where(place(pins={"a": "fast"}))["a"] == "fast"
    found = place(pins={"a": "npu"})
    assert where(found) == everywhere("npu npu npu npu") and found.costs.total == 254 * NS


def test_inputs_and_outputs_where_they_are_pinned():
    found = place(pins={"x": "acc", "d": "npu"})
    assert found.costs.total == 54 * NS and not any(isinstance(step, CopyCall) for step in found.graph.steps)
    assert found.graph.devices["x"] == found.graph.devices["d"] == "acc"


def test_marks_in_the_model_are_pins():
    graph = CHAIN.replace("c = Tanh(b)", 'e = rewrite_engine.OnDevice <device = "acc"> (b) c = Tanh(e)')
    assert where(place(graph))["b"] == "npu"
    with pytest.raises(RewriteError, match="no target or device is called `acq`"):
        place(graph.replace("acc", "acq"))


def test_no_strategy_of_that_name():
    with pytest.raises(RewriteError, match=r"unknown strategy `larges`; .*single:<target>.*did you mean `largest`"):
        place(strategy="larges")
    with pytest.raises(RewriteError, match="single:host, single:fast, single:npu"):
        place(strategy="single:gpu")


def test_a_target_that_nothing_comes_back_from():
    rules = "device acc {}\nlink host -> acc: 1ns\ntarget npu on acc { supports Relu(x) cost 1ns }"
    found = place("g (float[4] x) => (float[4] y) { y = Relu(x) }", rules)
    assert found.baselines["single:npu"] == found.baselines["single:host"]  # the host stands in
    with pytest.raises(RewriteError, match="no link leads from there"):
        place("g (float[4] x) => (float[4] y) { t = Relu(x) y = Neg(t) }", rules, pins={"t": "npu"})


# ---------------------------------------------------------------- random graphs

OPERATORS = ("Relu", "Sigmoid", "Tanh", "Add")


@st.composite
def graphs(draw) -> str:
    values, text = ["x"], ""
    for k in range(draw(st.integers(1, 7))):
        op = draw(st.sampled_from(OPERATORS))
        operands = [draw(st.sampled_from(values[-3:])) for _ in range(2 if op == "Add" else 1)]
        text += f" v{k} = {op}({', '.join(operands)})"
        values.append(f"v{k}")
    outputs = sorted({values[-1], draw(st.sampled_from(values[1:]))})
    return f"g (float[4] x) => ({', '.join(f'float[4] {name}' for name in outputs)}) {{{text} }}"


@st.composite
def boards(draw) -> str:
    def time() -> str:
        return f"{draw(st.integers(0, 60))}ns"

    text = f"device acc {{}}\nlink host <-> acc: {time()}\n"
    text += f"target host {{ supports Relu(x), Sigmoid(x), Tanh(x), Add(a, b) cost {draw(st.integers(20, 90))}ns }}\n"
    for target, device in (("fast", "host"), ("npu", "acc")):
        text += f"target {target} on {device} {{ launch {time()}\n"
        for op in draw(st.sets(st.sampled_from(OPERATORS), min_size=1)):
            text += f"  supports {op}({'a, b' if op == 'Add' else 'a'}) cost {time()}\n"
        if draw(st.booleans()):
            text += f"  composite both(a, b) = {{Relu, Tanh}}(Add(a, b)) cost {time()}\n"
        text += "}\n"
    return text


@settings(max_examples=25, deadline=None)
@given(graphs(), boards())
def test_baselines_are_never_better_than_the_optimum(graph, board):
    found = place(graph, board, allow=())
    assert found.status == "optimal" and found.bound == found.costs.total
    known = [cost for cost in found.baselines.values() if cost is not None]
    assert len(known) == len(found.baselines) and found.costs.total <= min(known)
    for name, cost in found.baselines.items():
        again = place(graph, board, allow=(), strategy=name)
        assert (again.costs.total, again.bound) == (cost, found.bound)
