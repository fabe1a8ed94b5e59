"""Stand-alone programs: a model as C, built and run without Python, on this machine and on another one's processor."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from models import find_model, get_model
from test_compiled_bundle import CROSS, SORTED, compiled, needs_compiler, no_compiler, own_cache  # noqa: F401 (fixtures)
from test_compiled_bundle import inputs as small_inputs

import rewrite_engine as rw
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.standalone import PROGRAM, SOURCE, WEIGHTS
from rewrite_engine.cli import main
from rewrite_engine.graph import bundled_model
from rewrite_engine.loops.compiler import FLAGS, SANITIZERS

BARE = {"PATH": "/nowhere", "PYTHONHOME": "/nowhere"}
"""An environment in which no Python would start."""


def run(
    folder: Path, bundle: Bundle, feed: dict[str, np.ndarray], *before: str, program: Path | None = None, **env: str
) -> dict[str, np.ndarray]:
    """Outputs of the program for the inputs, as .npy files."""
    files = [str(folder / f"in{at}.npy") for at in range(len(feed))]
    for file, name in zip(files, bundle.inputs, strict=True):
        array = feed[name]
        np.save(file, array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}"))
    outputs = [str(folder / f"out{at}.npy") for at in range(len(bundle.outputs))]
    command = [
        *before,
        str(program or folder / "b" / PROGRAM),
        "-n",
        "2",
        str(folder / "b" / WEIGHTS),
        *files,
        *outputs,
    ]
    done = subprocess.run(command, env={**BARE, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the least of 2 runs" in done.stderr
    return {name: np.load(file) for name, file in zip(bundle.outputs, outputs, strict=True)}


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float = 0.0) -> None:
    for name, array in expected.items():
        bits = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
        assert found[name].dtype == bits.dtype and found[name].shape == bits.shape
        if tolerance:
            assert np.abs(found[name] - array).max() <= tolerance * np.abs(array).max()
        else:
            assert found[name].tobytes() == bits.tobytes()


@needs_compiler
@pytest.mark.parametrize("name", ["mobilenetv2.legacy", "bert12.legacy"])
def test_a_model_on_two_devices_without_python(tmp_path, name):
    find_model(name)
    bundle = rw.compile(rw.load(get_model(name)), rw.load_rules("board.pat"), standalone=True)
    assert len(bundle.plan.devices) == 2
    bundle.save(tmp_path / "b")
    assert SOURCE in Bundle.open(tmp_path / "b").extra_files
    for seed in (0, 1):
        feed = random_inputs(bundle.inputs, seed)
        found = run(tmp_path, bundle, feed)
        same(found, bundle.run(feed))  # to the bit: the same C
        same(found, bundle.run(feed, "numpy"), 1e-4)
    text = (tmp_path / "b" / SOURCE).read_text()
    copies = sum(node.get("attrs", {}).get("func_name") == "__copy" for node in bundle.graph["nodes"])
    assert text.count("  memcpy(re_memory_") == copies > 0
    for number, use in enumerate(bundle.plan.devices):
        assert f"re_memory_{number}[{use.extent + 64}]" in text


@needs_compiler
def test_the_program_is_clean_under_sanitizers(tmp_path):
    bundle = compiled(standalone=True)
    bundle.save(tmp_path / "b")
    program = tmp_path / "checked"
    command = ["gcc", *FLAGS, *SANITIZERS, str(tmp_path / "b" / SOURCE), "-o", str(program), "-lm"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("the compiler has no sanitizers")
    feed = small_inputs()
    same(run(tmp_path, bundle, feed, program=program), bundle.run(feed, "numpy"), 1e-5)


@needs_compiler
def test_elements_that_files_have_no_letter_for(tmp_path):
    text = "g (bfloat16[5] x, float[1] s, bool[0,3] e) => (bfloat16[5] y, float[] t, bool[0,3] f) {" + (
        "y = Neg(x)\n t = Squeeze(s)\n f = Not(e) }"
    )
    bundle = compiled(text, standalone=True)
    bundle.save(tmp_path / "b")
    feed = {
        "x": np.arange(5).astype(ml_dtypes.bfloat16),
        "s": np.array([3.0], np.float32),
        "e": np.zeros((0, 3), bool),
    }
    same(run(tmp_path, bundle, feed), bundle.run(feed, "numpy"))


@needs_compiler
def test_files_that_do_not_fit(tmp_path):
    bundle = compiled(standalone=True)
    bundle.save(tmp_path / "b")
    program, weights, out = (str(tmp_path / name) for name in (f"b/{PROGRAM}", f"b/{WEIGHTS}", "y.npy"))
    good = str(tmp_path / "x.npy")
    np.save(good, small_inputs()["x"])

    def refused(*arguments: str) -> str:
        done = subprocess.run([program, *arguments], env=BARE, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and not Path(out).exists()
        return done.stderr

    def saved(array: np.ndarray) -> str:
        np.save(tmp_path / "other.npy", array)
        return str(tmp_path / "other.npy")

    x = small_inputs()["x"]
    usage = refused()
    assert "input x: <f4 (8, 16)" in usage and "output y: <f4 (8, 24)" in usage
    assert "usage: " in refused(weights, good)
    assert "expected elements of type <f4" in refused(weights, saved(x.astype(np.float64)), out)
    assert "expected elements of type <f4" in refused(weights, saved(x.astype(">f4")), out)
    assert "expected the shape (8, 16)" in refused(weights, saved(x.T.copy()), out)
    assert "expected the shape (8, 16)" in refused(weights, saved(x[0]), out)
    assert "expected rows first (C order)" in refused(weights, saved(np.asfortranarray(x)), out)
    assert "expected an .npy file" in refused(weights, weights, out)
    assert "cannot be read; it is input x" in refused(weights, str(tmp_path / "nothing.npy"), out)
    short = tmp_path / "short.npy"
    short.write_bytes(Path(good).read_bytes()[:-1])
    assert "the .npy file is cut short" in refused(weights, str(short), out)
    assert "expected the weights that belong to this program" in refused(good, good, out)
    other = tmp_path / "weights.bin"
    other.write_bytes(Path(weights).read_bytes()[:-1])
    assert "expected the weights that belong to this program" in refused(str(other), good, out)
    assert "cannot be written; it is output y" in refused(weights, good, str(tmp_path / "no" / "y.npy"))


def test_without_a_compiler_there_is_the_c_alone(no_compiler, tmp_path):  # noqa: F811
    bundle = compiled(standalone=True)
    assert SOURCE in bundle.extra_files and PROGRAM not in bundle.extra_files


@needs_compiler
def test_what_cannot_stand_alone():
    with pytest.raises(rw.RewriteError, match="a stand-alone program needs every kernel in C; `host_TopK_1` is not"):
        compiled(SORTED, standalone=True)
    with pytest.raises(rw.RewriteError, match="a stand-alone program is C; expected engine auto or c"):
        compiled(standalone=True, engine="numpy")


@needs_compiler
def test_the_command_line(tmp_path):
    options = ["-p", "board.pat", "--standalone", "--host", "cc=gcc -DSEEN,cpu=native", "-q", "--json"]
    assert main(["compile", str(bundled_model()), "-o", str(tmp_path / "b"), *options]) == 0
    assert os.access(tmp_path / "b" / PROGRAM, os.X_OK)
    bundle = Bundle.open(tmp_path / "b")
    assert bundle.host_options == {"cc": "gcc -DSEEN", "cpu": "native"}
    feed = random_inputs(bundle.inputs, 5)
    same(run(tmp_path, bundle, feed), bundle.run(feed))


@pytest.mark.skipif(
    not (shutil.which(f"{CROSS}-gcc") and shutil.which("qemu-aarch64")),
    reason=f"{CROSS}-gcc or qemu-aarch64 is not installed (gcc-{CROSS}, qemu-user)",
)
def test_a_program_for_64_bit_arm(tmp_path):
    host = {"triple": CROSS, "cpu": "cortex-a53"}
    module, rules = rw.load(bundled_model()), rw.load_rules("board.pat")
    bundle = rw.compile(module, rules, standalone=True, targets={"host": host})
    bundle.save(tmp_path / "b")
    assert (tmp_path / "b" / PROGRAM).read_bytes()[18] == 183  # EM_AARCH64
    feed = random_inputs(bundle.inputs, 0)
    found = run(tmp_path, bundle, feed, str(shutil.which("qemu-aarch64")), "-L", f"/usr/{CROSS}")
    same(found, bundle.run(feed, "numpy"), 1e-4)
