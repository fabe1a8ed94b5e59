"""PlanDevices: marks honoured and used up, devices propagated both ways, one copy per value and device."""

from __future__ import annotations

from functools import cache

import pytest
from classic import cost, pipeline, summary, untouched
from hypothesis import given, settings
from hypothesis import strategies as st
from models import largest_error, parse, random_inputs, run_reference

import rewrite_engine as rw
from rewrite_engine.graph import Module, read_placed, strip
from rewrite_engine.graph.placed import CopyCall, KernelCall
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.passes import (
    AnnotateTarget,
    MergeComposite,
    PartitionGraph,
    PassError,
    PlanDevices,
    apply,
)

RULES = """
device acc { memory 1MiB }
device far { memory 1MiB }
link host <-> acc: 100ns
link acc <-> far: 10ns
target host { supports Relu(x), Sigmoid(x), Tanh(x), Exp(x), Neg(x), Add(x, y), Split(x) cost 100ns }
target npu on acc { launch 50ns
  supports Relu(x), Sigmoid(x), Tanh(x), Neg(x), Add(x, y), Split(x) cost 1ns
  composite pair(x) = Sigmoid(Relu(x)) cost 2ns
}
target dsp on far { launch 50ns  supports Relu(x), Neg(x), Add(x, y) cost 1ns }
"""


@cache
def rules() -> RuleSet:
    return load_text(RULES)


def on(device: str, value: str) -> str:
    return f'rewrite_engine.OnDevice <device = "{device}"> ({value})'


def plan(text: str, *before) -> Module:
    """The module of a graph with its devices planned, after other passes; numbers are compared with the graph's own."""
    module = rw.load(parse(text))
    for step in (*before, PlanDevices(rules()), PartitionGraph()):
        module = untouched(step, module)
    assert not [node for node in module.model.graph.all_nodes() if node.op_type == "OnDevice"]
    assert ("rewrite_engine", "OnDevice", "") not in module.model.functions
    model = parse(text)
    inputs = random_inputs(model, 2)
    expected = run_reference(strip(rw.load(model).model), inputs)
    for plain in (module.model, strip(module.model)):
        assert largest_error(run_reference(plain, inputs), expected) == 0
    return module


def devices(module: Module) -> dict[str, str]:
    """Operators of the model, by result, and where they run."""
    steps = read_placed(module.model).steps
    return {name: step.device for step in steps if isinstance(step, KernelCall) for name in step.covers}


def copies(module: Module) -> list[tuple[str, str]]:
    return [(s.source, s.destination) for s in read_placed(module.model).steps if isinstance(s, CopyCall)]


def test_without_marks_everything_stays_on_the_host():
    found = plan("g (float[4] x) => (float[4] b) { a = Relu(x) b = Neg(a) }")
    assert devices(found) == {"a": "host", "b": "host"} and copies(found) == []


def test_one_producer_and_three_readers_on_another_device_are_one_copy():
    found = plan(f"""g (float[4] x) => (float[4] y) {{
      p = Exp(x)  a0 = Relu(p)  b0 = Neg(p)  c0 = Tanh(p)
      a = {on("acc", "a0")}  b = {on("acc", "b0")}  c = {on("acc", "c0")}
      s = Add(a, b)  y = Add(s, c)
    }}""")
    assert devices(found) == {"p": "host", "a0": "acc", "b0": "acc", "c0": "acc", "s": "acc", "y": "acc"}
    assert copies(found) == [("host", "acc"), ("acc", "host")]  # p once, and the graph's output


def test_a_value_read_on_two_devices_is_copied_to_each_once_and_stops_on_the_way():
    found = plan(f"""g (float[4] x) => (float[4] y, float[4] z, float[4] w) {{
      p = Exp(x)  a0 = Relu(p)  a = {on("far", "a0")}  b0 = Neg(p)  b = {on("far", "b0")}  c0 = Tanh(p)
      c = {on("acc", "c0")}  y = Exp(a)  z = Exp(b)  w = Exp(c)
    }}""")
    assert sorted(copies(found)) == sorted(
        [("host", "acc"), ("acc", "far")] + 2 * [("far", "acc"), ("acc", "host")] + [("acc", "host")]
    )


def test_a_mark_is_propagated_to_what_feeds_it_and_to_what_reads_it():
    found = plan(
        f"g (float[4] x) => (float[4] e) {{ a = Relu(x) b = Neg(a) m = {on('acc', 'b')} c = Tanh(m) e = Neg(c) }}"
    )
    assert set(devices(found).values()) == {"acc"}
    assert copies(found) == [("host", "acc"), ("acc", "host")]


def test_propagation_stops_where_nothing_can_run_the_operator_and_at_other_marks():
    found = plan(f"""g (float[4] x) => (float[4] f) {{
      a = Relu(x)  b = Exp(a)  c = Neg(b)  m = {on("acc", "c")}  d = Tanh(m)  e0 = Sigmoid(d)
      e = {on("host", "e0")}  f = Neg(e)
    }}""")
    assert devices(found) == {"a": "host", "b": "host", "c": "acc", "d": "host", "e0": "host", "f": "host"}


