"""Quantised models on the bundled board: integer kernels, mixed placements, results within the quantisation step."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import onnx
import pytest
from models import find_model, get_model, parse

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.backend.check import STEPS, compare
from rewrite_engine.graph.placed import KernelCall

SPEEDUP = 10
"""How much dearer the host alone must be, at least."""

LAYERS = """g (uint8[1, 16, 16, 16] x, uint8[1, 32, 16, 16] rest) => (uint8[1, 8] y)
<float s = {0.02}, float t = {0.05}, uint8 z = {128}, int8 cz = {0}, int64[2] shape = {1, 32}> {
  dx = DequantizeLinear(x, s, z)
  dw = DequantizeLinear<axis = 0>(w, ws, wz)
  db = DequantizeLinear<axis = 0>(b, bs, bz)
  v = Conv<pads = [1, 1, 1, 1]>(dx, dw, db)
  q = QuantizeLinear(v, t, z)
  dq = DequantizeLinear(q, t, z)
  dr = DequantizeLinear(rest, s, z)
  sum = Add(dq, dr)
  cut = Relu(sum)
  qs = QuantizeLinear(cut, t, z)
  ds = DequantizeLinear(qs, t, z)
  mean = GlobalAveragePool(ds)
  qm = QuantizeLinear(mean, s, z)
  dm = DequantizeLinear(qm, s, z)
  flat = Reshape(dm, shape)
  qf = QuantizeLinear(flat, s, z)
  df = DequantizeLinear(qf, s, z)
  dc = DequantizeLinear(c, s, cz)
  g = Gemm<transB = 1>(df, dc)
  y = QuantizeLinear(g, t, z)
}"""


def layers() -> onnx.ModelProto:
    """One quantised layer of each kind, with seeded weights, a scale per output channel for the convolution's."""
    random = np.random.default_rng(7)
    scales = random.uniform(0.001, 0.003, 32).astype(np.float32)
    arrays: dict[str, np.ndarray] = {
        "w": random.integers(-127, 128, (32, 16, 3, 3)).astype(np.int8),
        "ws": scales,
        "wz": np.zeros(32, np.int8),
        "b": random.integers(-2000, 2000, 32).astype(np.int32),
        "bs": np.float32(0.02) * scales,
        "bz": np.zeros(32, np.int32),
        "c": random.integers(-127, 128, (8, 32)).astype(np.int8),
    }
    model = parse(LAYERS)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


@cache
def placed(name: str) -> tuple[api.Module, api.Placement]:
    module = rw.load(get_model(name) if name != "layers" else layers())
    return module, rw.place(module, rw.load_rules("board.pat"))


def kernels(placement: api.Placement) -> list[KernelCall]:
    return [step for step in placement.graph.steps if isinstance(step, KernelCall)]


def test_every_kind_of_layer_is_an_integer_kernel() -> None:
    """Nothing is decoded or encoded by itself, and the reshape moves codes."""
    _, placement = placed("layers")
    rules = [call.rule for call in kernels(placement)]
    assert placement.status == "optimal"
    for kind in ("conv", "add", "pool", "gemm"):
        assert sum(rule in (f"npu.{kind}_int8", f"fastlib.{kind}_q8") for rule in rules) == 1, rules
    assert len(rules) == 5


def test_such_layers_compute_what_the_model_computes() -> None:
    module, placement = placed("layers")
    bundle = rw.compile(module, placement=placement, rules=rw.load_rules("board.pat"))
    report = compare(bundle, module.source.original)
    assert report.agrees, report.problems
    assert all(check.error * check.magnitude <= 1.0 for check in report.checks)  # codes


@pytest.mark.parametrize(
    ("name", "convolutions"),
    [
        ("resnet18.legacy.qdq", 20),
        ("resnet18.legacy.qop", 20),
        pytest.param("mobilenetv2.legacy.qdq", 52, marks=pytest.mark.slow),
    ],
)
def test_models_are_placed_on_both_and_proven(name: str, convolutions: int) -> None:
    find_model(name)
    _, placement = placed(name)
    calls = kernels(placement)
    rules = Counter(call.rule for call in calls)
    assert placement.status == "optimal" and placement.bound == placement.costs.total
    assert rules["npu.conv_int8"] + rules["fastlib.conv_q8"] == convolutions and rules["npu.conv_int8"] >= 10
    assert {"npu", "fastlib"} <= {call.target for call in calls}
    host = placement.baselines["single:host"]
    assert host is not None and host >= SPEEDUP * placement.costs.total


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18.legacy.qdq", "mobilenetv2.legacy.qdq", "bert12.legacy.qdyn"])
def test_models_agree_within_the_steps(name: str) -> None:
    find_model(name)
    module, placement = placed(name)
    bundle = rw.compile(module, placement=placement, rules=rw.load_rules("board.pat"))
    report = compare(bundle, module.source.original)
    assert report.ok, report.problems
    assert all(check.step > 0 and check.error <= STEPS * check.step for check in report.checks)


@pytest.mark.parametrize(
    ("attributes", "operators"),
    [
        ("", ["DequantizeLinear", "GlobalAveragePool", "QuantizeLinear"]),
        ("<channels_last=0>", ["DequantizeLinear", "GlobalAveragePool", "QuantizeLinear"]),
        ("<channels_last=1>", ["com.microsoft::QLinearGlobalAveragePool"]),
    ],
)
def test_an_operator_without_its_meaning_runs_as_it_is(attributes: str, operators: list[str]) -> None:
    """A declaration says what it holds for; ONNX Runtime runs the rest, and both give its numbers."""
    shape = "1, 1, 1, 4" if "1" in attributes else "1, 2, 1, 1"
    model = parse(f"""g (uint8[1, 2, 4, 4] x) => (uint8[{shape}] y) <float s = {{0.5}}, uint8 z = {{3}}> {{
      y = com.microsoft.QLinearGlobalAveragePool{attributes}(x, s, z, s, z) }}""")
    model.opset_import.add(domain="com.microsoft", version=1)
    module, rules = rw.load(model), rw.load_rules("std/qlinear.pat")
    placement = rw.place(module, rules)
    assert [node.op for call in kernels(placement) for node in call.body] == operators
    assert compare(rw.compile(module, rules, placement=placement), module.source.original).agrees
