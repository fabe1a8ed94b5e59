"""Faults that others have met, by the row of the table they stand in: what import must keep, and memory that is shared.

Every graph here goes the whole road, and its numbers are those of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import Array, parse, random_inputs, run_reference
from onnx import external_data_helper, helper, numpy_helper

import rewrite_engine as rw
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import onnx_file, save
from rewrite_engine.language import load_text

BOARD = """
device acc { memory 1MiB }
link host <-> acc: 10ns
target host { flops 1GFLOPS bandwidth 1GBps }
target npu on acc { launch 1ns  supports Relu(x), Neg(x), Add(x, y), Reshape(x, s), Mul(x, y) cost 1ns }
"""
HOST = ""


def bundle_of(model: onnx.ModelProto, rules: str = HOST, **options: object) -> Bundle:
    return rw.compile(rw.load(model), load_text(rules), engine="numpy", **options)


def check(model: onnx.ModelProto, rules: str = HOST) -> Bundle:
    """The bundle, once it has computed what ONNX Runtime computes, twice in a row on each input, inputs untouched."""
    bundle = bundle_of(model, rules)
    for seed in (0, 1):
        inputs = random_inputs(model, seed)
        kept = {name: value.copy() for name, value in inputs.items()}
        first = [value.copy() for value in bundle.run(inputs).values()]
        again = list(bundle.run(inputs).values())
        for one, two, expected in zip(first, again, run_reference(model, inputs), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(one, two)
        assert all(np.array_equal(inputs[name], kept[name]) for name in kept), "an input was written to"
    return bundle


def with_weights(model: onnx.ModelProto, **weights: Array) -> onnx.ModelProto:
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return model


# ---------------------------------------------------------------- what is a constant


@pytest.mark.parametrize(
    "body", ["y = Mul(x, w)", "v = Neg(w) u = Neg(v) y = Mul(x, u)", "v = Add(w, w) y = Div(v, x)"]
)
def test_row_52_an_initializer_that_is_an_input_may_be_given(body: str) -> None:
    model = with_weights(parse(f"g (float[2] x, float[2] w) => (float[2] y) {{ {body} }}"), w=np.float32([1, 2]))
    bundle = bundle_of(model)
    x = np.float32([1, 2])
    for w in (np.float32([10, 10]), np.float32([3, 3])):
        (y,) = bundle.run({"x": x, "w": w}).values()
        np.testing.assert_allclose(y, 2 * w / x if "Div" in body else x * w)


@pytest.mark.parametrize("version", [3, 4, 8])
def test_row_53_weights_that_old_files_list_as_inputs_are_constants(version: int) -> None:
    """Below version 4 of the format every initializer had to be listed as an input."""
    text = "g (float[1, 1, 4, 4] x, float[1, 1, 1, 1] w) => (float[1, 1, 4, 4] y) { c = Conv(x, w) y = Relu(c) }"
    model = with_weights(parse(text, opset=8, ir_version=version), w=np.float32([[[[2]]]]))
    rules = "target fuse on host { launch 1ns  composite conv_relu(x) = Relu(Conv(x, const w)) cost 1ns }"
    placed = rw.place(rw.load(model), load_text(rules)).graph
    assert (placed.steps[0].rule == "fuse.conv_relu") == (version < 4)


def external(folder: Path, *, written: bool) -> Path:
    """A model whose weight is in a file beside it, which may be missing."""
    model = with_weights(
        parse("g (float[4] x) => (float[4] y) { a = Add(w, w) y = Mul(x, a) }"), w=np.float32([1, 2, 3, 4])
    )
    for tensor in model.graph.initializer:
        external_data_helper.set_external_data(tensor, "weights.bin")
    onnx.save(model, folder / "model.onnx")
    if not written:
        (folder / "weights.bin").unlink(missing_ok=True)
    return folder / "model.onnx"


def test_row_55_weights_in_another_file_are_read_or_refused(tmp_path: Path) -> None:
    path = external(tmp_path, written=True)
    (y,) = bundle_of_file(path).run({"x": np.float32([1, 1, 1, 1])}).values()
    np.testing.assert_array_equal(y, [2, 4, 6, 8])
    (tmp_path / "weights.bin").write_bytes(b"\0" * 7)
    with pytest.raises(RewriteError, match="w"):
        bundle_of_file(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(RewriteError, match=r"weights\.bin"):
        bundle_of_file(path)
    with pytest.raises(RewriteError, match=r"weights\.bin|another file|external"):  # a model in memory has no folder
        rw.load(onnx.load(external(tmp_path, written=False), load_external_data=False))


def bundle_of_file(path: Path) -> Bundle:
    return rw.compile(rw.load(path), load_text(HOST), engine="numpy")


@pytest.mark.parametrize("op", ["RandomNormal <shape = [4]> ()", "RandomUniform <shape = [4]> ()",
                                "RandomNormalLike (k)", "RandomUniformLike (k)", "Bernoulli (k)"])  # fmt: skip
def test_row_60_what_is_random_is_neither_folded_nor_shared(op: str) -> None:
    text = "g (float[4] x) => (float[4] y) <float[4] k = {0.5, 0.5, 0.5, 0.5}>"
    text += f" {{ a = {op} b = {op} c = Sub(a, b) y = Add(x, c) }}"
    module = rw.load(parse(text))
    name = op.split()[0]
    assert [node.op_type for node in module.model.graph].count(name) == 2
    covers = [cover for step in rw.place(module, load_text("target host { flops 1GFLOPS bandwidth 1GBps }")).graph.steps
              for cover in step.covers]  # fmt: skip
    assert {"a", "b"} <= set(covers), "two draws became one"


# ---------------------------------------------------------------- axes and other inputs that may be absent


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd"])
@pytest.mark.parametrize("axes", ["{1}", "{-1}", "{0, 2}"])
def test_row_129_axes_that_are_an_input(op: str, axes: str) -> None:
    number = axes.count(",") + 1
    shape = "[2, 1, 4]" if axes == "{1}" else "[2, 3, 1]" if axes == "{-1}" else "[1, 3, 1]"
    text = f"g (float[2, 3, 4] x) => (float{shape} y) <int64[{number}] axes = {axes}> {{ y = {op} (x, axes) }}"
    check(parse(text, opset=18))


@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("given", ["x", "x, none"])
def test_row_130_axes_that_are_absent(noop: int, given: str) -> None:
    text = f"g (float[2, 3] x) => (float{'[2, 3]' if noop else '[1, 1]'} y)"
    text += f" {{ y = ReduceSum <noop_with_empty_axes = {noop}> (x) }}"
    model = parse(text)
    if given != "x":
        model.graph.node[0].input.append("")
    check(model)


def test_row_145_an_optional_input_that_is_empty() -> None:
    model = parse("g (float[3] x) => (float[3] y) <float hi = {6}> { y = Clip(x, hi) }")
    model.graph.node[0].input[:] = ["x", "", "hi"]
    (y,) = bundle_of(model).run({"x": np.float32([-9, 3, 9])}).values()
    np.testing.assert_array_equal(y, [-9, 3, 6])


# ---------------------------------------------------------------- graphs inside operators


def branch(name: str, body: str, out: str = "float[2] r") -> onnx.GraphProto:
    return parse(f"{name} () => ({out}) {{ {body} }}").graph


def conditional(then: str, otherwise: str, before: str = "") -> onnx.ModelProto:
    """y = If(c, then, otherwise); both branches may read x and what `before` computes of it."""
    model = parse(f"g (bool c, float[2] x) => (float[2] y) {{ {before or 'x2 = Neg(x)'} y = Identity(x2) }}")
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("t", then), else_branch=branch("e", otherwise))
    del model.graph.node[-1]
    model.graph.node.append(node)
    return model


def test_rows_134_and_135_values_that_bodies_read_keep_their_names() -> None:
    """What only a body reads is an edge of the graph like any other; whatever renames a value renames it there too."""
    model = conditional("r = Add(x2, x2)", "r = Mul(x2, x)", "x2 = Relu(x)")
    rules = load_text("rule twice: Relu(x) => Max(x, 0)\ntarget host { flops 1GFLOPS bandwidth 1GBps }")
    for loaded in (load_text(HOST), rules):
        graph = rw.place(rw.load(model), loaded).graph
        names = [cover for step in graph.steps for cover in step.covers]
        assert "y" in names and "x2" in names
        last = next(step for step in graph.steps if "y" in step.covers)
        assert {"c", "x"} <= set(last.inputs) and len(last.inputs) == 3


@pytest.mark.parametrize("count", ["int64 m = {3}", None])
def test_row_134_a_loop_that_reads_only_what_is_outside(count: str | None) -> None:
    body = parse("b (int64 i, bool go) => (bool more, float[2] s) { more = Identity(go) s = Add(x, x) }").graph
    inputs, constants = ("", f"{count}, ") if count else ("int64 m, ", "")
    model = parse(f"g ({inputs}float[2] x) => (float[3, 2] y) <{constants}bool go = {{1}}> {{ y = Identity(x) }}")
    model.graph.node[0].CopyFrom(helper.make_node("Loop", ["m", "go"], ["y"], body=body))
    terms = rw.graph.to_terms(rw.load(model))
    assert "x" in {terms.values[index].name for node in terms.nodes for index in node.inputs if index >= 0}
    if count:  # so many turns are written out
        check(model)


def test_row_138_a_branch_that_returns_an_outer_value() -> None:
    """ONNX's rules allow it to some readers and not to others: it is carried along or refused by name, never wrong."""
    model = conditional("r = Identity(x2)", "r = Neg(x2)")
    del model.graph.node[-1].attribute[0].g.node[:]
    model.graph.node[-1].attribute[0].g.output[0].name = "x2"
    try:
        module = rw.load(model)
    except RewriteError as error:
        assert "x2" in str(error)
    else:
        assert [node.op_type for node in module.model.graph][-1] == "If"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("names", [("n", "n"), ("", ""), ("y", "x"), ("a", "a")])
