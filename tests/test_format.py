"""`fmt` and `init`: what is printed says the same as what was read, and is printed the same again."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rewrite_engine.cli import main
from rewrite_engine.cli.init import skeleton
from rewrite_engine.diagnostics import PatError
from rewrite_engine.language import check_files
from rewrite_engine.language.format import formatted
from rewrite_engine.language.parsing import normalise, parse
from rewrite_engine.language.reader import TOKEN
from rewrite_engine.language.walk import unplaced
from rewrite_engine.resources import patterns_root
from rewrite_engine.testing.in_file import run_file

HERE = Path(__file__).parent
FILES = sorted([*patterns_root().glob("*/*.pat"), *(HERE / "pat" / "pass").glob("**/*.pat")])
FORMS = (HERE / "pat" / "forms.txt").read_text("utf-8").split("\n---- ")[1:]
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def said(text: str) -> object:
    """What a text says: its declarations without positions."""
    file, problems = parse(text, "t.pat")
    assert problems == []
    return unplaced(file.items)


def comments(text: str) -> list[str]:
    return [match[0].rstrip() for match in TOKEN.finditer(normalise(text)) if match[0].startswith("#")]


def damaged(text: str, seed: str) -> str:
    """The same tokens and comments among other spaces, line ends and further comments."""
    draw = random.Random(seed)
    parts: list[str] = []
    for match in TOKEN.finditer(normalise(text)):
        part = match[0]
        if part != "\n" and part.isspace():
            between = draw.choice(["", "  ", "\t", " \n   ", "\n\n"]) if draw.random() < 0.3 else part
            glued = not between and (parts[-1][-1:].isalnum() or parts[-1][-1:] in '_"?' or parts[-1] == "\n")
            part = part if glued or (not between and parts[-1][-1:] in "-<=>/.:") else between
        elif part.startswith("#") and parts and parts[-1].strip(" \t") == "":
            parts.append("")
        parts.append(part)
        if not part.isspace() and not part.startswith("#") and draw.random() < 0.05:
            parts.append(draw.choice([" ", "\n", "\n\n\n", "  # for a reason\n"]))
    return "".join(parts).replace("\n", draw.choice(["\n", "\r\n"]))


@every_file
def test_bundled_files_say_the_same(path: Path) -> None:
    text = path.read_text("utf-8-sig")
    result = formatted(text, "t.pat")
    assert said(result) == said(text) and comments(result) == comments(text)
    assert formatted(result, "t.pat") == result


@every_file
def test_damaged_files_say_the_same(path: Path) -> None:
    text = path.read_text("utf-8-sig")
    for seed in range(2):
        worse = damaged(text, f"{path.stem} {seed}")
        if parse(worse, "t.pat")[1]:
            continue  # two tokens ran into one
        result = formatted(worse, "t.pat")
        assert said(result) == said(worse) and comments(result) == comments(worse)
        assert formatted(result, "t.pat") == result
        assert not any(line != line.rstrip() or "\t" in line for line in result.splitlines())


def test_most_of_the_damage_can_be_read() -> None:
    texts = {path.read_text("utf-8-sig"): path for path in FILES[::3]}
    worse = {damaged(text, f"{path.stem} {seed}"): text for text, path in texts.items() for seed in range(2)}
    read = [text for text in worse if not parse(text, "t.pat")[1]]
    assert len(read) > len(worse) / 2 and not set(read) & set(texts)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.partition("\n")[0])
def test_every_form_is_formatted(form: str) -> None:
    text = form.partition("\n")[2]
    result = formatted(text, "t.pat")
    assert said(result) == said(text) and formatted(result, "t.pat") == result


def test_bundled_files_are_close_to_the_format() -> None:
    """The format is the house's: few lines of the bundled files stand otherwise."""
    changed = total = 0
    for path in sorted(patterns_root().glob("*/*.pat")):
        lines = path.read_text("utf-8").splitlines()
        after = set(formatted(path.read_text("utf-8"), "t.pat").splitlines())
        changed += sum(line not in after for line in lines)
        total += len(lines)
    assert changed <= total / 100


