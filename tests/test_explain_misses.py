"""Near misses in words: a pattern and a graph beside it that it just misses, one row per kind of difference.

Each row is a pattern, a graph, the operator asked about, and what must be said: the kind, the operator at which it
fails, the part of the rule file that the caret marks, the sentence, and what the hint must have.
"""

from __future__ import annotations

import re

import pytest
from models import parse

import rewrite_engine as rw
from rewrite_engine.language import load_text

WEIGHTS = f"{{{', '.join(['1'] * 108)}}}"
CONV = f"""g (float[1, 3, 8, 8] x) => (float[1, 4, 6, 6] y) <float[4, 3, 3, 3] w = {WEIGHTS},
    float[4] b = {{1, 2, 3, 4}}>"""
PLAIN = "g (float[4, 4] x, float[4, 4] z) => (float[4, 4] y) <float two = {2}, float six = {6}>"
HALF = PLAIN.replace("[4, 4] y", "[2, 4] y")
BOTH = PLAIN.replace("(float[4, 4] y)", "(float[4, 4] y, float[4, 4] r)")
OPTIONAL = "matches {} with and without it"
ADDED = "`Add(Conv(x, const w), const b)` spells it as an operator of its own, so every Conv with input B is missed"

ROWS = {
    # inputs
    "extra input": (
        "Relu(Conv(x, const w))", CONV + "{ c = Conv(x, w, b) y = Relu(c) }", "c", "extra_input", "c",
        "Conv(x, const w)", "Conv `c` has input B here (`b`), `Conv(x, const w)` has none", OPTIONAL.format("Conv"),
    ),
    "bias spelt as an Add, asked at the Conv": (
        "Relu(Add(Conv(x, const w), const b))", CONV + "{ c = Conv(x, w, b) y = Relu(c) }", "c", "extra_input", "c",
        "Conv(x, const w)", "Conv `c` has input B here (`b`), `Conv(x, const w)` has none", ADDED,
    ),
    "bias spelt as an Add, asked at the Relu": (
        "Relu(Add(Conv(x, const w), const b))", CONV + "{ c = Conv(x, w, b) y = Relu(c) }", "y", "operator", "c",
        "Add(Conv(x, const w), const b)", "`c` must come from Add, but comes from Conv", ADDED,
    ),
    "missing input": (
        "Relu(Conv(x, const w, const b))", CONV + "{ c = Conv(x, w) y = Relu(c) }", "c", "missing_input", "c",
        "Conv(x, const w, const b)", "Conv `c` has no input B here, `Conv(x, const w, const b)` wants one",
        "`b?` in its place lets it be absent",
    ),
    "input that must be absent": (
        "Clip(x, none, hi)", PLAIN + "{ y = Clip(x, two, six) }", "y", "extra_input", "y", "Clip(x, none, hi)",
        "Clip `y` has input min here (`two`), `Clip(x, none, hi)` has none", OPTIONAL.format("Clip"),
    ),
    "input that is absent": (
        "Clip(x, lo, hi)", PLAIN + "{ y = Clip(x, , six) }", "y", "missing_input", "y", "Clip(x, lo, hi)",
        "Clip `y` has no input min here, `Clip(x, lo, hi)` wants one", "`lo?` in its place lets it be absent",
    ),
    "fewer of any number": (
        "Max(a, b, c)", PLAIN + "{ y = Max(x, z) }", "y", "missing_input", "y", "Max(a, b, c)",
        "Max `y` has no input 3 here, `Max(a, b, c)` wants one", "a list (`*rest`) matches any number",
    ),
    "more of any number": (
        "Max(a, b)", PLAIN + "{ y = Max(x, z, x) }", "y", "extra_input", "y", "Max(a, b)",
        "Max `y` has input 3 here (`x`), `Max(a, b)` has none", "a list (`*rest`) matches any number",
    ),
    # operands
    "operands of an operator that has an order": (
        "Sub(a, Exp(b))", PLAIN + "{ e = Exp(x) y = Sub(e, z) }", "y", "operator", "z", "Exp(b)",
        "`z` must come from Exp, but is an input of the model",
        "it would match with the operands of `Sub(a, Exp(b))` exchanged",
    ),
    "not a constant": (
        "Mul(x, const c)", PLAIN + "{ y = Mul(x, z) }", "y", "not_constant", "y", "Mul(x, const c)",
        "`c` must be a constant, but `z` is an input of the model", "",
    ),
    "not a constant, but computed": (
        "Mul(x, const c)", PLAIN + "{ e = Exp(x) y = Mul(x, e) }", "y", "not_constant", "y", "Mul(x, const c)",
        "`c` must be a constant, but `e` comes from Exp", "",
    ),
    "a literal beside what is no constant": (
        "Mul(x, 3)", PLAIN + "{ y = Mul(x, z) }", "y", "not_constant", "y", "Mul(x, 3)",
        "input B must be a constant, but `z` is an input of the model", "",
    ),
    "another literal": (
        "Mul(x, 3)", PLAIN + "{ y = Mul(x, two) }", "y", "guard", "y", "3", "the constant is 2, not 3", "",
    ),
    "two values for one name": (
        "Mul(x, x)", PLAIN + "{ y = Mul(x, z) }", "y", "other_value", "y", "Mul(x, x)",
        "input B of Mul `y` is `z`, but `x` stands for `x`", "",
    ),
    "two values for one name, deep": (
        "Add(Relu(x), Relu(x))", PLAIN + "{ a = Relu(x) b = Relu(z) y = Add(a, b) }", "y", "other_value", "b",
        "Relu(x)", "input X of Relu `b` is `z`, but `x` stands for `x`", "",
    ),
    # operators
    "a wrong operator inside": (
        "Tanh(Relu(Exp(x)))", PLAIN + "{ a = Exp(x) r = Sigmoid(a) y = Tanh(r) }", "y", "operator", "r",
        "Relu(Exp(x))", "`r` must come from Relu, but comes from Sigmoid", "",
    ),
    "a wrong operator at the end": (
        "Tanh(Relu(Exp(x)))", PLAIN + "{ a = Exp(x) r = Relu(a) y = Sigmoid(r) }", "r", "reader", "r",
        "Tanh(Relu(Exp(x)))", "`r` must be read by Tanh, but is read by Sigmoid", "",
    ),
    "a step that is left out": (
        "Tanh(Relu(Exp(x)))", PLAIN + "{ a = Exp(x) y = Tanh(a) }", "y", "operator", "a", "Relu(Exp(x))",
        "`a` must come from Relu, but comes from Exp", "`Relu?(…)` would let the step be left out",
    ),
    "an end that is left out": (
        "Tanh(Relu(x))", PLAIN + "{ y = Relu(x) }", "y", "reader", "y", "Tanh(Relu(x))",
        "`y` must be read by Tanh, but nothing reads it", "",
    ),
    "none of a set": (
        "{Relu, Tanh}(Exp(x))", PLAIN + "{ e = Exp(x) y = Sigmoid(e) }", "e", "reader", "e", "{Relu, Tanh}(Exp(x))",
        "`e` must be read by Relu, but is read by Sigmoid", "",
    ),
    "another result": (
        "Relu(Split(x, axis=0)[1])", HALF + "{ a, b = Split <axis = 0, num_outputs = 2> (x) y = Relu(a) }", "y",
        "other_value", "a", "Split(x, axis=0)",
        "the pattern wants result [1] of Split, `b`, but `a`, its result [0], stands in its place", "",
    ),
    "a result that is not there": (
        "Relu(Split(x, axis=0)[2])", HALF + "{ a, b = Split <axis = 0, num_outputs = 2> (x) y = Relu(a) }", "y",
        "no_result", "a", "Split(x, axis=0)", "Split `a` has no result [2] that is read", "",
    ),
    # clauses
    "another attribute": (
        "Softmax(x, axis=-1)", PLAIN + "{ y = Softmax <axis = 0> (x) }", "y", "guard", "y", "axis=-1",
        "`axis` of Softmax is 0, not -1", "",
    ),
    "another attribute of an inner operator": (
        "Relu(Softmax(Softmax(x, axis=0), axis=1))",
        PLAIN + "{ a = Softmax <axis = 1> (x) b = Softmax <axis = 1> (a) y = Relu(b) }", "y", "guard", "a", "axis=0",
        "`axis` of Softmax is 1, not 0", "",
    ),
    "another default": (
        "Gemm(a, b, transB=1)", PLAIN + "{ y = Gemm(x, z) }", "y", "guard", "y", "transB=1",
        "`transB` of Gemm is 0, not 1", "",
    ),
    "another dtype": (
        "Relu(x: float16[...])", PLAIN + "{ y = Relu(x) }", "y", "guard", "y", "float16[...]",
        "`x` is float32, not float16", "",
    ),
    "another rank": (
        "Relu(x: [_, _, _])", PLAIN + "{ y = Relu(x) }", "y", "guard", "y", "[_, _, _]", "`x` has rank 2, not 3", "",
    ),
    "another size": (
        "Relu(a) if a.shape[0] <= 2", PLAIN + "{ y = Relu(x) }", "y", "guard", "y", "a.shape[0] <= 2",
        "`a.shape[0] <= 2` does not hold: 4 <= 2 (a is `x`)", "",
    ),
    "the first of two clauses": (
        "Relu(x) if x.rank == 2 and x.shape[0] <= 2 and x.shape[1] <= 2", PLAIN + "{ y = Relu(x) }", "y", "guard", "y",
        "x.shape[0] <= 2", "`x.shape[0] <= 2` does not hold: 4 <= 2", "",
    ),
    "a size that is not known": (
        "Relu(x) if x.shape[0] <= 2", PLAIN.replace("[4, 4] x", "[n, 4] x").replace("[4, 4] y", "[n, 4] y")
        + "{ y = Relu(x) }", "y", "unknown", "y", "x.shape[0] <= 2",
        "`x.shape[0] <= 2` is not known to hold: dimension `n` of `x` is unknown", "--dim n=SIZE binds it",
    ),
    "another reader": (
        "Tanh(r) where r = Relu(_) if readers(r) == 1", PLAIN + "{ r = Relu(x) t = Tanh(r) y = Add(t, r) }", "t",
        "guard", "t", "readers(r) == 1", "`readers(r) == 1` does not hold: 2 == 1 (r is read by Tanh and Add)", "",
    ),
    "an inner value that is an output": (
        "Tanh(r) where r = Relu(_) if not is_graph_output(r)", BOTH + "{ r = Relu(x) y = Tanh(r) }", "y", "guard", "y",
        "not is_graph_output(r)", "`not is_graph_output(r)` does not hold", "",
    ),
}  # fmt: skip


