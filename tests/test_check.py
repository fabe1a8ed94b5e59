"""Rule files under `tests/pat`: those of `pass` load without a word, those of `fail` report what their comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rewrite_engine.diagnostics import PatError, RewriteError
from rewrite_engine.language import check_files, load, load_text
from rewrite_engine.testing.in_file import run_file

FILES = Path(__file__).parent / "pat"
PASSING = sorted((FILES / "pass").glob("*.pat"))
FAILING = sorted((FILES / "fail").glob("*.pat"))
EXPECTED = re.compile(r"#! (\d+):(\d+): (?:(warning): )?(.*)")


@pytest.mark.parametrize("path", PASSING, ids=lambda path: path.stem)
def test_passes(path: Path) -> None:
    problems, _ = check_files([path])
    assert [f"{p.span.line}:{p.span.column}: {p.message}" for p in problems] == []
    assert load([path]).scope is not None


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.stem)
def test_fails_as_stated(path: Path) -> None:
    """Each problem is stated once, by position and the beginning of its message; and there are no others."""
    stated = [match.groups() for match in map(EXPECTED.match, path.read_text("utf-8-sig").splitlines()) if match]
    problems, _ = check_files([path])
    found = [(str(p.span.line), str(p.span.column), p.severity, p.message) for p in problems]
    assert [place[:2] for place in found] == [place[:2] for place in stated], found
    for (_, _, severity, message), (_, _, warning, beginning) in zip(found, stated, strict=True):
        assert severity == (warning or "error")
        assert message.startswith(beginning), message


def test_enough_kinds_of_errors_are_covered() -> None:
    assert len(FAILING) >= 40


@pytest.mark.parametrize("path", PASSING, ids=lambda path: path.stem)
def test_they_pass_their_own_tests(path: Path) -> None:
    results = run_file(path)
    assert len(results) == path.read_text("utf-8-sig").count('\ntest "')
    assert [(result.title, result.reason) for result in results if not result.passed] == []


@pytest.mark.parametrize("name", ["overlap", "covered"])
def test_warnings_about_two_declarations_name_both_with_their_places(name: str) -> None:
    path = FILES / "fail" / f"{name}.pat"
    lines = path.read_text().splitlines()
    pairs = [problem for problem in check_files([path])[0] if problem.notes]
    assert len(pairs) >= 2
    for problem in pairs:
        words = re.findall(r"`([^`]+)`", problem.message)
        ((first, _),) = problem.notes
        shown = [lines[span.line - 1][span.column - 1 : span.end_column - 1] for span in (problem.span, first)]
        assert (first.line, first.column) < (problem.span.line, problem.span.column)
        assert shown[0].startswith(words[0]) or words[0] in shown[0], problem
        assert shown[1] in words or words[0] in shown[1], problem  # a rule by its name, `supports` by the operator


def test_five_different_errors_in_one_run() -> None:
    with pytest.raises(PatError) as caught:
        load([FILES / "fail" / "five_errors.pat"])
    assert len({problem.message for problem in caught.value.problems}) >= 5
    text = str(caught.value)
    assert "five_errors.pat:12:3: error: unknown declaration `suports`\n12 |   suports Relu\n" in text
    assert "   |   ^^^^^^^ did you mean `supports`?" in text


def test_check_needs_no_heavy_import() -> None:
    code = (
        "import sys; from rewrite_engine.language import check_files; "
        f"check_files([{str(FILES / 'pass' / 'features.pat')!r}]); "
        "heavy = ('onnx', 'onnx_ir', 'egglog', 'scipy', 'onnxruntime', 'hypothesis'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_the_same_problems_for_every_hash_seed() -> None:
    code = (
        "from rewrite_engine.language import check_files; from rewrite_engine.diagnostics import render_all; "
        f"from pathlib import Path; files = sorted(Path({str(FILES / 'fail')!r}).glob('*.pat')); "
        "print([render_all(*check_files([file])) for file in files])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": seed}, check=True
        ).stdout
        for seed in ("0", "1", "17")
    }
    assert len(outputs) == 1 and "error" in outputs.pop()


def test_includes_come_first_and_once(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "base.pat").write_text("pattern base(x) = Relu(x)\n")
    (tmp_path / "one.pat").write_text('include "lib/base.pat"\nrule one: base(base(x)) => Relu(x)\n')
    (tmp_path / "two.pat").write_text('include "one.pat"\ninclude "lib/base.pat"\nrule two: Abs(base(x)) => Relu(x)\n')
    rules = load([tmp_path / "two.pat", tmp_path / "one.pat"])
    assert [Path(path).name for path in rules.sources] == ["base.pat", "one.pat", "two.pat"]
    assert [rule.name for rule in rules.rules if rule.kind == "rule"] == ["one", "two"]
    assert rules.warnings == ()


def test_the_pattern_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "patterns"
    (root / "targets").mkdir(parents=True)
    (root / "std").mkdir()
    (root / "std" / "base.pat").write_text("pattern base(x) = Relu(x)\n")
    (root / "targets" / "npu.pat").write_text('include "std/base.pat"\nrule one: base(base(x)) => Relu(x)\n')
    monkeypatch.chdir(tmp_path)
    for name in ("npu.pat", "targets/npu.pat"):
        assert list(load([name], search=[root]).sources) == ["patterns/std/base.pat", "patterns/targets/npu.pat"]
    with pytest.raises(RewriteError, match=r"nup\.pat: no such rule file; looked in here, .*did you mean `npu\.pat`\?"):
        load(["nup.pat"], search=[root])
    (tmp_path / "link.pat").symlink_to("/etc/hostname")
    (tmp_path / "own.pat").write_text('include "link.pat"\n')
    with pytest.raises(PatError, match="leaves the folder"):
        load(["own.pat"], search=[root])


def test_an_included_folder_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "patterns" / "std").mkdir(parents=True)
    for name in ("beside", "std"):
        (tmp_path / "own.pat").write_text(f'include "{name}"\n')
        with pytest.raises(PatError, match=f'expected a rule file, "{name}" is a folder'):
            load([tmp_path / "own.pat"], search=[tmp_path / "patterns"])
    (tmp_path / "own.pat").write_text('include "other"\n')
    with pytest.raises(PatError, match='no such file "other"'):
        load([tmp_path / "own.pat"], search=[tmp_path / "patterns"])


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "loop.pat"])
def test_what_is_no_path(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop.pat").symlink_to("loop.pat")
    (tmp_path / "own.pat").write_text(f'include "{name}"\n')
    (problem,), _ = check_files([tmp_path / "own.pat"])
    assert problem.severity == "error" and ("cannot be followed" in problem.message or "no such" in problem.message)
    with pytest.raises(RewriteError, match="no such rule file"):
        load([str(tmp_path / name)])


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.pat").write_bytes(b"let a = 1\nlet b\xff = 2\n")
    with pytest.raises(RewriteError, match=r"bytes\.pat:2: not UTF-8 text \(byte 0xff\)"):
        load([tmp_path / "bytes.pat"])
    with pytest.raises(RewriteError, match="expected a rule file, found a folder"):
        load([tmp_path])


def test_names_that_clash_are_harmless_until_used() -> None:
    one = FILES / "fail" / "library" / "one.pat"
    other = FILES / "fail" / "library" / "other.pat"
    assert load([one, other]).scope is not None
    problems, _ = check_files([FILES / "fail" / "name_clash.pat"])
    assert [problem.message for problem in problems] == ["`shared` is declared in several files that are included here"]


def test_a_target_may_be_reopened_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.pat").write_text("target t on host { launch 2us supports Relu }\n")
    (tmp_path / "b.pat").write_text("target t on host { flops 3GFLOPS composite c(x) = Abs(Neg(x)) }\n")
    forth = load([tmp_path / "a.pat", tmp_path / "b.pat"])
    back = load([tmp_path / "b.pat", tmp_path / "a.pat"])
    for rules in (forth, back):
        (tern,) = (target for target in rules.targets if target.name == "t")
        assert (float(tern.launch), tern.flops) == (2e-6, 3 * 10**9)
        assert [rule.name for rule in rules.rules] == ["t.supports.0", "t.c"]
    (tmp_path / "c.pat").write_text("target t on npu { launch 3us }\ndevice npu { memory 1MiB }\n")
    problems, _ = check_files([tmp_path / "a.pat", tmp_path / "c.pat"])
    assert [problem.message for problem in problems] == [
        "target `t` is reopened on device `npu`, but it is on `host`",
        "`launch` of target `t` is given twice",
    ]


MACHINE = """
device npu0 { memory 64MiB }
device npu1 { memory 2 * 8MiB }
link host <-> npu0: 4us + bytes / 8GBps energy bytes * 20pJ
link npu0 -> npu1: 1us
target tern on npu0 { launch 12us flops 4TFLOPS option arch = 69 option fast = true supports Relu if arch > 60 }
"""


def test_settings_change_numbers_and_options() -> None:
    settings = {"npu0.memory": "32MiB", "tern.launch": "5us", "tern.bandwidth": "1GBps", "tern.arch": "73"}
    rules = load_text(
        MACHINE, settings=settings | {"host->npu0.rate": "16GBps", "npu0->npu1.cost": "3us + bytes / 1GBps"}
    )
    assert {device.name: device.memory for device in rules.devices} == {
        "host": None,
        "npu0": 32 << 20,
        "npu1": 16 << 20,
    }
    tern = rules.targets[1]
    assert (float(tern.launch), tern.flops, tern.bandwidth) == (5e-6, 4 * 10**12, 10**9)
    from rewrite_engine.language.text import unparse

    costs = {(link.source, link.destination): unparse(link.cost) for link in rules.links}
    assert costs == {
        ("host", "npu0"): "4us + (bytes / 16GBps)",
        ("npu0", "host"): "4us + (bytes / 8GBps)",
        ("npu0", "npu1"): "3us + (bytes / 1GBps)",
    }


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("tern.archs", "73", r"--set tern\.archs: the rule files declare no such setting; did you mean `tern\.arch`\?"),
        ("nothing", "1", "no such setting; there are host->npu0.cost, "),
        ("npu0.memory", "5us", "expected bytes, found a time"),
        ("npu0.memory", "3MiBs", "unknown unit `MiBs`; did you mean"),
        ("tern.launch", "5", "expected a time, found a number"),
        ("tern.launch", "-5us", "expected an amount of at least 0"),
        ("tern.flops", "0GFLOPS", "expected an amount above 0"),
        ("host.launch", "5us", "target `host` has launch 0"),
        ("tern.launch", "5 us", "expected a value, found `5 us`"),
        ("tern.arch", "5us", "expected a number, found a time"),
        ("tern.arch", "old", "expected a number, found the name `old`"),
        ("npu0->npu1.rate", "8GBps", "the cost of this link has 0 rates"),
        ("npu1->npu0.rate", "8GBps", "no such setting"),
    ],
)
def test_wrong_settings(setting: str, value: str, message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        load_text(MACHINE, settings={setting: value})
