"""The command line: every verb, its JSON form, exit statuses, and one clear message for each bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import parse
from small_machines import BOARD, CHAIN, DYNAMIC, NO_LINK, ONE_WAY, write_model, write_rules

from rewrite_engine.cli import main
from rewrite_engine.files import write_folder
from rewrite_engine.graph import bundled_model

FIVE_ERRORS = str(Path(__file__).parent / "pat" / "fail" / "five_errors.pat")
HEAVY = ("egglog", "hypothesis", "lark", "numpy", "onnx", "onnx_ir", "onnxruntime")


@pytest.fixture
def cli(capsys):
    """Runs a command in this process: (status, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main([str(a) for a in arguments])
        except SystemExit as stop:
            status = stop.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def refused(cli):
    """Runs a command that must be refused: status 2, nothing on stdout, one message; returns the message."""

    def run(*arguments: str) -> str:
        status, out, err = cli(*arguments)
        assert (status, out) == (2, ""), err
        assert "Traceback" not in err
        messages = [line for line in err.splitlines() if re.match(r"rewrite-engine( \w+)?: error: ", line)]
        assert len(messages) == 1, err
        return err

    return run


@pytest.fixture
def rules(tmp_path):
    return write_rules(tmp_path, BOARD)


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of a small model; tests must leave it as it is."""
    folder = tmp_path_factory.mktemp("bundle")
    rules, model = write_rules(folder, BOARD), write_model(folder)
    assert main(["compile", model, "-p", rules, "-o", str(folder / "out"), "--json", "-q"]) == 0
    return folder / "out"


def process(*arguments: str, **options):
    command = [sys.executable, "-m", "rewrite_engine", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


# ---------------------------------------------------------------- what verbs do


def test_demo(cli, tmp_path):
    status, out, _ = cli("demo", "-o", tmp_path / "demo")
    assert status == 0
    for word in ("$ rewrite-engine compile", "cost ", "bound ", "gap 0.00%", "regions ", "copies ", "single:npu",
                 "agrees with ONNX Runtime", "largest error"):  # fmt: skip
        assert word in out, word
    assert {"graph.json", "memory.json", "placement.json", "source.onnx", "kernels"} <= {
        p.name for p in (tmp_path / "demo").iterdir()
    }
    assert (tmp_path / "demo" / "source.onnx").read_bytes() == bundled_model().read_bytes()
    status, out, _ = cli("run", tmp_path / "demo", "--check", "--json", "--seed", "7")
    assert status == 0 and json.loads(out)["check"]["ok"]


def test_demo_json(cli, tmp_path):
    status, out, _ = cli("demo", "-o", tmp_path / "demo", "--json")
    found = json.loads(out)
    assert status == 0 and found["ok"] and found["status"] == "optimal" and found["cost"] == found["bound"] > 0


def test_doctor(cli):
    status, out, _ = cli("doctor")
    assert status == 0 and "egglog" in out and "onnxruntime" in out
    status, out, _ = cli("doctor", "--json")
    assert status == 0 and json.loads(out)["packages"]["numpy"] == np.__version__


def test_check_reports_every_problem(cli):
    status, out, err = cli("check", FIVE_ERRORS)
    expected = re.findall(r"^#! (\d+:\d+): (.*)$", Path(FIVE_ERRORS).read_text(), re.M)
    assert status == 1 and len(expected) >= 5
    for position, message in expected:
        assert f"{FIVE_ERRORS}:{position}: error: {message}" in out
    assert f"{len(expected)} errors" in err
    status, out, err = cli("check", FIVE_ERRORS, "--json", "-q")
    rows = json.loads(out)
    assert status == 1 and err == "" and [f"{r['line']}:{r['column']}" for r in rows] == [p for p, _ in expected]


def test_check_of_good_files(cli, rules):
    assert cli("check", rules)[0] == 0
    status, out, err = cli("check", "npu.pat", "board.pat")
    assert (status, out) == (0, "") and "2 files: 0 errors" in err


def test_place_refuses_a_bad_rule_file_with_every_error(refused, model):
    message = refused("place", model, "-p", FIVE_ERRORS)
    for position, text in re.findall(r"^#! (\d+:\d+): (.*)$", Path(FIVE_ERRORS).read_text(), re.M):
        assert f"{position}: error: {text}" in message


def test_in_file_tests(cli, tmp_path):
    good = write_rules(tmp_path, BOARD + 'test "it does": npu runs Relu(x: float32[2])\n', "good.pat")
    bad = write_rules(tmp_path, BOARD + 'test "it does not": fast runs Exp(x: float32[2])\n', "bad.pat")
    assert cli("test", good)[:2] == (0, "1 passed, 0 failed\n")
    status, out, _ = cli("test", good, bad)
    assert status == 1 and "1 passed, 1 failed" in out
    assert re.search(r"bad\.pat:\d+:1: FAILED: it does not: fast does not run Exp", out)
    status, out, _ = cli("test", good, bad, "--json")
    assert status == 1 and [row["passed"] for row in json.loads(out)["tests"]] == [True, False]


def test_in_file_tests_of_a_bundled_file_by_its_bare_name(cli):
    status, out, _ = cli("test", "board.pat", "--json")
    rows = json.loads(out)["tests"]
    assert status == 0 and len(rows) >= 5
    assert {row["file"] for row in rows} == {"patterns/machines/board.pat"}  # not those of the files it includes


def test_place(cli, model, rules, tmp_path):
    status, out, err = cli("place", model, "-p", rules, "-o", tmp_path / "out", "-v")
    assert status == 0 and "status     optimal" in out and '"saturate"' in err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["model.onnx", "placement.json", "search.json"]
    written = (tmp_path / "out" / "placement.json").read_text()
    status, out, err = cli("place", model, "-p", rules, "--json", "-q")
    assert (status, out, err) == (0, written, "")
    search = json.loads((tmp_path / "out" / "search.json").read_text())
    assert {"import", "encode", "saturate", "extract", "rebuild"} <= search["seconds"].keys()


def test_place_options(cli, model, rules):
    def total(*options: str) -> int:
        status, out, err = cli("place", model, "-p", rules, "--json", *options)
        assert status == 0, err
        return json.loads(out)["cost"]["total"]

    # Relu and Sigmoid of eight floats: by the host's roofline 6.4 ns each; over the link 104 ns each way.
    assert total() == 12_800
    assert total("--pin", "t=npu") == 104_000 * 2 + 100_000 + min(2_000, 1_000 + 6_400)
    assert total("--pin", "y=npu") == 104_000 + 100_000 + 2_000  # a pinned output stays where it is
    assert total("--pin", "t=fast") == 100_000 + 10_000 + 6_400
    assert total("--strategy", "single:npu") == total("--strategy", "priority", "--targets", "npu") == 310_000
    assert total("--strategy", "op-map", "--map", "Relu=fast") == 116_400
    assert total("--strategy", "op-map", "--fallback", "npu") == 310_000
    assert total("--pin", "t=npu", "--set", "npu.launch=1us") == 104_000 * 2 + 1_000_000 + 2_000


def test_the_dimensions_that_are_bound(cli, rules, tmp_path):
    model = write_model(tmp_path, DYNAMIC)
    assert cli("compile", model, "-p", rules, "--dim", "n=3", "-o", tmp_path / "out")[0] == 0
    status, out, _ = cli("run", tmp_path / "out", "--check", "--json")
    found = json.loads(out)
    assert status == 0 and found["check"]["ok"] and found["outputs"]["y"]["shape"] == [3, 8]


def test_pinned_inputs_and_outputs(cli, model, rules, tmp_path):
    pins = ["--pin", "x=acc", "--pin", "y=npu"]
    assert cli("compile", model, "-p", rules, "-o", tmp_path / "out", *pins)[0] == 0
    placed = json.loads((tmp_path / "out" / "placement.json").read_text())
    assert placed["copies"] == [] and {kernel["device"] for kernel in placed["kernels"]} == {"acc"}
    assert cli("run", tmp_path / "out", "--check")[0] == 0


@pytest.mark.parametrize(("opset", "ir_version"), [(23, 10), (13, 7)])
def test_a_model_with_marks_is_compared_too(cli, rules, tmp_path, opset, ir_version):
    """A user's own marks have no function yet, so that ONNX Runtime alone would not take the model."""
    text = CHAIN.replace("y = Sigmoid(t)", 'm = rewrite_engine.OnDevice <device = "acc"> (t) y = Sigmoid(m)')
    onnx.save(parse(text, opset, ir_version), tmp_path / "marked.onnx")
    assert cli("compile", tmp_path / "marked.onnx", "-p", rules, "-o", tmp_path / "out")[0] == 0
    placed = json.loads((tmp_path / "out" / "placement.json").read_text())
    assert {kernel["device"] for kernel in placed["kernels"] if "t" in kernel["nodes"]} == {"acc"}
    status, out, err = cli("run", tmp_path / "out", "--check")
    assert status == 0 and "agrees with ONNX Runtime" in out, err


def test_compile_replaces_a_bundle_and_nothing_else(cli, refused, model, rules, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        assert cli("compile", model, "-p", rules, "-o", out)[0] == 0
    (out / "notes.txt").write_text("mine")
    assert "notes.txt" in refused("compile", model, "-p", rules, "-o", out)
    assert (out / "notes.txt").read_text() == "mine"


def test_run(cli, bundle, tmp_path):
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
    np.savez(tmp_path / "in.npz", x=x)
    status, out, _ = cli("run", bundle, "--input", tmp_path / "in.npz", "--output", tmp_path / "y.npz", "--repeat", "2")
    assert status == 0 and "y: float32[1, 8]" in out
    found = np.load(tmp_path / "y.npz")["y"]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.maximum(x, 0))), rtol=1e-6)
    status, out, _ = cli("run", bundle, "--json", "--check", "--input", tmp_path / "in.npz")
    report = json.loads(out)
    assert status == 0 and report["check"]["ok"] and report["check"]["largest_error"] < 1e-6
    assert len(report["kernels"]) == 2


