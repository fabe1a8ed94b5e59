"""Hints taught by example: what people write out of another habit, and the mend that the message names."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite_engine.language import check_files

RULE = "rule r: Relu(Relu(x)) => Relu(x)"
CONDITION = "if CONDITION then A else B"
HINTS = {
    # arrows
    "rule r: Relu(Relu(x)) -> Relu(x)": "write `=>`",
    "rule r: Relu(Relu(x)) = Relu(x)": "write `=>`",
    "rule r: Relu(Relu(x)) == Relu(x)": "write `=>`",
    "rule r: Relu(Relu(x)) >= Relu(x)": "write `=>`",
    "rule r: Relu(Relu(x)) <-> Relu(x)": "write `<=>`",
    "rule r: Relu(Relu(x)) \u2192 Relu(x)": "write `=>`",
    "rule r: Relu(Relu(x)) \u21d2 Relu(x)": "write `=>`",
    "pattern p(x) => Relu(x)": "write `=`",
    "pattern p(x): Relu(x)": "write `=`",
    "target t on host { composite c(x) -> Relu(x) }": "write `=`",
    "rule r = Relu(Relu(x)) => Relu(x)": "write a `:`",
    "rule r Relu(Relu(x)) => Relu(x)": "write a `:`",
    "rule r(x): Relu(Relu(x)) => Relu(x)": "a rule has no parameters",
    "rule: Relu(Relu(x)) => Relu(x)": "a declaration has a name",
    # conditions
    f"{RULE} if x.rank > 1 && x.rank < 4": "write `and`",
    f"{RULE} if x.rank > 1 || x.rank < 4": "write `or`",
    f"{RULE} if !is_const(x)": "write `not`",
    f"{RULE} if x.rank > 1 AND x.rank < 4": "did you mean `and`?",
    f"{RULE} if x.rank = 4": "write `==` to compare",
    f"{RULE} if x.rank === 4": "write `==`",
    f"{RULE} if x.rank <> 4": "write `!=`",
    f"{RULE} if x.rank \u2264 4": "write `<=`",
    f"{RULE} if x.numel == 2**3": "there is no power operator",
    f"{RULE} if x is none": "`present(x)` asks",
    f"{RULE} when x.rank == 4": "a condition follows `if`",
    f"{RULE} where x.rank == 4": "a condition follows `if`",
    f"{RULE} if (1 if x.rank == 2 else 3) == 1": CONDITION,
    f"{RULE} if (x.rank == 2 ? 1 : 3) == 1": CONDITION,
    f"{RULE} if (if x.rank == 2: 1 else 3) == 1": CONDITION,
    f"{RULE} if x.rank == 2 else 3": CONDITION,
    f"{RULE} if True": "did you mean `true`?",
    # captures and arguments
    "rule r: Relu(Relu(#1)) => Relu(#1)": "`#` begins a comment: a capture is a plain name",
    "rule r: Relu(Relu(#1)) => Relu(#1)\npattern p(x) = Relu(x)": "`#` begins a comment",
    "rule r: Relu(Relu($1)) => Relu($1)": "a capture is a plain name",
    "rule r: Relu(Relu(?x)) => Relu(?x)": "a capture is a plain name",
    "rule r: Relu(Relu(X)) => Relu(X)": "captures begin with a small letter",
    "rule r: Clip(x, None, hi) => Clip(x, none, hi)": "write `none`",
    "rule r: Softmax(x, axis: 1) => Softmax(x)": "an attribute is written with `=`",
    "rule r: Softmax(x, axis==1) => Softmax(x)": "write `=`",
    "rule r: Softmax(x) {axis=1} => Softmax(x)": "attributes stand among the inputs",
    # commas, brackets, separators
    "rule r: Add(x y) => Add(y, x)": "is a `,` missing before it?",
    "rule r: Add(x, y)) => Add(y, x)": "there is no opening bracket",
    "target t on host { supports Relu, }": "leave out the last `,`",
    f"{RULE}; rule s: Abs(Abs(x)) => Abs(x)": "leave it out",
    f"{RULE} if x.rank in {{1; 2}}": "items of a set are separated by `,`",
    # quotes and characters
    f"{RULE} if x.dtype == \u201cfloat32\u201d": 'write `"`',
    f"{RULE} if x.dtype == \u2018float32\u2019": 'write `"`',
    "include 'std/conv.pat'": 'texts stand in `"`',
    "include std/conv.pat": 'the path stands in `"`',
    "rule r: Relu(\u00a0Relu(x)) => Relu(x)": "write a plain space",
    "rule r: Relu(Relu(x)) => Mul(x, 3 \u2212 1)": "write `-`",
    "/* twice */": "a comment begins with `#`",
    "// twice": "a comment begins with `#`",
    # capitals and spellings
    "rule r: relu(relu(x)) => Relu(x)": "did you mean `Relu`?",
    "rule r: conv(x, w) => Conv(x, w)": "did you mean `Conv`?",
    "rule r: RELU(Relu(x)) => Relu(x)": "did you mean `Relu`?",
    "rule r: Relu(Relu(x)) => relu(x)": "operators are capitalised: `Relu`",
    "rule r: Relu(Relu(x)) => leaky_relu(x)": "operators are capitalised: `LeakyRelu`",
    "rule r: Conv2d(x, w) => Conv(x, w)": "did you mean `Conv`?",
    "rule r: Gemmm(x, w, c) => Gemm(x, w, c)": "did you mean `Gemm`?",
    "rule r: Conv(x, w, stride=[1, 1]) as c => Conv(x, w, like c)": "did you mean `strides`?",
    "rule r: Softmax(x, axes=1) => Softmax(x)": "did you mean `axis`?",
    f"{RULE} if x.shpae == [1]": "did you mean `shape`?",
    f"{RULE} if shape(x) == [1]": "write `x.shape`",
    f"{RULE} if al(x.shape == [1])": "did you mean `all`?",
    f"{RULE} if x.dtype == flaot32": "did you mean `float32`?",
    f"{RULE} if x.dtype == f32": "did you mean `float32`?",
    "rule r: Relu(Relu(x: half[4])) => Relu(x)": "did you mean `float16`?",
    "rule r: Relu(Relu(x: Float32[4])) => Relu(x)": "did you mean `float32`?",
    "rule r: Relu(Relu(x: float32)) => Relu(x)": "a type has brackets",
    "Rule r: Relu(Relu(x)) => Relu(x)": "did you mean `rule`?",
    "target t on host { suports Relu }": "did you mean `supports`?",
    'import "std/conv.pat"': "write `include`",
    "def f(x): x": "write `let` for values, `pattern` for patterns",
    # quantities and machines
    "let a = 3TFLOP": "did you mean `TFLOPS`?",
    "let a = 4mb": "did you mean `MB`?",
    "let a = 3parsecs": "units: s ms us ns",
    "let a = 3 us": "a quantity is one word",
    "device npu { memory = 64MiB }": "leave out the `=`",
    "device npu { memory 1MiB }\nlink host -> npu 1us": "write a `:` before it",
    "target t { supports Relu }": "write `target t on DEVICE {`",
    "cost 3us": "it follows a capability",
}


@pytest.mark.parametrize("text", HINTS)
def test_the_mend_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.pat"
    path.write_text(text + "\n")
    problems, _ = check_files([path])
    errors = [problem for problem in problems if problem.severity == "error"]
    assert errors, "read without an error"
    assert HINTS[text] in (errors[0].hint or ""), errors[0]


def test_messages_name_no_tokens_of_the_grammar(tmp_path: Path) -> None:
    path = tmp_path / "rules.pat"
    for text in HINTS:
        path.write_text(text + "\n")
        for problem in check_files([path])[0]:
            assert not any(word in problem.message for word in ("RPAR", "LSQB", "REWRITES", "COMMA", "$END", "__ANON"))
