"""What random graphs and machines found: one small test for each fault, which failed before it was mended."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from models import parse
from test_placed_io import assert_same

import rewrite_engine as rw
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.graph import load, model_bytes, read_placed, write_placed
from rewrite_engine.language import load_text
from rewrite_engine.operators.types import TensorType
from rewrite_engine.passes import Place, load_module, save_module


def test_a_mask_may_be_a_scalar() -> None:
    (found,) = random_inputs({"mask": TensorType("bool", ())}, 0).values()
    assert found.shape == () and found.dtype == np.bool_


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("q, s, z = DynamicQuantizeLinear(x)", 3),  # all of them must be there
        ("v, q = TopK<axis=0>(x, k)", 2),
        ("u, s = TopK<axis=0>(x, k)  q = Identity(s)", 2),
        ("q, i = MaxPool<kernel_shape=[1]>(x3)", 1),  # the second is optional
        ("q, i = Split<axis=0, num_outputs=2>(x)", 2),
    ],
)
def test_outputs_that_nobody_reads_are_listed_where_they_must_be(text: str, listed: int) -> None:
    kind = {"D": "uint8", "u": "int64"}.get(text[text.index("=") + 2] if text[0] == "q" else text[0], "float")
    size = 4 if "Split" not in text else 2
    shape = "1,1,4" if "x3" in text else f"{size}"
    header = (
        f"g (float[4] x, float[1,1,4] x3) => ({kind}[{shape}] {'v' if text[0] == 'v' else 'q'}) <int64[1] k = {{4}}>"
    )
    module = rw.load(parse(f"{header} {{ {text} }}"))
    placement = rw.place(module, load_text(""))
    assert len(placement.graph.steps[0].body[0].outputs) == listed
    written = write_placed(placement.graph)
    onnx.checker.check_model(ir.to_proto(written), full_check=True)
    assert_same(read_placed(written), placement.graph)


def test_a_reloaded_module_keeps_the_types_of_what_its_functions_are_given() -> None:
    placement = rw.place(rw.load(parse("g (float[2] x) => (float[2] y) { y = Abs(x) }")), load_text(""))
    content = model_bytes(write_placed(placement.graph))
    again = load(onnx.load_model_from_string(content), fold=False)
    assert model_bytes(again.model) == content


def test_a_placed_model_keeps_an_output_that_is_a_constant(tmp_path: Path) -> None:
    module = rw.load(parse("g (float[2] x) => (int64 y) { y = Size(x) }"))
    placed = Place(load_text("rule identity: Identity(x) => x")).run(module)
    assert not read_placed(placed.model).steps
    save_module(placed, tmp_path / "placed")
    again = load_module(tmp_path / "placed")
    assert_same(read_placed(again.model), read_placed(placed.model))
    assert model_bytes(again.model) == model_bytes(placed.model)