def test_a_difference_is_status_1(cli, tmp_path):
    """The bundle of one model with another one as its source."""
    from rewrite_engine import api
    from rewrite_engine.backend.bundle import build
    from rewrite_engine.passes.stages import programs

    rules = api.load_rules(write_rules(tmp_path, BOARD))
    module = api.load(parse("g (float[1, 8] x) => (float[1, 8] y) { t = Relu(x) y = Sigmoid(t) }"))
    other = parse("g (float[1, 8] x) => (float[1, 8] y) { t = Relu(x) y = Tanh(t) }").SerializeToString()
    graph = api.place(module, rules).graph
    build(graph, programs(graph), {}, {"source.onnx": other}).save(tmp_path / "out")
    status, out, _ = cli("run", tmp_path / "out", "--check")
    assert status == 1 and "differs from ONNX Runtime" in out
    build(graph, programs(graph), {}, {}).save(tmp_path / "bare")
    status, out, err = cli("run", tmp_path / "bare", "--check")
    assert status == 2 and "no source.onnx" in err


def test_outputs_that_no_input_can_change(cli, rules, tmp_path):
    """A constant output is compared, and need not tell the seeds apart; one that depends on an input must."""
    text = "g (float[8] x) => (float[8] y, float[2] k, float[0] e)"
    text += " <float[2] k = {1, 2}, int64[1] z = {0}> { y = Sigmoid(x) e = Slice(y, z, z) }"
    onnx.save(parse(text), tmp_path / "constant.onnx")
    onnx.save(parse("g (float[8] x) => (float[8] y) { n = Mul(x, x) m = Neg(n) y = Relu(m) }"), tmp_path / "blind.onnx")
    for name, expected, words in (("constant", 0, "agrees with ONNX Runtime: "), ("blind", 1, ", but proves nothing")):
        assert cli("compile", tmp_path / f"{name}.onnx", "-p", rules, "-o", tmp_path / name)[0] == 0
        status, out, _ = cli("run", tmp_path / name, "--check")
        assert status == expected and words in out and "differs" not in out, out


