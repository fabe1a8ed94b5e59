"""Import: numbers unchanged against ONNX Runtime, dimensions bound, every kind of bad file one clear message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from models import (
    LIGHT,
    MAIN_MODELS,
    find_model,
    get_model,
    largest_error,
    parse,
    random_inputs,
    randomize_weights,
    run_reference,
)
from onnx import TensorProto, helper, numpy_helper

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import bundled_model, load, model_bytes, save


def ops(module) -> list[str]:
    return [node.op_type for node in module.model.graph]


def not_static(model: ir.Model) -> list[str]:
    values = (value for node in model.graph for value in node.outputs if value.name)
    return [str(value.name) for value in values if value.shape is None or not value.shape.is_static()]


# ---- whole models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAIN_MODELS)
def test_import_keeps_the_numbers_of_real_models(name):
    model, dims = get_model(name), MAIN_MODELS[name]
    module = load(model, dims=dims)
    assert module.model.graph.opset_imports[""] == 23
    assert not_static(module.model) == []
    answers = []
    for seed in (0, 1):
        inputs = random_inputs(model, seed, dims)
        answers.append(run_reference(model, inputs))
        assert largest_error(run_reference(module.model, inputs), answers[-1]) < 1e-5
    assert largest_error(answers[0], answers[1]) > 1e-2
    assert "ConstantOfShape" not in ops(module) and "Shape" not in ops(module)


def test_mobilenet_has_only_its_real_operators():
    module = load(bundled_model())
    assert sorted(set(ops(module))) == ["Add", "Clip", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "Pad"]
    assert len(ops(module)) == 152
    assert module.source.name == "mobilenetv2.onnx"
    assert module.source.nodes == 1054 - 538  # Constant nodes are not operators
    assert len(module.source.sha256) == 64


def test_unbound_dimensions_stay_symbolic():
    module = load(find_model("distilbert6.legacy_dyn"))
    assert "Shape" in ops(module)
    assert [str(d) for d in module.model.graph.inputs[0].shape] == ["batch", "seq"]
    for dims in ({"batch": 1, "seq": 16}, {"batch": 2, "seq": 5}):
        inputs = random_inputs(onnx.load(find_model("distilbert6.legacy_dyn")), 0, dims)
        expected = run_reference(onnx.load(find_model("distilbert6.legacy_dyn")), inputs)
        assert largest_error(run_reference(module.model, inputs), expected) < 1e-5


def test_random_weights_are_seeded_and_informative():
    model = onnx.load(LIGHT / "light_squeezenet.onnx")
    first, again, other = (randomize_weights(model, seed) for seed in (0, 0, 1))
    assert first.SerializeToString() == again.SerializeToString() != other.SerializeToString()
    inputs = random_inputs(first, 0)
    (answer,) = run_reference(first, inputs)
    assert np.isfinite(answer).all() and answer.std() > 1e-6
    assert largest_error(run_reference(other, inputs), [answer]) > 1e-2


# ---- opsets ---------------------------------------------------------------------------------------------------------

SCALES = "scales"  # stands for a constant second input
OLD = [
    (11, "Softmax", {}, (2, 3, 4)),
    (11, "Softmax", {"axis": 2}, (2, 3, 4, 2)),
    (11, "LogSoftmax", {"axis": 1}, (2, 3, 4)),
    (11, "Hardmax", {}, (2, 3, 4)),
    (12, "Hardmax", {"axis": 2}, (2, 3, 4)),
    (6, "Clip", {"min": -0.5, "max": 0.5}, (2, 3)),
    (6, "Clip", {"max": 0.5}, (2, 3)),
    (11, "ReduceSum", {"axes": [1], "keepdims": 0}, (2, 3, 4)),
    (17, "ReduceMean", {"axes": [1, 2]}, (2, 3, 4)),
    (17, "ReduceMean", {}, (2, 3, 4)),
    (11, "Squeeze", {"axes": [0]}, (1, 3, 4)),
    (11, "Unsqueeze", {"axes": [0, -1]}, (3, 4)),
    (11, "Split", {"axis": 2, "split": [1, 3]}, (2, 3, 4)),
    (9, "Slice", {"starts": [1], "ends": [3], "axes": [2]}, (2, 3, 4)),
    (10, "Pad", {"pads": [0, 0, 1, 0, 0, 2], "value": 1.5}, (2, 3, 4)),
    (9, "TopK", {"axis": 2, "k": 2}, (2, 3, 4)),
    (9, "Dropout", {"ratio": 0.5}, (2, 3)),
    (7, "Upsample", {"mode": "nearest", "scales": [1.0, 1.0, 1.5, 2.0]}, (1, 2, 4, 4)),
    (9, "Upsample", {"mode": "linear", SCALES: [1, 1, 1.5, 2]}, (1, 2, 4, 4)),
    (10, "Resize", {"mode": "nearest", SCALES: [1, 1, 1.7, 1.7]}, (1, 2, 5, 5)),
    (10, "Resize", {"mode": "nearest", SCALES: [1, 1, 0.6, 1]}, (1, 2, 5, 5)),
    (10, "Resize", {"mode": "linear", SCALES: [1, 1, 2, 2]}, (1, 2, 5, 5)),
    (11, "AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, (1, 2, 5, 5)),
    (8, "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}, (1, 2, 5, 5)),
    (8, "LRN", {"size": 3}, (1, 4, 3, 3)),
    (9, "BatchNormalization", {"momentum": 0.5, "epsilon": 0.1}, (1, 3, 2, 2)),
    (18, "GroupNormalization", {"num_groups": 1}, (1, 3, 2, 2)),
]


@pytest.mark.parametrize(("opset", "op", "attributes", "shape"), OLD)
def test_old_operators_keep_their_meaning(opset, op, attributes, shape):
    attributes = dict(attributes)
    constants = {}
    if SCALES in attributes and opset >= 9:
        constants["s"] = np.array(attributes.pop(SCALES), np.float32)
    if op == "BatchNormalization":
        constants = {name: np.array([1, 0.5, 2], np.float32) * k for name, k in zip("abcd", (1, 2, 3, 4), strict=True)}
    if op == "GroupNormalization":
        constants = {"a": np.array([2], np.float32), "b": np.array([3], np.float32)}
    outputs = {"Split": ["y", "z"], "TopK": ["y", "i"]}.get(op, ["y"])
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *constants], outputs, **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, TensorProto.INT64 if o == "i" else TensorProto.FLOAT, None) for o in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    module = load(model)
    assert module.model.graph.opset_imports[""] == 23
    assert [str(o.name) for o in module.model.graph.outputs] == outputs
    inputs = random_inputs(model, 3)
    assert largest_error(run_reference(module.model, inputs), run_reference(model, inputs)) < 1e-6


def test_old_operators_inside_branches_are_converted_too():
    text = """g (float[2,3,4] x, bool c) => (float[2,3,4] y) {
      t = Relu(x)
      y = If (c) <then_branch = a () => (float[2,3,4] z) { z = Softmax(t) },
                  else_branch = b () => (float[2,3,4] w) { w = Hardmax(t) }>
    }"""
    model = parse(text, opset=11, ir_version=7)
    module = load(model)
    assert "If" in ops(module)
    for choice in (True, False):
        inputs = {**random_inputs(model, 0), "c": np.array(choice)}
        assert largest_error(run_reference(module.model, inputs), run_reference(model, inputs)) < 1e-6


def test_newer_opset_whose_operators_are_unchanged():
    module = load(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=25))
    assert module.model.graph.opset_imports[""] == 23
    with pytest.raises(RewriteError, match=r"opset 99 is newer than the installed onnx package knows"):
        load(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=99))


def test_an_operator_that_cannot_be_converted_is_named():
    with pytest.raises(RewriteError, match=r"operator Reluu \(output `y`\) is not an ONNX operator at opset 17"):
        load(parse("g (float[2] x) => (float[2] y) { y = Reluu(x) }", opset=17))


def test_what_a_newer_opset_added_is_refused_in_plain_words():
    with pytest.raises(RewriteError) as caught:
        load(parse("g (float[2] x, int64 k) => (float[2] y) { y = CumProd(x, k) }", opset=26))  # k must be known
    assert str(caught.value).startswith("g: operator CumProd (output `y`) cannot be brought from opset 26 to 23: ")
    assert str(caught.value).endswith("; export the model at opset 23")


def test_batched_scans_are_refused():
    text = """g (float[1,2] i, float[1,3,2] x) => (float[1,2] y, float[1,3,2] z) {
      y, z = Scan<num_scan_inputs=1, body = b (float[2] s, float[2] e) => (float[2] t, float[2] o)
        { t = Add(s, e) o = Identity(t) }>("", i, x) }"""
    with pytest.raises(RewriteError, match=r"operator Scan .* below opset 9 it has a batch axis"):
        load(parse(text.replace('"",', ","), opset=8, ir_version=3))


def test_custom_operators_stay_whole():
    text = "g (float[2] x) => (float[?] y) { s = Shape(x) t = Relu(x) y = custom.Twice(t, s) }"
    module = load(parse(text, opset=17))
    assert ops(module) == ["Relu", "Twice"]


def test_own_functions_are_inlined():
    model = parse("g (float[2] x) => (float[2] y) { y = custom.Twice(x) }", opset=17)
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    model.functions.append(helper.make_function("custom", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    assert ops(load(model)) == ["Add"]


# ---- dimensions -----------------------------------------------------------------------------------------------------

DYNAMIC = """g (float[batch,seq,4] x, float[batch,?] m) => (float[a,b] y) {
  s = Shape(x)  i = Constant<value = int64[1] {0}>()  b = Gather(s, i)  r = Constant<value = int64[1] {-1}>()
  t = Concat<axis=0>(b, r)  z = Reshape(x, t)  y = Concat<axis=1>(z, m)
}"""


def test_bound_dimensions_make_everything_static():
    module = load(parse(DYNAMIC), dims={"batch": 2, "seq": 3, "m:1": 5})
    assert ops(module) == ["Reshape", "Concat"]
    assert [v.shape.numpy() for node in module.model.graph for v in node.outputs] == [(2, 12), (2, 17)]
    assert module.model.graph.outputs[0].shape.numpy() == (2, 17)


def test_some_dimensions_bound():
    module = load(parse(DYNAMIC), dims={"batch": 2})
    assert [str(d) for d in module.model.graph.inputs[0].shape] == ["2", "seq", "4"]
    assert ops(module) == ["Reshape", "Concat"]  # Gather(Shape(x), 0) is known
    model = parse(DYNAMIC)
    inputs = random_inputs(model, 0, {"batch": 2, "seq": 3})
    assert largest_error(run_reference(module.model, inputs), run_reference(model, inputs)) == 0


def test_unknown_dimension():
    with pytest.raises(RewriteError) as caught:
        load(parse(DYNAMIC), dims={"batsh": 1})
    assert str(caught.value) == (
        "g: no dimension `batsh`; did you mean `batch`? The model's dynamic dimensions are `batch`, `seq`, `m:1` "
        "(inputs: x float32[batch, seq, 4], m float32[batch, m:1])"
    )
    with pytest.raises(RewriteError, match="no dimension `n`: every dimension of the inputs has a size already"):
        load(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }"), dims={"n": 1})


def test_a_question_mark_names_no_dimension():
    """Exporters write it for every size they do not know; a height of 3 does not make a width of 3."""
    model = parse("g (float[1, h, h] x, float[h] v) => (float[1, h, h] y) { y = Relu(x) }")
    for dims in (model.graph.input[0].type, model.graph.input[1].type, model.graph.output[0].type):
        for dim in dims.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = "?"
    found = load(model)
    assert [str(d) for value in found.model.graph.inputs for d in value.shape] == ["1", "x:1", "x:2", "v:0"]
    bound = load(model, dims={"x:1": 3, "x:2": 5})
    assert [str(d) for d in bound.model.graph.outputs[0].shape] == ["1", "3", "5"]
    with pytest.raises(RewriteError, match=r"no dimension `\?`"):
        load(model, dims={"?": 3})


@pytest.mark.parametrize("size", [0, -1, True, 2.5])
def test_sizes_must_be_positive(size):
    with pytest.raises(RewriteError, match="`batch`: expected a size of at least 1, found"):
        load(parse(DYNAMIC), dims={"batch": size})


# ---- files ----------------------------------------------------------------------------------------------------------


def test_bad_files_get_one_clear_message(tmp_path: Path):
    content = bundled_model().read_bytes()
    cases = {
        "empty.onnx": (b"", "found an empty file"),
        "short.onnx": (content[: len(content) // 2], "not an ONNX model, or a file cut short"),
        "text.onnx": (b"this is not a model\n" * 20, "not an ONNX model"),
        "image.onnx": (b"\x89PNG\r\n\x1a\n" + bytes(100), "not an ONNX model"),
        "bare.onnx": (onnx.ModelProto(ir_version=8).SerializeToString(), "no graph in it"),
        "broken.json": (b'{"graph": ', "does not parse as json"),
    }
    for name, (data, message) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(RewriteError) as caught:
            load(tmp_path / name)
        assert message in str(caught.value) and name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(RewriteError, match=r"missing\.onnx: no such file"):
        load(tmp_path / "missing.onnx")
    with pytest.raises(RewriteError, match="expected an ONNX file, found a directory"):
        load(tmp_path)


@pytest.mark.parametrize("cut", [1, 100, 10_000, 1_000_000])
def test_cut_files_are_refused(tmp_path: Path, cut: int):
    (tmp_path / "cut.onnx").write_bytes(bundled_model().read_bytes()[:-cut])
    with pytest.raises(RewriteError, match=r"cut short"):
        load(tmp_path / "cut.onnx")


def test_damaged_weights_are_refused():
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    model.graph.initializer[0].raw_data = bytes(7)
    with pytest.raises(RewriteError, match="weight `w` should hold 8 bytes, found 7: the file is damaged"):
        load(model)
    model.graph.initializer[0].ClearField("raw_data")
    with pytest.raises(RewriteError, match="weight `w` has no data"):
        load(model)


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy, since saving with weights outside changes the message."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def test_weights_in_another_file(tmp_path: Path):
    model = parse("g (float[64] x) => (float[64] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.arange(64, dtype=np.float32), "w"))
    path = tmp_path / "m.onnx"
    onnx.save(copy_of(model), path, save_as_external_data=True, location="m.data", size_threshold=0)
    inputs = random_inputs(model, 0)
    assert largest_error(run_reference(load(path).model, inputs), run_reference(model, inputs)) == 0
    with pytest.raises(RewriteError, match="weight `w` is in another file; give the path"):
        load(onnx.load(path, load_external_data=False))
    assert largest_error(run_reference(load(ir.load(path)).model, inputs), run_reference(model, inputs)) == 0
    (tmp_path / "m.data").write_bytes(bytes(10))
    with pytest.raises(RewriteError, match=r"m\.onnx.*weight"):
        load(path)
    (tmp_path / "m.data").unlink()
    with pytest.raises(RewriteError, match=r"weights are in another file that cannot be read.*m\.data"):
        load(path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = Relu(x) y = Neg(x)", "`y` is written twice, by Relu and by Neg"),
        ("y = Add(x, nowhere)", "Add (`y`) reads `nowhere`, which nothing writes"),
        ("a = Add(x, y) y = Relu(a)", "the graph has a cycle"),
        ("z = Relu(x)", "nothing computes the graph's output `y`"),
    ],
)
def test_graphs_that_do_not_hold_together(body, message):
    with pytest.raises(RewriteError) as caught:
        load(parse(f"g (float[2] x) => (float[2] y) {{ {body} }}"))
    assert message in str(caught.value)


def test_an_output_that_is_listed_twice():
    with pytest.raises(RewriteError, match="g: the graph lists its output `y` twice"):
        load(parse("g (float[2] x) => (float[2] y, float[2] y) { y = Relu(x) }"))


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("g (float[2] x, int64[2] i) => (float[2] y) { y = Add(x, i) }", {}),
        ("g (float[2,3] x, float[4,5] w) => (float[2,5] y) { y = MatMul(x, w) }", {}),
        ("g (float[2,3] x) => (float[7,3] y) { s = Constant<value_ints=[-1, 4]>() y = Reshape(x, s) }", {}),
        ("g (float[n,3] x, float[4,3] w) => (float[4,3] y) { y = Add(x, w) }", {"n": 2}),
    ],
)
def test_types_that_do_not_fit(text, dims):
    with pytest.raises(RewriteError, match="g: types or shapes do not fit together: "):
        load(parse(text), dims=dims)


def test_wrongly_declared_shapes_are_forgotten():
    text = "g (float[2,3] x) => (float[7] y) <float[9,9,9] t> { t = Relu(x) s = Shape(t) y = Cast<to=1>(s) }"
    module = load(parse(text))
    assert module.model.graph.outputs[0].shape.numpy() == (2,)
    assert run_reference(module.model, {"x": np.zeros((2, 3), np.float32)})[0].tolist() == [2, 3]


def test_saving_is_whole_or_nothing(tmp_path: Path):
    module = load(bundled_model())
    save(module, tmp_path / "a.onnx")
    save(load(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx"]
    with pytest.raises(RewriteError, match="cannot be written"):
        save(module, tmp_path / "no" / "such" / "folder.onnx")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RewriteError, match="cannot be written"):
        save(module, tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "folder"]


# ---- the form of an imported graph ----------------------------------------------------------------------------------


def test_the_callers_model_is_not_changed():
    model = parse(DYNAMIC, opset=17)
    before = model.SerializeToString(deterministic=True)
    load(model, dims={"batch": 1})
    assert model.SerializeToString(deterministic=True) == before
    other = ir.serde.deserialize_model(model)
    before = model_bytes(other)
    load(other, dims={"batch": 1})
    assert model_bytes(other) == before


def test_names_of_nodes_do_not_matter_and_deep_graphs_work():
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name="n" if i % 2 else "") for i in range(5000)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", "v5000")]
    graph = helper.make_graph(nodes[::-1], "deep", ends[:1], ends[1:])
    module = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [str(node.outputs[0].name) for node in module.model.graph] == [f"v{i + 1}" for i in range(5000)]


def test_weights_listed_as_inputs_by_old_files():
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { v = Neg(w) y = Mul(x, v) }", opset=8, ir_version=3)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    module = load(model)
    assert [str(i.name) for i in module.model.graph.inputs] == ["x"] and ops(module) == ["Mul"]


def test_unused_nodes_and_weights_are_dropped():
    model = parse("g (float[2] x) => (float[2] y) { a = Neg(x) b = Add(a, w) y = Relu(x) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    module = load(model)
    assert ops(module) == ["Relu"] and not module.model.graph.initializers


def test_package_does_not_import_onnx_until_used():
    code = "import sys, rewrite_engine.graph; assert not {'onnx', 'onnx_ir'} & set(sys.modules), 'onnx was imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sympy_is_not_imported_until_dimensions_are_added():
    """It takes longer to import than all else together."""
    text = (
        "import sys, rewrite_engine as rw; rw.load(rw.bundled_model());"
        "assert 'sympy' not in sys.modules and 'onnx_ir._symbolic_shapes' not in sys.modules;"
        "import onnx_ir as ir; print(ir.SymbolicDim('Max(N, 2)') + 1); import sympy; print(sympy.Symbol('x') + 1)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("Max(2, N) + 1\nx + 1\n", 0), done.stderr
