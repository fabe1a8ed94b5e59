"""Several bindings of a dynamic model in one bundle: each is right, the runtime picks, damage and mix-ups are named."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import parse
from onnx.reference import ReferenceEvaluator
from small_machines import BOARD, write_model, write_rules
from test_cli import cli, refused  # noqa: F401 (fixtures)

import rewrite_engine as rw
from rewrite_engine.backend.bindings import LINKED, Bindings, save_bindings
from rewrite_engine.bindings import MOST, combinations
from rewrite_engine.cli import main

WIDE = 64
TEXT = f"""g (int64[batch, seq] ids, float[batch, seq] mask) => (float[batch, seq, {WIDE}] y, float[twice] z)
  <int64[3] shape = {{0, -1, 1}}, int64[1] flat = {{-1}}, int64[1] axis = {{0}}> {{
  e = Gather(table, ids)  m = Reshape(mask, shape)  w = Mul(e, m)
  h = MatMul(w, kernel)  r = Relu(h)  y = Sigmoid(r)
  f = Reshape(mask, flat)  z = Concat<axis=0>(f, f)
}}"""
"""Token ids, a mask and a small layer, as encoders have them; `z` is twice as long as the two dimensions allow."""
SIZES = {"batch": (1, 2), "seq": (3, 5)}
ALL = [(1, 3), (1, 5), (2, 3), (2, 5)]


def model() -> onnx.ModelProto:
    """The encoder, its weights from a seed."""
    proto = parse(TEXT)
    random = np.random.default_rng(0)
    for name, shape in (("table", (100, WIDE)), ("kernel", (WIDE, WIDE))):
        weights = random.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return proto


def feed(batch: int, seq: int, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    mask = random.integers(0, 2, (batch, seq)).astype(np.float32)
    return {"ids": random.integers(0, 100, (batch, seq)), "mask": mask}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A rule file, the model and its four bindings in `out`; tests leave them as they are."""
    folder = tmp_path_factory.mktemp("bindings")
    write_rules(folder, BOARD)
    onnx.save(model(), folder / "model.onnx")
    assert main(["compile", *arguments(folder), "-o", str(folder / "out"), "-q", "--json"]) == 0
    return folder


def arguments(folder: Path) -> list[str]:
    rules = str(folder / "board.pat")
    return [str(folder / "model.onnx"), "-p", rules, "--dim", "batch=1,2", "--dim", "seq=3,5"]


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def saved(folder: Path, inputs: dict[str, np.ndarray]) -> str:
    np.savez(folder / "inputs.npz", **inputs)
    return str(folder / "inputs.npz")


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_each_binding_runs_what_fits_it_and_is_right(folder, engine):
    bundle = rw.Bundle.open(folder / "out")
    reference = ReferenceEvaluator(model())
    for batch, seq in (*ALL, *reversed(ALL)):
        inputs = feed(batch, seq, seed=batch * seq)
        found = bundle.run(inputs, engine)
        for name, expected in zip(("y", "z"), reference.run(None, inputs), strict=True):
            assert found[name].shape == expected.shape
            np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)
    assert {name: str(tensor) for name, tensor in bundle.inputs.items()} == {
        "ids": "int64[batch, seq]",
        "mask": "float32[batch, seq]",
    }
    assert {name: str(tensor) for name, tensor in bundle.outputs.items()} == {
        "y": f"float32[batch, seq, {WIDE}]",
        "z": "float32[_]",
    }


def test_only_what_is_needed_is_opened_and_equal_weights_are_held_once(folder):
    bundle = rw.Bundle.open(folder / "out")
    assert isinstance(bundle, Bindings) and not bundle.opened
    bundle.run(feed(2, 3))
    assert list(bundle.opened) == ["2x3"]
    bundle.run(feed(1, 5))
    first, second = bundle.opened.values()
    shared = [name for name, array in first.parameters.items() if second.parameters.get(name) is array]
    assert {"table", "kernel"} <= {name.split(".on.")[0] for name in shared}