def declared(pattern: str) -> str:
    """The pattern as a declaration, its captures as parameters."""
    body = re.split(r" where | if ", pattern)[0]
    names = dict.fromkeys(re.findall(r"\b(x|a|b|c|w|lo|hi)\b(?!=)", body))
    return f"pattern p({', '.join(names)}) = {pattern}"


@pytest.mark.parametrize("title", ROWS)
def test_what_just_misses_is_told_at_its_place(title):
    pattern, graph, node, kind, value, marked, text, hint = ROWS[title]
    source = declared(pattern)
    explanation = rw.explain(rw.load(parse(graph)), load_text(source, "rules.pat"), node=node)
    (candidate,) = explanation.candidates
    miss = candidate.miss
    assert not candidate.matches
    assert (miss.kind, miss.value, miss.text) == (kind, value, text)
    assert (hint in miss.hint) if hint else (miss.hint == "")
    assert source[miss.span.column - 1 : miss.span.end_column - 1] == marked
    shown = str(explanation)
    assert f"rules.pat:1:{miss.span.column}: note: {text}" in shown
    caret = next(line for line in shown.splitlines() if re.fullmatch(r"\s*\| *\^+( .*)?", line))
    assert caret.count("^") == len(marked)


@pytest.mark.parametrize("title", ROWS)
def test_a_neighbour_that_fits_is_said_to_match(title):
    """The pattern of a row on a graph that it fits: so the row fails for what it says it does."""
    pattern, _, node, *_ = ROWS[title]
    fitting = FITTING[title]
    explanation = rw.explain(rw.load(parse(fitting)), load_text(declared(pattern), "rules.pat"), node=node)
    assert [candidate.matches for candidate in explanation.candidates] == [True]


