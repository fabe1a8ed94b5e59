"""Bad models at the command line: one clear message that names what is wrong, status 2, nothing written."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from models import parse
from onnx import helper, numpy_helper

from rewrite_engine.cli import main

Made = Callable[[], onnx.ModelProto]


def _text(body: str, inputs: str = "float[2,3] x", outputs: str = "float[2,3] y", opset: int = 20) -> Made:
    return lambda: parse(f"g ({inputs}) => ({outputs}) {{ {body} }}", opset=opset)


def _changed(body: str, change: Callable[[onnx.ModelProto], None], **options: str) -> Made:
    def made() -> onnx.ModelProto:
        model = _text(body, **options)()  # type: ignore[arg-type]
        change(model)
        return model

    return made


def _short_weights(model: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    tensor.raw_data = tensor.raw_data[:-8]
    model.graph.initializer.append(tensor)


def _twice(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Neg", ["x"], ["y"]))


def _no_such_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 999


def _complex(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.COMPLEX64


CASES: dict[str, tuple[Made, str]] = {
    "an operator out of the standard": (_text("y = Sigmiod(x)"), r"Sigmiod"),
    "an operator of an unknown domain": (_text("y = custom.Nothing(x)"), r"custom.*Nothing"),
    "an operator of a later opset": (_text("y = Gelu(x)", opset=17), r"Gelu"),
    "an attribute out of the standard": (_text("y = Relu<slope=0.5>(x)"), r"slope"),
    "an attribute of another type": (_text('y = Softmax<axis="last">(x)'), r"axis"),
    "an attribute that is missing": (_text("y = Concat(x, x)", outputs="float[4,3] y"), r"axis"),
    "a dtype out of the standard": (_text("y = Erf(x)", "bool[2,3] x", "bool[2,3] y"), r"bool"),
    "dtypes that differ": (_text("y = Add(x, z)", "float[2,3] x, double[2,3] z"), r"float64|double"),
    "complex numbers": (_changed("y = Neg(x)", _complex), r"complex"),
    "too few inputs": (_text("y = Add(x)"), r"Add"),
    "too many inputs": (_text("y = Relu(x, x)"), r"Relu"),
    "too many outputs": (_text("y, z = Relu(x)"), r"Relu"),
    "shapes that do not broadcast": (_text("y = Add(x, z)", "float[2,3] x, float[4] z"), r"Add"),
    "inner sizes that differ": (_text("y = MatMul(x, z)", "float[2,3] x, float[4,3] z"), r"MatMul"),
    "an axis out of range": (_text("y = Softmax<axis=5>(x)"), r"axis"),
    "a reshape to another size": (
        _text("s = Constant<value_ints=[4,2]>() y = Reshape(x, s)", outputs="float[4,2] y"),
        r"Reshape",
    ),
    "a negative dimension": (
        _text("s = Constant<value_ints=[-2,3]>() y = ConstantOfShape(s)"),
        r"ConstantOfShape.*non-negative",
    ),
    "a position out of range": (
        _text("i = Constant<value_int=7>() y = Gather(x, i)", outputs="float[3] y"),
        r"7",
    ),
    "a kernel larger than the picture": (
        _text("y = Conv(x, w)", "float[1,2,3,3] x, float[2,2,5,5] w", "float[1,2,1,1] y"),
        r"Conv",
    ),
    "channels that do not fit the groups": (
        _text("y = Conv<group=3>(x, w)", "float[1,4,8,8] x, float[6,2,3,3] w", "float[1,6,6,6] y"),
        r"Conv",
    ),
    "a split into sizes that do not sum up": (
        _text("s = Constant<value_ints=[1,1]>() y, z = Split<axis=1>(x, s)", outputs="float[2,1] y"),
        r"Split",
    ),
    "a value that nothing computes": (_text("y = Add(x, nowhere)"), r"nowhere"),
    "a value that is computed twice": (_changed("y = Relu(x)", _twice), r"`?y`?"),
    "an opset that does not exist": (_changed("y = Relu(x)", _no_such_opset), r"999"),
    "weights that are cut short": (
        _changed("y = MatMul(x, w)", _short_weights, outputs="float[2,4] y"),
        r"w",
    ),
    "a permutation that is none": (_text("y = Transpose<perm=[0,0]>(x)"), r"perm|Transpose"),
    "a cast to an unknown dtype": (_text("y = Cast<to=99>(x)"), r"99|to"),
    "an equation that is none": (_text('y = Einsum<equation="ij,k->">(x)'), r"Einsum|equation"),
}


ONLY_LOWERED = {
    "an operator of an unknown domain",
    "a reshape to another size",
    "a position out of range",
    "a kernel larger than the picture",
    "channels that do not fit the groups",
}
"""What `place` takes, and `compile` refuses."""


@pytest.mark.parametrize("verb", ["place", "compile"])
@pytest.mark.parametrize("name", CASES)
def test_one_message_names_what_is_wrong(name, verb, tmp_path, capsys):
    made, message = CASES[name]
    path, out = tmp_path / "model.onnx", tmp_path / "out"
    path.write_bytes(made().SerializeToString())
    status = main([verb, str(path), "-p", "board.pat", "-o", str(out), *(["--engine", "numpy"] * (verb == "compile"))])
    shown = capsys.readouterr()
    if verb == "place" and name in ONLY_LOWERED:
        assert status == 0
        return
    assert status == 2, shown
    assert "Traceback" not in shown.err and not shown.out
    errors = [line for line in shown.err.splitlines() if "error" in line]
    assert len(errors) == 1, shown.err
    assert re.search(message, shown.err), shown.err
    assert not out.exists()


@pytest.mark.parametrize("name", ["empty", "text", "cut", "folder", "missing"])
def test_files_that_are_no_models(name, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    whole = _text("y = Relu(x)")().SerializeToString()
    if name == "folder":
        path.mkdir()
    elif name != "missing":
        path.write_bytes({"empty": b"", "text": b"not a model\n", "cut": whole[: len(whole) // 2]}[name])
    assert main(["place", str(path), "-p", "board.pat"]) == 2
    shown = capsys.readouterr()
    assert "model.onnx" in shown.err and "Traceback" not in shown.err and not shown.out
