"""What a comparison allows: the rounding of a model, the tolerances from it, and the problems beyond them."""

from __future__ import annotations

import numpy as np
import pytest
from models import parse
from onnx import numpy_helper

import rewrite_engine as rw
from rewrite_engine.backend.check import SIGMOID, SPACINGS, STEPS, TOLERANCE, CheckReport, OutputCheck, compare
from rewrite_engine.graph.rounding import Rounding, rounding

SCALES = "<float s = {0.25}, uint8 z = {3}, int64[1] t = {8}>"
CASES = {
    "plain": ("g (float[8] x) => (float[8] y) { y = Relu(x) }", Rounding(0.0, False, (None,))),
    "half": ("g (float16[8] x) => (float16[8] y) { y = Relu(x) }", Rounding(2.0**-10, False, (None,))),
    "half inside": (
        "g (float[8] x) => (float[8] y) { h = Cast<to = 10>(x) r = Relu(h) y = Cast<to = 1>(r) }",
        Rounding(2.0**-10, False, (None,)),
    ),
    "an axis of 10 is no type": (
        "g (float[1, 8] x) => (float[1, 8] y) { y = Softmax<axis = 1>(x) }",
        Rounding(0.0, False, (None,)),
    ),
    "codes": (
        f"g (float[8] x) => (uint8[8] y) {SCALES} {{ y = QuantizeLinear(x, s, z) }}",
        Rounding(0.0, True, (1.0,)),
    ),
    "dequantised and moved": (
        f"g (float[2, 4] x) => (float[8] y) {SCALES}"
        "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Reshape(d, t) }",
        Rounding(0.0, True, (0.25,)),
    ),
    "computed after": (
        f"g (float[8] x) => (float[8] y) {SCALES}"
        "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Tanh(d) }",
        Rounding(0.0, True, (None,)),
    ),
    "by the range": (
        "g (float[8] x) => (float[8] y) { q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z) }",
        Rounding(0.0, True, (None,)),
    ),
    "weights alone": (
        "g (float[8] x) => (float[8] y) <int8[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float s = {0.5}>"
        "{ d = DequantizeLinear(w, s) y = Mul(x, d) }",
        Rounding(0.0, False, (None,)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rounding_of_a_model(name):
    text, expected = CASES[name]
    assert rounding(parse(text).SerializeToString()) == expected


@pytest.mark.parametrize("scales, values, step", [
    (Rounding(0, True, (0.5,)), [1.0, 9.0], 0.5),
    (Rounding(0, True, (None,)), [-1.0, np.inf, 1.55], 2.55 / 255),
    (Rounding(0, True, (None,)), np.array([3, 9]), 0.0),
    (Rounding(0, True, (None,)), [], 0.0),
    (Rounding(0, False, (None,)), [-1.0, 1.0], 0.0),
])  # fmt: skip
def test_the_step_of_an_output(scales, values, step):
    assert scales.step(0, np.asarray(values)) == pytest.approx(step)


def checked(text: str, tolerance: float | None = None) -> CheckReport:
    model = parse(text)
    bundle = rw.compile(rw.load(model), rw.load_rules("board.pat"))
    return compare(bundle, model.SerializeToString(), tolerance=tolerance)


@pytest.mark.parametrize("name, least, most", [
    ("plain", TOLERANCE, TOLERANCE),
    ("half", SPACINGS * 2**-10, SPACINGS * 2**-10),
    ("dequantised and moved", STEPS * 0.25 / 3.5, STEPS * 0.25 / 0.5),
])  # fmt: skip
def test_the_tolerance_of_a_check(name, least, most):
    report = checked(CASES[name][0])
    assert all(least <= check.allowed <= most for check in report.checks), report.checks
    assert report.tolerance == max(check.allowed for check in report.checks)


def test_a_tolerance_that_is_asked_for_holds():
    assert checked(CASES["half"][0], tolerance=1e-6).tolerance == 1e-6


def test_beyond_the_steps_is_a_problem():
    def problems(steps: float, separation: float = 1.0) -> tuple[str, ...]:
        check = OutputCheck("y", 0, steps * 0.01, 2.0, True, STEPS * 0.01, 0.01)
        return CheckReport((check,), {"y": separation}, check.allowed).problems

    assert problems(4.0) == ()
    assert problems(5.0) == ("output `y`, seed 0: expected an error of at most 0.04, found 0.05 (5.0 steps)",)
    assert problems(0.0, separation=0.1) == (
        "output `y`: expected the seeds to differ by 0.16, found 0.1: the check proves nothing",
    )


# ---------------------------------------------------------------- saturated outputs

SATURATED = """g (float[64,64] x) => (float[64,8] y) <float[64,8] w, float[8] b, int64[2] k = {64, 8}> {
    m = MatMul(x, w)
    t = Add(m, b)
    s = Sigmoid(t)
    y = Reshape(s, k)
}"""


def saturated(bias: float, wrong: float = 0.0) -> CheckReport:
    """Of a model whose results are near e**bias, against that with weights that are off by a share `wrong`."""
    weight = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32) / 8

    def model(gain: float):
        proto = parse(SATURATED)
        proto.graph.initializer.append(numpy_helper.from_array(weight * np.float32(1 + gain), "w"))
        proto.graph.initializer.append(numpy_helper.from_array(np.full(8, bias, np.float32), "b"))
        return proto

    bundle = rw.compile(rw.load(model(wrong)), rw.load_rules("board.pat"))
    return compare(bundle, model(0.0).SerializeToString())


def test_saturated_sigmoids_are_right_as_far_as_onnx_runtime_says_them():
    """Results of 1e-5: relative to them, its Sigmoid is off by more than the tolerance of other outputs."""
    report = saturated(-14.0)
    assert report.ok and report.largest_error > TOLERANCE, report
    assert all(check.allowed == SIGMOID / check.magnitude > TOLERANCE for check in report.checks)


@pytest.mark.parametrize("bias", [0.0, -6.0, -10.0, -14.0])
def test_a_wrong_kernel_before_a_saturated_sigmoid_is_found(bias):
    assert saturated(bias).ok
    assert "expected an error of at most" in saturated(bias, 0.1).problems[0]


def test_a_sigmoid_of_nearly_nothing_proves_nothing():
    assert "the check proves nothing" in saturated(-30.0).problems[-1]


def test_a_sigmoid_that_is_not_saturated_has_the_common_tolerance():
    assert {check.allowed for check in saturated(0.0).checks} == {TOLERANCE}
    assert rounding(parse(SATURATED).SerializeToString()).sigmoids == {0}
    assert rounding(parse(SATURATED.replace("Sigmoid", "Tanh")).SerializeToString()).sigmoids == set()
