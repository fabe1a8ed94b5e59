"""Bundles: the same bytes every time, whole or not at all, every damage named; and the comparison with ONNX Runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_graphs import kernel, small_answer, small_graph, small_inputs
from test_verify_plan import drop_node

from rewrite_engine.backend.archive import read_npz, write_npz
from rewrite_engine.backend.bundle import OWN_FILES, Bundle, build
from rewrite_engine.backend.check import CheckReport, OutputCheck, compare, relative_error
from rewrite_engine.backend.runtime import Kernel, numpy_dtype
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import BodyNode, KernelCall, PlacedGraph
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.execute import run
from rewrite_engine.loops.lower import lower
from rewrite_engine.operators.types import TensorType

OPERATORS: dict[str, tuple[str, dict[str, object]]] = {
    "twice": ("Add", {}), "add": ("Add", {}), "relu": ("Relu", {}), "shape": ("Reshape", {"allowzero": 0}),
    "matmul": ("MatMul", {}),
}  # fmt: skip
EXTRA = {"placement.json": b"{}\n", "model.onnx": b"\x08\x01", "notes/more.txt": b"more\n"}


def programs_of(placed: PlacedGraph, constants: Mapping[str, np.ndarray]) -> dict[str, Program]:
    """A program per kernel: `device.NAME.1` is the operator that NAME stands for."""
    programs = {}
    for call in placed.steps:
        if isinstance(call, KernelCall):
            body = (BodyNode(*OPERATORS[call.name.split(".")[1]], call.inputs, call.outputs),)
            programs[call.name] = lower(replace(call, body=body), placed.types, constants)
    return programs


def small_bundle() -> Bundle:
    placed = small_graph()
    return build(placed, programs_of(placed, {"size": np.array([2, 3])}), {"npu0": 4096}, EXTRA)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_build_save_open_run(tmp_path: Path) -> None:
    bundle = small_bundle()
    bundle.save(tmp_path / "deep" / "out")
    files = content(tmp_path / "deep" / "out")
    kernels = ["host_add_1", "host_twice_1", "npu_relu_1", "npu_shape_1"]
    assert sorted(files) == sorted(
        ["manifest.json", "graph.json", "memory.json", "metadata.json", "params.npz", *EXTRA]
        + [f"kernels/{name}.{form}" for name in kernels for form in ("json", "loops")]
    )
    assert list(tmp_path.joinpath("deep").iterdir()) == [tmp_path / "deep" / "out"]
    opened = Bundle.open(tmp_path / "deep" / "out")
    assert (opened.plan, opened.functions, opened.extra_files) == (bundle.plan, bundle.functions, EXTRA)
    assert opened.inputs == {"x": TensorType("float32", (2, 3)), "size": TensorType("int64", (2,))}
    assert opened.outputs == {"y": TensorType("float32", (2, 3))}
    for seed in (0, 1):
        inputs = small_inputs(seed)
        result = opened.run(inputs)["y"]
        np.testing.assert_allclose(result, small_answer(inputs), rtol=1e-6)
        assert result.tobytes() == bundle.run(inputs)["y"].tobytes()


def test_metadata_names_functions_sizes_and_shared_kernels(tmp_path: Path) -> None:
    small_bundle().save(tmp_path / "out")
    metadata = json.loads((tmp_path / "out" / "metadata.json").read_bytes())
    add = metadata["functions"]["npu_add_1"]
    # The addition of the host and that of the NPU are one program, stored once.
    assert add["kernel"] == metadata["functions"]["host_add_1"]["kernel"] == "kernels/host_add_1"
    assert (add["target"], add["device"], add["io"], add["constants"]) == ("npu", "npu0", 72, 24)
    assert metadata["functions"]["npu_shape_1"]["host_inputs"] == [1]
    assert metadata["devices"]["npu0"] == {"workspace": 0, "io": 0, "constants": 24}
    text = (tmp_path / "out" / "kernels" / "npu_relu_1.loops").read_text()
    assert "max" in text


def test_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_bundle; test_bundle.small_bundle().save(sys.argv[2])"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / seed)]
        subprocess.run(command, env=environment, check=True)
    assert content(tmp_path / "1") == content(tmp_path / "2") != {}


def test_an_earlier_bundle_is_replaced_whole(tmp_path: Path) -> None:
    bundle = small_bundle()
    replace(bundle, extra_files={"old.txt": b"old"}).save(tmp_path / "out")
    bundle.save(tmp_path / "out")
    assert "old.txt" not in content(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    Bundle.open(tmp_path / "out")
    (tmp_path / "empty").mkdir()
    bundle.save(tmp_path / "empty")
    Bundle.open(tmp_path / "empty")


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda out: out.write_text("a file"), "expected a folder, found a file"),
        (lambda out: (out.mkdir(), (out / "thesis.tex").write_text("x")), "is not a bundle"),
        (lambda out: (out.mkdir(), (out / "manifest.json").write_text("{}")), "expected schema"),
        (lambda out: (out.mkdir(), (out / "manifest.json").write_text("nope")), "expected JSON"),
        (
            lambda out: (small_bundle().save(out), (out / "thesis.tex").write_text("x")),
            r"other files too \(thesis\.tex\)",
        ),
        (lambda out: out.parent.joinpath("out").symlink_to("/proc/nowhere"), "cannot write the bundle to"),
    ],
)
def test_what_is_not_a_bundle_is_left_alone(tmp_path: Path, prepare: Any, message: str) -> None:
    out = tmp_path / "out"
    prepare(out)
    before = content(tmp_path)
    with pytest.raises(RewriteError, match=message):
        small_bundle().save(out)
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_half_written_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = small_bundle()
    bundle.save(tmp_path / "out")
    before = content(tmp_path)
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr("rewrite_engine.backend.bundle.write_npz", fail)
        with pytest.raises((RewriteError, KeyboardInterrupt)) as raised:
            replace(bundle, extra_files={}).save(tmp_path / "out")
        assert isinstance(raised.value, KeyboardInterrupt) or "No space left on device" in str(raised.value)
        assert content(tmp_path) == before


def test_the_earlier_bundle_comes_back_when_the_last_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = small_bundle()
    bundle.save(tmp_path / "out")
    before = content(tmp_path)
    rename = Path.rename

    def fail_for_the_new_one(self: Path, target: Path) -> Path:
        if self.name.endswith(".new"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with pytest.raises(RewriteError, match="Input/output error"):
        replace(bundle, extra_files={}).save(tmp_path / "out")
    assert content(tmp_path) == before


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RewriteError, match="cannot write the bundle to"):
        small_bundle().save(tmp_path / "file" / "out")


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/out.txt", "graph.json", "manifest.json", "params.npz", ""])
def test_extra_files_stay_in_the_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(RewriteError, match="extra file: expected a relative path that is not taken"):
        replace(small_bundle(), extra_files={path: b""}).save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["<i8", "=i8", ">i8", "float32", "bool", "bfloat16", "int4"])
def test_arrays_are_stored_by_what_they_are_and_not_by_how_they_came(tmp_path: Path, dtype: str) -> None:
    """Libraries make dtypes that equal NumPy's own and are not the same object; bytes may come in the other order."""
    plain = numpy_dtype(np.dtype(dtype).name if dtype[0] in "<=>" else dtype)
    array = np.arange(6).reshape(2, 3).astype(plain)
    given = [array, array.astype(dtype)] if dtype[0] in "<=>" else [array]
    if plain.isbuiltin == 1:
        given.append(array.astype(plain.newbyteorder("=")))
    for number, each in enumerate(given):
        write_npz(tmp_path / f"{number}.npz", {"x": each})
        found = read_npz(tmp_path / f"{number}.npz", {"x": TensorType(plain.name, (2, 3))})["x"]
        assert found.dtype == plain and np.array_equal(found.astype(int), array.astype(int))
        write_npz(tmp_path / "again.npz", {"x": found})
        first = (tmp_path / "0.npz").read_bytes()
        assert first == (tmp_path / f"{number}.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


@pytest.mark.parametrize("name", [*OWN_FILES, "kernels/npu_relu_1.json"])
def test_missing_and_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    small_bundle().save(tmp_path / "out")
    path = tmp_path / "out" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RewriteError, match=f"{name}: changed or damaged: expected sha256"):
        Bundle.open(tmp_path / "out")
    path.unlink()
    with pytest.raises(RewriteError, match=f"{name}: listed in manifest.json, cannot be read"):
        Bundle.open(tmp_path / "out")


