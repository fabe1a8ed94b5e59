"""Attributes that the standard does not allow are refused at import, with operator, output and attribute."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import rewrite_engine as rw
from rewrite_engine.diagnostics import RewriteError

BAD = [
    ("Relu", {"foo": 3}, "it has no attribute `foo`; it has none"),
    ("Relu", {"consumed_inputs": [3]}, "it has no attribute `consumed_inputs`"),
    ("Softmax", {"axes": 1}, "it has no attribute `axes`; did you mean `axis`?"),
    ("Softmax", {"foo": 1}, "it has no attribute `foo`; it knows `axis`"),
    ("Softmax", {"axis": 1.5}, "its attribute `axis` is INT in the standard, found FLOAT"),
    ("Transpose", {"perm": 1}, "its attribute `perm` is INTS in the standard, found INT"),
    ("Gelu", {"approximate": 1}, "its attribute `approximate` is STRING in the standard, found INT"),
    ("Elu", {"alpha": 1}, "its attribute `alpha` is FLOAT in the standard, found INT"),
    ("Cast", {}, "its attribute `to` is missing, and has no default"),
    ("Split", {"num_outputs": 2}, "its attribute `num_outputs` is 2, and it has 1 outputs"),
    ("DepthToSpace", {"mode": "DCR"}, "its attribute `blocksize` is missing"),
]  # fmt: skip


def model(op: str, attributes: dict[str, object], opset: int = 23, domain: str = "", nested: bool = False) -> object:
    node = helper.make_node(op, ["x"], ["y"], domain=domain)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 4, 4])]
    nodes = [node]
    if nested:
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
        branches = []
        for name in ("then", "else"):
            inner = onnx.NodeProto()
            inner.CopyFrom(node)
            inner.output[0] = name
            out = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            branches.append(helper.make_graph([inner], name, [], [out]))
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    graph = helper.make_graph(nodes, "g", inputs, [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize("nested", [False, True], ids=["graph", "branch"])
@pytest.mark.parametrize(("op", "attributes", "message"), BAD, ids=[f"{op} {list(a)}" for op, a, _ in BAD])
def test_what_a_schema_does_not_allow_is_refused(op, attributes, message, nested) -> None:
    with pytest.raises(RewriteError) as caught:
        rw.load(model(op, attributes, nested=nested))
    assert f"{op} ({'then' if nested else 'y'}): {message}" in str(caught.value) and "opset 23" in str(caught.value)


def test_the_other_name_of_the_domain_and_twice() -> None:
    with pytest.raises(RewriteError, match="has no attribute `foo`"):
        rw.load(model("Relu", {"foo": 1}, domain="ai.onnx"))
    double = model("Softmax", {"axis": 1})
    double.graph.node[0].attribute.append(helper.make_attribute("axis", 2))
    with pytest.raises(RewriteError, match="its attribute `axis` is given twice"):
        rw.load(double)


def test_a_model_is_asked_by_its_own_opset() -> None:
    rw.load(model("Relu", {"consumed_inputs": [0]}, opset=5))
    rw.load(model("Relu", {"__note": 3}))
    rw.load(model("Softmax", {"axis": 1}, opset=11))