def test_readers_that_disagree_leave_the_choice_to_the_operands():
    found = plan(f"""g (float[4] x) => (float[4] y, float[4] z) {{
      i = {on("far", "x")}  a = Neg(i)  b = Relu(a)  m = {on("acc", "b")}  c = Neg(a)  n = {on("host", "c")}
      y = Neg(m)  z = Neg(n)
    }}""")
    assert devices(found) == {"a": "far", "b": "acc", "c": "host", "y": "acc", "z": "host"}
    assert read_placed(found.model).devices["x"] == "far"  # a marked input is given there


def test_marked_outputs_stay_on_their_device_under_their_name():
    found = plan(f"g (float[4] x) => (float[4] y) {{ a = Relu(x) y = {on('acc', 'a')} }}")
    placed = read_placed(found.model)
    assert placed.outputs == ("y",) and placed.devices["y"] == "acc" and copies(found) == [("host", "acc")]


def test_a_mark_that_nothing_can_honour_is_an_error():
    with pytest.raises(rw.RewriteError, match=r"`e` is pinned to `acc`, but nothing there can compute it"):
        plan(f"g (float[4] x) => (float[4] y) {{ e = Exp(x) m = {on('acc', 'e')} y = Relu(m) }}")
    with pytest.raises(PassError, match=r"`e` is marked for `gpu`, which is no target or device; there are acc, dsp"):
        plan(f"g (float[4] x) => (float[4] y) {{ e = Exp(x) m = {on('gpu', 'e')} y = Relu(m) }}")
    with pytest.raises(PassError, match="the module has no machine"):
        apply(PlanDevices(), rw.load(parse("g (float[4] x) => (float[4] y) { y = Relu(x) }")))


def test_no_link_back_is_an_error():
    one_way = load_text(RULES.replace("link host <-> acc: 100ns", "link host -> acc: 100ns"))
    marked = rw.load(parse(f"g (float[4] x) => (float[4] y) {{ a = Relu(x) m = {on('acc', 'a')} y = Exp(m) }}"))
    with pytest.raises(PassError, match="no link leads back"):
        apply(PlanDevices(one_way), marked)


def test_marks_and_targets_together():
    """AnnotateTarget honours a mark; what it decided is not propagated to, and the mark is gone after PlanDevices."""
    text = f"g (float[4] x) => (float[4] c) {{ a = Relu(x) m = {on('host', 'a')} b = Sigmoid(m) c = Relu(b) }}"
    found = plan(text, MergeComposite(rules(), ["npu"]), AnnotateTarget(["npu"]))
    assert devices(found) == {"a": "host", "b": "acc", "c": "acc"}
    placement = rw.place(rw.load(parse(text)), rules(), strategy="priority", targets=["npu"])
    module = rw.load(parse(text))
    for step in pipeline(rules(), ["npu"]):
        module = untouched(step, module)
    assert summary(read_placed(module.model)) == summary(placement.graph) and cost(module) == placement.costs


def test_a_composite_brings_its_device():
    found = plan(
        "g (float[4] x) => (float[4] d) { z = Neg(x) a = Relu(z) b = Sigmoid(a) d = Neg(b) }", MergeComposite(rules())
    )
    assert set(devices(found).values()) == {"acc"}
    assert [s.rule for s in read_placed(found.model).steps if isinstance(s, KernelCall)][1] == "npu.pair"


@st.composite
def marked_graphs(draw) -> tuple[str, dict[str, str]]:
    """A graph of up to eight operators, some of them marked, and the marks by value."""
    names, lines, marks, known = ["x"], [], {}, set()
    for k in range(draw(st.integers(1, 8))):
        op = draw(st.sampled_from(["Relu", "Neg", "Exp", "Add", "Tanh"]))
        reads = [draw(st.sampled_from(names)) for _ in range(2 if op == "Add" else 1)]
        made = (op, tuple(sorted(name.replace("m", "v") for name in reads)))
        if made in known:  # one value in the e-graph: two marks could not both be honoured
            continue
        known.add(made)
        lines.append(f"v{k} = {op}({', '.join(reads)})")
        places = {
            "Relu": ["acc", "far", "host", ""],
            "Neg": ["acc", "far", ""],
            "Add": ["far", ""],
            "Tanh": ["acc", ""],
        }
        place = draw(st.sampled_from(places.get(op, ["host", ""])))
        names.append(f"v{k}")
        if place:
            marks[f"v{k}"] = place
            lines.append(f"m{k} = {on(place, f'v{k}')}")
            names[-1] = f"m{k}"
    lines.append(f"y = Neg({names[-1]})")
    return f"g (float[4] x) => (float[4] y) {{ {' '.join(lines)} }}", marks


@settings(max_examples=25, deadline=None)
@given(marked_graphs())
def test_every_mark_is_honoured_and_no_value_is_copied_twice(drawn: tuple[str, dict[str, str]]):
    text, marks = drawn
    found = plan(text)
    steps = read_placed(found.model).steps
    places = {name: {s.device for s in steps if isinstance(s, KernelCall) and name in s.covers} for name in marks}
    assert all(where <= {marks[name]} for name, where in places.items())
    origin = {}
    for step in steps:
        if isinstance(step, CopyCall):
            origin[step.output] = origin.get(step.value, step.value)
    moved = [(origin[s.output], s.destination) for s in steps if isinstance(s, CopyCall)]
    assert len(moved) == len(set(moved))