def test_what_is_not_a_bundle_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(RewriteError, match="expected the folder of a bundle, found nothing"):
        Bundle.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(RewriteError, match="expected the folder of a bundle, found a file"):
        Bundle.open(tmp_path / "file")
    with pytest.raises(RewriteError, match=r"is not a bundle: it has no manifest\.json; `rewrite-engine compile`"):
        Bundle.open(tmp_path)


def _rewrite(folder: Path, name: str, change: Any) -> None:
    """Edit a JSON file of a bundle and its digest: what an engineer who knows the format would do."""
    from rewrite_engine.backend.archive import sha256

    data = json.loads((folder / name).read_bytes())
    change(data)
    (folder / name).write_text(json.dumps(data))
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"][name]["sha256"] = sha256(folder / name)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("graph.json", lambda g: drop_node(g, 5, rewire=True), "the bundle does not hold:(.|\n)*a copy is missing"),
        ("graph.json", lambda g: g["heads"][0].__setitem__(0, 9), "the bundle does not hold:(.|\n)*heads: expected"),
        ("graph.json", lambda g: g.pop("heads"), "graph.json: graph: expected the keys"),
        ("memory.json", lambda m: m["storages"].pop(), "expected a storage in the memory plan, found none"),
        ("memory.json", lambda m: m.pop("steps"), "memory plan: expected an integer `steps`"),
        ("metadata.json", lambda m: m.pop("functions"), "metadata.json: expected schema"),
        ("metadata.json", lambda m: m["functions"].pop("npu_relu_1"), "expected a kernel `npu_relu_1`, found none"),
        ("metadata.json", lambda m: m["functions"]["npu_relu_1"].pop("io"), "function `npu_relu_1` cannot be read"),
        ("metadata.json", lambda m: m["functions"]["npu_relu_1"].update(kernel="k"), r"its program in `k\.json`"),
        ("metadata.json", lambda m: m["functions"]["npu_relu_1"].update(hash="0"), "expected the program of hash 0"),
        ("metadata.json", lambda m: m["functions"]["npu_add_1"]["outputs"][0].update(dtype="int32"),
         r"kernel `npu_add_1`: expected results int32\[2, 3\], found a program on float32\[2, 3\]"),
        ("kernels/npu_relu_1.json", lambda k: k.clear(), "expected the program of hash"),
    ],
)  # fmt: skip
def test_edits_are_refused_even_with_their_digest(tmp_path: Path, name: str, change: Any, message: str) -> None:
    small_bundle().save(tmp_path / "out")
    _rewrite(tmp_path / "out", name, change)
    with pytest.raises(RewriteError, match=message):
        Bundle.open(tmp_path / "out")


