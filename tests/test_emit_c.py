"""Emitted C against the NumPy executor: random programs, operators, whole models, other processors, sanitizers."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import loops_programs
import numpy as np
import onnx_node_cases
import pytest
from c_programs import assert_same, check, need_compiler, node, run_c, run_numpy
from hypothesis import HealthCheck, given, settings

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.build_c import (
    SANITIZERS,  # noqa: F401 (used by the sanitized program below)
    CompilerFailed,
    NoCompiler,
    build,
    find_compiler,
    library_text,
    machine_lanes,
)
from rewrite_engine.loops.compiler import compiler_version
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c import NotEmitted, emit, host_operators
from rewrite_engine.loops.emit_c.staging import trimmed
from rewrite_engine.loops.expr import call, cast, maximum, minimum, select

need_compiler()

Case = tuple[Program, list[np.ndarray]]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Libraries of the tests do not stay in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


def random_programs(count: int, **options: object) -> list[Case]:
    """Programs of `loops_programs`, with inputs that hold some NaN."""
    found: list[Program] = []

    @settings(
        max_examples=count, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(loops_programs.programs(**options))
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return [(program, loops_programs.elements(program, seed, seed % 2 == 1)) for seed, program in enumerate(found)]


def node_programs(every: int) -> list[tuple[str, Program, list[np.ndarray], list[np.ndarray]]]:
    """Programs of ONNX's node tests as `onnx_node_cases` runs them: name, program, inputs, outputs in NumPy."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        execute = onnx_node_cases._execute

        def recorded(program, feeds):
            outputs = execute(program, feeds)
            found.append((case.name, program, [np.asarray(array) for array in feeds.values()], outputs))
            return outputs

        patch.setattr(onnx_node_cases, "_execute", recorded)
        for case in [case for case in onnx_node_cases.all_cases() if "expanded" not in case.name][::every]:
            onnx_node_cases.judge(case)
    return found


