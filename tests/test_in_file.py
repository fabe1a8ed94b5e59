"""The tests that rule files hold: each verdict passes where it should, and fails for the right reason."""

from __future__ import annotations

import json
import re

import pytest

from rewrite_engine.cli import main
from rewrite_engine.diagnostics import PatError
from rewrite_engine.language import load_text
from rewrite_engine.testing.graphs import GraphBuilder
from rewrite_engine.testing.in_file import run_case, run_file

RULES = """
device acc { memory 64MiB }
link host <-> acc: 1us + bytes / 80GBps
let narrow(x) = is_static(x) and x.shape[-1] <= 64
target npu on acc {
  launch 100ns
  supports Relu(x), Sigmoid(x) if narrow(x) cost 1ns
  supports Split(x, _) cost 1ns
  composite conv_act(x, w, b?) = Relu?(Conv(x, const w, const b?)) if x.dtype == float32 cost 10ns
  composite two(x) = (Relu(a), Sigmoid(b)) where a, b = Split(x, _) cost 1ns
}
target fast on host { supports Tanh(x) cost 1ns }
pattern silu(x) = Mul(x, Sigmoid(x))
rule relu_relu: Relu(Relu(x)) => Relu(x)
rule double: Add(x, x) => Mul(x, 2)
rule shifts: Add(Add(x, const a), const b) => Add(x, a + b)
"""