# ---------------------------------------------------------------- bad input


def test_models_that_are_none(refused, rules, tmp_path):
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "text.onnx").write_text("hello " * 100)
    whole = bundled_model().read_bytes()
    (tmp_path / "short.onnx").write_bytes(whole[: len(whole) // 2])
    expected = {
        "missing.onnx": "no such file",
        "empty.onnx": "empty file",
        "text.onnx": "not an ONNX model",
        "short.onnx": "cut short",
        ".": "found a directory",
    }
    for name, message in expected.items():
        for verb in (["place"], ["compile", "-o", str(tmp_path / "out")]):
            assert message in refused(*verb, tmp_path / name, "-p", rules), name
    assert not (tmp_path / "out").exists()


def test_rule_files_that_are_none(refused, model, tmp_path):
    (tmp_path / "bytes.pat").write_bytes(b"let a = 1\nlet b = \xff")
    expected = {"missing.pat": "no such rule file", "bytes.pat": "bytes.pat:2: not UTF-8", ".": "found a folder"}
    for name, message in expected.items():
        for verb in (["place", model, "-p"], ["check"], ["test"]):
            assert message in refused(*verb, tmp_path / name)
    assert "did you mean `npu.pat`" in refused("check", "npo.pat")


def test_impossible_placements(refused, model, tmp_path):
    board = write_rules(tmp_path, BOARD)
    one_way, no_link = write_rules(tmp_path, ONE_WAY, "one_way.pat"), write_rules(tmp_path, NO_LINK, "no_link.pat")
    message = refused("place", model, "-p", board, "--pin", "y=fast")
    assert "`y` is pinned to `fast`, but nothing there can compute it; it can be computed by host, npu" in message
    message = refused("place", model, "-p", one_way, "--pin", "t=npu")
    assert "no link leads from there into the memory of host" in message
    message = refused("place", model, "-p", no_link, "--pin", "t=npu")
    assert "`x` is available on host, but no link leads from there into the memory of acc" in message
    assert "no link" in refused("place", model, "-p", no_link, "--pin", "x=acc")
    message = refused("place", model, "-p", board, "--set", "acc.memory=16B", "--pin", "t=npu")
    assert "device `acc` is too small: expected at most 16 bytes" in message


def test_without_a_link_the_host_runs_everything(cli, model, tmp_path):
    status, out, _ = cli("place", model, "-p", write_rules(tmp_path, NO_LINK), "--json")
    assert status == 0 and json.loads(out)["baselines"]["single:npu"] == json.loads(out)["cost"]["total"] == 12_800


def test_places_that_cannot_be_written(refused, model, rules, tmp_path):
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.iterdir())
    for verb in (["place", model, "-p", rules], ["compile", model, "-p", rules], ["demo"]):
        assert "expected a folder, found a file" in refused(*verb, "-o", tmp_path / "file")
        assert "is a file, not a folder" in refused(*verb, "-o", tmp_path / "file" / "below" / "that")
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "file").read_text() == "mine"


