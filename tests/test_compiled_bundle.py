"""Bundles with kernels in C: stored with their library, loaded where it fits, built again where not, never left out."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import parse
from plugging import rules_of

import rewrite_engine as rw
from rewrite_engine.backend.archive import json_bytes, sha256
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.c_kernels import KERNELS_C
from rewrite_engine.backend.library import LIBRARY, LIBRARY_JSON
from rewrite_engine.cli import main
from rewrite_engine.loops.compiler import CompilerFailed, NoCompiler, choose

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, (os.environ.get("CC", "gcc"), "clang"))), reason="there is no C compiler"
)
CROSS = "aarch64-linux-gnu"
MODEL = """g (float[8,16] x) => (float[8,24] y) <float[16,24] w> {
    a = MatMul(x, w)
    b = Relu(a)
    s = Softmax<axis=-1>(b)
    y = Sub(s, b)
}"""
SORTED = "g (float[8,16] x) => (float[8,3] y, int64[8,3] i) { k = Constant<value_ints=[3]>()\n y, i = TopK(x, k) }"
RULES = "supports MatMul, Relu, Neg"


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Libraries of the tests do not stay in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """A machine without a compiler."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def compiled(text: str = MODEL, **options: object) -> Bundle:
    model = parse(text)
    if "w>" in text:
        weight = np.random.default_rng(7).standard_normal((16, 24)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return rw.compile(rw.load(model), rules_of(RULES), **options)


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((8, 16)).astype(np.float32)}


def agree(bundle: Bundle, engine: str = "auto") -> Counter:
    """The bundle gives the numbers of NumPy, twice; returns what ran."""
    executor, plain = bundle.executor(engine), bundle.executor("numpy")
    for seed in (0, 1, 0):
        found, expected = executor.run(inputs(seed)), plain.run(inputs(seed))
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    return Counter(time.ran for time in executor.times)


def edit(folder: Path, path: str, content: bytes) -> None:
    """Changes a file of a bundle and its digest."""
    (folder / path).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"][path]["sha256"] = sha256(folder / path)
    (folder / "manifest.json").write_bytes(json_bytes(manifest))


# ---------------------------------------------------------------- what a bundle holds


@needs_compiler
def test_every_kernel_runs_in_c_from_the_stored_library(tmp_path):
    bundle = compiled()
    bundle.save(tmp_path / "b")
    for each in (bundle, Bundle.open(tmp_path / "b")):
        ran = agree(each)
        assert ran["c"] >= 3 and set(ran) <= {"c", "copy"}, ran
    executor = Bundle.open(tmp_path / "b").executor()
    assert executor.origin == "the bundle's library"
    facts = json.loads((tmp_path / "b" / LIBRARY_JSON).read_bytes())
    assert facts["schema"] == "rewrite_engine/library/1" and facts["flags"][-1] == "-march=native"
    metadata = json.loads((tmp_path / "b" / "metadata.json").read_bytes())
    rows = {symbol: row["c"] for symbol, row in metadata["functions"].items()}
    assert all(row["c_symbol"] == f"{symbol}_c" for symbol, row in rows.items())
    assert [row["constants"] for symbol, row in rows.items() if "MatMul" in symbol] == [[1]]
    # The C compiles by itself.
    command = ["cc", "-c", "-w", "-o", str(tmp_path / "k.o"), str(tmp_path / "b" / KERNELS_C)]
    assert subprocess.run(command, check=False).returncode == 0


@needs_compiler
def test_the_kernels_that_are_not_c_say_why(tmp_path):
    bundle = compiled(SORTED)
    assert agree(bundle)["host"] == 1 and "numpy" not in agree(bundle)
    reasons = {time.reason for time in _times(bundle) if time.ran == "host"}
    assert reasons == {"host operators (sort) are not C"}
    for time in _times(bundle, "numpy"):
        assert (time.ran, time.reason) in {
            ("host", "host operators (sort) are not C"),
            ("numpy", "the NumPy engine was asked for"),
            ("copy", ""),
        }


def _times(bundle: Bundle, engine: str = "auto") -> tuple:
    executor = bundle.executor(engine)
    executor.run(inputs())
    return executor.times


@needs_compiler
def test_a_kernel_without_c_and_without_a_reason_is_refused(tmp_path):
    bundle = compiled()
    assert bundle.c_kernels is not None
    kernels = dict(bundle.c_kernels.kernels)
    symbol = next(iter(kernels))
    del kernels[symbol]
    lost = replace(bundle, c_kernels=replace(bundle.c_kernels, kernels=kernels))
    with pytest.raises(rw.RewriteError, match=f"kernel `{symbol}` has no C, and no reason for it"):
        lost.executor()