PASSES = {
    "one operator": "npu runs Relu(x: float32[8])",
    "two operators": "npu runs Sigmoid(Relu(x: float32[8]))",
    "the host runs everything": "host runs Erf(Exp(x: float64[2]))",
    "a composite": "npu runs Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3])) in conv_act",
    "an optional input": "npu runs Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3], const b: float32[4])"
    " in conv_act",
    "results of one operator": "npu runs Sigmoid(b) where a, b = Split(x: float32[8], num_outputs=2)",
    "an operator that it does not know": "npu rejects Tanh(x: float32[8])",
    "a guard": "npu rejects Relu(x: float32[65])",
    "a size that is not known": "npu rejects Relu(x: float32[n])",
    "sizes that do not matter": "fast runs Tanh(x: float32[n])",
    "one of several": "npu rejects Relu(Tanh(x: float32[8]))",
    "a pattern": "Mul(x: float32[8], Sigmoid(x)) is silu",
    "the other order": "Mul(Sigmoid(x: float32[8]), x) is silu",
    "a composite by its name": "Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3])) is conv_act",
    "another value": "Mul(x: float32[8], Sigmoid(y: float32[8])) is not silu",
    "part of it": "Relu(Mul(x: float32[8], Sigmoid(x))) is not silu",
    "more than it": "(s, Mul(x: float32[8], s)) is not silu where s = Sigmoid(x)",
    "a composite of two results": "(Relu(a), Sigmoid(b)) is two where a, b = Split(x: float32[8], num_outputs=2)",
    "one result of the two": "Relu(a) is not two where a, b = Split(x: float32[8], num_outputs=2)",
    "weights that are computed": "Conv(x: float32[1, 3, 8, 8], w: float32[4, 3, 3, 3]) is not conv_act",
    "a pattern of its own": "Mul(x: float32[8], Sigmoid(x)) is Mul(a, Sigmoid(a))",
    "a named pattern with arguments": "Relu(Mul(x: float32[8], Sigmoid(x))) is Relu(silu(_))",
    "alternatives": "Tanh(x: float32[8]) is Relu(x) | Tanh(x)",
    "a guarded pattern": "Tanh(x: float32[8]) is (Tanh(y) if y.shape == [8])",
    "a pattern of two results": "(Relu(a), Sigmoid(b)) is (Relu(_), Sigmoid(_))"
    " where a, b = Split(x: float32[8], num_outputs=2)",
    "what a rule looks for": "Relu(Relu(x: float32[8])) is relu_relu",
    "what a rule does not look for": "Relu(Tanh(x: float32[8])) is not relu_relu",
    "a rewrite": "Relu(Relu(x: float32[8])) => Relu(x)",
    "several steps": "Relu(Relu(Relu(Relu(x: float32[8])))) => Relu(x)",
    "a constant that is made": "Add(x: float32[8], x) => Mul(x, 2)",
    "constants that are added": "Add(Add(x: float32[2], const a: float32[2] = 1), const b: float32[2] = 2)"
    " => Add(x, [3, 3])",
    "too small for the link": "place Relu(x: float32[8]) => Relu(x) on host",
    "on its own device": "place Tanh(x: float32[65536]) => Tanh(x) on fast",
    "large enough": "place Relu(x: float32[65536, 64]) => Relu(x) on npu",
    "too large for its memory": "place Relu(x: float32[1048576, 64]) => Relu(x) on host",
    "rewritten and placed": "place Relu(Relu(x: float32[65536, 64])) => Relu(x) on npu",
}
FAILS = {
    "npu runs Tanh(Relu(x: float32[8]))": r"npu does not run Tanh \(tanh\.\d+\)",
    "npu runs Relu(x: float32[8, 65])": r"npu does not run Relu",
    "npu runs Conv(x: float64[1, 3, 8, 8], const w: float64[4, 3, 3, 3]) in conv_act": "`npu.conv_act` covers nothing",
    "npu runs Sigmoid(Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3]))) in conv_act":
        r"`npu.conv_act` covers conv\.\d+, relu\.\d+; expected conv\.\d+, relu\.\d+, sigmoid\.\d+",
    "npu rejects Relu(x: float32[8])": "npu runs all of it",
    "npu rejects Sigmoid(Relu(x: float32[8]))": "npu runs all of it",
    "Mul(x: float32[8], Sigmoid(y: float32[8])) is silu": "it is not silu",
    "Relu(Mul(x: float32[8], Sigmoid(x))) is silu": "it is not silu",
    "Mul(x: float32[8], Sigmoid(x)) is not silu": "it is silu",
    "Relu(Conv(x: float32[1, 3, 8, 8], const w: float32[4, 3, 3, 3])) is not conv_act": "it is conv_act",
    "Mul(x: float32[8], Sigmoid(y: float32[8])) is Mul(a, Sigmoid(a))": "it is not matched by that pattern",
    "Tanh(x: float32[8]) is (Tanh(y) if y.shape == [9])": "it is not matched by that pattern",
    "Relu(Relu(x: float32[8])) is not relu_relu": "it is relu_relu",
    "Relu(Tanh(x: float32[8])) is relu_relu": "it is not relu_relu",
    "Relu(Sigmoid(x: float32[8])) => Relu(x)": "the rules lead there from another value|the rules do not lead there",
    "Relu(x: float32[8]) => Sigmoid(x)": "the rules do not lead there",
    "Add(x: float32[8], x) => Mul(x, 3)": "the rules do not lead there",
    "Tanh(Relu(x: float32[8])) => Relu(x)": "the rules lead there from another value",
    "place Relu(x: float32[8]) => Relu(x) on npu": "the optimum runs on host",
    "place Relu(x: float32[65536, 64]) => Relu(x) on host": "the optimum runs on npu",
    "place Relu(x: float32[1048576, 64]) => Relu(x) on npu": "the optimum runs on host",
    "place Tanh(x: float32[65536]) => Sigmoid(x) on fast": "the optimum computes something else: Tanh",
    "place Relu(Relu(x: float32[8])) => Relu(Relu(x)) on host": "the optimum computes something else: Relu",
}  # fmt: skip


def outcome(test: str, rules: str = RULES):
    """The one result of a file with this test at its end."""
    loaded = load_text(f'{rules}\ntest "it": {test}\n', "rules.pat")
    (case,) = loaded.tests
    return run_case(loaded, case)


@pytest.mark.parametrize("title", PASSES)
def test_passes(title):
    result = outcome(PASSES[title])
    assert result.passed and result.reason == "", result.reason


@pytest.mark.parametrize("test", FAILS)
def test_fails_for_the_right_reason(test):
    result = outcome(test)
    assert not result.passed and re.fullmatch(f"(?:{FAILS[test]}).*", result.reason), result.reason


