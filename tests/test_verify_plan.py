"""verify_plan by mutation: every edit of a good bundle is refused, with the node, the value and what was expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from backend_graphs import FakeBundle, edited, fake_bundle, random_graph, small_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite_engine.backend.memory import MemoryPlan
from rewrite_engine.backend.verify_plan import verify
from rewrite_engine.operators.types import TensorType

Graph = dict[str, Any]


def _problems(bundle: FakeBundle, **changes: Any) -> list[str]:
    graph, plan = changes.get("graph", bundle.graph), changes.get("plan", bundle.plan)
    functions = changes.get("functions", bundle.functions)
    return verify(graph, plan, functions, changes.get("parameters", bundle.parameter_types))


def drop_node(graph: Graph, node: int, *, rewire: bool) -> None:
    """Take out a node with one operand and one result; its readers read the operand, or what is now in its place."""
    row = graph["nodes"].pop(node)
    entry = graph["node_row_ptr"].pop(node)
    graph["node_row_ptr"][node:] = [pointer - 1 for pointer in graph["node_row_ptr"][node:]]
    for pair in graph["attrs"].values():
        pair[1].pop(entry)
    facts = graph["metadata"]["rewrite_engine"]
    facts["values"].pop(entry)
    facts["offsets"].pop(entry)
    for reference in [*graph["heads"], *(reference for other in graph["nodes"] for reference in other["inputs"])]:
        if reference[0] == node and rewire:
            reference[:] = row["inputs"][0]
        elif reference[0] > node:
            reference[0] -= 1


def swap_nodes(graph: Graph, one: int, other: int) -> None:
    """Swap two nodes of one result each, with all that is said of them; readers follow."""
    facts = graph["metadata"]["rewrite_engine"]
    columns = [graph["nodes"], facts["values"], facts["offsets"], *(pair[1] for pair in graph["attrs"].values())]
    for column in columns:
        column[one], column[other] = column[other], column[one]
    turn = {one: other, other: one}
    for reference in [*graph["heads"], *(reference for node in graph["nodes"] for reference in node["inputs"])]:
        reference[0] = turn.get(reference[0], reference[0])


def _set(*path: object) -> Callable[[Graph], None]:
    *parents, last, value = path

    def mutate(graph: Graph) -> None:
        target: Any = graph
        for key in parents:
            target = target[key]
        assert target[last] != value
        target[last] = value

    return mutate


def _fact(node: int, key: str, value: object) -> Callable[[Graph], None]:
    def mutate(graph: Graph) -> None:
        attrs = graph["nodes"][node]["attrs"]
        attrs["rewrite_engine"] = json.dumps({**json.loads(attrs["rewrite_engine"]), key: value})

    return mutate


# Nodes: 0 x, 1 size, 2 v, 3 w, 4 twice, 5 a (copy), 6 sum, 7 positive, 8 shifted, 9 back (copy), 10 y.
MUTATIONS: list[tuple[str, Callable[[Graph], None], str]] = [
    ("drop the first copy, rewire its reader", lambda g: drop_node(g, 5, rewire=True),
     "node `npu.add.1` (5): operand 0, value `twice`: expected it on device `npu0`, found it on `host`; a copy is"),
    ("drop the first copy, leave its reader", lambda g: drop_node(g, 5, rewire=False),
     "node `npu.add.1` (5): value `sum`: expected it to be written before it is read"),
    ("drop the second copy, rewire its reader", lambda g: drop_node(g, 9, rewire=True),
     "node `host.add.1` (9): operand 0, value `shifted`: expected it on device `host`, found it on `npu0`"),
    ("drop the second copy, leave its reader", lambda g: drop_node(g, 9, rewire=False),
     "node `host.add.1` (9): value `y`: expected it to be written before it is read"),
    ("drop a kernel", lambda g: drop_node(g, 7, rewire=True),
     "value `positive`: expected a result of that name in the graph"),
    ("swap two steps", lambda g: swap_nodes(g, 6, 7),
     "node `npu.relu.1` (6): value `sum`: expected it to be written before it is read"),
    ("swap only the nodes", lambda g: g["nodes"].insert(6, g["nodes"].pop(7)),
     "node `npu.add.1`: expected the results ['sum'], found ['positive']"),
    ("swap two arguments", lambda g: swap_nodes(g, 0, 1), "expected null nodes for x, size, v, w in this order"),
    ("read a later node", _set("nodes", 6, "inputs", 0, [7, 0, 0]),
     "node `npu.add.1` (6): value `positive`: expected it to be written before it is read, found its producer"),
    ("read another value on the same device", _set("nodes", 7, "inputs", 0, [5, 0, 0]),
     "value `a`: expected live steps (1, 2) as in the memory plan, found (1, 3)"),
    ("read another value that is live anyway", _set("nodes", 8, "inputs", 0, [6, 0, 0]),
     "node `npu.shape.1`: expected the operands ['positive', 'size'], found ['sum', 'size']"),
    ("read a value of another type", _set("nodes", 10, "inputs", 0, [1, 0, 0]),
     "node `host.add.1` (10): operand 0, value `size`: expected float32[2, 3], found int64[2]"),
    ("a result on the wrong device", _set("attrs", "device_index", 1, 6, 1),
     "node `npu.add.1` (6): result 0, value `sum`: expected it on device `npu0`, found it on `host`"),
    ("a parameter on the wrong device", _set("attrs", "device_index", 1, 3, 1),
     "node `npu.add.1` (6): operand 1, value `w`: expected it on device `npu0`, found it on `host`"),
    ("a host operand on the kernel's device", _set("attrs", "device_index", 1, 1, 12),
     "node `npu.shape.1` (8): operand 1, value `size`: expected it on device `host`, found it on `npu0`"),
    ("a copy that stays where it is", _set("attrs", "device_index", 1, 5, 1),
     "node `a` (5): copy of `twice`: expected two devices, found both ends on `host`"),
    ("a device that nobody has", _set("attrs", "device_index", 1, 7, 9),
     "value `positive`: expected it on device `npu0`, found it on `device type 9`"),
    ("a copy that says another source", _fact(5, "from", "dsp0"),
     "node `a` (5): copy: value `twice`: expected from device `dsp0`, found `host`"),
    ("a kernel that says another device", _fact(6, "device", "host"),
     "node `npu.add.1` (6): expected device 'npu0' as kernel `npu_add_1` has, found 'host'"),
    ("a kernel that says another target", _fact(6, "target", "tern"), "expected target 'npu'"),
    ("a kernel that says other host operands", _fact(8, "host_inputs", []), "expected host_inputs [1]"),
    ("a copy in place of a kernel", _set("nodes", 7, "attrs", "func_name", "__copy"),
     "node `npu.relu.1` (7): copy of `sum`: expected two devices"),
    ("a kernel in place of a copy", _set("nodes", 5, "attrs", "func_name", "npu_relu_1"),
     "node `a` (5): operand 0, value `twice`: expected it on device `npu0`, found it on `host`"),
    ("a kernel nobody has", _set("nodes", 7, "attrs", "func_name", "npu_gelu_1"),
     "node `npu.relu.1` (7): expected a kernel `npu_gelu_1`, found none of that symbol"),
    ("the kernel of another arity", _set("nodes", 7, "attrs", "func_name", "npu_add_1"),
     "node `npu.relu.1` (7): expected 2 operands as kernel `npu_add_1` has, found 1"),
    ("another shape", _set("attrs", "shape", 1, 6, [3, 2]),
     "node `npu.add.1` (6): result 0, value `sum`: expected float32[2, 3], found float32[3, 2]"),
    ("another dtype", _set("attrs", "dltype", 1, 6, "int32"), "value `sum`: expected float32[2, 3], found int32[2, 3]"),
    ("another dtype of a parameter", _set("attrs", "dltype", 1, 3, "float64"),
     "node `w` (3): parameter `w`: expected float32[2, 3] as stored, found float64[2, 3]"),
    ("a copy that changes the shape", _set("attrs", "shape", 1, 9, [6]),
     "node `back` (9): copy of `shifted` to `back`: expected float32[2, 3], found float32[6]"),
    ("the storage of a live value", _set("attrs", "storage_id", 1, 6, 5),
     "node `npu.add.1` (6): value `sum`: storage id 5: expected bytes of its own, found them in use by `a`, which is"),
    ("the storage of a parameter", _set("attrs", "storage_id", 1, 7, 3),
     "node `npu.relu.1` (7): value `positive`: storage id 3: expected bytes of its own, found them in use by `w`"),
    ("the storage of an input", _set("attrs", "storage_id", 1, 4, 0),
     "node `host.twice.1` (4): value `twice`: storage id 0: expected bytes of its own, found them in use by `x`"),
    ("the storage of an output", _set("attrs", "storage_id", 1, 10, 4), "value `back`: storage id 4"),
    ("one storage on two devices", _set("attrs", "storage_id", 1, 9, 5),
     "node `back` (9): value `back`: storage id 5: expected device `npu0` as for `positive`, found `host`"),
    ("another output", _set("heads", 0, [9, 0, 0]), "heads: expected the graph outputs y, found back"),
    ("another name", _set("metadata", "rewrite_engine", "values", 6, "total"),
     "node `npu.add.1` (6): value `total`: expected a storage in the memory plan, found none"),
    ("another offset", _set("metadata", "rewrite_engine", "offsets", 6, 128),
     "node `npu.add.1` (6): value `sum`: expected offset 64 as in the memory plan, found 128"),
    ("one name twice", _set("metadata", "rewrite_engine", "values", 6, "a"),
     "node `npu.add.1` (6): value `a`: expected one result of that name, found a second one"),
    ("a parameter that is not said to be one", lambda g: g["metadata"]["rewrite_engine"]["parameters"].remove("w"),
     "parameter `w`: expected it in the graph"),
    ("a parameter as an input", lambda g: (g["metadata"]["rewrite_engine"]["parameters"].remove("v"),
                                          g["metadata"]["rewrite_engine"]["inputs"].append("v")),
     "value `v`: expected kind 'parameter' as in the memory plan, found 'input'"),
    ("other device types", _set("metadata", "rewrite_engine", "devices", "npu0", 16), "devices: expected"),
    ("a missing list", lambda g: g["attrs"].pop("device_index"), "attrs: expected"),
    ("a row pointer too few", lambda g: g["node_row_ptr"].pop(), "node_row_ptr"),
]  # fmt: skip


def test_a_good_bundle_has_no_problems() -> None:
    bundle = fake_bundle(small_graph())
    assert _problems(bundle) == []
    assert _problems(bundle, plan=json.loads(json.dumps(bundle.plan.to_json()))) == []


@pytest.mark.parametrize(("mutate", "message"), [row[1:] for row in MUTATIONS], ids=[row[0] for row in MUTATIONS])
def test_every_mutation_of_the_graph_is_refused(mutate: Callable[[Graph], None], message: str) -> None:
    bundle = fake_bundle(small_graph())
    graph = edited(bundle.graph)
    mutate(graph)
    problems = _problems(bundle, graph=graph)
    assert any(message in problem for problem in problems), problems


def _plan_with(plan: MemoryPlan, changed: str, /, **changes: Any) -> MemoryPlan:
    rows = tuple(replace(row, **changes) if row.value == changed else row for row in plan.storages)
    assert rows != plan.storages
    return replace(plan, storages=rows)


@pytest.mark.parametrize(
    ("value", "changes", "message"),
    [
        ("sum", {"offset": 0}, "`sum`: expected bytes 0..24 of `npu0` for itself, found them in use by `a` (0..24)"),
        ("positive", {"offset": 128}, "found them in use by `w` (128..152)"),
        ("twice", {"offset": 64}, "expected bytes 64..88 of `host` for itself, found them in use by `x` (64..88)"),
        ("sum", {"offset": 1 << 20}, "value `sum`: expected it within the 88 bytes of `npu0`"),
        ("w", {"offset": 1 << 20}, "value `w`: expected it within the 152 bytes of `npu0`"),
        ("sum", {"offset": 32}, "value `sum`: expected an offset that is a multiple of 64, found 32"),
        ("sum", {"alignment": 1, "offset": 33}, "value `sum`: expected an alignment that is a multiple of 64, found 1"),
        ("sum", {"alignment": 0}, "value `sum`: expected an alignment that is a multiple of 64, found 0"),
        ("sum", {"alignment": 96}, "value `sum`: expected an alignment that is a multiple of 64, found 96"),
        ("sum", {"size": 4}, "value `sum`: expected size 4 as in the memory plan, found 24"),
        ("sum", {"last": 2}, "value `sum`: expected live steps (2, 2) as in the memory plan, found (2, 3)"),
        ("sum", {"device": "host"}, "value `sum`: expected device 'host' as in the memory plan, found 'npu0'"),
        ("sum", {"device": "dsp9"}, "value `sum`: expected a device of the memory plan, found `dsp9`"),
        ("sum", {"storage_id": 99}, "value `sum`: expected storage id 99 as in the memory plan, found 6"),
        ("sum", {"root": "a"}, "value `sum`: expected the offset 0 of its root `a`, found 64"),
        ("sum", {"root": "a"}, "an operand that `npu_add_1` may overwrite (none), found it in those of `a`"),
        ("sum", {"root": "nobody"}, "value `sum`: expected a root that owns its bytes, found `nobody`, no value of"),
        ("w", {"kind": "input"}, "value `w`: expected kind 'input' as in the memory plan, found 'parameter'"),
        ("sum", {"value": "a"}, "value `a`: expected one storage in the memory plan, found 2"),
    ],
)  # fmt: skip
def test_every_mutation_of_the_plan_is_refused(value: str, changes: dict[str, Any], message: str) -> None:
    bundle = fake_bundle(small_graph())
    problems = _problems(bundle, plan=_plan_with(bundle.plan, value, **changes))
    assert any(message in problem for problem in problems), problems


def test_partial_overlaps_are_found_on_both_sides() -> None:
    bundle = fake_bundle(small_graph())
    for first, second in ((4, 8), (8, 4)):
        plan = _plan_with(_plan_with(bundle.plan, "a", offset=first), "sum", offset=second)
        message = f"value `sum`: expected bytes {second}..{second + 24} of `npu0` for itself, found them in use by `a`"
        assert any(message in problem for problem in _problems(bundle, plan=plan))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 111}, "device `npu0`: expected at most 111 bytes, found 112 needed"),
        ({"weights": 0}, "device `npu0`: expected 24 bytes of weights, found 0"),
        ({"peak": 1}, "device `npu0`: expected 88 bytes of peak, found 1"),
        ({"arena": 64}, "value `sum`: expected it within the 64 bytes of `npu0`"),
        ({"device_type": 7}, "devices: expected {'host': 1, 'npu0': 7} as in the memory plan"),
    ],
)
def test_byte_counts_of_a_device_are_checked(changes: dict[str, Any], message: str) -> None:
    bundle = fake_bundle(small_graph())
    host, npu = bundle.plan.devices
    problems = _problems(bundle, plan=replace(bundle.plan, devices=(host, replace(npu, **changes))))
    assert any(message in problem for problem in problems), problems


def test_missing_kernels_parameters_and_schema() -> None:
    bundle = fake_bundle(small_graph())
    functions = {symbol: function for symbol, function in bundle.functions.items() if symbol != "npu_relu_1"}
    assert "expected a kernel `npu_relu_1`" in _problems(bundle, functions=functions)[0]
    parameters = {name: tensor for name, tensor in bundle.parameter_types.items() if name != "w"}
    assert _problems(bundle, parameters=parameters) == [
        "parameter `w`: expected it among the stored parameters, found it missing there"
    ]
    extra = {**bundle.parameter_types, "u": TensorType("float32", (1,))}
    assert "parameter `u`: expected it in the graph" in _problems(bundle, parameters=extra)[0]
    steps = _problems(bundle, plan=replace(bundle.plan, steps=8))
    assert steps == ["graph: expected 8 steps as in the memory plan, found 7"]
    assert "memory plan: expected schema" in _problems(bundle, plan={})[0]
    assert "graph: expected an object" in _problems(bundle, graph=[])[0]


@given(st.integers(0, 10_000), st.integers(1, 25), st.data())
@settings(max_examples=60, deadline=None)
def test_random_graphs_hold_and_their_mutations_do_not(seed: int, size: int, data: st.DataObject) -> None:
    bundle = fake_bundle(random_graph(seed, size))
    assert _problems(bundle) == []
    graph = edited(bundle.graph)
    nodes, attrs = graph["nodes"], graph["attrs"]
    copies = [i for i, node in enumerate(nodes) if node.get("attrs", {}).get("func_name") == "__copy"]
    entries = st.integers(0, len(attrs["dltype"][1]) - 1)
    if copies and data.draw(st.booleans()):
        drop_node(graph, data.draw(st.sampled_from(copies)), rewire=data.draw(st.booleans()))
    else:
        column = data.draw(st.sampled_from(["storage_id", "device_index", "dltype", "shape"]))
        items, entry = attrs[column][1], data.draw(entries)
        others = [item for item in items if item != items[entry]]
        read = {node for row in nodes for node, _, _ in row["inputs"]}
        unread = entry in graph["arg_nodes"] and entry not in read
        if not others or (unread and column in ("dltype", "shape")):
            return  # nothing says what type an input has that nobody reads
        items[entry] = data.draw(st.sampled_from(others))
    assert _problems(bundle, graph=graph) != []
