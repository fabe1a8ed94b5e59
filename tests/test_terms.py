"""Modules and terms: what terms say of a graph, marks and pins, and the way back."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from models import largest_error, parse, random_inputs, run_reference
from onnx import numpy_helper
from test_placed_io import branches, same

import rewrite_engine.graph.names as names_module
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ABSENT, Names, Term, Terms, Value, bundled_model, from_terms, load, strip, to_terms
from rewrite_engine.operators import TensorType


def names(terms: Terms, indices) -> list[str]:
    return [terms.values[i].name if i != ABSENT else "" for i in indices]


def assert_same_terms(a: Terms, b: Terms) -> None:
    assert [v.name for v in a.values] == [v.name for v in b.values] or sorted(v.name for v in a.values) == sorted(
        v.name for v in b.values
    )
    for left, right in zip(a.nodes, b.nodes, strict=True):
        assert left.op == right.op and names(a, left.inputs) == names(b, right.inputs)
        assert names(a, left.outputs) == names(b, right.outputs)
        assert same(dict(left.attributes), dict(right.attributes))
    types = {v.name: (v.type, v.constant is None) for v in a.values}
    assert types == {v.name: (v.type, v.constant is None) for v in b.values}
    assert names(a, a.inputs) == names(b, b.inputs) and names(a, a.outputs) == names(b, b.outputs)
    assert {a.values[i].name: d for i, d in a.pins.items()} == {b.values[i].name: d for i, d in b.pins.items()}


def test_terms_of_a_small_graph():
    model = parse("""g (float[1,3,5,5] x) => (float[1,2,5,5] y) {
      c = Conv<pads=[1,1,1,1]>(x, w, )  six = Constant<value_float=6.0>()  y = Clip(c, , six) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3, 3, 3), np.float32), "w"))
    terms = to_terms(load(model))
    conv, clip = terms.nodes
    assert names(terms, conv.inputs) == ["x", "w"]  # the absent bias at the end is trimmed
    assert names(terms, clip.inputs) == ["c", "", "six"]
    assert conv.attributes["kernel_shape"] == (3, 3) and conv.attributes["group"] == 1
    by_name = {value.name: value for value in terms.values}
    assert by_name["c"].type == TensorType("float32", (1, 2, 5, 5)) and by_name["c"].constant is None
    assert by_name["six"].constant == np.float32(6) and by_name["w"].constant.shape == (2, 3, 3, 3)
    assert names(terms, terms.inputs) == ["x"] and names(terms, terms.outputs) == ["y"]


def test_there_and_back():
    for model in (branches(), bundled_model()):
        module = load(model)
        terms = to_terms(module)
        again = from_terms(terms, "again")
        assert_same_terms(to_terms(again), terms)
        inputs = {**random_inputs(module.model, 0), **({"c": np.array(True)} if model is not bundled_model() else {})}
        inputs = {i.name: inputs[i.name] for i in module.model.graph.inputs}
        assert largest_error(run_reference(again.model, inputs), run_reference(module.model, inputs)) == 0


def test_what_a_branch_captures_is_an_input():
    terms = to_terms(load(branches()))
    branch = next(node for node in terms.nodes if node.op == "If")
    assert names(terms, branch.inputs) == ["c", "r", "x"]


def test_captured_values_follow_their_new_names():
    terms = to_terms(load(branches()))
    values = tuple(Value(f"new_{v.name}", v.type, v.constant) for v in terms.values)
    renamed = from_terms(Terms(values, terms.nodes, terms.inputs, terms.outputs))
    original = from_terms(terms)
    for choice in (True, False):
        inputs = {"x": np.array([[1, -2, 3], [-4, 5, 0]], np.float32), "c": np.array(choice)}
        expected = run_reference(original.model, inputs)
        actual = run_reference(renamed.model, {f"new_{name}": array for name, array in inputs.items()})
        assert largest_error(actual, expected) == 0