def test_a_binding_is_the_bundle_that_its_sizes_alone_give(folder, tmp_path):
    rules, module = rw.load_rules(folder / "board.pat"), rw.load(folder / "model.onnx", dims={"batch": 2, "seq": 5})
    rw.compile(module, rules).save(tmp_path / "alone")
    alone, found = content(tmp_path / "alone"), content(folder / "out" / "2x5")
    for files in (alone, found):
        files.pop("manifest.json")  # lists search.json, which holds seconds
        files.pop("search.json")
    assert found == alone


def test_python_and_the_command_make_the_same(folder, tmp_path):
    bundle = rw.compile_bindings(model(), rw.load_rules(folder / "board.pat"), SIZES)
    expected = rw.Bundle.open(folder / "out")
    assert [row.dims for row in bundle.bindings] == [row.dims for row in expected.bindings]
    assert [dict(zip(SIZES, sizes, strict=True)) for sizes in ALL] == [row.dims for row in bundle.bindings]
    bundle.save(tmp_path / "out")
    again = rw.Bundle.open(tmp_path / "out")
    for sizes in ALL:
        inputs = feed(*sizes)
        for other in (bundle, again):
            assert other.run(inputs)["y"].tobytes() == expected.run(inputs)["y"].tobytes()


def test_equal_files_are_stored_once(folder):
    by_content: dict[bytes, set[int]] = {}
    for path in (folder / "out").rglob("*"):
        if path.is_file() and path.stat().st_size >= LINKED:
            by_content.setdefault(path.read_bytes(), set()).add(path.stat().st_ino)
    assert by_content and all(len(nodes) == 1 for nodes in by_content.values())
    assert (folder / "out" / "1x3" / "source.onnx").stat().st_nlink == len(ALL)


def test_where_there_are_no_links_files_are_copies(folder, tmp_path, monkeypatch):
    def no_links(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    rw.Bundle.open(folder / "out").save(tmp_path / "out")
    assert content(tmp_path / "out") == content(folder / "out")
    assert {path.stat().st_nlink for path in (tmp_path / "out").rglob("*") if path.is_file()} == {1}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (feed(3, 5), r"no binding for the inputs ids \[3, 5\], mask \[3, 5\]; there are\n  batch=1, seq=3: ids int64"),
        ({**feed(1, 3), "mask": feed(2, 3)["mask"]}, "no binding for the inputs"),
        ({"ids": feed(1, 3)["ids"]}, r"missing input `mask`: expected float32\[batch, seq\]"),
        ({**feed(1, 3), "masks": np.zeros(1)}, "unknown input `masks`: expected `ids`, `mask`; did you mean `mask`"),
        ({**feed(1, 3), "mask": np.zeros((1, 3))}, r"input `mask`: expected float32\[1, 3\], found float64\[1, 3\]"),
    ],
)
def test_inputs_that_no_binding_takes(folder, inputs, message):
    with pytest.raises(rw.RewriteError, match=message):
        rw.Bundle.open(folder / "out").run(inputs)


def test_run_picks_by_sizes_and_by_inputs(cli, refused, folder, tmp_path):  # noqa: F811
    out = folder / "out"
    assert json.loads(cli("run", out, "--json")[1])["binding"] == {"batch": 1, "seq": 3}
    status, text, _ = cli("run", out, "--dim", "batch=2", "--dim", "seq=5", "--check", "--each")
    assert status == 0 and text.startswith("binding    batch=2, seq=5\n") and "agrees with ONNX Runtime" in text
    inputs = saved(tmp_path, feed(2, 3))
    found = json.loads(cli("run", out, "--input", inputs, "--check", "--json")[1])
    assert found["binding"] == {"batch": 2, "seq": 3} and found["check"]["ok"]
    assert json.loads(cli("run", out, "--input", inputs, "--dim", "seq=3", "--json")[1])["binding"]["batch"] == 2
    message = refused("run", out, "--dim", "batch=2")
    assert "batch=2 fits 2 bindings; say seq=SIZE too:\n  batch=2, seq=3: ids int64[2, 3]" in message
    assert "no binding for seq=5 and the inputs ids [2, 3]" in refused("run", out, "--input", inputs, "--dim", "seq=5")
    assert "no binding for batch=9; there are\n  batch=1, seq=3:" in refused("run", out, "--dim", "batch=9")
    assert "no dimension `sequ`: the bindings differ in `batch`, `seq`; did you" in refused(
        "run", out, "--dim", "sequ=3"
    )
    assert "expected one size for `seq`, found `3,5`" in refused("run", out, "--dim", "seq=3,5")
    assert "has one size for every dimension: leave out --dim batch=1" in refused(
        "run", out / "1x3", "--dim", "batch=1"
    )