def test_row_139_names_of_nodes_may_be_empty_or_the_same(names: tuple[str, str]) -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }")
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    graph = rw.place(rw.load(model), load_text(BOARD)).graph
    assert [cover for step in graph.steps if hasattr(step, "covers") for cover in step.covers] == ["a", "y"]
    (y,) = bundle_of(model, BOARD).run({"x": np.float32([-1, 2])}).values()
    np.testing.assert_array_equal(y, [0, -2])


def test_row_141_constants_of_two_matches_are_two_values() -> None:
    text = """g (float[2, 6] x, float[2, 6] z) => (float[12] y, float[4, 3] u) <int64[2] s = {3, -1}, int64[1] f = {-1},
        int64[2] g = {4, 3}> { a = Reshape(x, s) y = Reshape(a, f) b = Reshape(z, s) u = Reshape(b, g) }"""
    rules = "rule reshape: Reshape(Reshape(x, _), const s) => Reshape(x, s) if all(d != 0 for d in s)\n"
    bundle = check(parse(text), rules + "target host { flops 1GFLOPS bandwidth 1GBps }")
    assert len([1 for name in bundle.parameters]) == 2


@pytest.mark.parametrize("second", ["t = Neg(x)", "t, q = Split <num_outputs = 2> (x)"])
def test_row_142_a_value_that_is_made_twice(second: str) -> None:
    model = parse(f"g (float[2] x) => (float[2] y) {{ t = Relu(x) {second.replace('t', 't2', 1)} y = Add(t, t2) }}")
    model.graph.node[1].output[0] = "t"
    model.graph.node[1].name = "second"
    with pytest.raises(RewriteError, match="`t`"):
        rw.load(model)