def random(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------- the numbers


def test_random_programs():
    check(random_programs(120))


@pytest.mark.parametrize("flags", [("-DREWRITE_ENGINE_SCALAR",), ("-mno-avx512f",), ("-mno-avx512f", "-mno-avx")])
def test_random_programs_without_wide_vectors(flags):
    if machine_lanes() < 16 and "SCALAR" not in flags[0]:
        pytest.skip("the processor has no AVX-512 to leave out")
    check(random_programs(30), flags)


def test_tiles_for_narrow_vectors_run_on_this_processor():
    cases = [product for _, product in PRODUCTS.items()]
    for lanes in (4, 8):
        check([case() for case in cases[:6]], lanes=lanes)


@pytest.mark.parametrize("every", [pytest.param(12, id="some"), pytest.param(1, marks=pytest.mark.slow, id="all")])
def test_node_cases(every):
    cases = [case for case in node_programs(every) if not host_operators(case[1])]
    assert len(cases) > 2000 // every
    differing = []
    for start in range(0, len(cases), 400):
        part = cases[start : start + 400]
        library = build([emit(program, f"case{number}") for number, (_, program, _, _) in enumerate(part)])
        for number, (name, _, inputs, expected) in enumerate(part):
            for _ in range(2):
                try:
                    found = run_c(library, f"case{number}", inputs, expected)
                    for a, b in zip(found, expected, strict=True):
                        onnx_node_cases.assert_close(a, b, 1e-5, 1e-6)
                except AssertionError as error:
                    differing.append(f"{name}: {error}")
    assert not differing, "\n".join(differing[:5])


PRODUCTS = {
    "matmul": lambda: node("MatMul", random(37, 50), random(50, 45, seed=1)),
    "batched": lambda: node("MatMul", random(3, 20, 33), random(3, 33, 40, seed=1)),
    "broadcast batch": lambda: node("MatMul", random(2, 3, 8, 16), random(16, 24, seed=1)),
    "gemm transposed": lambda: node(
        "Gemm", random(40, 9), random(70, 40, seed=1), random(70, seed=2),
        attributes={"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    "row": lambda: node("MatMul", random(1, 300), random(300, 130, seed=1)),
    "conv 3x3": lambda: conv((1, 8, 13, 13), (20, 8, 3, 3), pads=[1, 1, 1, 1]),
    "conv strided": lambda: conv((2, 5, 17, 17), (9, 5, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]),
    "conv 7x7": lambda: conv((1, 3, 30, 30), (16, 3, 7, 7), pads=[3, 3, 3, 3], strides=[2, 2]),
    "conv 1x1 strided": lambda: conv((1, 6, 14, 14), (10, 6, 1, 1), strides=[2, 2]),
    "conv grouped": lambda: conv((1, 12, 10, 10), (18, 4, 3, 3), pads=[1, 0, 1, 2], group=3),
    "conv depthwise": lambda: conv((1, 12, 20, 20), (12, 1, 3, 3), pads=[1, 1, 1, 1], group=12),
    "conv depthwise strided": lambda: conv((1, 6, 21, 21), (6, 1, 5, 5), pads=[2, 2, 2, 2], group=6, strides=[2, 2]),
    "conv dilated": lambda: conv((1, 4, 24, 24), (8, 4, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2]),
    "conv 1d": lambda: conv((2, 4, 50), (8, 4, 5), pads=[2, 2], strides=[3]),
    "conv 3d": lambda: conv((1, 2, 6, 7, 8), (4, 2, 3, 3, 3), pads=[1] * 6),
    "conv of few columns": lambda: conv((1, 40, 2, 2), (48, 40, 1, 1)),
    "conv 3x3 of few columns": lambda: conv((1, 8, 2, 3), (20, 8, 3, 3), pads=[1, 1, 1, 1]),
    "conv depthwise of a small plane": lambda: conv((2, 9, 4, 4), (9, 1, 7, 7), pads=[3, 3, 3, 3], group=9),
    "conv float16": lambda: conv((1, 8, 9, 9), (12, 8, 3, 3), pads=[1, 1, 1, 1], dtype="float16"),
    "conv depthwise float16": lambda: conv((1, 6, 9, 9), (6, 1, 3, 3), pads=[1, 1, 1, 1], group=6, dtype="float16"),
    "pool wider than its input": lambda: node(
        "AveragePool", random(1, 5, 2, 2),
        attributes={"kernel_shape": [8, 8], "pads": [0, 0, 6, 6], "count_include_pad": 1},
    ),
    "conv transposed": lambda: node(
        "ConvTranspose", random(1, 6, 9, 9), random(6, 5, 3, 3, seed=1),
        attributes={"strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
}  # fmt: skip


def conv(x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", **attributes: object) -> Case:
    arrays = (random(*x, dtype=dtype), random(*w, dtype=dtype, seed=1), random(w[0], dtype=dtype, seed=2))
    return node("Conv", *arrays, attributes=attributes)


def test_products_and_windows():
    library = check([case() for case in PRODUCTS.values()])
    text = library_text(list(library.sources.values()))
    assert text.count("/* product of") > 10


def test_products_with_constant_operands_are_packed_once():
    for name in ("matmul", "conv 3x3", "gemm transposed"):
        program, inputs = PRODUCTS[name]()
        source = emit(compose(program), "product", constants=(1,))
        assert 0 < source.packed <= source.workspace, name
        library = build([source])
        expected = run_numpy(program, inputs)
        assert_same(run_c(library, "product", inputs, expected), expected)
        outputs = [np.zeros_like(array) for array in expected]
        run = library.sequence([("product", inputs, outputs)])
        inputs[0] *= 2  # read again in every run, unlike the constant
        inputs[1][...] = np.nan
        run()
        fresh, same = PRODUCTS[name]()
        same[0] = same[0] * 2
        assert_same(outputs, run_numpy(fresh, same))


def test_products_with_constant_weights_give_the_same_numbers():
    cases = [case() for name, case in PRODUCTS.items() if name.startswith(("conv", "matmul", "gemm", "broadcast"))]
    library = build([emit(compose(p), f"case{n}", constants=(1, 2)[: len(a) - 1]) for n, (p, a) in enumerate(cases)])
    text = library_text(list(library.sources.values()))
    assert "product of 1 x 4 x 48 by 40" in text  # lanes over the rows of the matrix
    for number, (program, inputs) in enumerate(cases):
        expected = run_numpy(program, inputs)
        assert_same(run_c(library, f"case{number}", inputs, expected), expected)
        outputs = [np.full_like(array, 77) for array in expected]
        run = library.sequence([(f"case{number}", inputs, outputs)])
        for _ in range(2):
            run()
            assert_same(outputs, expected)


def test_reductions_visit_only_what_their_guard_lets_through():
    cases = []
    for guard in (lambda r: r < 4, lambda r: r <= 4, lambda r: (r <= 4) & (r < 6), lambda r: r + 1 <= 4):
        for combine, outside in (("sum", 0.0), ("max", -math.inf)):
            builder = Builder()
            x = builder.input((5, 9), "float32")

            def element(i, r, x=x, guard=guard, outside=outside):
                return select(guard(r), x[i, r], outside)

            cases.append((builder.program([builder.compute((5,), element, (9,), combine)]), [random(5, 9)]))
    check(cases)
    assert [it.extent for it in trimmed(cases[2][0].statements[0]).reduction] == [5]


def test_epilogue_of_a_product_may_be_of_any_type():
    cases = []
    for dtype in ("int8", "uint8", "int64", "float16", "bool", "float64"):
        builder = Builder()
        x, w = builder.input((20, 30), "float32"), builder.input((30, 40), "float32")

        def clipped(total, i, j, to=dtype):
            value = minimum(maximum(call("round", total), -100), 100)
            return cast(value * value if to == "uint8" else value, "int32") if to == "int64" else cast(value, to)

        out = builder.compute((20, 40), lambda i, j, k: x[i, k] * w[k, j], (30,), "sum", dtype, clipped)  # noqa: B023
        arrays = [np.abs(random(20, 30)), np.abs(random(30, 40, seed=1)) / 8]
        cases.append((builder.program([out]), arrays))
    check(cases)


def test_integers_have_the_meaning_of_the_program():
    edges = (0, 1, -1, 2, -2, 7, -7, 100, -100, 127, -128)
    cases = []
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"):
        info = np.iinfo(dtype)
        values = sorted({int(info.min), int(info.max), *(edge for edge in edges if info.min <= edge <= info.max)})
        a, b = (x.reshape(-1) for x in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
        builder = Builder()
        x, y = builder.input(a.shape, dtype), builder.input(b.shape, dtype)
        results = [builder.map(lambda u, v: u / v, x, y)]
        for name in ("mod", "fmod", "shift_left", "shift_right", "bit_xor"):
            results.append(builder.map(lambda u, v, name=name: call(name, u, v), x, y))
        results.append(builder.map(lambda u, v: u * v + u - v, x, y))
        results += [builder.map(lambda u, name=name: call(name, u), x) for name in ("neg", "abs", "sign", "bit_not")]
        cases.append((builder.program(results), [a, b]))
    check(cases, ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"))


def test_floats_out_of_range_become_the_least_integer():
    values = np.array([0, -0.0, 1.9, -1.9, 2**31, -(2**31), 2.0**40, 2.0**63, -(2.0**63), np.inf, -np.inf, np.nan])
    for dtype in ("float32", "float64"):
        builder = Builder()
        x = builder.input(values.shape, dtype)
        program = builder.program([builder.map(lambda u, to=to: cast(u, to), x, dtype=to) for to in ("int32", "int64")])
        check([(program, [values.astype(dtype)])])


@pytest.mark.parametrize("source", ["float32", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("target", ["uint4", "int4", "uint2", "int2"])
def test_what_is_beyond_a_small_integer_keeps_its_low_bits(source, target):
    wide = np.array([-20, -9, -8, -1, 0, 1, 3, 7, 8, 15, 16, 31, 100])
    given = np.maximum(wide, 0 if source == "uint8" else -20).astype(numpy_dtype(source))
    builder = Builder()
    x = builder.input(given.shape, source)
    program, inputs = builder.program([builder.map(lambda v: cast(v, target), x, dtype=target, lift=False)]), [given]
    (found,) = run_numpy(program, inputs)
    bits = int(target[-1])
    low = given.astype(np.int64) % (1 << bits)
    signed = low - (1 << bits) * (low >= 1 << (bits - 1)) if target.startswith("int") else low
    np.testing.assert_array_equal(found.astype(np.int64), signed)
    check([(program, inputs)])


def test_nan_goes_through_extrema():
    rows = random(6, 70)
    rows[1, 0] = rows[2, 69] = rows[3, 33] = np.nan
    rows[4] = -np.inf
    cases = [node("ReduceMax", rows, np.array([axis]), attributes={"keepdims": 1}) for axis in (0, 1)]
    cases += [node("Max", rows, rows[::-1].copy()), node("Min", rows, rows[::-1].copy()), node("Relu", rows)]
    library = check(cases)
    maxima = run_c(library, "plain1", cases[1][1], [np.empty((6, 1), np.float32)])[0]
    assert np.isnan(maxima[1:4]).all() and maxima[4, 0] == -np.inf


@pytest.mark.parametrize("flags", [(), ("-DREWRITE_ENGINE_SCALAR",), ("-mno-avx512f",)])
def test_functions_are_right_to_a_few_units(flags):
    specials = np.array([0, -0.0, np.inf, -np.inf, np.nan, 88.7, 88.8, -87.4, -103.9, -104.5, 1e-30, 3e38], np.float32)
    x = np.concatenate(
        [specials, np.linspace(-100, 100, 4001, dtype=np.float32), np.linspace(-4, 4, 999, dtype=np.float32)]
    )
    names = ("exp", "tanh", "erf", "sqrt", "floor", "ceil", "round", "trunc", "abs", "sign")
    builder = Builder()
    value = builder.input(x.shape, "float32")
    program = builder.program([builder.map(lambda u, name=name: call(name, u), value) for name in names])
    library = build([emit(program, "functions")], flags=flags)
    expected = run_numpy(program, [x])
    for name, found, wanted in zip(names, run_c(library, "functions", [x], expected), expected, strict=True):
        normal = np.abs(wanted) > 1e-37
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), err_msg=name)
        np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted), err_msg=name)
        np.testing.assert_array_max_ulp(found[normal], wanted[normal], 8 if name in ("tanh", "erf") else 2)
        np.testing.assert_allclose(found[~normal], wanted[~normal], atol=1e-38, err_msg=name)


# ---------------------------------------------------------------- whole models


def test_every_kernel_of_the_bundled_model():
    from rewrite_engine import api
    from rewrite_engine.graph.module import bundled_model
    from rewrite_engine.graph.placed import KernelCall
    from rewrite_engine.passes.stages import programs

    placement = api.place(api.load(bundled_model()), api.load_rules("npu.pat", "fastlib.pat"))
    graph = placement.graph
    lowered = {name: compose(program) for name, program in programs(graph).items()}
    calls = [step for step in graph.steps if isinstance(step, KernelCall)]
    symbols = {call.name: f"kernel{number}" for number, call in enumerate(calls)}
    sources = {
        c.name: emit(
            lowered[c.name],
            symbols[c.name],
            constants=[i for i, name in enumerate(c.inputs) if name in graph.parameters],
        )
        for c in calls
    }
    library = build(list(sources.values()))
    rng = np.random.default_rng(0)
    values = {name: np.asarray(array) for name, array in graph.parameters.items()}
    sequence, expected = [], []
    for step in graph.steps:
        if not isinstance(step, KernelCall):
            values[step.output] = values[step.value]
            continue
        for name, buffer in zip(step.inputs, sources[step.name].inputs, strict=True):
            values.setdefault(name, rng.standard_normal(buffer.shape).astype(buffer.dtype))
        inputs = [values[name] for name in step.inputs]
        results = run_numpy(lowered[step.name], inputs)
        assert_same(run_c(library, symbols[step.name], inputs, results), results)
        values.update(zip(step.outputs, results, strict=True))
        outputs = [np.full_like(array, 77) for array in results]
        sequence.append((symbols[step.name], inputs, outputs))
        expected.append(results)
    run = library.sequence(sequence)
    for _ in range(2):
        run()
        for (_, _, outputs), results in zip(sequence, expected, strict=True):
            assert_same(outputs, results)
    assert len({name for source in sources.values() for name, _ in source.functions}) < sum(
        len(source.functions) for source in sources.values()
    )  # equal nests are one function


# ---------------------------------------------------------------- building


def small(symbol: str = "small", factor: float = 2.0) -> tuple:
    builder = Builder()
    x = builder.input((3, 5), "float32")
    return emit(builder.program([builder.map(lambda u: u * factor, x)]), symbol)


def test_host_operators_are_reported():
    program, _ = node(
        "TopK", random(4, 9), np.array([3]), outputs=2, attributes={"axis": -1, "largest": 1, "sorted": 1}
    )
    assert host_operators(program) == ("sort",)
    with pytest.raises(NotEmitted, match=r"kernel top: host operators \(sort\) are not C; it runs in NumPy"):
        emit(program, "top")


def test_libraries_are_cached_by_content(tmp_path):
    first = build([small()], cache=tmp_path)
    again = build([small()], cache=tmp_path)
    assert (first.cached, again.cached, again.path) == (False, True, first.path)
    others = [
        build([small(factor=3.0)], cache=tmp_path),
        build([small()], cache=tmp_path, flags=("-DREWRITE_ENGINE_SCALAR",)),
    ]
    assert len({first.path, *(other.path for other in others)}) == 3
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".so"] * 3


def test_a_damaged_cache_entry_is_made_again(tmp_path):
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_emit_c import small, build\n"
        "library = build([small()], cache=sys.argv[1])\n"
        "print(library.cached, library.kernel('small').source.symbol)"
    )
    folders = [str(Path(__file__).parent)]
    run = [sys.executable, "-c", code, str(tmp_path), *folders]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() == ["False", "small"]
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() == ["False", "small"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.split() == ["True", "small"]


def test_no_compiler_is_said(monkeypatch, tmp_path):
    with pytest.raises(NoCompiler, match="no C compiler: looked for nowhere-cc"):
        build([small()], cc="nowhere-cc")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompiler, match="looked for gcc, clang; install gcc or clang, or set CC"):
        find_compiler()


def test_a_failing_compiler_is_said_and_leaves_nothing(tmp_path):
    with pytest.raises(CompilerFailed, match="no-such-flag"):
        build([small()], cache=tmp_path, flags=("--no-such-flag",))
    assert not list(tmp_path.iterdir())
    liar = tmp_path / "liar"
    liar.write_text("#!/bin/sh\nexit 0\n")
    liar.chmod(0o755)
    with pytest.raises(CompilerFailed):
        build([small()], cc=str(liar), cache=tmp_path / "cache")


def test_arrays_that_do_not_fit_are_refused():
    kernel = build([small()]).kernel("small")
    good = np.zeros((3, 5), np.float32)
    for inputs, outputs, message in (
        ([good.T.copy()], [good], r"input 0: expected float32\[3, 5\], found float32\[5, 3\]"),
        ([good], [good.astype(np.float64)], r"output 0: expected float32\[3, 5\], found float64\[3, 5\]"),
        ([good], [np.zeros((3, 10), np.float32)[:, ::2]], "output 0: expected a contiguous array"),
        ([], [good], "expected 1 inputs, found 0"),
    ):
        with pytest.raises(RewriteError, match=message):
            kernel(inputs, outputs)
    result = np.empty((3, 5), np.float32)
    kernel([np.arange(30, dtype=np.float32).reshape(3, 10)[:, ::2]], [result])
    np.testing.assert_array_equal(result[0], [0, 4, 8, 12, 16])


def test_a_symbol_is_exported_once():
    with pytest.raises(RewriteError, match="exports each symbol once, found small twice"):
        build([small(), small()])


def test_threads_give_the_same_numbers():
    cases = [
        PRODUCTS["conv 3x3"](),
        node("MatMul", random(300, 200), random(200, 300, seed=1)),
        node("Exp", random(400, 500)),
    ]
    cases.append(node("Softmax", random(400, 300), attributes={"axis": -1}))
    library = build([emit(compose(program), f"case{number}") for number, (program, _) in enumerate(cases)])
    expected = [
        run_c(library, f"case{n}", inputs, run_numpy(program, inputs)) for n, (program, inputs) in enumerate(cases)
    ]
    assert library.set_threads(3) == 3
    problems: list[str] = []

    def work() -> None:
        for _ in range(20):
            for number, (_, inputs) in enumerate(cases):
                found = run_c(library, f"case{number}", inputs, expected[number])
                if not all(np.array_equal(a, b) for a, b in zip(found, expected[number], strict=True)):
                    problems.append(f"case {number}")

    workers = [threading.Thread(target=work) for _ in range(2)]  # one of the two finds the pool busy
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    library.set_threads(1)
    assert not problems


# ---------------------------------------------------------------- sanitizers

SANITIZED = """
import sys
sys.path.insert(0, sys.argv[1])
from bad_input import outside
from loops_chains import attention, layer_norm
from loops_programs import elements
from random_operators import with_corners
from test_emit_c import PRODUCTS, SANITIZERS, check, random_programs
from test_loops_scan import MADE
from test_loops_schedule import CASES
from rewrite_engine.loops import group
group.ROOM = 1 << 11
count = int(sys.argv[2])
programs = [*random_programs(count), *(case() for case in PRODUCTS.values()), *outside(), *with_corners(4 * count)]
programs += [made()[:2] for made in MADE.values()]
chains = [attention(1, 2, 17, 19, 5), layer_norm(3, 7, 33), *(program for program, _ in CASES.values())]
programs += [(program, elements(program, 1)) for program in chains]
check(programs, (*SANITIZERS, *sys.argv[3:]))
print("clean")
"""


@pytest.mark.parametrize("programs", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_addresses_and_operations_are_clean(programs, tmp_path):
    command = find_compiler()
    clang = "clang" in compiler_version(command)
    names = (f"libclang_rt.asan-{platform.machine()}.so",) if clang else ("libasan.so", "libubsan.so")
    libraries = [
        subprocess.run(
            [*command, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in names
    ]
    if not all(Path(library).is_absolute() for library in libraries):
        pytest.skip(f"{command[0]} has no sanitizers to load")
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "REWRITE_ENGINE_CACHE": str(tmp_path),
        "REWRITE_ENGINE_THREADS": "2",
    }
    further = ["-shared-libasan"] if clang else []
    run = [sys.executable, "-c", SANITIZED, str(Path(__file__).parent), str(programs), *further]
    result = subprocess.run(run, capture_output=True, text=True, env=environment, check=False)
    assert result.stdout.strip() == "clean", result.stderr[-2000:]