FITTING = {
    "extra input": CONV + "{ c = Conv(x, w) y = Relu(c) }",
    "bias spelt as an Add, asked at the Conv": CONV.replace("[4] b", "[4, 1, 1] b")
    + "{ c = Conv(x, w) d = Add(c, b) y = Relu(d) }",
    "bias spelt as an Add, asked at the Relu": CONV.replace("[4] b", "[4, 1, 1] b")
    + "{ c = Conv(x, w) d = Add(c, b) y = Relu(d) }",
    "missing input": CONV + "{ c = Conv(x, w, b) y = Relu(c) }",
    "input that must be absent": PLAIN + "{ y = Clip(x, , six) }",
    "input that is absent": PLAIN + "{ y = Clip(x, two, six) }",
    "fewer of any number": PLAIN + "{ y = Max(x, z, x) }",
    "more of any number": PLAIN + "{ y = Max(x, z) }",
    "operands of an operator that has an order": PLAIN + "{ e = Exp(x) y = Sub(z, e) }",
    "not a constant": PLAIN + "{ y = Mul(x, two) }",
    "not a constant, but computed": PLAIN + "{ y = Mul(six, x) }",
    "a literal beside what is no constant": PLAIN.replace("two = {2}", "two = {3}") + "{ y = Mul(two, x) }",
    "another literal": PLAIN.replace("two = {2}", "two = {3}") + "{ y = Mul(x, two) }",
    "two values for one name": PLAIN + "{ y = Mul(x, x) }",
    "two values for one name, deep": PLAIN + "{ a = Relu(x) y = Add(a, a) }",
    "a wrong operator inside": PLAIN + "{ a = Exp(x) r = Relu(a) y = Tanh(r) }",
    "a wrong operator at the end": PLAIN + "{ a = Exp(x) r = Relu(a) y = Tanh(r) }",
    "a step that is left out": PLAIN + "{ a = Exp(x) r = Relu(a) y = Tanh(r) }",
    "an end that is left out": PLAIN + "{ r = Relu(x) y = Tanh(r) }",
    "none of a set": PLAIN + "{ e = Exp(x) y = Tanh(e) }",
    "another result": HALF + "{ a, b = Split <axis = 0, num_outputs = 2> (x) y = Relu(b) }",
    "a result that is not there": HALF.replace("2, 4", "1, 4")
    + "{ a, b, c, d = Split <axis = 0, num_outputs = 4> (x) y = Relu(c) }",
    "another attribute": PLAIN + "{ y = Softmax <axis = 1> (x) }",
    "another attribute of an inner operator": PLAIN
    + "{ a = Softmax <axis = 0> (x) b = Softmax <axis = 1> (a) y = Relu(b) }",
    "another default": PLAIN + "{ y = Gemm <transB = 1> (x, z) }",
    "another dtype": "g (float16[4, 4] x) => (float16[4, 4] y) { y = Relu(x) }",
    "another rank": "g (float[4, 4, 1] x) => (float[4, 4, 1] y) { y = Relu(x) }",
    "another size": HALF.replace("[4, 4] x", "[2, 4] x") + "{ y = Relu(x) }",
    "the first of two clauses": "g (float[2, 2] x) => (float[2, 2] y) { y = Relu(x) }",
    "a size that is not known": HALF.replace("[4, 4] x", "[2, 4] x") + "{ y = Relu(x) }",
    "another reader": PLAIN + "{ r = Relu(x) t = Tanh(r) y = Add(t, x) }",
    "an inner value that is an output": PLAIN + "{ r = Relu(x) y = Tanh(r) }",
}


def test_every_row_has_a_neighbour():
    assert FITTING.keys() == ROWS.keys()


@pytest.mark.parametrize(("graph", "hint"), [
    ("g (bool[4] x, float[4] z) => (float[?] y) { c = Compress(z, x) y = Relu(c) }", "so that no --dim binds it"),
    ("g (bool[n] x, float[n] z) => (float[?] y) { c = Compress(z, x) y = Relu(c) }",
     "bind those of the inputs, --dim n=SIZE"),
])  # fmt: skip
def test_a_size_that_follows_from_the_data_is_bound_by_no_option(graph, hint):
    rules = load_text("pattern p(c) = Relu(c) if c.shape[0] <= 2", "rules.pat")
    (candidate,) = rw.explain(rw.load(parse(graph)), rules, node="y").candidates
    assert candidate.miss.kind == "unknown" and candidate.miss.hint.endswith(hint)