def test_a_file_of_the_report_that_is_a_folder(refused, model, rules, tmp_path):
    (tmp_path / "out" / "placement.json").mkdir(parents=True)
    assert "placement.json" in refused("place", model, "-p", rules, "-o", tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["placement.json"]


def test_dimensions(refused, rules, tmp_path):
    model = write_model(tmp_path, DYNAMIC)
    assert "no dimension `m`; the model's dynamic dim" in refused("place", model, "-p", rules, "--dim", "m=2")
    assert "expected a size below 2**63" in refused("place", model, "-p", rules, "--dim", f"n={2**63}")
    for size in ("0", "-1", "many", "1.5"):
        message = refused("place", model, "-p", rules, "--dim", f"n={size}")
        assert f"expected a size of at least 1 for `n`, found `{size}`" in message
    assert "given twice" in refused("place", model, "-p", rules, "--dim", "n=1", "--dim", "n=2")
    assert "expected NAME=VALUE" in refused("place", model, "-p", rules, "--dim", "n")


def test_costs_that_read_an_unbound_dimension(refused, rules, tmp_path):
    model = write_model(tmp_path, DYNAMIC)
    message = refused("place", model, "-p", rules)
    assert "reads the dimension `n`, which is not bound; bind it with --dim n=SIZE" in message
    formula = write_rules(tmp_path, "target fast on host { supports Relu(x) cost x.shape[0] * 1ns }", "formula.pat")
    message = refused("place", model, "-p", formula)
    assert re.search(r"formula\.pat:1:\d+: .*dimension `n`.*--dim n=SIZE", message)


def test_words_that_are_unknown(refused, model, rules):
    def place(*options: str) -> str:
        return refused("place", model, "-p", rules, *options)

    assert "unknown strategy `priorty`" in (message := place("--strategy", "priorty")) and "`priority`?" in message
    assert "single:npu" in place("--strategy", "single")
    assert "single:npu" in place("--strategy", "single:gpu")
    assert "objective `makespam` is not one of" in place("--objective", "makespam")
    assert "unknown target `npv`" in place("--targets", "npv")
    assert "no target or device is called `npv`" in place("--map", "Relu=npv")
    assert "no operator `Relux`; did you mean `Relu`?" in place("--map", "Relux=npu")
    assert "no target or device is called `npv`" in place("--fallback", "npv")
    assert "no target or device is called `npv`" in place("--pin", "y=npv")
    assert "no value `z`" in place("--pin", "z=npu")
    assert "found `everything`" in place("--allow", "everything")
    assert "no such setting; did you mean `acc.memory`?" in place("--set", "npu.memory=1MiB")
    assert "unknown unit `parsecs`" in place("--set", "acc.memory=3parsecs")
    for option, value in (("--gap", "nan"), ("--gap", "1"), ("--time-limit", "-1"), ("--seed", "-1"), ("--gap", "x")):
        assert f"argument {option}" in place(option, value)
    assert "invalid choice" in refused("plaice")


def test_a_map_to_a_target_that_is_left_out(refused, model, rules):
    message = refused("place", model, "-p", rules, "--targets", "fast", "--strategy", "op-map", "--map", "Relu=npu")
    assert "no target or device is called `npu`" in message


def test_bundles_that_are_none(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    assert "found nothing" in refused("run", tmp_path / "missing")
    assert "found a file" in refused("run", tmp_path / "file")
    assert "it has no manifest.json" in refused("run", tmp_path / "folder")


def test_a_bundle_that_was_changed(refused, bundle, tmp_path):
    import shutil

    for name in ("graph.json", "params.npz", "source.onnx", "kernels"):
        copy = tmp_path / name
        shutil.copytree(bundle, copy)
        victim = min((copy / name).iterdir()) if (copy / name).is_dir() else copy / name
        content = victim.read_bytes()
        victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert f"{victim.name}: changed or damaged" in refused("run", copy)
        victim.unlink()
        assert "cannot be read" in refused("run", copy)


def test_inputs_that_do_not_fit(refused, bundle, tmp_path):
    def run(**arrays) -> str:
        np.savez(tmp_path / "in.npz", **arrays)
        return refused("run", bundle, "--input", tmp_path / "in.npz")

    x = np.zeros((1, 8), np.float32)
    assert "`x`" in run(z=x)
    assert "float32[1, 8]" in run(x=x.astype(np.float64))
    assert "float32[1, 8]" in run(x=x[:, :4])
    (tmp_path / "text.npz").write_text("hello")
    assert "expected an .npz file" in refused("run", bundle, "--input", tmp_path / "text.npz")
    assert "No such file" in refused("run", bundle, "--input", tmp_path / "missing.npz")
    np.save(tmp_path / "one.npy", x)
    assert "expected an .npz file" in refused("run", bundle, "--input", tmp_path / "one.npy")
    np.savez(tmp_path / "objects.npz", x=np.array([object()]))
    assert "expected an .npz file" in refused("run", bundle, "--input", tmp_path / "objects.npz")
    (tmp_path / "file").write_text("")
    assert "found a file" in refused("run", bundle, "--output", tmp_path / "file" / "y.npz")


# ---------------------------------------------------------------- the process


def test_too_little_memory_is_a_limit(cli, monkeypatch):
    def exhausted(files):
        raise MemoryError

    monkeypatch.setattr("rewrite_engine.cli.rules.check_files", exhausted)
    assert cli("check", FIVE_ERRORS) == (3, "", "rewrite-engine: error: there is not enough memory\n")


@pytest.mark.parametrize(
    ("redirected", "status", "said"),
    [
        (">&-", 1, "1 file: 7 errors, 0 warnings\n"),
        ("2>&-", 1, ""),
        (">&- 2>&-", 1, ""),
        ("> /dev/full", 2, "rewrite-engine: error: cannot write the output: No space left on device\n"),
    ],
)
def test_output_that_goes_nowhere(redirected, status, said):
    command = f'exec "{sys.executable}" -m rewrite_engine check "{FIVE_ERRORS}" {redirected}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, said)


def test_an_interrupted_search_leaves_nothing(tmp_path):
    length = 4000
    text = f"g (float[1, 8] x0) => (float[1, 8] x{length}) {{"
    text += "".join(f" x{k + 1} = {'Relu' if k % 2 else 'Sigmoid'}(x{k})" for k in range(length)) + " }"
    onnx.save(parse(text), tmp_path / "long.onnx")
    rules = write_rules(tmp_path, BOARD)
    before = sorted(tmp_path.iterdir())
    running = process("compile", tmp_path / "long.onnx", "-p", rules, "-o", tmp_path / "out")
    time.sleep(1.5)
    assert running.poll() is None, running.communicate()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (130, "") and err == "rewrite-engine: interrupted\n"
    assert sorted(tmp_path.iterdir()) == before


def test_files_appear_together_or_not_at_all(monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "chmod", stop)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path, {"a": b"new", "b": b"new"})
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]
    monkeypatch.undo()
    write_folder(tmp_path, {"a": b"new", "sub/b": b"new"})
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")) == ["a", "sub", "sub/b"]