def test_build_needs_a_program_for_each_kernel_and_memory_for_all() -> None:
    placed = small_graph()
    programs = programs_of(placed, {"size": np.array([2, 3])})
    with pytest.raises(RewriteError, match="device `npu0` is too small"):
        build(placed, programs, {"npu0": 10})
    wrong = {**programs, "npu.relu.1": programs["npu.add.1"]}
    with pytest.raises(RewriteError, match="kernel `npu_relu_1`: expected operands"):
        build(placed, wrong, {})
    del programs["npu.relu.1"]
    with pytest.raises(RewriteError, match=r"expected a program for each kernel, found none for npu\.relu\.1"):
        build(placed, programs, {})


def test_parameters_of_every_type_survive(tmp_path: Path) -> None:
    types = {
        "a/b": TensorType("bfloat16", (3,)), "c:0": TensorType("int4", (2, 2)), "d": TensorType("float32", ()),
        "e": TensorType("bool", (0, 3)), "f": TensorType("float8_e5m2", (1,)), "g": TensorType("int64", (2,)),
    }  # fmt: skip
    arrays = {name: np.ones(tensor.shape, numpy_dtype(tensor.dtype)) for name, tensor in types.items()}
    write_npz(tmp_path / "p.npz", dict(reversed(arrays.items())))
    with zipfile.ZipFile(tmp_path / "p.npz") as archive:
        assert [row.filename for row in archive.infolist()] == [f"{name}.npy" for name in sorted(types)]
        assert {row.date_time for row in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    found = read_npz(tmp_path / "p.npz", types)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
    with pytest.raises(RewriteError, match="found a difference in g"):
        read_npz(tmp_path / "p.npz", {name: tensor for name, tensor in types.items() if name != "g"})
    with pytest.raises(RewriteError, match=r"parameter `g`: expected int64\[3\], found int64\[2\]"):
        read_npz(tmp_path / "p.npz", {**types, "g": TensorType("int64", (3,))})


def matmul_bundle(weight: np.ndarray) -> Bundle:
    x, y = TensorType("float32", (4, 8)), TensorType("float32", (4, 5))
    placed = PlacedGraph(
        name="matmul",
        inputs=("x",),
        outputs=("y",),
        parameters={"w": weight},
        steps=(kernel("host.matmul.1", ["x", "w"], ["h"]), kernel("host.relu.1", ["h"], ["y"])),
        types={"x": x, "w": TensorType("float32", (8, 5)), "h": y, "y": y},
        devices=dict.fromkeys("xwhy", "host"),
    )
    return build(placed, programs_of(placed, {}), {})


def reference(weight: np.ndarray) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 5])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return bytes(model.SerializeToString())


