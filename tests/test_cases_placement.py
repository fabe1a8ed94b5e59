"""Faults that others have met, by the row of the table they stand in: regions, composites, and copies between devices.

Every placement here is also compiled and run, and its numbers are those of ONNX Runtime.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import onnx
import pytest
from models import largest_error, parse, random_inputs, run_reference
from onnx import helper

import rewrite_engine as rw
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.language import load_text
from rewrite_engine.placement.place import Placement

ON_HOST = "target host { supports Relu(x), Sin(x), Cos(x), Neg(x), Abs(x), Tanh(x), Exp(x), Add(x, y), Mul(x, y)"
ON_HOST += " cost 9us }\n"
FREE = "target fast on host { launch 1us\n  supports Relu(x), Sin(x), Cos(x), Neg(x), Add(x, y), Mul(x, y) cost 1ns }\n"
BOARD = """
device acc { memory 1MiB }
link host <-> acc: 100ns + bytes / 8GBps
target host { supports Relu(x), Sin(x), Cos(x), Neg(x), Abs(x), Tanh(x), Exp(x), Add(x, y), Mul(x, y) cost 2us
  supports Reshape(x, s), Concat(*xs), Split(x), Conv(x, w), BatchNormalization(x, s, b, m, v), Identity(x) cost 2us }