FORMATS = {
    "rule r:Relu( Relu(x) )=>Relu(x)": "rule r: Relu(Relu(x)) => Relu(x)",
    "rule r :\nRelu(x,-1,y )=>x": "rule r:\n  Relu(x, -1, y) => x",
    "let a=- 1\n\n\n\nlet b = a-1": "let a = -1\n\nlet b = a - 1",
    "let f( a,b )=a [0]+b[1 : 2]*(a+b)[- 1]": "let f(a, b) = a[0] + b[1:2] * (a + b)[-1]",
    "let s={ 1,2 }": "let s = {1, 2}",
    "device d {memory 1MiB}  device e { }": "device d { memory 1MiB }\ndevice e { }",
    "device d {\nmemory 1MiB}": "device d {\n  memory 1MiB\n}",
    "link host<->d:1us+bytes/8GBps energy bytes*2pJ": "link host <-> d: 1us + bytes / 8GBps energy bytes * 2pJ",
    "target t on d{supports Relu supports Abs}": "target t on d { supports Relu  supports Abs }",
    "target t on d{\nlaunch 1us flops 1TFLOPS\nsupports Relu}":
        "target t on d {\n  launch 1us   flops 1TFLOPS\n  supports Relu\n}",
    "pattern p(x :float32[ 1,... ],b ?,* xs)=Conv (x,const w : [ N ],b ?)":
        "pattern p(x: float32[1, ...], b?, *xs) = Conv(x, const w: [N], b?)",
    "pattern p(x)=Relu ?(Split (x,axis = - 1)[ 1 ])as y:[N]": "pattern p(x) = Relu?(Split(x, axis=-1)[1]) as y: [N]",
    "pattern p(x) =\nRelu(x)\n| Abs(x)\nif x.rank==1\nand x.bytes>2":
        "pattern p(x) =\n    Relu(x)\n  | Abs(x)\n  if x.rank == 1\n     and x.bytes > 2",
    "pattern p(x) = Add(a,\nb) where a = Relu(x);\nb = {Abs,Neg} (x)":
        "pattern p(x) = Add(a,\n                   b) where a = Relu(x);\n"
        "                            b = {Abs, Neg}(x)",
    "pattern p(x, k) = ( Mul(x, c) if c.numel==1 with k=item(c),j=2 )":
        "pattern p(x, k) = (Mul(x, c) if c.numel == 1 with k = item(c), j = 2)",
    "rule\nr\n:Relu(x)=>x": "rule r: Relu(x) => x",
    'test "t":t runs(Relu(x : float32[ ]),\nconst w : int8[2]= 0 )in c[ Conv ]':
        'test "t": t runs (Relu(x: float32[]),\n                  const w: int8[2] = 0) in c[Conv]',
    "## of the file\n\n\n# a\nlet a = 1# b\n   # c": "## of the file\n\n# a\nlet a = 1  # b\n# c",
    "target t on d { # why\n# next\nsupports Relu\n\n\n# last\n}":
        "target t on d {  # why\n  # next\n  supports Relu\n\n  # last\n}",
    '## of the file\n\nlanguage  1\n# c\ninclude   "a.pat"': '## of the file\n\nlanguage 1\n# c\ninclude "a.pat"',
    "## of a\n# and\nlanguage 1 let a = 1": "## of a\n# and\nlanguage 1\nlet a = 1",
    "rule r: Relu(x) # left\n=> x": "rule r: Relu(x)  # left\n  => x",
    "let a = if not x then-1 else all(b for b in c)": "let a = if not x then -1 else all(b for b in c)",
    "target t on host{supports Relu cost(1us+bytes/1GBps)energy cost(3)}":
        "target t on host { supports Relu cost (1us + bytes / 1GBps) energy cost(3) }",
    "": "",
    "\ufeff# only this": "# only this",
}  # fmt: skip


@pytest.mark.parametrize("text", FORMATS)
def test_formats(text: str) -> None:
    expected = FORMATS[text] + "\n" if FORMATS[text] else ""
    assert formatted(text, "t.pat") == expected
    assert formatted(expected, "t.pat") == expected


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(PatError, match=r"t.pat:1:8: error"):
        formatted("rule r:", "t.pat")


# ---------------------------------------------------------------- the commands


def test_fmt_writes_all_files_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, link = tmp_path / "good.pat", tmp_path / "bad.pat", tmp_path / "link.pat"
    good.write_text("let a=1\n")
    good.chmod(0o600)
    bad.write_text("rule r: Relu(x =>\nlet =\n")
    link.symlink_to(good)
    assert main(["fmt", str(good), str(bad)]) == 2
    assert good.read_text() == "let a=1\n"
    assert capsys.readouterr().err.count("bad.pat:") >= 2
    assert main(["fmt", "--check", str(link)]) == 1
    assert good.read_text() == "let a=1\n"
    assert main(["fmt", str(link)]) == 0
    assert good.read_text() == "let a = 1\n" and link.is_symlink() and good.stat().st_mode & 0o777 == 0o600
    before = os.stat(good)
    assert main(["fmt", str(good)]) == 0
    assert os.stat(good).st_ino == before.st_ino  # nothing to write
    assert main(["fmt", "--check", str(good), "--json"]) == 0
    assert '"changed": false' in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.pat", "good.pat", "link.pat"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe", "folder"])
def test_fmt_of_what_is_no_text(content: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.pat"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    assert main(["fmt", str(path)]) == 2
    assert "rewrite-engine: error: " in capsys.readouterr().err


@pytest.mark.parametrize("target", ["kite", "npu2", "supports", "a_rather_long_name_for_a_target"])
def test_the_skeleton_holds(target: str, tmp_path: Path) -> None:
    path = tmp_path / "new.pat"
    assert main(["init", target, "-o", str(path)]) == 0
    assert check_files([path])[0] == []
    results = run_file(path)
    assert len(results) >= 6 and all(result.passed for result in results)
    text = path.read_text()
    assert formatted(text, "t.pat") == text == skeleton(target)
    for part in ("device ", "link ", "supports ", "composite ", "rule ", "rejects "):
        assert part in text
    assert main(["init", "other", "-o", str(path)]) == 2
    assert path.read_text() == text


@pytest.mark.parametrize("target", ["host", "Kite", "if", "a-b", "2x"])
def test_names_that_no_target_has(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", target]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("rewrite-engine: error: ")


def test_init_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "kite"]) == 0
    assert capsys.readouterr().out == skeleton("kite")