def test_comparison_with_onnx_runtime() -> None:
    pytest.importorskip("onnxruntime")
    weight = np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)
    report = compare(matmul_bundle(weight), reference(weight), 7)
    assert report.ok and report.problems == ()
    assert [(check.output, check.seed) for check in report.checks] == [("y", 7), ("y", 8)]
    assert report.largest_error < 1e-5 and report.separations["y"] > 0.1
    slightly = weight.copy()
    slightly[0, 0] += 0.01
    wrong = compare(matmul_bundle(slightly), reference(weight), 7)
    assert not wrong.ok and "output `y`, seed 7: expected an error of at most 0.0001" in wrong.problems[0]
    # A model whose outputs do not depend on its inputs proves nothing, however right the bundle is.
    zero = np.zeros_like(weight)
    blind = compare(matmul_bundle(zero), reference(zero), 0)
    assert blind.largest_error == 0 and not blind.ok and "the check proves nothing" in blind.problems[0]
    given = compare(matmul_bundle(weight), reference(weight), inputs={"x": np.ones((4, 8), np.float32)})
    assert given.ok and [check.seed for check in given.checks] == [None]
    with pytest.raises(RewriteError, match="ONNX Runtime cannot load the reference model"):
        compare(matmul_bundle(weight), b"nonsense")


def test_runs_that_differ_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    weight = np.ones((8, 5), np.float32)
    runs = []

    def restless(program: Program) -> Kernel:
        def kernel(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
            run(program, inputs, outputs)
            runs.append(program)
            outputs[0][...] *= np.float32(1 + 1e-6 * len(runs))

        return kernel

    monkeypatch.setattr("rewrite_engine.backend.bundle.kernel_of", restless)
    report = compare(matmul_bundle(weight), reference(weight), 7)
    assert report.largest_error < 1e-4 and not report.ok
    assert report.problems[0] == "output `y`, seed 7: expected the same bits in both runs, found a difference"


def test_a_missing_onnx_runtime_is_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RewriteError, match=r"install rewrite-engine\[check\]"):
        compare(matmul_bundle(np.zeros((8, 5), np.float32)), b"")


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([1.0, 2.0], [np.nan, 2.0], np.inf),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([-np.inf, 2.0], [np.inf, 2.0], np.inf),
        ([0.0], [0.0], 0.0),
        ([1e-30], [0.0], np.inf),
        ([1.0], [1.0, 1.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_relative_error(found: list[float], expected: list[float], error: float) -> None:
    assert relative_error(np.array(found), np.array(expected))[0] == error


def test_a_report_is_not_ok_when_runs_differ_or_an_error_is_nan() -> None:
    def report(error: float = 0.0, repeatable: bool = True, separation: float = 1.0) -> CheckReport:
        return CheckReport((OutputCheck("y", 0, error, 1.0, repeatable),), {"y": separation}, 1e-4)

    assert report().ok
    assert "expected the same bits in both runs" in report(repeatable=False).problems[0]
    assert not report(error=float("nan")).ok and not report(separation=float("nan")).ok
    assert report(error=1e-4).ok and not report(error=1.1e-4).ok
    assert not report(separation=0.0099).ok
