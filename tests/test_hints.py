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
    "target t on host { supports Relu cost bytes / 8GB }": "`8GB` is a size; a rate is `8GBps`",
    "target t on host { supports Relu cost bytes / 8GB/s }": "a rate is one word",
    "target t on host { bandwidth 8GB/s }": "a rate is one word",
    "target t on host { supports Relu cost bytes * 8GBps }": "divide by a rate",
    "target t on host { supports: Relu }": "leave out the `:`",
    "target t on host { rule r: Relu(Relu(x)) => Relu(x) }": "is a `}` missing before it?",
    "target t on host { composite Relu(Conv(x, w)) }": "a composite has a name and parameters",
    "target t on host { composite c = Relu(Conv(x, w)) }": "parameters stand in parentheses",
    "target t: npu { supports Relu }": "write `target t on DEVICE {`",
    "target t on host: { supports Relu }": "leave out the `:`",
    "device npu": "write `device d { memory 64MiB }`",
    "device npu { 64MiB }": "write `memory` before it",
    "device npu { memory: 64MiB }": "leave out the `:`",
    "link host to npu: 1us": "write `->`",
    # names
    "let A = 3": "names begin with a small letter",
    "pattern P(x) = Relu(x)": "names begin with a small letter",
    "pattern p(X) = Relu(X)": "captures begin with a small letter",
    "pattern p = Relu(x)": "parameters stand in parentheses",
    "rule my-rule: Relu(Relu(x)) => Relu(x)": "names have letters, digits and `_`",
    "rule 2x: Relu(Relu(x)) => Relu(x)": "a name begins with a letter",
    'rule "r": Relu(Relu(x)) => Relu(x)': "a name is a plain word",
    "test t: Relu(x: float32[4]) => x": "the title stands in",
    "rule r exact: Relu(Relu(x)) => Relu(x)": "leave it out: a rule is exact",
    "rule r unsafe: Relu(Relu(x)) => Relu(x)": "write `approximates`",
    "rewrite r: Relu(Relu(x)) => Relu(x)": "write `rule`",
    "op com.x::Foo(x) = Relu(x)": "write `operator`",
    "let f = a -> a + 1": "a function is written `let f(a) = …`",
    # patterns
    "pattern p(x) = Mul(n, n) where n = Div(d, d), d = Exp(x)": "`;` separates",
    "pattern p(x) = Mul(n, n) where n = Div(d, d) where d = Exp(x)": "`;` separates",
    "pattern p(x) = Relu(x) or Abs(x)": "write `|` between alternatives",
    "pattern p(x) = Relu(x) || Abs(x)": "one `|` separates alternatives",
    "pattern p(x) = Relu(x) and Abs(x)": "several results stand in parentheses",
    "pattern p(x) = return Relu(x)": "leave out the `return`",
    "rule r: x + y => Add(x, y)": "a pattern names its operators",
    "rule r: onnx.Relu(x) => x": "ONNX's own operators have no domain",
    "rule r: Split(x).0 => x": "an output of an operator is chosen by `[0]`",
    "rule r: Abs(Relu(x: float32[?, 4])) => Abs(x)": "`_` stands for any size",
    "rule r: Abs(Relu(x: float32[-1, 4])) => Abs(x)": "`_` stands for any size",
    "rule r: Abs(Relu(x: float32[4x4])) => Abs(x)": "sizes are separated by `,`",
    "rule r: Add(x, .5) => x": "a number begins with a digit",
    "rule r: Add(x, 5.) => x": "a digit follows the point",
    "rule r: Add(x, 1_000) => x": "digits are written without `_`",
    "rule r: BatchNorm2d(x, s, b, m, v) => x": "did you mean `BatchNormalization`?",
    "rule r: LayerNorm(x, s) => x": "did you mean `LayerNormalization`?",
    "rule r: Linear(x, w) => x": "did you mean `Gemm`?",
    "rule r: Permute(x) => x": "did you mean `Transpose`?",
    "rule r: Cast(Cast(x, to=float), to=FLOAT) => x": "did you mean `float32`?",
    'rule r: Cast(x, to="float16") => x': "did you mean `float16`?",
    # guards
    f"{RULE} if x.rank == 2,": "conditions are joined by `and`",
    f"{RULE} if x.shape[0] mod 2 == 0": "write `%`",
    f"{RULE} if x.shape == [1, 2] or [1, 3]": "compare again",
    f"{RULE} if x.ndim == 2": "write `x.rank`",
    f"{RULE} if x.size == 2": "write `x.numel`",
    f"{RULE} if x.is_const": "write `is_const(x)`",
    f"{RULE} if x.shape.rank == 2": "or `x.rank`",
    f"{RULE} if isinstance(x, float32)": "write `x.dtype`",
    "rule r: Transpose(x, perm=p) => x if p == range(x.rank)": "write `iota(n)`",
    "rule r: Transpose(x, perm=p) => x if p == [0, 1, ...]": "iota(n) is [0, 1",
    # tests
    'test "t": npu runs Relu(x: float32[4])': "declare it: target npu on DEVICE",
    'test "t": Relu(x: float32[4]) is p': "declare it: pattern p(…)",
    'test "t": Relu(x: float32[4]) matches p': "write `is`",
    'test "t": Relu(x: float32[4]) not is p': "write `is not`",
    'test "t": place Relu(x: float32[4]) on host': "`place G => G on TARGET`",
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