def test_compile_says_what_it_made(cli, folder, tmp_path):  # noqa: F811
    status, out, err = cli("compile", *arguments(folder), "-o", tmp_path / "out", "--engine", "numpy")
    lines = out.splitlines()
    assert status == 0 and lines[0] == "bindings   4: batch 1, 2; seq 3, 5"
    assert [line.split(":")[0] for line in lines[1:5]] == [f"  batch={b}, seq={s}" for b, s in ALL]
    assert (
        lines[-1] == "library    none: kernels run in NumPy (4 bindings)" and err.count("placed and compiled in") == 4
    )
    status, out, _ = cli("compile", *arguments(folder), "-o", tmp_path / "out", "--engine", "numpy", "--json", "-q")
    rows = json.loads(out)["bindings"]
    assert [row["folder"] for row in rows] == ["1x3", "1x5", "2x3", "2x5"]
    for row in rows:
        assert row["placement"] == json.loads((tmp_path / "out" / row["folder"] / "placement.json").read_text())


def test_sizes_that_are_refused(refused, folder, tmp_path):  # noqa: F811
    def message(*dims: str, verb: str = "compile", **more: str) -> str:
        options = [part for dim in dims for part in ("--dim", dim)]
        rest = [part for name, value in more.items() for part in (f"--{name}", value)]
        output = ["-o", str(tmp_path / "out")] if verb == "compile" else []
        return refused(verb, folder / "model.onnx", "-p", folder / "board.pat", *options, *output, *rest)

    assert "expected a size of at least 1 for `batch`, found `0`" in message("batch=1,0")
    assert "expected a size of at least 1 for `batch`, found ``" in message("batch=1,")
    assert "the size 2 is given twice" in message("batch=1,2,2")
    many = ",".join(map(str, range(1, 10)))
    assert "72 bindings (9 of `batch` times 8 of `seq`): a bundle holds at most 64" in message(
        f"batch={many}", f"seq={many[:-2]}"
    )
    assert "binding batch=1, no=2: " in message("batch=1,2", "no=2")
    assert "--placement is of one binding" in message("batch=1,2", "seq=3", placement=str(tmp_path / "p.json"))
    for verb in ("place", "match", "explain"):
        assert "expected one size for `batch`, found `1,2`; `compile` takes several" in message("batch=1,2", verb=verb)
    assert not (tmp_path / "out").exists()
    with pytest.raises(rw.RewriteError, match="expected at least one size, found none"):
        combinations({"n": ()})
    assert len(combinations({"n": range(1, MOST + 1), "m": 1})) == MOST
    rules = rw.load_rules(folder / "board.pat")
    with pytest.raises(rw.RewriteError, match="at least one dimension"):
        rw.compile_bindings(model(), rules, {})
    with pytest.raises(rw.RewriteError, match="a placement is that of one binding"):
        rw.compile_bindings(model(), rules, SIZES, placement="p.json")


