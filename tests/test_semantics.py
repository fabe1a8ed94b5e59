"""What operators mean in the corners, in NumPy and in C alike: rounding inside fused kernels, NaN, ranges, axes."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from c_programs import check, need_compiler, node, run_numpy
from onnx_node_cases import assert_close, run_node
from random_operators import bases

from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.compiler import FLAGS, KINDS, SANITIZERS
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Compute
from rewrite_engine.loops.expr import call, cast, maximum
from rewrite_engine.operators import find

NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
Step = tuple[Callable[[Builder, Tensor, Tensor], Tensor], Callable[[np.ndarray, np.ndarray], np.ndarray]]

STEPS: dict[str, Step] = {
    "mul": (lambda b, x, y: b.map(lambda u, v: u * v, x, y), lambda x, y: x * y),
    "add": (lambda b, x, y: b.map(lambda u, v: u + v, x, y), lambda x, y: x + y),
    "sub": (lambda b, x, y: b.map(lambda u, v: u - v, x, y), lambda x, y: x - y),
    "third": (lambda b, x, y: b.map(lambda u: u / 3, x), lambda x, y: x / np.float32(3)),
    "root": (
        lambda b, x, y: b.map(lambda u: call("sqrt", maximum(u, 0)), x),
        lambda x, y: np.sqrt(np.maximum(x, 0)),
    ),
}
"""An operator by the builder, and in float32."""


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("chain", [("mul", "add"), ("add", "mul", "sub"), ("third", "add", "mul", "root", "add")])
def test_narrow_floats_round_at_every_operator_of_a_fused_kernel(dtype, chain):
    """Bit for bit what one operator after the other gives, each computed in float32 and rounded."""
    need_compiler()
    rng = np.random.default_rng(len(chain))
    arrays = [(rng.standard_normal((7, 37)) * 30).astype(NARROW[dtype]) for _ in range(2)]
    b = Builder()
    tensors = [b.input(array.shape, dtype) for array in arrays]
    value, expected = tensors[0], arrays[0]
    apart = arrays[0].astype(np.float32)
    for name in chain:
        build, apply = STEPS[name]
        value = build(b, value, tensors[1])
        expected = apply(expected.astype(np.float32), arrays[1].astype(np.float32)).astype(NARROW[dtype])
        apart = apply(apart, arrays[1].astype(np.float32))
    program = b.program([value])
    assert len(compose(program).statements) == 1, "one kernel"
    (found,) = run_numpy(compose(program), arrays)
    assert found.tobytes() == expected.tobytes()
    assert apart.astype(NARROW[dtype]).tobytes() != expected.tobytes(), "rounding once would be seen"
    library = check([(program, arrays)])
    results = [np.empty_like(expected)]
    library.kernel("composed0")(arrays, results)
    assert results[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", NARROW)
def test_sums_of_narrow_floats_are_rounded_once_and_their_epilogues_again(dtype):
    need_compiler()
    x = np.random.default_rng(3).standard_normal((5, 64)).astype(NARROW[dtype])
    b = Builder()
    given = b.input(x.shape, dtype)
    total = b.reduce(given, [1], "sum")
    program = b.program([b.map(lambda v: v * 3 + 1, total)])
    assert len(compose(program).statements) == 1
    sums = x.astype(np.float64).sum(1, keepdims=True).astype(np.float32).astype(NARROW[dtype])
    expected = (sums.astype(np.float32) * 3 + 1).astype(NARROW[dtype])
    (found,) = run_numpy(compose(program), [x])
    assert found.tobytes() == expected.tobytes()
    check([(program, [x])])


ROWS = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
ROWS[0, 0] = ROWS[1, 8] = ROWS[2, 4] = ROWS[2, 6] = np.nan


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nan_is_the_extreme_everywhere(dtype):
    need_compiler()
    rows = ROWS.astype(dtype)
    first = np.array([0, 8, 4])
    last = np.array([0, 8, 6])
    cases = []
    for op in ("ArgMax", "ArgMin"):
        for select_last, where in ((0, first), (1, last)):
            program, inputs = node(op, rows, attributes={"axis": 1, "keepdims": 0, "select_last_index": select_last})
            (found,) = run_numpy(program, inputs)
            np.testing.assert_array_equal(found[:3], where, err_msg=f"{op} {select_last}")
            cases.append((program, inputs))
    for op in ("ReduceMax", "ReduceMin"):
        program, inputs = node(op, rows, np.array([1]), attributes={"keepdims": 0})
        np.testing.assert_array_equal(np.isnan(run_numpy(program, inputs)[0]), [True, True, True, False])
        cases.append((program, inputs))
    program, inputs = node("MaxPool", rows[None], attributes={"kernel_shape": [3], "strides": [3]})
    expected = np.isnan(rows.reshape(4, 3, 3)).any(-1)
    np.testing.assert_array_equal(np.isnan(run_numpy(program, inputs)[0][0]), expected)
    check([*cases, (program, inputs)])
    program, inputs = node("TopK", rows, np.array([2]), outputs=2, attributes={"axis": 1})
    values, places = run_numpy(program, inputs)
    assert np.isnan(values[:3, 0]).all() and (places[:3, 0] == first).all()


@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
def test_floats_beyond_an_integer_are_alike_in_numpy_and_c(source):
    need_compiler()
    wide = np.array([0, -0.0, 1.9, -1.9, 127.5, 128, -129, 255.9, 256, -1, 3e4, 7e4, -4e4, 3e9, -3e9, 5e9, 1e19, 2e19])
    kind = NARROW.get(source, source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = np.concatenate([wide, [np.inf, -np.inf, np.nan]]).astype(kind)
    small = ("int2", "uint2", "int4", "uint4")
    targets = (*small, "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
    b = Builder()
    x = b.input(given.shape, source)
    program = b.program([b.map(lambda v, t=t: cast(v, t), x, dtype=t) for t in targets])
    library = check([(program, [given])])
    found = run_numpy(program, [given])
    inside = np.abs(np.nan_to_num(given.astype(np.float64), nan=0, posinf=0, neginf=0))
    for target, array in list(zip(targets, found, strict=True))[len(small) : -1]:
        info = np.iinfo(target)
        fits = (given.astype(np.float64) > info.min - 1) & (given.astype(np.float64) < info.max) & (inside < 2**53)
        whole = np.trunc(given.astype(np.float64)[fits]).astype(target)
        np.testing.assert_array_equal(array[fits], whole, err_msg=target)
    results = [np.empty_like(array) for array in found]
    library.kernel("plain0")([given], results)
    for target, a, c in zip(targets, found, results, strict=True):
        np.testing.assert_array_equal(a.astype(object), c.astype(object), err_msg=target)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_beyond_the_width_leave_nothing(dtype, direction):
    need_compiler()
    bits = np.iinfo(dtype).bits
    values = np.full(6, np.iinfo(dtype).max, dtype)
    by = np.array([0, 1, bits - 1, bits, bits + 1, min(bits * 2, np.iinfo(dtype).max)]).astype(dtype)
    program, inputs = node("BitShift", values, by, attributes={"direction": direction})
    (found,) = run_numpy(program, inputs)
    np.testing.assert_array_equal(found[3:], 0)
    assert found[0] == values[0] and found[1] != values[0]
    check([(program, inputs)])


WITH_AXIS = sorted(
    op
    for op in bases()
    if (operator := find(op)) is not None
    and "axis" in operator.attributes
    and operator.attributes["axis"].type == "int"
)
"""Every operator of the node tests with an attribute `axis`."""

RANK_OF_RESULT = frozenset({"OneHot"})
"""Operators whose axis counts those of the result, one more than those of the first operand."""


def test_many_operators_have_an_axis():
    assert len(WITH_AXIS) >= 20 and {"Softmax", "Gather", "Concat", "TopK", "OneHot"} <= {*WITH_AXIS}


@pytest.mark.parametrize("op", WITH_AXIS)
def test_an_axis_counted_from_the_end_is_the_same(op):
    import onnx

    tried = 0
    for found, arrays in bases()[op]:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in found.attribute}
        attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        default = find(op).attributes["axis"].default  # type: ignore[union-attr]
        axis = attributes.get("axis", default)
        rank = arrays[0].ndim + (op in RANK_OF_RESULT)
        if not isinstance(axis, int) or not rank:
            continue
        feeds = iter(arrays)
        operands = [next(feeds) if name else None for name in found.input]
        from_front, from_end = axis % rank, axis % rank - rank
        if op == "Flatten" and axis == rank:
            continue
        expected, _ = run_node(op, operands, len(found.output), **{**attributes, "axis": from_front})
        for results in run_node(op, operands, len(found.output), **{**attributes, "axis": from_end}):
            for a, c in zip(results, expected, strict=True):
                assert_close(a, c, 0, 0)
        tried += 1
    assert tried


def test_no_flag_lets_a_compiler_change_what_floats_mean():
    every = {*FLAGS, *SANITIZERS, *(flag for flags in KINDS.values() for flag in flags)}
    forbidden = {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only", "-fassociative-math"}
    assert not every & (forbidden | {"-freciprocal-math", "-fno-signed-zeros"})
    assert {"-fwrapv", "-ffp-contract=fast", "-fno-trapping-math", "-fno-math-errno"} <= every


def test_one_kernel_is_one_statement_of_the_fused_program():
    """What the tests of rounding rely on: the chain is fused, not run operator by operator."""
    b = Builder()
    x = b.input((4, 4), "float16")
    program = compose(b.program([b.map(lambda v: v + 1, b.map(lambda v: v * 3, x))]))
    (only,) = program.statements
    assert isinstance(only, Compute) and only.body.dtype == "float16"