def test_a_branch_may_hand_out_an_outer_value():
    text = """g (float[2] x, bool c) => (float[2] y) {
      r = Relu(x)
      y = If (c) <then_branch = a () => (float[2] r) { u = Neg(r) },
                  else_branch = b () => (float[2] w) { w = Neg(r) }>
    }"""
    module = load(parse(text))
    terms = to_terms(module)
    assert names(terms, terms.nodes[1].inputs) == ["c", "r"]
    for model in (module.model, from_terms(terms).model):
        for choice, expected in ((True, [0, 2]), (False, [0, -2])):
            assert (
                run_reference(model, {"x": np.array([-1, 2], np.float32), "c": np.array(choice)})[0].tolist()
                == expected
            )


def test_integers_may_stand_for_floats():
    x, y = (Value(name, TensorType("float32", (2,))) for name in "xy")
    module = from_terms(Terms((x, y), (Term("LeakyRelu", {"alpha": 2}, (0,), (1,)),), (0,), (1,)))
    assert run_reference(module.model, {"x": np.array([-1, 1], np.float32)})[0].tolist() == [-2, 1]


MARKED = """g (float[2] x) => (float[2] y, float[2] z) {
  a = Relu(x)  b = rewrite_engine.OnDevice<device="npu0">(a)  c = Neg(b)  y = rewrite_engine.OnDevice<device="npu1">(c)
  z = rewrite_engine.OnDevice<device="host">(x)
}"""


@pytest.mark.parametrize("opset", [17, 23])
def test_marks_become_pins(opset):
    module = load(parse(MARKED, opset))
    assert all(v.shape.is_static() for node in module.model.graph for v in node.outputs)
    terms = to_terms(module)
    assert [(n.op, names(terms, n.inputs), names(terms, n.outputs)) for n in terms.nodes] == [
        ("Relu", ["x"], ["a"]),
        ("Neg", ["a"], ["y"]),
        ("Identity", ["x"], ["z"]),
    ]
    assert {terms.values[i].name: device for i, device in terms.pins.items()} == {"a": "npu0", "y": "npu1", "z": "host"}
    assert names(terms, terms.outputs) == ["y", "z"]
    x = np.array([-1, 2], np.float32)
    for model in (module.model, strip(module.model), from_terms(terms).model):
        assert [r.tolist() for r in run_reference(model, {"x": x})] == [[0, -2], [-1, 2]]
    marked = from_terms(terms).model.graph
    negation = next(node for node in marked if node.op_type == "Neg")
    assert negation.inputs[0].producer().op_type == "OnDevice"
    assert_same_terms(to_terms(from_terms(terms)), terms)


def test_two_marks_on_one_value():
    text = MARKED.replace("c = Neg(b)", 'k = rewrite_engine.OnDevice<device="npu7">(a) c = Add(b, k)')
    with pytest.raises(RewriteError, match="`a` is marked for two devices, npu0 and npu7"):
        to_terms(load(parse(text)))


def test_a_mark_on_a_constant_pins_it():
    model = parse("""g (float[2] x) => (float[2] y) { v = rewrite_engine.OnDevice<device="npu0">(w) y = Add(x, v) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    terms = to_terms(load(model))
    assert {terms.values[i].name: device for i, device in terms.pins.items()} == {"w": "npu0"}
    assert names(terms, terms.nodes[0].inputs) == ["x", "w"]


def test_examples_in_docstrings():
    assert doctest.testmod(names_module) == (0, 4)


def test_names_never_collide():
    table = Names({"tern.qconv.1", "x", "x.on.npu0"})
    made = [table.numbered("tern.qconv"), table.on_device("x", "npu0"), table.unique("x"), table.unique("x")]
    assert made == ["tern.qconv.2", "x.on.npu0.2", "x.2", "x.3"]
    assert len({table.unique("") for _ in range(3)}) == 3
