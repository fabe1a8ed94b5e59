"""The runtime: right numbers, one memory per device, and errors where an executor would silently go wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backend_graphs import edited, fake_bundle, kernel, small_answer, small_graph, small_inputs
from test_verify_plan import drop_node

from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.memory import Storage
from rewrite_engine.backend.runtime import DeviceMemory, Executor, numpy_dtype
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import PlacedGraph
from rewrite_engine.operators.types import TensorType


def test_right_numbers_again_and_again() -> None:
    executor = Executor(fake_bundle(small_graph()))
    assert executor.inputs == {"x": TensorType("float32", (2, 3)), "size": TensorType("int64", (2,))}
    kept = []
    for seed in (0, 1, 0):
        inputs = small_inputs(seed)
        outputs = executor.run(inputs)
        assert list(outputs) == ["y"]
        np.testing.assert_allclose(outputs["y"], small_answer(inputs), rtol=1e-6)
        kept.append(outputs["y"])
    # Outputs are arrays of their own: a later run leaves them alone.
    assert kept[0].tobytes() == kept[2].tobytes() != kept[1].tobytes()


def test_times_name_every_step() -> None:
    executor = Executor(fake_bundle(small_graph()))
    assert executor.times == ()
    executor.run(small_inputs())
    assert [(row.name, row.function, row.device) for row in executor.times] == [
        ("host.twice.1", "host_twice_1", "host"),
        ("a", "__copy", "npu0"),
        ("npu.add.1", "npu_add_1", "npu0"),
        ("npu.relu.1", "npu_relu_1", "npu0"),
        ("npu.shape.1", "npu_shape_1", "npu0"),
        ("back", "__copy", "host"),
        ("host.add.1", "host_add_1", "host"),
    ]
    assert all(row.seconds >= 0 for row in executor.times)


@pytest.mark.parametrize(
    ("node", "rewire", "message"),
    [
        (5, True, r"kernel `npu\.add\.1`: operand 0, value `twice`: expected it on device `npu0`, found .* `host`"),
        (9, True, r"kernel `host\.add\.1`: operand 0, value `shifted`: expected it on device `host`, found .* `npu0`"),
        (5, False, r"`npu\.add\.1` reads value `sum` before anything wrote it"),
        (9, False, r"`host\.add\.1` reads value `y` before anything wrote it"),
    ],
)
def test_a_dropped_copy_fails(node: int, rewire: bool, message: str) -> None:
    bundle = fake_bundle(small_graph())
    graph: dict[str, Any] = edited(bundle.graph)
    drop_node(graph, node, rewire=rewire)
    executor = Executor(bundle.with_graph(graph))
    with pytest.raises(RewriteError, match=message):
        executor.run(small_inputs())


def _entry(column: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda graph: graph["attrs"][column][1].__setitem__(6, value)


def _function(symbol: str) -> Callable[[dict[str, Any]], object]:
    return lambda graph: graph["nodes"][7]["attrs"].__setitem__("func_name", symbol)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_entry("device_index", 1), r"expected 24 bytes .* found a storage on `npu0`"),
        (_entry("device_index", 9), "expected a device with a memory, found `device type 9`"),
        (_entry("shape", [3, 2]), r"result 0, value `sum`: expected float32\[2, 3\], found float32\[3, 2\]"),
        (_entry("dltype", "int32"), r"result 0, value `sum`: expected float32\[2, 3\], found int32\[2, 3\]"),
        (_entry("dltype", "finfo"), "expected the name of a numeric dtype, found `finfo`"),
        (_function("gelu"), "expected a kernel `gelu`, found none"),
        (_function("npu_add_1"), "expected 2 operands and 1 results, found 1"),
        (lambda g: g["nodes"][6]["inputs"].__setitem__(0, [8, 0, 0]), "reads value `shifted` before anything wrote it"),
        (lambda g: g["metadata"]["rewrite_engine"]["values"].__setitem__(6, "s"), "`s`: expected a storage"),
        (lambda g: g["nodes"][10]["inputs"].reverse(), r"expected the operands \['back', 'v'\], found \['v', 'back'\]"),
        (lambda g: g["nodes"][9]["inputs"][0].__setitem__(0, 4), "copy `back` of `twice`: expected from device `npu0`"),
        (lambda g: g["heads"][0].__setitem__(0, 9), r"expected the outputs \['y'\], found \['back'\]"),
        (lambda g: g["attrs"].pop("dltype"), "graph.json: attrs: expected"),
    ],
)
def test_an_edited_graph_fails(edit: Callable[[dict[str, Any]], object], message: str) -> None:
    bundle = fake_bundle(small_graph())
    graph: dict[str, Any] = edited(bundle.graph)
    edit(graph)
    with pytest.raises(RewriteError, match=message):
        Executor(bundle.with_graph(graph)).run(small_inputs())


def test_memory_is_poisoned_before_every_run() -> None:
    """A kernel that forgets its output gives NaN, also when an earlier run left the right numbers there."""
    bundle = fake_bundle(small_graph())
    calls: list[np.ndarray] = []

    def forgetful(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        calls.append(outputs[0].copy())
        if len(calls) == 1:
            outputs[0][...] = 1

    executor = Executor(replace(bundle, kernels={**bundle.kernels, "npu_relu_1": forgetful}))
    assert np.isfinite(executor.run(small_inputs())["y"]).all()
    assert np.isnan(executor.run(small_inputs())["y"]).all()
    # `positive` takes the bytes of `a`, which this run has written: they too are poisoned before the kernel starts.
    assert np.isnan(calls).all()


def test_a_run_starts_without_anything_of_the_run_before() -> None:
    bundle = fake_bundle(small_graph())
    seen: list[np.ndarray] = []
    found: list[bool] = []

    def curious(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        found.extend(bool(np.isnan(array).all()) for array in seen)
        bundle.kernels["host_twice_1"](inputs, outputs)

    def remembered(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        bundle.kernels["npu_add_1"](inputs, outputs)
        seen.append(outputs[0])

    kernels = {**bundle.kernels, "host_twice_1": curious, "npu_add_1": remembered}
    executor = Executor(replace(bundle, kernels=kernels))
    executor.run(small_inputs())
    executor.run(small_inputs())
    assert found == [True]


def test_results_in_the_bytes_of_operands_come_out_wrong() -> None:
    """Not only the proof beforehand, the run too shows that bytes are shared while both values are live."""
    bundle = fake_bundle(small_graph())
    rows = tuple(replace(row, offset=0) if row.value == "sum" else row for row in bundle.plan.storages)
    executor = Executor(replace(bundle, plan=replace(bundle.plan, storages=rows)))
    assert np.isnan(executor.run(small_inputs())["y"]).all()


def test_a_clobbered_parameter_is_found_in_the_first_run() -> None:
    bundle = fake_bundle(small_graph())

    def careless(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        outputs[0][...] = inputs[0] + inputs[1]
        inputs[1][...] = 0

    executor = Executor(replace(bundle, kernels={**bundle.kernels, "npu_add_1": careless}))
    with pytest.raises(RewriteError, match="parameter `w` on `npu0` was overwritten during the run"):
        executor.run(small_inputs())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, r"missing input `x`: expected float32\[2, 3\]"),
        ({"x": np.zeros((2, 3))}, r"input `x`: expected float32\[2, 3\], found float64\[2, 3\]"),
        ({"x": np.zeros((3, 2), np.float32)}, r"input `x`: expected float32\[2, 3\], found float32\[3, 2\]"),
        ({"sise": np.zeros(2, np.int64)}, "unknown input `sise`: expected `x`, `size`; did you mean `size`?"),
    ],
)
def test_inputs_are_checked(change: dict[str, np.ndarray | None], message: str) -> None:
    executor = Executor(fake_bundle(small_graph()))
    inputs = {name: array for name, array in {**small_inputs(), **change}.items() if array is not None}
    with pytest.raises(RewriteError, match=message):
        executor.run(inputs)
    executor.run(small_inputs())


def test_parameters_are_checked() -> None:
    bundle = fake_bundle(small_graph())
    with pytest.raises(RewriteError, match="parameter `w`: expected it among the stored parameters"):
        Executor(replace(bundle, parameters={"v": bundle.parameters["v"]}))
    with pytest.raises(RewriteError, match=r"parameter `w`: expected float32\[2, 3\] as in .*, found float32\[6\]"):
        Executor(replace(bundle, parameters={**bundle.parameters, "w": np.zeros(6, np.float32)}))


def test_all_element_types_and_empty_or_scalar_shapes() -> None:
    types = {
        "a": TensorType("bfloat16", ()), "b": TensorType("int4", (3,)), "c": TensorType("bool", (0, 2)),
        "d": TensorType("float8_e4m3fn", (1,)), "e": TensorType("complex64", (2,)), "f": TensorType("uint64", (1, 1)),
    }  # fmt: skip
    placed = PlacedGraph("types", tuple(types), tuple(types), {}, (), types, dict.fromkeys(types, "host"))
    inputs = {name: np.ones(tensor.shape, numpy_dtype(tensor.dtype)) for name, tensor in types.items()}
    outputs = Executor(fake_bundle(placed)).run(inputs)
    for name, array in inputs.items():
        assert (outputs[name].dtype, outputs[name].shape) == (array.dtype, array.shape)
        assert outputs[name].tobytes() == array.tobytes()


def test_a_parameter_may_be_an_output() -> None:
    placed = small_graph()
    bundle = fake_bundle(replace(placed, outputs=("y", "v")))
    assert Executor(bundle).run(small_inputs())["v"].tobytes() == placed.parameters["v"].tobytes()


def test_outputs_take_the_models_names() -> None:
    """One value may be several outputs, an input or a parameter may be one; each has its name in the model."""
    placed = replace(small_graph(), outputs=("y", "y", "x", "w"), output_names=("a", "b", "c", "d"))
    inputs = small_inputs()
    outputs = Executor(fake_bundle(placed)).run(inputs)
    assert list(outputs) == ["a", "b", "c", "d"]
    np.testing.assert_allclose(outputs["a"], small_answer(inputs), rtol=1e-6)
    assert outputs["a"].tobytes() == outputs["b"].tobytes()
    assert outputs["c"].tobytes() == inputs["x"].tobytes()
    assert outputs["d"].tobytes() == placed.parameters["w"].tobytes()


def test_device_memory_is_aligned_and_bounded() -> None:
    memory = DeviceMemory("npu0", 128)
    storage = Storage("x", "x", "intermediate", "npu0", 64, 64, 0, 1, 0)
    array = memory.array(storage, TensorType("float32", (16,))).array
    assert array.ctypes.data % 64 == 0
    memory.poison(128)
    assert np.isnan(array).all()
    with pytest.raises(RewriteError, match="expected 68 bytes at 64 of `npu0`, which has 128"):
        memory.array(storage, TensorType("float32", (17,)))


def test_a_kernel_without_results_runs() -> None:
    placed = small_graph()
    silent = kernel("host.spread.9", ["x"], [])
    Executor(fake_bundle(replace(placed, steps=(*placed.steps, silent)))).run(small_inputs())


def test_the_runtime_imports_neither_onnx_nor_a_reference_runtime() -> None:
    program = (
        "import sys, rewrite_engine.backend.runtime, rewrite_engine.backend.bundle, rewrite_engine.backend.check\n"
        "foreign = ('onnx', 'onnx_ir', 'onnxruntime', 'egglog', 'lark')\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in foreign))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_random_inputs_fit_their_types_and_depend_on_the_seed_and_name_alone() -> None:
    types = {
        "input_ids": TensorType("int64", (2, 50)),
        "attention_mask": TensorType("int64", (2, 50)),
        "token_type_ids": TensorType("int32", (2, 50)),
        "pixels": TensorType("float16", (1, 300)),
        "small": TensorType("int8", (100,)),
        "flag": TensorType("bool", (40,)),
    }
    inputs = random_inputs(types, 3)
    assert {name: TensorType(a.dtype.name, a.shape) for name, a in inputs.items()} == types
    assert inputs["input_ids"].min() >= 0 and 50 < inputs["input_ids"].max() < 100
    for name in ("attention_mask", "token_type_ids", "flag"):
        assert set(np.unique(inputs[name]).tolist()) == {0, 1}
    assert (inputs["attention_mask"][:, 0] == 1).all()
    assert abs(float(inputs["pixels"].astype(np.float64).mean())) < 0.3 < float(inputs["pixels"].std())
    alone = random_inputs({"pixels": types["pixels"]}, 3)
    assert alone["pixels"].tobytes() == inputs["pixels"].tobytes()
    assert random_inputs(types, 4)["pixels"].tobytes() != inputs["pixels"].tobytes()
    for tensor in (TensorType("float32", ("batch",)), TensorType("string", (1,))):
        with pytest.raises(RewriteError, match=r"input `x` is .*: expected numbers and known sizes"):
            random_inputs({"x": tensor}, 0)