def test_the_same_c_in_every_process(tmp_path):
    code = (
        "import sys, hashlib; sys.path[:0] = sys.argv[1:]; import test_compiled_bundle as t\n"
        "bundle = t.compiled(); print(hashlib.sha256(bundle.files()['kernels/kernels.c']).hexdigest(),"
        " hashlib.sha256(bundle.files()['metadata.json']).hexdigest())"
    )
    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    found = {
        subprocess.run(
            [sys.executable, "-c", code, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(found) == 1


# ---------------------------------------------------------------- other machines


@needs_compiler
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"processor": "0" * 64}, "the library was made for another processor"),
        ({"triple": "riscv64-linux-gnu"}, "the library is for riscv64-linux-gnu, this machine is "),
        ({"cpu": "z9", "features": ["vectors9"]}, "the library needs a processor with vectors9"),
    ],
)
def test_a_library_that_does_not_fit_is_built_again(tmp_path, change, why, monkeypatch):
    compiled().save(tmp_path / "b")
    facts = json.loads((tmp_path / "b" / LIBRARY_JSON).read_bytes())
    edit(tmp_path / "b", LIBRARY_JSON, json_bytes({**facts, **change}))
    monkeypatch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path / "cache"))
    bundle = Bundle.open(tmp_path / "b")
    assert set(agree(bundle)) <= {"c", "copy"}
    assert bundle.executor().origin.startswith(f"a library found in the cache ({why}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    executor = bundle.executor()
    executor.run(inputs())
    assert {time.ran for time in executor.times} <= {"numpy", "copy"} and executor.origin == "NumPy"
    reasons = {time.reason for time in executor.times if time.ran == "numpy"}
    assert len(reasons) == 1 and why in min(reasons) and "no C compiler: looked for gcc, clang" in min(reasons)


@needs_compiler
def test_a_library_that_does_not_load_is_built_again(tmp_path):
    compiled().save(tmp_path / "b")
    facts = json.loads((tmp_path / "b" / LIBRARY_JSON).read_bytes())
    edit(tmp_path / "b", LIBRARY, b"no library")
    edit(tmp_path / "b", LIBRARY_JSON, json_bytes({**facts, "sha256": sha256(tmp_path / "b" / LIBRARY)}))
    bundle = Bundle.open(tmp_path / "b")
    assert set(agree(bundle)) <= {"c", "copy"} and "does not load" in bundle.executor().origin
    compiled().save(tmp_path / "c")
    bundle = Bundle.open(tmp_path / "c")
    shutil.rmtree(tmp_path / "c")  # what was read is enough
    assert set(agree(bundle)) <= {"c", "copy"}


@needs_compiler
def test_a_library_runs_without_a_compiler(tmp_path, monkeypatch):
    compiled().save(tmp_path / "b")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert set(agree(Bundle.open(tmp_path / "b"), "c")) <= {"c", "copy"}


def test_without_a_compiler_kernels_run_in_numpy_and_say_so(no_compiler, tmp_path):
    bundle = compiled()
    bundle.save(tmp_path / "b")
    assert (tmp_path / "b" / KERNELS_C).is_file() and not (tmp_path / "b" / "lib").exists()
    opened = Bundle.open(tmp_path / "b")
    assert set(agree(opened)) <= {"numpy", "copy"}
    assert any("no C compiler: looked for gcc, clang" in time.reason for time in _times(opened))
    with pytest.raises(NoCompiler, match="no C compiler"):
        opened.executor("c")
    with pytest.raises(NoCompiler, match="no C compiler"):
        compiled(engine="c")
    with pytest.raises(NoCompiler, match="no C compiler: looked for my-cc"):
        compiled(targets={"host": {"cc": "my-cc"}})  # what was asked for is not left out silently


def test_without_c(tmp_path):
    bundle = compiled(engine="numpy")
    bundle.save(tmp_path / "b")
    assert not (tmp_path / "b" / KERNELS_C).exists() and not (tmp_path / "b" / "lib").exists()
    assert {time.reason for time in _times(bundle) if time.ran == "numpy"} == {"the bundle was compiled without C"}
    with pytest.raises(rw.RewriteError, match="compiled without C; compile it again"):
        bundle.executor("c")
    for call in (bundle.executor, bundle.with_c, lambda engine: compiled(engine=engine)):
        with pytest.raises(rw.RewriteError, match="engine: expected one of auto, c, numpy, found `fortran`"):
            call("fortran")


@needs_compiler
def test_a_compiler_that_fails_is_an_error(tmp_path, monkeypatch):
    broken = tmp_path / "broken-cc"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken 1.0 && exit 0\necho "no, thanks" >&2; exit 1\n')
    broken.chmod(0o755)
    with pytest.raises(CompilerFailed, match="broken-cc failed on the kernels:\nno, thanks"):
        compiled(targets={"host": {"cc": str(broken)}})


@needs_compiler
@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        (LIBRARY, lambda c: c[:-1], "expected the library of kernels/kernels.c, found that of other kernels"),
        (KERNELS_C, lambda c: c + b"\n", "expected the library of kernels/kernels.c, found that of other kernels"),
        (LIBRARY_JSON, lambda c: b"{}", "expected the facts of lib/kernels.so"),
        ("metadata.json", lambda c: c.replace(b'"packed": ', b'"packing": '), "expected the facts of its C"),
        ("metadata.json", lambda c: c.replace(b'"workspace": ', b'"workspace": -'), "expected"),
        ("metadata.json", lambda c: c.replace(b'"lanes": ', b'"lines": '), "expected `c` with `lanes`"),
    ],
)
def test_edits_are_refused_even_with_their_digest(tmp_path, path, change, message):
    compiled().save(tmp_path / "b")
    content = (tmp_path / "b" / path).read_bytes()
    (tmp_path / "b" / path).write_bytes(change(content))
    with pytest.raises(rw.RewriteError, match="changed or damaged"):
        Bundle.open(tmp_path / "b")
    edit(tmp_path / "b", path, change(content))
    with pytest.raises(rw.RewriteError, match=message):
        Bundle.open(tmp_path / "b")


