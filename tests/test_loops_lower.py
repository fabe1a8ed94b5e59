"""Lowering of kernels: order of inputs and outputs, values known at compile time, and refusals that say what to do."""

import numpy as np
import pytest
from loops_programs import run

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import BodyNode, KernelCall
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.lower import lower
from rewrite_engine.operators.types import TensorType


def kernel(inputs, outputs, *body, host_inputs=()) -> KernelCall:
    """A kernel "tern.test.1" with nothing but what lowering reads."""
    return KernelCall(
        "tern.test.1", "tern", "npu0", "r0", "tern.test", tuple(inputs), tuple(outputs), frozenset(host_inputs), body,
        {}, {}, 0, "formula", (),
    )  # fmt: skip


def node(op, inputs, outputs, **attributes) -> BodyNode:
    return BodyNode(op, attributes, tuple(inputs), tuple(outputs))


def f32(*shape) -> TensorType:
    return TensorType("float32", shape)


def test_inputs_and_outputs_are_in_the_order_of_the_call():
    call = kernel(("b", "a"), ("y", "s"), node("Sub", ("a", "b"), ("s",)), node("Relu", ("s",), ("y",)))
    types = {name: f32(3) for name in ("a", "b", "s", "y")}
    a, b = np.array([1, 2, 3], np.float32), np.array([3, 2, 1], np.float32)
    for program in (lower(call, types, {}), compose(lower(call, types, {}))):
        relu, difference = run(program, [b, a])
        assert difference.tolist() == [-2, 0, 2] and relu.tolist() == [0, 0, 2]


def test_a_shape_known_at_compile_time_is_read_there_and_stays_an_operand():
    call = kernel(("x", "shape"), ("y",), node("Reshape", ("x", "shape"), ("y",), allowzero=0), host_inputs=("shape",))
    types = {"x": f32(2, 6), "shape": TensorType("int64", (2,)), "y": f32(3, 4)}
    program = lower(call, types, {"shape": np.array([3, -1])})
    assert len(program.inputs) == 2 and [program.tensors[n].shape for n in program.inputs] == [(2, 6), (2,)]
    (found,) = run(program, [np.arange(12, dtype=np.float32).reshape(2, 6), np.array([3, -1])])
    assert found.tolist() == np.arange(12).reshape(3, 4).tolist()


def test_weights_stay_operands():
    call = kernel(("x", "w"), ("y",), node("MatMul", ("x", "w"), ("y",)))
    types = {"x": f32(2, 3), "w": f32(3, 4), "y": f32(2, 4)}
    program = lower(call, types, {"w": np.ones((3, 4), np.float32)})
    assert not program.constants and len(program.inputs) == 2


def test_an_output_that_nobody_reads_is_not_computed():
    call = kernel(("x",), ("y",), node("Split", ("x",), ("y", ""), axis=0, num_outputs=2))
    program = lower(call, {"x": f32(4), "y": f32(2)}, {})
    assert len(program.statements) == 1


def test_equal_kernels_lower_to_equal_programs_whatever_their_names():
    first = kernel(("a",), ("b",), node("Relu", ("a",), ("b",)))
    second = kernel(("long",), ("other",), node("Relu", ("long",), ("other",)))
    one = lower(first, {"a": f32(3), "b": f32(3)}, {})
    two = lower(second, {"long": f32(3), "other": f32(3)}, {})
    assert (one.statements, one.inputs, one.outputs) == (two.statements, two.inputs, two.outputs)


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            kernel(("x", "shape"), ("y",), node("Reshape", ("x", "shape"), ("y",), allowzero=0)),
            {"x": f32(2, 6), "shape": TensorType("int64", (2,))},
            r"kernel tern.test.1, operator Reshape \(y\): its input 1 \(shape\) decides shapes and must be known at "
            r"compile time; bind the model's dynamic dimensions with --dim NAME=SIZE",
        ),
        (
            kernel(("x",), ("y",), node("Relu", ("x",), ("y",))),
            {"x": f32("batch", 6)},
            r"kernel tern.test.1: the shape of x is not known \(float32\[batch, 6\]\); bind it with --dim batch=SIZE",
        ),
        (
            kernel(("x",), ("y",), node("Relu", ("x",), ("y",))),
            {"x": TensorType("float32", None)},
            r"the shape of x is not known \(float32\[...\]\); declare it in the model, or that of the inputs",
        ),
        (
            kernel(("x",), ("y",), node("Rleu", ("x",), ("y",))),
            {"x": f32(3)},
            r"operator Rleu \(y\): there is no loop nest for this operator, and .*; did you mean `Relu`\?",
        ),
        (
            kernel(("x",), ("y",), node("Relu", ("z",), ("y",))),
            {"x": f32(3)},
            "its input z is neither an input of the kernel nor computed before it",
        ),
        (
            kernel(("x",), ("q",), node("Relu", ("x",), ("y",))),
            {"x": f32(3)},
            "no operator of its body computes its output q",
        ),
        (
            kernel(("x",), ("y",), node("Relu", ("x",), ("y",))),
            {"x": f32(3), "y": f32(4)},
            r"its output y is float32\[4\] in the model, its loop nest makes float32\[3\]",
        ),
        (
            kernel(("x", "z"), ("y",), node("Add", ("x", "z"), ("y",))),
            {"x": f32(3), "z": f32(4)},
            r"operator Add \(y\): dimensions 3 and 4 do not broadcast; inputs are \(float32\[3\], float32\[4\]\)",
        ),
        (kernel(("x",), ("y",), node("Relu", ("x",), ("y",))), {}, "the type of its input x is not known"),
    ],
)
def test_refusals_say_where_and_what_to_do(call, types, message):
    with pytest.raises(RewriteError, match=message):
        lower(call, types, {})