def test_a_binding_that_fails_is_named_and_leaves_nothing(refused, tmp_path):  # noqa: F811
    text = "g (float[n, 8] x) => (float[m, 3] y) { s = Constant<value_ints=[-1, 3]>() y = Reshape(x, s) }"
    rules, path = write_rules(tmp_path, BOARD), write_model(tmp_path, text)
    before = sorted(tmp_path.iterdir())
    assert "binding n=4: " in refused("compile", path, "-p", rules, "--dim", "n=3,4", "-o", tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_bindings_that_their_inputs_do_not_tell_apart(folder, tmp_path):
    bundle = rw.Bundle.open(folder / "out" / "1x3")
    with pytest.raises(rw.RewriteError, match="bindings n=1 and n=2 take inputs of the same shapes"):
        save_bindings(tmp_path / "out", [({"n": 1}, bundle), ({"n": 2}, bundle)])
    with pytest.raises(rw.RewriteError, match="expected a size for each of n, found m=2"):
        Bindings.of([({"n": 1}, bundle), ({"m": 2}, bundle)])
    with pytest.raises(rw.RewriteError, match="expected at least one bundle"):
        save_bindings(tmp_path / "out", [])
    assert not list(tmp_path.iterdir())


def damaged(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder / "out", tmp_path / "out")
    return tmp_path / "out"


def test_a_missing_or_changed_binding_is_named(folder, tmp_path):
    out = damaged(folder, tmp_path)
    (out / "2x3" / "graph.json").write_text("{}")
    rw.Bundle.open(out).run(feed(1, 3))  # the others are whole
    with pytest.raises(rw.RewriteError, match=r"2x3/graph\.json: changed or damaged"):
        rw.Bundle.open(out).run(feed(2, 3))
    (out / "2x3" / "manifest.json").write_text("{}")
    with pytest.raises(rw.RewriteError, match=r"binding batch=2, seq=3: changed or damaged: expected sha256"):
        rw.Bundle.open(out)
    shutil.rmtree(out / "2x3")
    with pytest.raises(rw.RewriteError, match=r"binding batch=2, seq=3 of bindings\.json cannot be read: No such file"):
        rw.Bundle.open(out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(schema="other"), "expected schema `rewrite_engine/bindings/1`, found `other`"),
        (lambda data: data.update(bindings=[]), "expected at least one binding"),
        (lambda data: data.pop("dims"), "cannot be read: KeyError"),
        (lambda data: data["bindings"][0].update(folder="../out"), "expected the name of a folder"),
        (lambda data: data["bindings"][0].update(dims={"batch": 1}), "expected a size for each of"),
        (lambda data: data["bindings"][0].update(dims={"batch": 1, "seq": True}), "expected int, found True"),
        (lambda data: data["bindings"][1]["inputs"].pop(), "expected the inputs of the first binding"),
        (lambda data: data["bindings"][1]["inputs"][0]["shape"].pop(), "expected the inputs of the first binding"),
        (lambda data: data["bindings"].append(data["bindings"][0]), "take inputs of the same shapes"),
    ],
)
def test_a_bindings_json_that_does_not_hold(folder, tmp_path, change, message):
    out = damaged(folder, tmp_path)
    data = json.loads((out / "bindings.json").read_text())
    change(data)
    (out / "bindings.json").write_text(json.dumps(data))
    with pytest.raises(rw.RewriteError, match=message):
        rw.Bundle.open(out)
    (out / "bindings.json").write_text("not JSON")
    with pytest.raises(rw.RewriteError, match="expected JSON"):
        rw.Bundle.open(out)


def test_one_takes_the_place_of_the_other_but_of_nothing_else(folder, tmp_path):
    out = damaged(folder, tmp_path)
    rw.Bundle.open(folder / "out").save(out)
    assert content(out) == content(folder / "out")
    single = rw.Bundle.open(folder / "out" / "2x3")
    single.save(out)
    assert content(out) == content(folder / "out" / "2x3")
    rw.Bundle.open(folder / "out").save(out)
    assert content(out) == content(folder / "out")
    (out / "2x3" / "notes.txt").write_text("mine")
    for bundle in (single, rw.Bundle.open(folder / "out")):
        with pytest.raises(rw.RewriteError, match=r"holds other files too \(2x3/notes\.txt\)"):
            bundle.save(out)
    assert (out / "2x3" / "notes.txt").read_text() == "mine"


def test_killed_in_the_middle_nothing_is_half_there(folder, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "rewrite_engine", "compile", *arguments(folder), "-o", str(out)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert running.stderr is not None
    assert "batch=1, seq=3: placed" in running.stderr.readline()
    assert "batch=1, seq=5: placed" in running.stderr.readline()
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=60)
    running.stderr.close()
    assert running.returncode == -signal.SIGKILL and not out.exists()
    left = [path.name for path in tmp_path.iterdir()]
    assert len(left) == 1 and left[0].startswith(".out.")
    rw.Bundle.open(folder / "out").save(out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and len(rw.Bundle.open(out).bindings) == 4