target npu on acc { launch 50ns
  supports Relu(x), Sin(x), Cos(x), Neg(x), Add(x, y), Mul(x, y), Reshape(x, s), Concat(*xs), Conv(x, w) cost 1ns
}
"""


def run_and_compare(text: str, rules: str, **options: object) -> Placement:
    """The placement of a graph, once the compiled bundle has computed what ONNX Runtime computes."""
    model, loaded = parse(text), load_text(rules)
    placement = rw.place(rw.load(model), loaded, **options)
    bundle = rw.compile(rw.load(model), loaded, placement=placement, engine="numpy")
    for seed in (0, 1):
        inputs = random_inputs(model, seed)
        assert largest_error(list(bundle.run(inputs).values()), run_reference(model, inputs)) < 1e-5
    return placement


def kernels(graph: PlacedGraph) -> list[KernelCall]:
    return [step for step in graph.steps if isinstance(step, KernelCall)]


def copies(graph: PlacedGraph) -> list[tuple[str, str, str]]:
    return [(step.value, step.source, step.destination) for step in graph.steps if isinstance(step, CopyCall)]


def regions(placement: Placement, target: str) -> list[set[str]]:
    """What the regions of a target cover, in the order in which they run."""
    found: dict[str, set[str]] = {}
    for call in kernels(placement.graph):
        if call.target == target:
            found.setdefault(call.region, set()).update(call.covers)
    return list(found.values())


def check_regions(graph: PlacedGraph) -> None:
    """No region waits for what waits for it: the graph with each region as one node has no cycle."""
    maker = {output: call.region for call in kernels(graph) for output in call.outputs}
    for step in graph.steps:
        if isinstance(step, CopyCall):
            maker[step.output] = maker.get(step.value, step.value)
    reads = {(maker[name], call.region) for call in kernels(graph) for name in call.inputs if name in maker}
    left = {region for pair in reads for region in pair}
    edges = {(a, b) for a, b in reads if a != b}
    while left:
        free = {region for region in left if not any(b == region for _, b in edges)}
        assert free, f"regions wait for each other: {sorted(left)}"
        left -= free
        edges = {(a, b) for a, b in edges if a not in free}


# ---------------------------------------------------------------- convexity

TRIANGLES = {
    "row 63": "a = Relu(x) u = Abs(a) y = Add(a, u)",
    "row 65": "a = Neg(x) n = Tanh(a) y = Mul(n, a)",
    "two ways round": "a = Relu(x) u = Abs(a) v = Exp(a) w = Add(u, v) y = Mul(a, w)",
    "long way round": "a = Sin(x) u = Abs(a) v = Neg(u) w = Tanh(v) y = Add(a, w)",
    "crossing": "a = Relu(x) b = Neg(x) u = Abs(a) v = Tanh(b) c = Add(u, b) y = Add(v, c)",
}


@pytest.mark.parametrize("strategy", ["optimal", "priority", "largest"])
@pytest.mark.parametrize("name", TRIANGLES)
def test_rows_63_and_65_a_region_does_not_close_over_what_waits_for_it(name: str, strategy: str) -> None:
    text = f"g (float[4] x) => (float[4] y) {{ {TRIANGLES[name]} }}"
    placement = run_and_compare(text, FREE + ON_HOST, strategy=strategy, targets=("fast",))
    check_regions(placement.graph)
    apart = [region for region in regions(placement, "fast") if {"a", "y"} <= region]
    assert not apart, "a region stands on both sides of an operator of the host"


@pytest.mark.parametrize("readers", [2, 3, 5])
def test_row_64_siblings_share_a_region(readers: int) -> None:
    ops = ["Sin", "Cos", "Neg", "Relu", "Sin"][:readers]
    body = " ".join(f"y{i} = {op}(s)" for i, op in enumerate(ops))
    outputs = ", ".join(f"float[4] y{i}" for i in range(readers))
    placement = run_and_compare(f"g (float[4] x) => ({outputs}) {{ s = Mul(x, x) {body} }}", FREE + ON_HOST)
    (region,) = regions(placement, "fast")
    assert {"s", *(f"y{i}" for i in range(readers))} - {"y4"} <= region
    assert placement.costs.launches == 1_000_000


def test_row_68_a_shared_constant_is_no_bridge() -> None:
    text = "g (float[4] x) => (float[4] y) <float[4] c = {1, 2, 3, 4}> { a = Mul(x, c) u = Abs(a) y = Mul(u, c) }"
    for strategy in ("optimal", "priority"):
        placement = run_and_compare(text, BOARD, strategy=strategy)
        check_regions(placement.graph)
        readers = [call for call in kernels(placement.graph) if call.target == "npu"]
        assert [call.covers for call in readers] == [("a",), ("y",)]
        assert len({call.region for call in readers}) == 2
        assert all(placement.graph.devices[name] == "acc" for call in readers for name in call.inputs)
        assert not [value for value, _, _ in copies(placement.graph) if value in placement.graph.parameters]


def test_row_71_the_order_in_which_operators_are_listed_does_not_count() -> None:
    lines = ["a = Relu(x)", "b = Abs(x)", "c = Neg(x)", "d = Add(a, b)", "e = Sin(c)"]
    found = set()
    for order in itertools.permutations(lines):
        place = {line: order.index(line) for line in lines}
        if place[lines[3]] < max(place[lines[0]], place[lines[1]]) or place[lines[4]] < place[lines[2]]:
            continue
        text = f"g (float[4] x) => (float[4] d, float[4] e) {{ {' '.join(order)} }}"
        placement = rw.place(rw.load(parse(text)), load_text(FREE + ON_HOST))
        found.add(
            (
                placement.costs.total,
                len(regions(placement, "fast")),
                frozenset(map(frozenset, regions(placement, "fast"))),
            )
        )
    assert len(found) == 1, "another order, another placement"
    ((_, number, _),) = found
    assert number == 2  # {a, d} and {c, e}: nothing connects them


def test_row_77_a_cut_across_a_skip_keeps_both_links() -> None:
    text = "g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4}>"
    text += " { t = Conv(x, w) y = Add(x, t) }"
    placement = run_and_compare(text, BOARD, pins={"t": "npu", "y": "host"})
    (add,) = [call for call in kernels(placement.graph) if call.covers == ("y",)]
    assert len(add.inputs) == 2 and len(set(add.inputs)) == 2 and "x" in add.inputs


# ---------------------------------------------------------------- composites and regions


@pytest.mark.parametrize("strategy", ["optimal", "priority"])
def test_row_79_a_value_with_many_readers_leaves_its_region_once(strategy: str) -> None:
    readers = {"p": "Relu", "q": "Tanh", "r": "Exp"}
    text = "g (float[4] x) => (float[4] p, float[4] q, float[4] r) { a = Neg(x) p = Abs(a) q = Tanh(a) r = Exp(a) }"
    placement = run_and_compare(text, BOARD, strategy=strategy, pins={"a": "npu"})
    assert len([1 for value, *_ in copies(placement.graph) if value.startswith("a")]) == 1
    (maker,) = [call for call in kernels(placement.graph) if call.covers == ("a",)]
    assert len(maker.outputs) == 1
    assert len(readers) == len([call for call in kernels(placement.graph) if call.target == "host"])


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 2), (2, 1)])
def test_row_81_each_result_of_an_operator_reaches_its_own_reader(used: tuple[int, ...]) -> None:
    reads = " ".join(f"y{i} = Neg(p{i})" for i in used)
    outputs = ", ".join(f"float[2] y{i}" for i in used)
    text = f"g (float[6] x) => ({outputs}) {{ p0, p1, p2 = Split <axis = 0, num_outputs = 3> (x) {reads} }}"
    rules = (
        BOARD + "target npu2 on acc { launch 1ns  composite thirds(x) = Split(x, axis = 0, num_outputs = 3) cost 1ns }"
    )
    rules = rules.replace("composite thirds(x) = Split(x, axis = 0, num_outputs = 3)", "supports Split(x)")
    placement = run_and_compare(text, rules)
    assert [call.target for call in kernels(placement.graph) if "p0" in call.covers] == ["npu2"]


NORM = "<float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {0, 0}, float[2] v = {1, 1}>"


@pytest.mark.parametrize("results", ["n", "n, mean, var"])
def test_rows_82_and_83_results_that_nobody_reads_leave_no_region(results: str) -> None:
    training = "<training_mode = 1>" if "mean" in results else ""
    text = f"g (float[3, 2, 4] x) => (float[3, 2, 4] y) {NORM} {{ {results} = BatchNormalization {training}"
    text += " (x, s, b, m, v) y = Relu(n) }"
    rules = (
        BOARD
        + """target fuse on acc { launch 1ns
        composite normed(x, s, b, m, v) = Relu(BatchNormalization(x, s, b, m, v)) cost 1ns }"""
    )
    if "mean" in results:
        placement = rw.place(rw.load(parse(text)), load_text(rules))
    else:
        placement = run_and_compare(text, rules)
        assert [call.rule for call in kernels(placement.graph)] == ["fuse.normed"]
    made = [name for call in kernels(placement.graph) for name in call.outputs if name]
    read = {
        name
        for step in placement.graph.steps
        for name in (step.inputs if isinstance(step, KernelCall) else (step.value,))
    }
    assert set(made) <= read | set(placement.graph.outputs), "a result that nobody reads is handed out"


@pytest.mark.parametrize("axis", [0, 1])
def test_row_84_a_concat_does_not_cut_a_run(axis: int) -> None:
    shape = [4, 3] if axis == 0 else [2, 6]
    text = f"g (float[2, 3] x) => (float{shape} y)"
    text += f" {{ a = Relu(x) b = Neg(x) c = Concat <axis = {axis}> (a, b) y = Relu(c) }}"
    placement = run_and_compare(text, BOARD)
    assert regions(placement, "npu") == [{"a", "b", "c", "y"}]


def test_row_85_constants_sit_with_their_reader() -> None:
    text = "g (float[4] x) => (float[4] y) <float[4] k = {1, 2, 3, 4}> { a = Mul(x, k) b = Tanh(a) y = Mul(b, k) }"
    placement = run_and_compare(text, BOARD)
    for call in kernels(placement.graph):
        assert all(placement.graph.devices[name] == call.device for name in call.inputs)
    assert not [value for value, *_ in copies(placement.graph) if value in placement.graph.parameters]


@pytest.mark.parametrize(
    ("parameters", "pattern", "inputs"),
    [
        ("x", "Add(x, const k)", ("x", "k")),  # embedded: the kernel's own, behind what it is passed
        ("x, k", "Add(x, const k)", ("x", "k")),
        ("k, x", "Add(x, const k)", ("k", "x")),
        ("x, k", "Add(x, k)", ("x", "k")),
        ("x", "Add(x, _)", ("x", "k")),
    ],
)
def test_row_87_a_captured_constant_is_embedded_or_passed(parameters: str, pattern: str, inputs: tuple[str]) -> None:
    rules = ON_HOST + f"target fuse on host {{ launch 1ns  composite added({parameters}) = {pattern} cost 1ns }}"
    text = "g (float[4] x) => (float[4] y) <float k = {3}> { y = Add(x, k) }"
    placement = run_and_compare(text, rules)
    (call,) = kernels(placement.graph)
    assert call.rule == "fuse.added" and call.inputs == inputs
    assert set(placement.graph.parameters) == {"k"}
    two = run_and_compare("g (float[4] x, float[4] k) => (float[4] y) { y = Add(x, k) }", rules)
    (call,) = kernels(two.graph)
    assert (call.rule == "fuse.added") == (pattern == "Add(x, k)")  # what is embedded must be constant


def test_row_88_names_are_unique_and_stable() -> None:
    text = "g (float[4] x) => (float[4] y, float[4] z)"
    text += " { a = Relu(x) b = Abs(a) c = Neg(b) d = Tanh(c) y = Sin(d) z = Cos(b) }"
    seen = []
    for _ in range(2):
        placement = run_and_compare(text, BOARD)
        names = [call.name for call in kernels(placement.graph)]
        values = [name for call in kernels(placement.graph) for name in call.outputs]
        assert len(set(names)) == len(names) and len(set(values)) == len(values)
        by_region = {call.region: call.target for call in kernels(placement.graph)}
        assert all(by_region[call.region] == call.target for call in kernels(placement.graph))
        seen.append(names)
    assert seen[0] == seen[1]


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("readers", [1, 2, 5])
def test_rows_89_and_N3_a_value_on_two_devices_is_copied_once(readers: int) -> None:
    reads = " ".join(f"t{i} = Mul(b, {'c' if i % 2 else 'a'})" for i in range(readers))
    total = "s0 = Add(a, b) " + " ".join(f"s{i + 1} = Add(s{i}, t{i})" for i in range(readers))
    text = f"g (float[4] a, float[4] b, float[4] c) => (float[4] s{readers}) {{ {reads} {total} }}"
    pins = {**{f"t{i}": "npu" for i in range(readers)}, **{f"s{i}": "host" for i in range(readers + 1)}}
    placement = run_and_compare(text, BOARD, pins=pins)
    moved = copies(placement.graph)
    assert [m for m in moved if m[0] == "b"] == [("b", "host", "acc")]
    assert len(moved) == len(set(moved))


def test_row_92_what_follows_a_host_operator_may_go_back() -> None:
    text = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Abs(a) c = Neg(b) d = Sin(c) y = Cos(d) }"
    placement = run_and_compare(text, BOARD)
    assert [call.target for call in kernels(placement.graph)] == ["npu", "host", "npu", "npu", "npu"]
    dear = run_and_compare(text, BOARD.replace("100ns + bytes", "1ms + bytes"))
    assert {call.target for call in kernels(dear.graph)} == {"host"}


@pytest.mark.parametrize("text", ["a = Relu(x) y = Reshape(a, s)", "y = Reshape(x, s)"])
def test_row_95_a_copy_is_decided_for_each_operand(text: str) -> None:
    """The shape that a device's Reshape is given stays on the host; the data goes where it is computed."""
    model = f"g (float[2, 3] x, int64[2] s) => (float[3, 2] y) {{ {text} }}"
    graph = rw.place(rw.load(parse(model)), load_text(BOARD), pins={"y": "npu"}).graph
    (call,) = [call for call in kernels(graph) if call.covers == ("y",)]
    assert call.device == "acc" and call.host_inputs == {"s"} and graph.devices["s"] == "host"
    assert [move[0] for move in copies(graph)] == ["x", "y"] or "s" not in {move[0] for move in copies(graph)}


