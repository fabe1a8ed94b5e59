"""What goes wrong around compilers and their cache: one clear message, and nothing broken is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_compiled_bundle import agree, compiled, inputs, needs_compiler, own_cache  # noqa: F401 (a fixture)

import rewrite_engine as rw
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.library import LIBRARY

pytestmark = needs_compiler
COMPILE = (
    "import sys; sys.path[:0] = sys.argv[2:]\nimport test_compiled_bundle as t\n"
    "bundle = t.compiled(); bundle.save(sys.argv[1]); print(bundle.library.path)"
)


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("REWRITE_ENGINE_CACHE", str(folder))
    return folder


def in_process(folder: Path, **environment: str) -> subprocess.Popen[str]:
    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    return subprocess.Popen(
        [sys.executable, "-c", COMPILE, str(folder), *paths],
        env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def slow_compiler(tmp_path: Path, mark: Path) -> str:
    """gcc, but a compilation first makes a file and then sleeps."""
    script = tmp_path / "slow-cc"
    script.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) touch {mark}; sleep 15;; esac\nexec gcc "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_processes_that_build_the_same_bundle_at_once(cache, tmp_path):
    running = [in_process(tmp_path / f"b{number}") for number in range(3)]
    paths = set()
    for number, process in enumerate(running):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        paths.add(out.strip())
        assert set(agree(Bundle.open(tmp_path / f"b{number}"))) <= {"c", "copy"}
    assert len(paths) == 1 and [path.name for path in cache.iterdir()] == [Path(min(paths)).name]


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_ends_while_it_compiles(cache, tmp_path, kind):
    compiled().save(tmp_path / "b")
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    mark = tmp_path / "compiling"
    process = in_process(tmp_path / "b", CC=slow_compiler(tmp_path, mark), REWRITE_ENGINE_CACHE=str(tmp_path / "other"))
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(kind)
    process.communicate(timeout=60)
    assert process.returncode == (-kind if kind == signal.SIGKILL else process.returncode) != 0
    assert {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()} == before
    assert not list((tmp_path / "other").glob("*.so"))
    assert set(agree(Bundle.open(tmp_path / "b"))) <= {"c", "copy"}
    with pytest.MonkeyPatch.context() as patch:  # and it can be made again; what was left is cleared away
        patch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path / "other"))
        compiled().save(tmp_path / "b")
    assert [path.suffix for path in (tmp_path / "other").iterdir()] == [".so"]


def test_a_process_that_is_killed_while_it_writes(cache, tmp_path):
    compiled().save(tmp_path / "b")
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    code = (
        "import sys, os; sys.path[:0] = sys.argv[2:]\nimport test_compiled_bundle as t\n"
        "from rewrite_engine.backend import bundle as b\nmade = t.compiled()\n"
        "b.write_npz = lambda *_: os.kill(os.getpid(), 9)\nmade.save(sys.argv[1])"
    )
    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "b"), *paths], check=False, timeout=120)
    assert done.returncode == -9
    assert {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()} == before
    assert len(list(tmp_path.glob(".b.*.new"))) == 1
    compiled().save(tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "cache"]


def test_a_cache_entry_cut_in_half_is_made_again(cache, tmp_path):
    bundle = compiled()
    whole = bundle.library.path.read_bytes()
    bundle.library.path.write_bytes(whole[: len(whole) // 2])
    again = compiled()
    assert again.library.path == bundle.library.path and len(again.library.content) == len(whole)
    assert set(agree(again)) <= {"c", "copy"}


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        rw.RewriteError, match=r"cannot build kernels in .*; name another folder in REWRITE_ENGINE_CACHE"
    ):
        compiled()


def test_a_full_disk(cache, tmp_path, monkeypatch):
    bundle = compiled()
    bundle.save(tmp_path / "b")
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if self.name == Path(LIBRARY).name:
            raise OSError(28, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(rw.RewriteError, match=r"cannot write the bundle to .*: No space left on device"):
        bundle.save(tmp_path / "b")
    assert {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "cache"]

    def no_rename(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_rename)
    monkeypatch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path / "empty"))
    with pytest.raises(rw.RewriteError, match=r"cannot build kernels in .*: No space left on device"):
        compiled()
    assert list((tmp_path / "empty").iterdir()) == []


def test_every_change_of_the_library_is_found(cache, tmp_path):
    compiled().save(tmp_path / "b")
    path = tmp_path / "b" / LIBRARY
    whole = path.read_bytes()
    choose = random.Random(0)
    for _ in range(30):
        content = bytearray(whole)
        content[choose.randrange(len(whole))] ^= 1 << choose.randrange(8)
        path.write_bytes(content[: choose.choice([len(whole), choose.randrange(len(whole))])])
        with pytest.raises(rw.RewriteError, match=r"lib/kernels\.so: changed or damaged"):
            Bundle.open(tmp_path / "b")


def test_a_kernel_that_fails_is_an_error(cache):
    """What a function returns is read."""
    from dataclasses import replace

    from rewrite_engine.backend.library import build_library, host_compiler

    bundle = compiled()
    symbol = next(symbol for symbol in bundle.functions if "Softmax" in symbol)
    head = f"int {symbol}_c(void **inputs, void **outputs, void *workspace) {{\n"
    assert head in bundle.c_kernels.text
    broken = replace(bundle.c_kernels, text=bundle.c_kernels.text.replace(head, head + "  if (inputs) return 3;\n"))
    compiler = host_compiler({}, "c")
    failing = replace(bundle, c_kernels=broken, library=build_library(broken, compiler))
    with pytest.raises(rw.RewriteError, match="a kernel returned 3"):
        failing.run(inputs())
    assert np.isfinite(failing.run(inputs(), "numpy")["y"]).all()