def test_verdicts_about_capabilities_use_no_rewrites():
    assert not outcome("fast runs Tanh(Tanh(x: float32[8]))", RULES.replace("Tanh(x) cost", "Erf(x) cost")).passed
    rules = RULES + "rule odd: Erf(x) => Tanh(x)\n"
    assert outcome("fast rejects Erf(x: float32[8])", rules).passed
    assert outcome("place Erf(x: float32[65536]) => Tanh(x) on fast", rules).passed


UNBUILT = {
    "npu runs Relu(_)": ("_", "no wildcards"),
    "npu runs Slice(x: float32[4, 4], [0], [2], [0, 1])": (
        "Slice(x: float32[4, 4], [0], [2], [0, 1])", "input 1 (starts) has 1 elements, expected 2"),
    "npu runs Reshape(x: float32[4], [3])": ("Reshape(x: float32[4], [3])", "number of elements changes"),
    "npu runs MatMul(x: float32[2, 3], y: float32[2, 3])": (
        "MatMul(x: float32[2, 3], y: float32[2, 3])", "differ: 3 and 2"),
    "npu runs Add(x: float32[2], y: float16[2])": ("Add(x: float32[2], y: float16[2])", "input 1 (B) is float16"),
    "npu runs Add(x: int32[2], 0.5)": ("0.5", "0.5 does not fit int32"),
    "npu runs Add(x: int8[2], 300)": ("300", "300 does not fit int8"),
    "npu runs Transpose(x: float32[2, 3], perm=[0, 0])": ("Transpose(x: float32[2, 3], perm=[0, 0])", "no permutation"),
    "npu runs Concat(x: float32[2], y: float32[2], axis=0 / 1 + 1 / 2)": (
        "axis=0 / 1 + 1 / 2", "expected a whole number"),
    "npu runs Relu(const x: float32[2] = [1, 2, 3])": ("const x: float32[2] = [1, 2, 3]", "its value [3]"),
    "Relu(x: float32[2]) => Add(x, [1, 2, 3])": ("Add(x, [1, 2, 3])", "do not broadcast"),
    "npu runs silu(x: float32[2])[1]": ("silu(x: float32[2])[1]", "there is no result 1: there are 1"),
    "place Relu(x: float32[2]) => Softmax(x, axis=5) on host": ("Softmax(x, axis=5)", "axis 5 is outside [-1, 1)"),
}  # fmt: skip


@pytest.mark.parametrize("test", UNBUILT)
def test_a_graph_that_cannot_be_built_says_where(test):
    """It fails that one test, with the place and a caret."""
    place, message = UNBUILT[test]
    result = outcome(test)
    line = f'test "it": {test}'
    assert not result.passed and message in result.reason
    assert (result.where.line, result.where.column) == (RULES.count("\n") + 2, line.index(place) + 1)
    header, shown, caret = result.shown.splitlines()
    assert header.startswith(f"rules.pat:{result.where.line}:{result.where.column}: FAILED: it: ") and message in header
    assert shown.endswith(line) and caret.rstrip().endswith("^" * len(place))


def test_the_others_still_run(tmp_path, capsys):
    bad = 'test "bad": npu runs Slice(x: float32[4, 4], [0], [2], [0, 1])\n'
    (tmp_path / "rules.pat").write_text(f'{RULES}\ntest "one": npu runs Relu(x: float32[8])\n{bad}'
                                        'test "two": npu rejects Tanh(x: float32[8])\n')  # fmt: skip
    path = str(tmp_path / "rules.pat")
    assert [result.passed for result in run_file(path)] == [True, False, True]
    assert main(["test", path]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r".*rules.pat:\d+:22: FAILED: bad: Slice: input 1 \(starts\) .*", shown[0])
    assert shown[1].endswith(bad.strip()) and shown[2].count("^") == len("Slice(x: float32[4, 4], [0], [2], [0, 1])")
    assert "2 passed, 1 failed" in shown
    assert main(["test", path, "--json", "--coverage"]) == 1
    rows = json.loads(capsys.readouterr().out)["tests"]
    assert [row.get("at") for row in rows] == [None, {"line": rows[1]["line"], "column": 22}, None]