def test_row_96_a_copy_stands_where_it_arrives() -> None:
    model, loaded = parse("g (float[4] x) => (float[4] y) { a = Relu(x) b = Abs(a) y = Neg(b) }"), load_text(BOARD)
    bundle = rw.compile(rw.load(model), loaded, engine="numpy")
    nodes, facts = bundle.graph["nodes"], bundle.graph["metadata"]["rewrite_engine"]
    rows, where = bundle.graph["node_row_ptr"], bundle.graph["attrs"]["device_index"][1]
    found = 0
    for index, node in enumerate(nodes):
        if node["op"] == "tvm_op" and node["attrs"]["func_name"] == "__copy":
            said = json.loads(node["attrs"]["rewrite_engine"])
            (source, _, _) = node["inputs"][0]
            assert said["from"] != said["to"]
            assert where[rows[index]] == facts["devices"][said["to"]]
            assert where[rows[source]] == facts["devices"][said["from"]]
            found += 1
    assert found == 4


@pytest.mark.parametrize("pinned", ["x", "y", "a"])
def test_row_97_inputs_and_outputs_with_a_place_of_their_own(pinned: str) -> None:
    text = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) y = Sin(b) }"
    for device in ("host", "acc"):
        placement = run_and_compare(text, BOARD, pins={pinned: device})
        check_regions(placement.graph)
        assert placement.graph.devices[pinned if pinned != "y" else placement.graph.outputs[0]] == device
        assert len(copies(placement.graph)) == len(set(copies(placement.graph)))
    one = run_and_compare(text, BOARD, pins={"x": "host"})
    assert [move for move in copies(one.graph) if move[0] == "x"] == [("x", "host", "acc")]