def test_row_144_weights_beyond_what_one_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage that would write them all into one message says so, and leaves nothing behind."""
    model = with_weights(parse("g (float[4] x) => (float[4] y) { y = Mul(x, w) }"), w=np.float32([1, 2, 3, 4]))
    onnx.save(model, tmp_path / "model.onnx")
    module = rw.load(tmp_path / "model.onnx")
    monkeypatch.setattr(onnx_file, "LARGEST", 15)
    steps = (
        lambda: rw.load(tmp_path / "model.onnx"),
        lambda: rw.load(model),
        lambda: save(module, tmp_path / "other.onnx"),
        lambda: rw.compile(module, load_text(HOST), engine="numpy"),
    )
    for step in steps:
        with pytest.raises(RewriteError, match=r"16 bytes.*larger than the 15 bytes that one ONNX file"):
            step()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


# ---------------------------------------------------------------- memory that is shared


@pytest.mark.parametrize("body", [
    "y = Cast <to = 1> (x)", "y = Where(m, x, x)", "y = Identity(x)", "y = Reshape(x, s)", "y = Clip(x)",
    "y = Dropout(x)",
    "t = Identity(x) y = Reshape(t, s)",
])  # fmt: skip
def test_rows_101_and_111_an_output_never_has_the_bytes_of_an_input(body: str) -> None:
    text = f"g (float[4] x) => (float[4] y) <int64[1] s = {{4}}, bool[4] m = {{1, 0, 1, 0}}> {{ {body} }}"
    bundle = check(parse(text))
    x = np.float32([1, 2, 3, 4])
    (y,) = bundle.run({"x": x}).values()
    assert not np.shares_memory(x, y)
    x[:] = 0
    np.testing.assert_array_equal(y, [1, 2, 3, 4])


@pytest.mark.parametrize("body", [
    "y = Relu(x) z = Neg(x)",
    "t = Neg(x) y = Relu(t) z = Exp(t)",
    "t = Neg(x) y = Relu(t) u = Relu(y) z = Add(u, t)",
    "t = Neg(x) v = Reshape(t, s) y = Relu(v) z = Exp(t)",
])  # fmt: skip
@pytest.mark.parametrize("rules", [HOST, BOARD])
def test_row_102_nothing_is_overwritten_while_it_is_read(body: str, rules: str) -> None:
    check(parse(f"g (float[4] x) => (float[4] y, float[4] z) <int64[1] s = {{4}}> {{ {body} }}"), rules)


def live_apart(bundle: Bundle) -> None:
    """No two values that are held at the same time share bytes, unless one is a view of the other."""
    rows = bundle.plan.storages
    for i, one in enumerate(rows):
        for other in rows[:i]:
            if one.device != other.device or one.root == other.root:
                continue
            together = one.first <= other.last and other.first <= one.last
            overlap = one.offset < other.offset + other.size and other.offset < one.offset + one.size
            assert not (together and overlap), f"{one} and {other}"


@pytest.mark.parametrize("unused", [0, 1, 2])
def test_row_103_a_result_that_nobody_reads_shares_nothing_while_it_is_written(unused: int) -> None:
    used = [i for i in range(3) if i != unused]
    text = "g (float[6] x) => (float[2] y) { p0, p1, p2 = Split <num_outputs = 3> (x)"
    text += f" a = Neg(p{used[0]}) b = Relu(p{used[1]}) y = Add(a, b) }}"
    live_apart(check(parse(text)))


def test_row_104_outputs_keep_their_bytes_to_the_end() -> None:
    text = "g (float[64] x) => (float[64] y, float[64] z) { y = Neg(x) a = Relu(y) b = Neg(a) c = Exp(b) z = Neg(c) }"
    for rules in (HOST, BOARD):
        live_apart(check(parse(text), rules))


@pytest.mark.parametrize("view", ["Reshape(s, k)", "Identity(s)", "Unsqueeze(s, k0)", "Flatten <axis = 0> (s)"])
@pytest.mark.parametrize("rules", [HOST, BOARD])
def test_row_106_what_a_view_looks_at_lives_as_long_as_the_view(view: str, rules: str) -> None:
    shape = {"R": "[4]", "I": "[4]", "U": "[1, 4]", "F": "[1, 4]"}[view[0]]
    text = f"g (float[4] x) => (float{shape} y) <int64[1] k = {{4}}, int64[1] k0 = {{0}}, float one = {{1}},"
    text += f" float two = {{2}}> {{ s = Add(x, one) v = {view} t = Add(x, two) u = Exp(t) w = Neg(u)"
    text += " q = Add(v, t) y = Add(q, w) }"
    live_apart(check(parse(text), rules))


@pytest.mark.parametrize("rules", [HOST, BOARD])
def test_row_110_an_input_that_is_an_output(rules: str) -> None:
    model = parse("g (float[2] x) => (float[2] x, float[2] y, float[2] z) { y = Add(x, x) z = Neg(y) }")
    bundle = bundle_of(model, rules)
    x = np.float32([1, 2])
    found = bundle.run({"x": x})
    for name, expected in {"x": [1, 2], "y": [2, 4], "z": [-2, -4]}.items():
        np.testing.assert_array_equal(found[name], expected)
    np.testing.assert_array_equal(x, [1, 2])


# ---------------------------------------------------------------- what JSON has no word for


def test_row_N12_attributes_and_constants_of_every_kind_survive(tmp_path: Path) -> None:
    values: Mapping[str, Array] = {
        "h": np.float16([1.5, np.nan, -0.0]), "s": np.array(2.5, np.float32), "e": np.zeros((0, 3), np.float32),
        "n": np.float32([np.nan, np.inf, -np.inf]),
    }  # fmt: skip
    text = "g (float[3] x, float16[3] k) => (float[3] y, float16[3] z, float[0, 3] e2, float[3] w)"
    text += " { a = Add(x, s) y = Elu <alpha = 0.1> (a) z = Add(k, h) e2 = Neg(e) w = Add(x, n) }"
    model = with_weights(parse(text), **values)
    bundle = bundle_of(model)
    bundle.save(tmp_path / "out")
    for path in (tmp_path / "out").rglob("*.json"):
        assert "NaN" not in path.read_text() and "Infinity" not in path.read_text(), path.name
    opened = Bundle.open(tmp_path / "out")
    inputs = {"x": np.float32([1, 2, 3]), "k": np.float16([1, 2, 3])}
    for one, two in zip(bundle.run(inputs).values(), opened.run(inputs).values(), strict=True):
        np.testing.assert_array_equal(one, two)
    found = opened.run(inputs)
    np.testing.assert_array_equal(found["z"], np.float16([2.5, np.nan, 3]))
    np.testing.assert_array_equal(found["w"], np.float32([np.nan, np.inf, -np.inf]))
    assert found["e2"].shape == (0, 3)
