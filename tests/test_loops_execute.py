"""The NumPy executor against the interpreter that walks the definition, and what it promises about arrays."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_programs import MOVEMENTS, REDUCTIONS, assert_close, elements, programs, run

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops import contraction, execute, interpret
from rewrite_engine.loops.arithmetic import apply, convert, erf
from rewrite_engine.loops.boxes import flips
from rewrite_engine.loops.build import Builder, NeedsValue, Tensor, Unsupported
from rewrite_engine.loops.expr import call, cast, maximum, select

TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1}


@settings(max_examples=250, deadline=None)
@given(st.one_of(programs(), programs(kinds=MOVEMENTS), programs(kinds=REDUCTIONS)), st.integers(0, 3), st.booleans())
def test_execution_equals_interpretation(program, seed, with_nan):
    inputs = elements(program, seed, with_nan)
    before = [x.copy() for x in inputs]
    dtype = program.tensors[program.inputs[0]].dtype
    assert_close(run(program, inputs), run(program, inputs, interpret), TOLERANCE.get(dtype, 1e-4))
    for x, kept in zip(inputs, before, strict=True):
        assert x.tobytes() == kept.tobytes()


def conv(builder: Builder, x: Tensor, w: Tensor, stride: int = 1, pad: int = 0, group: int = 1) -> Tensor:
    out = w.shape[0] // group
    shape = [(n + 2 * pad - k) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    return builder.compute(
        (x.shape[0], w.shape[0], *shape),
        lambda n, m, i, j, c, u, v: builder.load_padded(
            x, [n, m // out * w.shape[1] + c, i * stride + u - pad, j * stride + v - pad], 0
        ) * w.lift([m, c, u, v]),
        w.shape[1:], "sum", x.dtype,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 3, 7, 6), (5, 3, 3, 3), {"pad": 1}),
        ((1, 4, 9, 9), (4, 1, 3, 3), {"pad": 1, "stride": 2, "group": 4}),
        ((1, 4, 5, 5), (8, 1, 2, 2), {"group": 4}),
        ((2, 4, 6, 6), (6, 2, 3, 3), {"pad": 2, "group": 2}),
        ((1, 6, 4, 4), (8, 6, 1, 1), {}),
        ((1, 1, 20, 20), (1, 1, 3, 3), {"pad": 1}),
    ],
)
def test_convolutions(x, w, options):
    builder = Builder()
    program = builder.program([conv(builder, builder.input(x, "float32"), builder.input(w, "float32"), **options)])
    inputs = elements(program, 0)
    assert_close(run(program, inputs), run(program, inputs, interpret))


@pytest.mark.parametrize("guard", [(1, 4), (1, 9), (0, 4), (0, 9), (2, 4), (1, 3), (3, 2)])
@pytest.mark.parametrize("size", [6, 60_000])
def test_a_guard_that_is_not_the_border_of_the_tensor(guard, size):
    """x[i - 1] for first <= i < end, else 7: outside of the tensor it is the nearest element."""
    first, end = guard
    builder = Builder()
    x = builder.input((3, 1), "float32")
    y = builder.compute((6, size // 6), lambda i, _: select((first <= i) & (i < end), x[i - 1, 0], 7))
    (found,) = run(builder.program([y]), [np.array([[10], [20], [30]], np.float32)])
    shifted = [10, 10, 20, 30, 30, 30]
    assert found[:, -1].tolist() == [shifted[i] if first <= i < end else 7 for i in range(6)]


FACTORS = {
    "a row": lambda x, w, n, m, i, c: select(i < 2, x[n, c, i] - 1, 0) * w[m, c],
    "a row and a column": lambda x, w, n, m, i, c: select(i < 2, x[n, c, i] - 1, 3) * select(m < 1, w[m, c] + 1, 2),
    "a batch": lambda x, w, n, m, i, c: select(i < 2, x[n, c, i] - 1, 3) * select(n < 1, w[m, c] + 1, x[n, c, m]),
    "a batch of both": lambda x, w, n, m, i, c: select(n < 1, x[n, c, i] - 1, 3) * select(n < 1, w[m, c] + 1, 2),
}


@pytest.mark.parametrize("body", FACTORS.values(), ids=FACTORS.keys())
@pytest.mark.parametrize("sizes", list(itertools.product((1, 2), (1, 2), (1, 3, 4))))
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_factors_that_are_one_number_over_a_box(body, sizes, dtype):
    """Where a condition is false for a whole box, a factor no longer depends on the iterators that it has elsewhere."""
    n, m, i = sizes
    builder = Builder()
    x, w = builder.input((n, 3, 4), dtype), builder.input((m, 3), dtype)
    program = builder.program([builder.compute((n, m, i), lambda *at: body(x, w, *at), (3,), "sum")])
    a, b = (np.random.default_rng(0).integers(-4, 5, shape).astype(dtype) for shape in ((n, 3, 4), (m, 3)))
    (found,) = run(program, [a, b])
    (wanted,) = run(program, [a, b], interpret)
    assert np.array_equal(found, wanted)


def test_temporaries_are_not_kept_alive():
    builder = Builder()
    y = builder.input((250_000,), "float32")
    for _ in range(12):
        y = builder.map(lambda v: v + 1, y)
    program = builder.program([y])
    x, out = np.zeros(250_000, np.float32), np.empty(250_000, np.float32)
    tracemalloc.start()
    execute.run(program, [x], [out])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3.5 * x.nbytes and out[0] == 12


def test_large_windows_are_accumulated_tap_by_tap():
    builder = Builder()
    x, w = builder.input((2, 8, 33, 34), "float32"), builder.input((8, 1, 3, 3), "float32")
    depthwise = conv(builder, x, w, pad=1, group=8)
    pooled = builder.compute(
        (2, 8, 17, 17), lambda n, c, i, j, u, v: builder.load_padded(x, [n, c, 2 * i + u - 1, 2 * j + v], -np.inf),
        (3, 2), "max",
    )  # fmt: skip
    program = builder.program([depthwise, pooled])
    assert all(execute._by_taps(compute, 2 * 8 * 17 * 17) for compute in program.statements)
    a, b = elements(program, 0)
    found = run(program, [a, b])
    wide = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [wide[:, :, u : u + 33, v : v + 34] * b[:, 0, u, v].reshape(8, 1, 1) for u in range(3) for v in range(3)]
    low = np.pad(a, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=-np.inf)
    largest = np.max([low[:, :, u : u + 33 : 2, v : v + 33 : 2] for u in range(3) for v in range(2)], axis=0)
    assert_close(found, [sum(taps), largest])


def test_batched_convolution_is_a_matrix_product_without_gathering_a_batch_per_row():
    builder = Builder()
    y = conv(builder, builder.input((3, 4, 6, 6), "float32"), builder.input((8, 4, 3, 3), "float32"), pad=1)
    (compute,) = builder.program([y]).statements
    spec = contraction.contraction(compute)
    assert [len(axes) for axes in (spec.batch, spec.rows, spec.columns, spec.depth)] == [1, 1, 2, 3]


def test_integer_products_are_exact_beyond_float32():
    builder = Builder()
    a, b = builder.input((3, 5000), "int32"), builder.input((5000, 2), "int32")
    y = builder.compute((3, 2), lambda i, j, k: a[i, k] * b[k, j], (5000,), "sum")
    rng = np.random.default_rng(0)
    x = [rng.integers(-255, 256, s).astype(np.int32) for s in ((3, 5000), (5000, 2))]
    (found,) = run(builder.program([y]), x)
    np.testing.assert_array_equal(found, (x[0].astype(np.int64) @ x[1]).astype(np.int32))


def test_integer_products_wrap_where_float64_is_not_exact():
    builder = Builder()
    a, b = builder.input((2, 3), "int64"), builder.input((3, 2), "int64")
    y = builder.compute((2, 2), lambda i, j, k: a[i, k] * b[k, j], (3,), "sum")
    x = [np.full((2, 3), (1 << 40) + 1), np.full((3, 2), (1 << 20) + 1)]
    (found,) = run(builder.program([y]), x)
    np.testing.assert_array_equal(found, x[0] @ x[1])


@pytest.mark.parametrize("shape", [(300, 500), (3, 70_000), (200_000,), (70_000, 3)])
def test_blocks_of_large_tensors_join_to_the_whole(shape):
    builder = Builder()
    x = builder.input(shape, "float32")
    y = builder.map(lambda v: call("tanh", v) + v * v, x)
    z = builder.reduce(y, range(len(shape)), "max", keepdims=False)
    s = builder.reduce(x, [0], "sum")
    program = builder.program([y, z, s])
    (v,) = elements(program, 1)
    found = run(program, [v])
    expected = np.tanh(v) + v * v
    assert_close(found, [expected, expected.max(), v.sum(0, keepdims=True)], 1e-4)


def test_empty_reductions_and_empty_tensors():
    builder = Builder()
    x = builder.input((2, 0), "float32")
    sums = builder.reduce(x, [1], "sum", post=lambda t: t + 1)
    largest = builder.reduce(x, [1], "max")
    product = builder.compute((2, 2), lambda i, j, k: x[i, k] * x[j, k], (0,), "sum")
    none = builder.map(lambda v: v + 1, x)
    found = run(builder.program([sums, largest, product, none]), [np.zeros((2, 0), np.float32)])
    np.testing.assert_array_equal(found[0], [[1], [1]])
    np.testing.assert_array_equal(found[1], [[-np.inf], [-np.inf]])
    np.testing.assert_array_equal(found[2], np.zeros((2, 2)))
    assert found[3].shape == (2, 0)


def test_nan_goes_through_maxima():
    builder = Builder()
    x = builder.input((3,), "float32")
    program = builder.program([builder.reduce(x, [0], "max"), builder.map(lambda v: maximum(v, 0), x)])
    found = run(program, [np.array([1, np.nan, 2], np.float32)])
    assert np.isnan(found[0]).all() and np.isnan(found[1][1])


def test_scatter_keeps_adds_and_lets_the_last_write_stay():
    builder = Builder()
    x, where, u = builder.input((4,), "float32"), builder.input((3,), "int64"), builder.input((3,), "float32")
    at = lambda i: [cast(where[i], "index")]
    results = [builder.scatter(x, (3,), at, lambda i: u[i], combine) for combine in ("set", "sum", "max")]
    inputs = [np.array([10, 20, 30, 40], np.float32), np.array([1, 3, 1]), np.array([5, 50, 6], np.float32)]
    found = run(builder.program(results), inputs)
    np.testing.assert_array_equal(found[0], [10, 6, 30, 50])
    np.testing.assert_array_equal(found[1], [10, 31, 30, 90])
    np.testing.assert_array_equal(found[2], [10, 20, 30, 50])


def test_host_sort_is_stable_in_both_directions():
    builder = Builder()
    x = builder.input((5,), "float32")
    kinds = [((3,), "float32"), ((3,), "int64")]
    down = builder.host("sort", [x], kinds, axis=0, count=3, largest=True)
    up = builder.host("sort", [x], kinds, axis=0, count=3, largest=False)
    found = run(builder.program([*down, *up]), [np.array([2, 7, 2, 7, 1], np.float32)])
    assert [list(values) for values in found] == [[7, 7, 2], [1, 3, 0], [1, 2, 2], [4, 0, 2]]


def test_outputs_may_be_strided_and_inputs_read_only():
    builder = Builder()
    x = builder.input((3, 4), "float32")
    program = builder.program([builder.transpose(x, [1, 0]), builder.map(lambda v: v * 2, x)])
    source = np.arange(12, dtype=np.float32).reshape(4, 3).T
    source.flags.writeable = False
    out = [np.full((8, 6), np.nan, np.float32)[::2, ::2], np.full((4, 3), np.nan, np.float32).T]
    execute.run(program, [source], out)
    np.testing.assert_array_equal(out[0], source.T)
    np.testing.assert_array_equal(out[1], source * 2)


def test_wrong_arrays_are_refused_with_both_types():
    builder = Builder()
    program = builder.program([builder.map(lambda v: v + 1, builder.input((2, 3), "float32"))])
    good = np.zeros((2, 3), np.float32)
    with pytest.raises(RewriteError, match=r"input x0 of the kernel: expected float32\[2, 3\], found float64\[2, 3\]"):
        execute.run(program, [good.astype(np.float64)], [good.copy()])
    with pytest.raises(RewriteError, match=r"output t0 of the kernel: expected float32\[2, 3\], found float32\[3, 2\]"):
        execute.run(program, [good], [np.zeros((3, 2), np.float32)])
    with pytest.raises(RewriteError, match="has 1 inputs, found 2"):
        execute.run(program, [good, good], [good.copy()])


def test_workspace_is_the_peak_of_live_temporaries():
    builder = Builder()
    x = builder.input((100,), "float32")
    y = x
    for _ in range(5):
        y = builder.map(lambda v: v + 1, y)
    assert execute.workspace_bytes(builder.program([y])) == 2 * 448  # 400 bytes, in steps of 64; two live at once
    both = builder.map(lambda u, v: u * v, builder.map(lambda v: v - 1, x), builder.map(lambda v: v - 2, x))
    assert execute.workspace_bytes(builder.program([both])) == 2 * 448
    assert execute.workspace_bytes(builder.program([builder.map(lambda v: v - 1, x)])) == 0


def test_temporaries_are_freed_at_their_last_use():
    builder = Builder()
    x = builder.input((4,), "float32")
    y = builder.map(lambda v: v + 1, x)
    z = builder.map(lambda v: v + 2, y)
    program = builder.program([builder.map(lambda u, v: u + v, z, z)])
    assert execute.last_uses(program) == [(), (y.name,), (z.name,)]


def test_cuts_are_where_conditions_flip():
    builder = Builder()
    parts = [builder.input((n, 5), "float32") for n in (3, 4, 2)]
    (compute,) = builder.program([builder.concat(parts, 0)]).statements
    shapes = tuple((t.name, t.shape) for t in parts)
    assert list(execute._cuts(compute, shapes).values()) == [(3, 7)]
    assert flips("lt", -3, 2) == (2,)  # 0 < 2v - 3 from v = 2
    assert flips("le", 6, -2) == (4,)  # 0 <= 6 - 2v until v = 3
    assert flips("eq", -4, 2) == (2, 3)
    assert flips("eq", -5, 2) == ()


def test_known_values_are_computed_and_unknown_ones_refused():
    builder = Builder()
    shape = builder.input((2,), "int64", known=np.array([3, 4]))
    data = builder.input((2,), "int64")
    twice = builder.map(lambda v: v * 2, shape)
    assert builder.value(twice).tolist() == [6, 8]
    with pytest.raises(NeedsValue) as error:
        builder.value(builder.map(lambda u, v: u + v, twice, data))
    assert error.value.tensor == data
    with pytest.raises(Unsupported, match=r"reshape of \[2\] to \[3\]"):
        builder.reshape(data, (3,))


def test_outputs_are_distinct_tensors_that_are_not_inputs():
    builder = Builder()
    x = builder.input((2,), "float32")
    y = builder.map(lambda v: v + 1, x)
    program = builder.program([x, y, y])
    assert len(set(program.outputs)) == 3 and x.name not in program.outputs
    found = run(program, [np.array([1, 2], np.float32)])
    np.testing.assert_array_equal(found, [[1, 2], [2, 3], [2, 3]])


def test_erf_is_within_a_few_units_in_the_last_place():
    x = np.concatenate([np.linspace(-6, 6, 20_001), [np.inf, -np.inf, np.nan, 0]]).astype(np.float32)
    exact = np.array([math.erf(v) for v in x.tolist()])
    np.testing.assert_allclose(erf(x), exact, rtol=0, atol=5e-7)
    assert erf(x[:5].astype(np.float64)).tolist() == exact[:5].tolist()


def test_integer_arithmetic_is_defined_everywhere():
    i32 = lambda *v: np.array(v, np.int32)
    assert apply("div", [i32(-7, 7, 7, 6), i32(2, -2, 0, -3)], "int32").tolist() == [-3, -3, 0, -2]
    assert apply("mod", [i32(-7, 7, 5), i32(3, -3, 0)], "int32").tolist() == [2, -2, 0]
    assert apply("fmod", [i32(-7, 7), i32(3, -3)], "int32").tolist() == [-1, 1]
    assert apply("pow", [i32(2, -1, 0, 3), i32(-1, -3, -1, 2)], "int32").tolist() == [0, -1, 0, 9]
    assert apply("shift_left", [np.array([1], np.uint8), np.array([9], np.uint8)], "uint8").tolist() == [0]


def test_conversions_saturate_small_floats_and_truncate_to_integers():
    wide = np.array([1e6, -1e6, np.nan, 1.0], np.float32)
    small = convert(wide, "float8_e4m3fn").astype(np.float32)
    assert small[:2].tolist() == [448, -448] and np.isnan(small[2]) and small[3] == 1
    assert np.isnan(convert(wide, "float8_e4m3fn", saturate=False).astype(np.float32)[0])
    assert convert(np.array([1.9, -1.9]), "int32").tolist() == [1, -1]
    assert convert(np.array([0.0, np.nan, 0.1]), "bool").tolist() == [False, True, True]