@pytest.mark.parametrize("given", ["float[n, 2, 6] x", "float[3, 2, 6] x, int64[3] s"])
def test_row_100_shape_arithmetic_stays_on_the_host(given: str) -> None:
    """Where sizes are bound nothing is left of it; of a shape that is given, it stays where that is."""
    shape = "" if "s" in given.split() else "s = Shape(a)"
    text = f"""g ({given}) => (float[3, 12] y) <int64[1] zero = {{0}}, int64[1] rest = {{-1}}> {{
        a = Relu(x) {shape} m = Gather <axis = 0> (s, zero) t = Concat <axis = 0> (m, rest) y = Reshape(a, t) }}"""
    able = "supports Relu(x), Neg(x), Shape(x), Gather(x, i), Concat(*xs), Reshape(x, s) cost"
    rules = f"device acc {{ memory 1MiB }}\nlink host <-> acc: 10ns\ntarget host {{ {able} 1us }}\n"
    rules += f"target npu on acc {{ launch 1ns {able} 1us }}"
    module = rw.load(parse(text), dims={"n": 3} if shape else {})
    graph = rw.place(module, load_text(rules), pins={"y": "npu"}).graph
    small = [call for call in kernels(graph) if {"s", "m", "t"} & set(call.covers)]
    assert [call.device for call in small] == ([] if shape else ["host", "host"])
    (last,) = [call for call in kernels(graph) if call.covers == ("y",)]
    assert last.device == "acc" and len(last.host_inputs) == 1
    assert [move[1:] for move in copies(graph)] == [("host", "acc")]  # `y` was asked for on the device