def test_a_reader_that_goes_away(model, rules):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "rewrite_engine", "place", model, "-p", rules, "--json"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "banned"),
    [
        (["--help"], HEAVY),
        (["place", "--help"], HEAVY),
        (["--version"], HEAVY),
        (["doctor"], HEAVY),
        (["check", "npu.pat"], ("egglog", "hypothesis", "onnx", "onnx_ir", "onnxruntime")),
        (["run", "{bundle}"], ("egglog", "hypothesis", "lark", "onnx", "onnx_ir", "onnxruntime")),
    ],
)
def test_what_is_not_imported(arguments, banned, bundle):
    arguments = [a.format(bundle=bundle) for a in arguments]
    code = (
        "import sys\nfrom rewrite_engine.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        f"print([name for name in {banned!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and (done.stdout or arguments[0] == "check"), done.stderr
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def test_colours(cli, refused, model, rules, monkeypatch):
    _, out, _ = cli("check", FIVE_ERRORS, "--color", "always")
    assert ": \033[1;31merror\033[0m: unknown unit" in out
    assert "\033" not in cli("check", FIVE_ERRORS, "--color", "never")[1]
    assert "\033" not in cli("check", FIVE_ERRORS)[1]  # no terminal
    assert "rewrite-engine: \033[1;31merror\033[0m: " in cli("run", "nothing", "--color", "always")[2]
