"""graph.json: the small graph written out, reading back, and what an executor that knows only storage ids would do."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from backend_graphs import FAKES, FakeBundle, edited, fake_bundle, random_graph, small_answer, small_graph, small_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite_engine.backend.graph_json import graph_json
from rewrite_engine.backend.graph_reader import read_graph
from rewrite_engine.backend.memory import plan
from rewrite_engine.backend.runtime import Executor, numpy_dtype
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import KernelCall


def test_the_small_graph_in_the_executors_format() -> None:
    graph = fake_bundle(small_graph()).graph
    assert list(graph) == ["nodes", "arg_nodes", "heads", "node_row_ptr", "attrs", "metadata"]
    nodes = graph["nodes"]
    assert nodes[:4] == [{"op": "null", "name": name, "inputs": []} for name in ("x", "size", "v", "w")]
    assert [(node["name"], node["attrs"]["func_name"], node["inputs"]) for node in nodes[4:]] == [
        ("host.twice.1", "host_twice_1", [[0, 0, 0], [0, 0, 0]]),
        ("a", "__copy", [[4, 0, 0]]),
        ("npu.add.1", "npu_add_1", [[5, 0, 0], [3, 0, 0]]),
        ("npu.relu.1", "npu_relu_1", [[6, 0, 0]]),
        ("npu.shape.1", "npu_shape_1", [[7, 0, 0], [1, 0, 0]]),
        ("back", "__copy", [[8, 0, 0]]),
        ("host.add.1", "host_add_1", [[9, 0, 0], [2, 0, 0]]),
    ]
    for node in nodes[4:]:
        assert all(isinstance(item, str) for item in node["attrs"].values())
        assert node["attrs"]["num_inputs"] == str(len(node["inputs"]))
        assert (node["attrs"]["num_outputs"], node["attrs"]["flatten_data"]) == ("1", "0")
    assert (graph["arg_nodes"], graph["heads"]) == ([0, 1, 2, 3], [[10, 0, 0]])
    assert graph["node_row_ptr"] == list(range(12))
    attrs = graph["attrs"]
    assert attrs["device_index"] == ["list_int", [1, 1, 1, 12, 1, 12, 12, 12, 12, 1, 1]]
    # `positive` takes the bytes of `a`, `shifted` those of `sum`, `back` those of `twice`; nothing takes a parameter's.
    assert attrs["storage_id"] == ["list_int", [0, 1, 2, 3, 4, 5, 6, 5, 6, 4, 7]]
    assert attrs["dltype"] == ["list_str", ["float32", "int64"] + ["float32"] * 9]
    assert attrs["shape"] == ["list_shape", [[2, 3], [2]] + [[2, 3]] * 9]
    facts = json.loads(nodes[8]["attrs"]["rewrite_engine"])
    assert (facts["region"], facts["target"], facts["rule"]) == ("region.npu0", "npu", "npu.shape")
    assert (facts["outputs"], facts["host_inputs"]) == (["shifted"], [1])


def test_reading_back() -> None:
    placed = small_graph()
    read, problems = read_graph(fake_bundle(placed).graph)
    assert problems == [] and read is not None
    assert (read.inputs, read.parameters, read.outputs) == (("x", "size"), ("v", "w"), ("y",))
    assert {entry.name: entry.type for entry in read.entries} == placed.types
    assert {entry.name: entry.device for entry in read.entries} == placed.devices
    kinds = [node.kind for node in read.nodes]
    assert kinds == ["argument"] * 4 + ["kernel", "copy"] + ["kernel"] * 3 + ["copy", "kernel"]


def _run_by_storage_ids(bundle: FakeBundle, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """An executor that knows what the format says, no more: a pool per storage id, as large as its largest entry."""
    graph = bundle.graph
    attrs = {key: pair[1] for key, pair in graph["attrs"].items()}
    sizes: dict[int, int] = {}
    for identifier, dtype, shape in zip(attrs["storage_id"], attrs["dltype"], attrs["shape"], strict=True):
        needed = int(np.prod(shape, dtype=np.int64)) * numpy_dtype(dtype).itemsize
        sizes[identifier] = max(sizes.get(identifier, 0), needed)
    pools = {identifier: np.full(size, 0xFF, np.uint8) for identifier, size in sizes.items()}
    arrays = []
    for identifier, dtype, shape in zip(attrs["storage_id"], attrs["dltype"], attrs["shape"], strict=True):
        needed = int(np.prod(shape, dtype=np.int64)) * numpy_dtype(dtype).itemsize
        arrays.append(pools[identifier][:needed].view(numpy_dtype(dtype)).reshape(shape))
    start = graph["node_row_ptr"]
    for index, node in enumerate(graph["nodes"]):
        results = arrays[start[index] : start[index + 1]]
        operands = [arrays[start[i] + j] for i, j, _ in node["inputs"]]
        if node["op"] == "null":
            results[0][...] = inputs.get(node["name"], bundle.parameters.get(node["name"]))
        elif node["attrs"]["func_name"] == "__copy":
            results[0][...] = operands[0]
        else:
            bundle.kernels[node["attrs"]["func_name"]](operands, results)
    return [arrays[start[i] + j].copy() for i, j, _ in graph["heads"]]


def test_an_executor_that_knows_only_storage_ids_gets_the_right_numbers() -> None:
    inputs = small_inputs()
    (result,) = _run_by_storage_ids(fake_bundle(small_graph()), inputs)
    np.testing.assert_allclose(result, small_answer(inputs), rtol=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 25))
@settings(max_examples=40, deadline=None)
def test_both_executors_agree_with_storage_that_is_never_shared(seed: int, size: int) -> None:
    placed = random_graph(seed, size)
    bundle = fake_bundle(placed)
    inputs = {name: np.ones(placed.types[name].shape, numpy_dtype(placed.types[name].dtype)) for name in placed.inputs}
    values: dict[str, np.ndarray] = {**inputs, **placed.parameters}
    for call in placed.steps:
        if not isinstance(call, KernelCall):
            values[call.output] = values[call.value]
            continue
        outputs = [np.zeros(placed.types[name].shape, numpy_dtype(placed.types[name].dtype)) for name in call.outputs]
        FAKES["spread"]([values[name] for name in call.inputs], outputs)
        values.update(zip(call.outputs, outputs, strict=True))
    ours = Executor(bundle).run(inputs)
    theirs = _run_by_storage_ids(bundle, inputs)
    assert list(ours) == list(placed.outputs)
    for name, other in zip(placed.outputs, theirs, strict=True):
        assert ours[name].tobytes() == values[name].tobytes() == other.tobytes()


def test_sharing_of_functions() -> None:
    placed = small_graph()
    first, *rest = placed.steps
    assert isinstance(first, KernelCall)
    again = replace(first, name="host.twice.2", outputs=("again",))
    types, devices = {**placed.types, "again": placed.types["x"]}, {**placed.devices, "again": "host"}
    bundle = fake_bundle(replace(placed, steps=(first, again, *rest), types=types, devices=devices))
    names = [node["attrs"]["func_name"] for node in bundle.graph["nodes"] if node["op"] != "null"]
    assert names[:2] == ["host_twice_1", "host_twice_1"]
    # One call reads one parameter, the other two: what is constant in every call counts.
    last = placed.steps[-1]
    assert isinstance(last, KernelCall)
    more = replace(last, name="host.add.2", inputs=("v", "v"), outputs=("again",))
    shared = fake_bundle(replace(placed, steps=(*placed.steps, more), types=types, devices=devices)).functions
    assert sorted(shared) == ["host_add_1", "host_twice_1", "npu_add_1", "npu_relu_1", "npu_shape_1"]
    assert (shared["host_add_1"].io, shared["host_add_1"].constants) == (72, 24)
    # `host.add.1` and `npu.add.1` say the same, but run on different devices.
    assert {"host_add_1", "npu_add_1"} <= set(names)


def test_a_kernel_without_a_symbol_is_refused() -> None:
    placed = small_graph()
    with pytest.raises(RewriteError, match=r"kernel `host\.twice\.1` has no symbol"):
        graph_json(placed, plan(placed, {}), {})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("nodes", 4, "attrs", "num_inputs"), 2, "expected strings for"),
        (("nodes", 4, "attrs", "num_inputs"), "3", "expected `num_inputs` to be '2', found '3'"),
        (("nodes", 4, "attrs", "rewrite_engine"), "{", "expected JSON"),
        (("nodes", 4, "op"), "tvm", "expected op `null`, or `tvm_op`"),
        (("nodes", 4, "name"), None, "expected a string `name`"),
        (("nodes", 0, "inputs"), [[1, 0, 0]], "expected no inputs"),
        (("nodes", 4, "inputs", 0), [99, 0, 0], "expected a result of a node of the graph"),
        (("nodes", 4, "inputs", 0), [0, 1, 0], "expected a result of a node of the graph"),
        (("nodes", 4, "inputs", 0), [0, 0, 1], r"expected \[node, result, 0\]"),
        (("nodes", 4, "inputs", 0), [0, 0], r"expected \[node, result, 0\]"),
        (("nodes",), {}, "nodes: expected a list"),
        (("arg_nodes",), [0], "arg_nodes: expected the null nodes"),
        (("heads", 0, 0), -1, "expected a whole number"),
        (("node_row_ptr", 3), 9, "node_row_ptr"),
        (("attrs", "shape"), ["list_int", []], "attrs shape: expected"),
        (("attrs", "shape", 1, 3), [2, "3"], "attrs shape, entry 3: expected a whole number"),
        (("attrs", "storage_id", 1), [1], "attrs storage_id: expected one item for each of 11 entries, found 1"),
        (("attrs", "device_type"), [], "attrs: expected"),
        (("metadata",), None, "metadata: expected an object"),
        (("metadata", "rewrite_engine", "devices", "npu0"), 1, "a device type of its own"),
        (("metadata", "rewrite_engine", "output_names"), [], "output_names: expected 1 different names"),
        (("extra",), 1, "graph: expected the keys"),
    ],
)
def test_a_malformed_graph_is_a_problem(path: tuple[object, ...], value: object, message: str) -> None:
    graph = edited(fake_bundle(small_graph()).graph)
    *parents, last = path
    target = graph
    for key in parents:
        target = target[key]
    target[last] = value
    read, problems = read_graph(graph)
    assert read is None
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(problems[0])