GIVEN_OUT = """
pattern scaled(v, factor) = (Mul(v, 0.5) with factor = 0.5) | (v with factor = 1)
pattern middle(v, factor, w) = Add(scaled(v, factor), w)
pattern twice(v, one, other) = Add(scaled(v, one), scaled(v, other))
pattern halves(x) = (a, b) where a, b = Split(x, num_outputs=2)
"""


@pytest.mark.parametrize(
    "test",
    [
        "Relu(scaled(x: float32[8])) is Relu(Mul(_, _))",
        "Relu(scaled(x: float32[8], _)) is Relu(Mul(_, _))",
        "Relu(scaled(x: float32[8], f)) is Relu(Mul(_, _))",
        "middle(x: float32[8], y: float32[8]) is middle",
        "middle(x: float32[8], f, y: float32[8]) is middle",
        "twice(x: float32[8]) is Add(Mul(_, _), _)",
        "Neg(a) is Neg(middle(_, f, _)) where a = middle(x: float32[8], y: float32[8])",
    ],
)
def test_what_a_pattern_hands_out_is_not_handed_in(test):
    """A test leaves it out, or names it."""
    assert outcome(test, GIVEN_OUT).passed, outcome(test, GIVEN_OUT)


def test_what_is_handed_in_is_needed():
    with pytest.raises(PatError, match=r"pattern `middle` takes 3 arguments, found 2"):
        outcome("middle(x: float32[8]) is middle", GIVEN_OUT)


ONE_NODE = {
    "Concat(Split(x: float32[4], num_outputs=2)[1], Split(x, num_outputs=2)[0], axis=0)": ["Split", "Concat"],
    "Concat(b, a, axis=0) where a, b = Split(x: float32[4], num_outputs=2)": ["Split", "Concat"],
    "Concat(halves(x: float32[4])[1], halves(x)[0], axis=0)": ["Split", "Concat"],
    "Concat(b, a, axis=0) where a, b = halves(x: float32[4])": ["Split", "Concat"],
    "Concat(Split(x: float32[4], [1, 3])[1], Split(x, [2, 2])[0], axis=0)": ["Split", "Split", "Concat"],
    "Add(Relu(x: float32[4]), Relu(x))": ["Relu", "Add"],
    "Add(Add(x: float32[4], 1), Add(x, 1))": ["Add", "Add"],
    "Add(Add(x: float32[4], 1), Add(x, 2))": ["Add", "Add", "Add"],
    "Add(MaxPool(x: float32[1, 1, 4], kernel_shape=[1]), Cast(MaxPool(x, kernel_shape=[1])[1], to=float32))": [
        "MaxPool", "Cast", "Add"],
    "Add(RandomNormal(shape=[2]), RandomNormal(shape=[2]))": ["RandomNormal", "RandomNormal", "Add"],
    "Neg(TopK(x: float32[4], [2])[0])": ["TopK", "Neg"],
}  # fmt: skip


@pytest.mark.parametrize("test", ONE_NODE)
def test_one_call_is_one_node(test):
    """Whichever of its outputs are written, and however often."""
    graph, _, where = test.partition(" where ")
    terms = graph_of(f"{graph} is halves where {where}" if where else f"{graph} is halves", GIVEN_OUT)
    assert [node.op for node in terms.nodes] == ONE_NODE[test]
    wanted = {"Split": 2, "TopK": 2, "MaxPool": 2}
    assert all(len(node.outputs) == wanted.get(node.op, 1) for node in terms.nodes)


def graph_of(test: str, rules: str = RULES):
    """The graph of a test, as terms."""
    loaded = load_text(f'{rules}\ntest "it": {test}\n', "rules.pat")
    return _built(loaded, loaded.tests[0].declaration)


def _built(loaded, declaration):
    builder = GraphBuilder(loaded.scope, {path: text for path, (text, _) in loaded.sources.items()})
    return builder.terms(builder.graph(declaration.subject, declaration.where))