@needs_compiler
def test_packed_operands_must_be_parameters():
    """A kernel that packs an operand once is not given one that changes."""
    bundle = compiled()
    graph = json.loads(json.dumps(bundle.graph))
    node = next(node for node in graph["nodes"] if "MatMul" in node.get("attrs", {}).get("func_name", ""))
    symbol = node["attrs"]["func_name"]
    kernels = dict(bundle.c_kernels.kernels)
    kernels[symbol] = replace(kernels[symbol], constants=(0, 1))
    with pytest.raises(rw.RewriteError, match="operand 0: expected a parameter, found"):
        replace(bundle, c_kernels=replace(bundle.c_kernels, kernels=kernels)).executor()


# ---------------------------------------------------------------- the command line


@needs_compiler
def test_run_says_what_ran(tmp_path, capsys):
    compiled(SORTED).save(tmp_path / "b")

    def run(*options: str) -> str:
        assert main(["run", str(tmp_path / "b"), *options]) == 0
        return capsys.readouterr().out

    found = json.loads(run("--json"))
    assert found["engine"] == "the bundle's library"
    kinds = {row["ran"]: row.get("reason") for row in found["kernels"]}
    assert kinds["host"] == "host operators (sort) are not C" and set(kinds) <= {"c", "host", "copy"}
    assert "1 host operators in NumPy" in run() and "1 not in C: host operators (sort) are not C" in run()
    assert "in C" not in run("--engine", "numpy").replace("not in C", "")


@needs_compiler
def test_host_options_reach_the_compiler(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    bundle = compiled(targets={"host": {"cc": "gcc -DSEEN", "cpu": "x86-64" if _x86() else "native"}})
    assert bundle.library.compiler == "gcc -DSEEN" and (not _x86() or bundle.library.features == ())
    bundle.save(tmp_path / "b")
    assert json.loads((tmp_path / "b" / "metadata.json").read_text())["host"]["cc"] == "gcc -DSEEN"
    assert set(agree(Bundle.open(tmp_path / "b"))) <= {"c", "copy"}
    with pytest.raises(NoCompiler, match=r"gcc makes code for [^ ]+, expected sparc"):
        compiled(targets={"host": {"cc": "gcc", "triple": "sparc-linux-gnu"}})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompiler, match="looked for sparc-linux-gnu-gcc, clang"):
        choose(triple="sparc-linux-gnu")


def _x86() -> bool:
    return platform.machine() == "x86_64"


@pytest.mark.skipif(not shutil.which(f"{CROSS}-gcc"), reason=f"{CROSS}-gcc is not installed (gcc-{CROSS})")
def test_a_library_for_another_platform(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    bundle = compiled(targets={"host": {"triple": CROSS, "cpu": "cortex-a53"}})
    assert bundle.library.compiler == f"{CROSS}-gcc" and "-mcpu=cortex-a53" in bundle.library.flags
    bundle.save(tmp_path / "b")
    elf = (tmp_path / "b" / LIBRARY).read_bytes()[:20]
    assert elf[:4] == b"\x7fELF" and elf[18] == 183  # EM_AARCH64
    opened = Bundle.open(tmp_path / "b")
    assert set(agree(opened)) <= {"c", "copy"}  # built again for this machine
    assert "this machine is" in opened.executor().origin
