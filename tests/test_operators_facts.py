"""The operator table: equal to the schemas of the installed onnx, complete in its hand-written facts, free of onnx."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from importlib.resources import files

import pytest

from rewrite_engine.operators import effective, facts, find, generate, infer, names, traits, work


@pytest.mark.parametrize("module", [effective, facts, infer], ids=lambda m: m.__name__)
def test_the_examples_in_docstrings_hold(module):
    from rewrite_engine.operators.types import TensorType

    failed, attempted = doctest.testmod(module, extraglobs={"TensorType": TensorType})
    assert attempted and not failed


def test_the_committed_table_is_what_the_schemas_say():
    committed = files("rewrite_engine.operators").joinpath("facts.json").read_text(encoding="utf-8")
    assert json.loads(committed) == json.loads(generate.text())
    assert committed == generate.text()
    assert len(committed) < 400_000


def test_the_table_covers_every_operator_that_is_not_deprecated():
    import onnx.defs

    at_opset = {s.name: s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    expected = set()
    for name in at_opset:
        try:
            schema = onnx.defs.get_schema(name, 23, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            expected.add(name)
    assert set(names()) == expected
    assert {"Conv", "LayerNormalization", "RMSNormalization", "Attention", "Gelu"} <= expected
    assert "Upsample" not in expected and "Swish" not in expected


def test_reading_facts_imports_no_onnx():
    program = (
        "import sys; from rewrite_engine.operators import find, effective_attributes, infer_types, work;"
        "assert find('Conv').min_inputs == 2;"
        "print([m for m in sys.modules if m.split('.')[0] in ('onnx', 'onnx_ir', 'egglog', 'lark')])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_an_operator_has_its_schema_and_facts():
    conv = find("Conv")
    assert [f.name for f in conv.inputs] == ["X", "W", "B"]
    assert (conv.min_inputs, conv.max_inputs, conv.domain) == (2, 3, "")
    assert conv.inputs[0].allows("float16") and not conv.inputs[0].allows("int8") and conv.inputs[0].allows("?")
    assert conv.attributes["group"].default == 1 and conv.attributes["pads"].default is None
    assert not conv.commutative and not conv.pointwise

    concat = find("Concat")
    assert concat.max_inputs is None and concat.attributes["axis"].required
    assert concat.input(7) is concat.inputs[0] and conv.input(3) is None
    assert find("Reshape").inputs[1].dtypes == ("int64",)
    assert find("Cast").attributes["to"].type == "int"
    assert find("Add").commutative and find("Add").pointwise and not find("Sub").commutative
    assert find("Reshape").view and find("Transpose").movement and not find("Transpose").view
    assert find("RandomNormal").random
    assert find("OneHot").axis_attributes == {"axis": 1}


@pytest.mark.parametrize("name", ["conv", "Swish", "Upsample", "com.microsoft::FusedMatMul", ""])
def test_what_the_table_does_not_have_is_none(name):
    assert find(name) is None


def test_every_hand_written_fact_speaks_of_a_known_operator():
    sets = (traits.COMMUTATIVE, traits.POINTWISE, traits.MOVEMENT, traits.VIEW, traits.RANDOM)
    for name in {*set().union(*sets), *traits.HOST_INPUTS, *traits.AXIS_ATTRIBUTES}:
        operator = find(name)
        assert operator is not None, name
        assert all(operator.input(i) is not None for i in operator.host_inputs), name
        assert set(operator.axis_attributes) <= set(operator.attributes), name
    for name in names():
        operator = find(name)
        assert operator.movement or not operator.view, name
        assert not (operator.commutative and operator.host_inputs), name


def test_every_operand_that_can_only_be_sizes_or_axes_is_read_on_the_host():
    """Integer operands that are data, not sizes, are listed here; whatever else takes only integers is on the host."""
    data = {
        *[(name, 1) for name in ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")],
        *[("RNN", 4), ("GRU", 4), ("LSTM", 4), ("ReverseSequence", 1), ("RotaryEmbedding", 3), ("MaxUnpool", 1)],
        *[("BitShift", 0), ("BitShift", 1), ("ConcatFromSequence", 0), ("RoiAlign", 2), ("ImageDecoder", 0)],
        *[(f"Bitwise{op}", i) for op in ("And", "Or", "Xor", "Not") for i in (0, 1)],
        *[(op, i) for op in ("MatMulInteger", "ConvInteger") for i in range(4)],
        *[("QLinearConv", i) for i in (0, 2, 3, 5, 7, 8)],
        *[("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 1)],
        *[("TfIdfVectorizer", 0)],
    }
    integers = {f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
    for name in names():
        operator = find(name)
        for position, formal in enumerate(operator.inputs):
            if set(formal.dtypes) <= integers and (name, position) not in data:
                assert position in operator.host_inputs, (name, position, formal.name)


def test_facts_that_the_language_reads():
    hosts = {"Reshape": {1}, "Slice": {1, 2, 3, 4}, "Pad": {1, 3}, "Resize": {1, 2, 3}, "ReduceMean": {1}, "Tile": {1}}
    hosts |= {"Range": {0, 1, 2}, "ConstantOfShape": {0}, "TopK": {1}, "Gather": set(), "Conv": set(), "Squeeze": {1}}
    assert {name: set(find(name).host_inputs) for name in hosts} == hosts


def test_work_examples():
    from rewrite_engine.operators.types import TensorType

    module = sys.modules["rewrite_engine.operators.work"]
    failed, attempted = doctest.testmod(module, extraglobs={"TensorType": TensorType})
    assert attempted and not failed
    assert callable(work)