LITERALS = {
    "Where([true, false], x: float32[2], 0)": ["bool", "float32"],
    "Where(c: bool[2], 1, x: float64[2])": ["float64"],
    "Gather(x: float32[4], [0, 1])": ["int64"],
    "GatherElements(x: float16[4], [0, 1])": ["int64"],
    "Clip(x: float16[4], 0, 6)": ["float16", "float16"],
    "Clip(x: int8[4], 0, none)": ["int8"],
    "Pow(x: float16[4], 2)": ["float16"],
    "Pow(x: float32[4], 0.5)": ["float32"],
    "QuantizeLinear(x: float32[4], 0.5, 3)": ["float32", "uint8"],
    "QuantizeLinear(x: float32[4], 1, -3)": ["float32", "int8"],
    "DequantizeLinear(x: int8[4], 0.5, 0)": ["float32", "int8"],
    "Resize(x: float32[1, 1, 2, 2], none, [1, 1, 2, 2])": ["float32"],
    "Resize(x: float32[1, 1, 2, 2], none, none, [1, 1, 4, 4])": ["int64"],
    "Reshape(x: float16[4], [2, 2])": ["int64"],
    "Pad(x: float16[4], [1, 1], 0)": ["int64", "float16"],
    "TopK(x: float16[4], [2])[0]": ["int64"],
    "OneHot(x: int32[4], 3, [0, 1])": ["int64", "int64"],
    "Range(0, 5.5, 1)": ["float32", "float32", "float32"],
    "ScatterElements(x: float16[4], [0], [1])": ["int64", "float16"],
    "CumSum(x: float16[4], 0)": ["int64"],
    "Max(x: bfloat16[4], 1)": ["bfloat16"],
    "Tile(x: float16[4], [2])": ["int64"],
    "And(x: bool[2], [true, false])": ["bool"],
}


@pytest.mark.parametrize("test", LITERALS)
def test_literals_have_the_dtype_that_the_schema_asks_for(test):
    terms = graph_of(f"{test} is halves", GIVEN_OUT)
    (node,) = terms.nodes
    found = [terms.values[i] for i in node.inputs if i != -1 and terms.values[i].constant is not None]
    assert [value.type.dtype for value in found] == [str(value.constant.dtype) for value in found] == LITERALS[test]


def test_a_file_runs_its_own_tests_alone(tmp_path):
    (tmp_path / "base.pat").write_text(RULES + 'test "of the base": npu runs Relu(x: float32[8])\n')
    (tmp_path / "top.pat").write_text(
        'include "base.pat"\n'
        'test "of the top": npu runs Tanh(x: float32[8])\ntest "also": npu runs Relu(x: float32[8])\n'
    )
    results = run_file(tmp_path / "top.pat")
    assert [(r.title, r.passed) for r in results] == [("of the top", False), ("also", True)]
    assert [r.span.line for r in results] == [2, 3]
    assert [r.title for r in run_file(tmp_path / "base.pat")] == ["of the base"]


def test_results_that_do_not_depend_on_names(tmp_path):
    """A value that is called like another file's: the graph of each test is its own."""
    rules = RULES + 'test "one": Relu(Relu(relu: float32[8])) => Relu(relu)\n'
    loaded = load_text(rules, "rules.pat")
    assert all(run_case(loaded, case).passed for case in loaded.tests)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int8", "uint8"])
@pytest.mark.parametrize("written", ["full([3], 0, T)", "cast(full([3], 0), T)", "zero", "reshape(zeros(1, 3), [3])"])
def test_constants_of_tests_keep_the_dtype_that_they_state(dtype: str, written: str) -> None:
    text = f"""let zero = full([3], 0, {dtype})
      let zeros(a, b) = full([a, b], 0, {dtype})
      test "a zero point":
        QuantizeLinear(x: float32[2, 3], const s: float32[3] = 1, const z: {dtype}[3] = 0, axis=1)
        => QuantizeLinear(x, s, {written.replace("T", dtype)}, axis=1)"""
    rules = load_text(text)
    assert [run_case(rules, case).reason for case in rules.tests] == [""]