# ---------------------------------------------------------------- branches


def with_branches(then: str, otherwise: str, before: str, after: str) -> onnx.ModelProto:
    """y of `after`, which reads r = If(c, then, otherwise); both branches may read what `before` computes of x."""
    model = parse(f"g (bool c, float[4] x) => (float[4] y) {{ {before} r = Identity(x) {after} }}")
    branches = [parse(f"b () => (float[4] o) {{ {body} }}").graph for body in (then, otherwise)]
    node = next(node for node in model.graph.node if list(node.output) == ["r"])
    node.CopyFrom(helper.make_node("If", ["c"], ["r"], then_branch=branches[0], else_branch=branches[1]))
    return model


def test_rows_93_and_108_values_that_pass_through_branches() -> None:
    """A branch runs on the host: what it reads is copied there once, what it gives back once; nothing else moves."""
    rules = BOARD.replace("target host {", "target host { flops 1GFLOPS bandwidth 1GBps")
    reshapes = "t = Reshape(a, k1) o = Reshape(t, k2)"
    constants = "k1 = Constant <value_ints = [2, 2]> () k2 = Constant <value_ints = [4]> ()"
    for then, otherwise in (
        ("o = Exp(a)", "o = Tanh(a)"),
        (f"{constants} {reshapes}", f"{constants} {reshapes.replace('Reshape(a, k1)', 'Reshape(b, k1)')}"),
        ("o = Add(a, b)", "o = Add(a, a)"),
    ):
        model = with_branches(then, otherwise, "a = Relu(x) b = Neg(a)", "d = Sin(b) e = Cos(r) y = Add(d, e)")
        loaded = load_text(rules)
        placement = rw.place(rw.load(model), loaded)
        moved = copies(placement.graph)
        assert len(moved) == len({(value, to) for value, _, to in moved}) == len(set(moved))
        where = {cover: call.target for call in kernels(placement.graph) for cover in call.covers}
        assert where["a"] == where["d"] == where["e"] == "npu" and where["r"] == "host"
        there = [value for value, _, to in moved if to == "acc"]
        assert not {value for value in there if value.startswith(("a", "b"))}, "what was made there comes back"
        bundle = rw.compile(rw.load(model), loaded, placement=placement, engine="numpy")
        for flag in (True, False):
            inputs = {"c": np.array(flag), "x": np.float32([-1, 0, 1, 2])}
            assert largest_error(list(bundle.run(inputs).values()), run_reference(model, inputs)) < 1e-6
