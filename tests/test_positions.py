"""Positions that come from data: inside of their axis as ONNX says, outside an error in every engine, nothing read."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from bad_input import run_time
from c_programs import need_compiler
from loops_programs import run
from onnx.reference import ReferenceEvaluator
from test_compiled_bundle import compiled, needs_compiler, own_cache  # noqa: F401 (fixture)

import rewrite_engine as rw
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.standalone import PROGRAM, SOURCE, WEIGHTS
from rewrite_engine.loops import execute, interpret, nest_interpreter, nest_parser, serialize
from rewrite_engine.loops.build_c import build
from rewrite_engine.loops.checks import OutOfRange
from rewrite_engine.loops.compiler import FLAGS, SANITIZERS
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.emit_c import emit
from rewrite_engine.loops.nest import render

Case = tuple[str, list[np.ndarray], dict[str, object], int, np.ndarray, np.ndarray]
"""Operator, operands, attributes, which operand holds positions, and the lowest and highest of each of its elements."""


def _data(g: np.random.Generator, *shape: int) -> np.ndarray:
    return g.standard_normal(shape).astype(np.float32)


def _axis(g: np.random.Generator, name: str) -> Case:
    shape = g.integers(1, 6, g.integers(1, 4)).tolist()
    axis = int(g.integers(len(shape)))
    n = shape[axis]
    places = shape.copy() if name != "Gather" else g.integers(1, 4, g.integers(0, 3)).tolist()
    if name != "Gather":
        places[axis] = int(g.integers(1, n + 1))  # scattered positions of a column are distinct
    given = g.integers(-n, n, places)
    if name == "ScatterElements":
        given = np.argsort(g.random(shape), axis).take(range(places[axis]), axis) - n * g.integers(0, 2)
    operands = [_data(g, *shape), given.astype(g.choice([np.int32, np.int64]))]
    operands += [_data(g, *places)] if name == "ScatterElements" else []
    return name, operands, {"axis": axis}, 1, np.full(places, -n), np.full(places, n - 1)


def _deep(g: np.random.Generator, name: str) -> Case:
    shape = g.integers(1, 5, g.integers(2, 4)).tolist()
    depth = int(g.integers(1, len(shape) + 1))
    count = int(g.integers(1, np.prod(shape[:depth]) + 1))
    flat = g.permutation(int(np.prod(shape[:depth])))[:count]
    given = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    extents = np.broadcast_to(np.array(shape[:depth]), given.shape)
    given = (given - extents * g.integers(0, 2, given.shape)).astype(np.int64)
    operands = [_data(g, *shape), given] + ([_data(g, count, *shape[depth:])] if name == "ScatterND" else [])
    return name, operands, {}, 1, -extents, extents - 1


def _loss(g: np.random.Generator, name: str) -> Case:
    classes, count = int(g.integers(1, 6)), int(g.integers(1, 7))
    labels = g.integers(0, classes, count)
    return name, [_data(g, count, classes), labels], {"reduction": "sum"}, 1, labels * 0, labels * 0 + classes - 1


def _reverse(g: np.random.Generator, name: str) -> Case:
    time, batch = int(g.integers(1, 6)), int(g.integers(1, 4))
    lengths = g.integers(1, time + 1, batch)
    return name, [_data(g, time, batch, 2), lengths], {}, 1, lengths * 0, lengths * 0 + time


CASES: Mapping[str, Callable[[np.random.Generator, str], Case]] = {
    "Gather": _axis,
    "GatherElements": _axis,
    "ScatterElements": _axis,
    "GatherND": _deep,
    "ScatterND": _deep,
    "NegativeLogLikelihoodLoss": _loss,
    "SoftmaxCrossEntropyLoss": _loss,
    "ReverseSequence": _reverse,
}


def _spoiled(g: np.random.Generator, case: Case) -> tuple[list[np.ndarray], str]:
    """The operands with one position outside, and what an error says of it."""
    name, operands, _, at, low, high = case
    wrong = operands[at].copy()
    info = np.iinfo(wrong.dtype)
    k = int(g.integers(wrong.size))
    lowest, highest = int(low.flat[k]), int(high.flat[k])
    found = int(g.choice([lowest - 1, highest + 1, -(10**9), 10**9, info.min, info.max]))
    wrong.flat[k] = found
    said = f"{name}, operand {at}: expected positions from {lowest} to {highest}, found {max(found, -(2**63) + 1)}"
    return [*operands[:at], wrong, *operands[at + 1 :]], said


def _reference(case: Case) -> np.ndarray:
    name, operands, attributes, *_ = case
    helper = onnx.helper
    names = [f"x{k}" for k in range(len(operands))]
    kinds = [helper.np_dtype_to_tensor_dtype(x.dtype) for x in operands]
    values = [helper.make_tensor_value_info(n, k, x.shape) for n, k, x in zip(names, kinds, operands, strict=True)]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(name, names, ["y"], **attributes)], "g", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return ReferenceEvaluator(model).run(None, dict(zip(names, operands, strict=True)))[0]


@pytest.mark.parametrize("name", CASES)
def test_positions_inside_and_outside_in_every_engine(name, monkeypatch, tmp_path):
    need_compiler()
    monkeypatch.setenv("REWRITE_ENGINE_CACHE", str(tmp_path))
    g = np.random.default_rng(len(name))
    cases = [CASES[name](g, name) for _ in range(10)]
    programs = [run_time(name, *operands, **attributes)[0] for _, operands, attributes, *_ in cases]
    fused = [compose(program) for program in programs]
    library = build([emit(program, f"k{n}") for n, program in enumerate(fused)])
    for n, (case, program) in enumerate(zip(cases, programs, strict=True)):
        stored = serialize.from_json(serialize.to_json(fused[n]))
        printed = nest_parser.parse(render(fused[n]))
        assert nest_parser.show(printed) == render(fused[n]) and stored.checks == fused[n].checks != ()

        expected = _reference(case)

        def in_c(operands, n=n, shape=expected.shape):
            out = [np.full(shape, 77, np.float32)]
            library.kernel(f"k{n}")(operands, out)
            return out

        engines = [
            lambda o, p=program: run(p, o, interpret),
            lambda o, p=program: run(p, o, execute),
            lambda o, p=stored: run(p, o, execute),
            lambda o, p=printed, c=fused[n].constants: nest_interpreter.run(p, o, c),
            in_c,
        ]
        wrong, said = _spoiled(g, case)
        for engine in engines:
            np.testing.assert_allclose(engine(case[1])[0], expected, rtol=1e-5, atol=1e-5)
            with pytest.raises(OutOfRange) as caught:
                engine(wrong)
            assert str(caught.value).endswith(said)


def test_ignored_labels_and_no_positions_are_right():
    scores = np.zeros((3, 2), np.float32)
    program, operands = run_time("SoftmaxCrossEntropyLoss", scores, np.array([0, -100, 1]), ignore_index=-100)
    assert run(compose(program), operands)[0] == pytest.approx(np.log(2))
    program, operands = run_time("Gather", scores, np.zeros((0, 2), np.int64))
    assert run(compose(program), operands)[0].shape == (0, 2, 2)


def test_positions_that_cannot_be_outside_are_not_checked():
    """Computed from what is known: nothing is left to do at run time."""
    text = "g (float[4,3] x) => (float[2,3] y) <int64[2] i = {-4, 3}> { y = Gather<axis=0>(x, i) }"
    (program,) = compiled(text).programs.values()
    assert program.checks == ()
    with pytest.raises(rw.RewriteError, match=r"operator Gather \(y\): expected positions from -4 to 3, found 4"):
        compiled(text.replace("-4, 3}", "-4, 4}"))


# ---------------------------------------------------------------- bundles, and what other programs call

MODEL = """g (float[5,3] x, int64[4] i) => (float[4,3] y, float[5,3] z) {
    n = Neg(x)
    y = Gather<axis=0>(n, i)
    a = Abs(y)
    u = Unsqueeze(i, k)
    z = ScatterND<reduction="add">(x, u, a)
}"""


def _bundle(**options: object) -> Bundle:
    return compiled(MODEL.replace("{\n", "<int64[1] k = {1}> {\n", 1), **options)


def _feed(*positions: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(15, dtype=np.float32).reshape(5, 3), "i": np.array(positions, np.int64)}


@needs_compiler
@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_a_bundle_names_kernel_operator_operand_and_range(engine):
    executor = _bundle().executor(engine)
    good = executor.run(_feed(0, -5, 4, 1))
    for wrong in (5, -6, 2**62):
        with pytest.raises(
            rw.RewriteError,
            match=rf"^kernel `host.Gather.1`: Gather, operand 1: expected positions from -5 to 4, found {wrong}$",
        ):
            executor.run(_feed(0, 1, wrong, 2))
    again = executor.run(_feed(0, -5, 4, 1))
    assert all(np.array_equal(good[name], again[name]) for name in good)


@needs_compiler
def test_a_stand_alone_program_says_it_and_reads_nothing_outside(tmp_path):
    bundle = _bundle(standalone=True)
    bundle.save(tmp_path / "b")
    program = tmp_path / "checked"
    command = ["gcc", *FLAGS, *SANITIZERS, str(tmp_path / "b" / SOURCE), "-o", str(program), "-lm"]
    sanitized = subprocess.run(command, check=False, capture_output=True).returncode == 0
    names = [str(tmp_path / f"{name}.npy") for name in ("x", "i", "y", "z")]
    for positions, status in (((0, -5, 4, 1), 0), ((0, 5, 1, 1), 2), ((-(2**63), 0, 0, 0), 2)):
        feed = _feed(*positions)
        np.save(names[0], feed["x"])
        np.save(names[1], feed["i"])
        for each in (tmp_path / "b" / PROGRAM, *([program] if sanitized else [])):
            arguments = [str(each), str(tmp_path / "b" / WEIGHTS), *names]
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)
            assert done.returncode == status, done.stderr
            found = "" if not status else ", operand 1: expected positions from -5 to 4, found "
            assert found in done.stderr and done.stderr.count("\n") == (status != 0)
            assert status == 0 or "kernel " in done.stderr


class _Tensor(ctypes.Structure):
    """DLPack's tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _Any(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("padding", ctypes.c_uint32), ("pointer", ctypes.c_void_p))


LISTENER = """
static const char *said;
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { (void)kind, said = message; }
void TVMAPISetLastError(const char *message) { said = message; }
const char *heard(void) { return said; }
"""


@pytest.fixture(scope="module")
def ears(tmp_path_factory):
    """What the libraries of both ABIs call with a message, in this process."""
    folder = tmp_path_factory.mktemp("listener")
    (folder / "listener.c").write_text(LISTENER)
    command = ["cc", "-shared", "-fPIC", "-o", str(folder / "listener.so"), str(folder / "listener.c")]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "listener.so"), mode=ctypes.RTLD_GLOBAL)
    library.heard.restype = ctypes.c_char_p
    return library


@needs_compiler
@pytest.mark.parametrize("abi", ["ffi", "packed"])
def test_the_abis_hand_the_message_on(abi, ears, tmp_path):
    bundle = compiled("g (float[5,3] x, int64[4] i) => (float[4,3] y) { y = Gather<axis=0>(x, i) }", abi=abi)
    bundle.save(tmp_path / "b")
    library = ctypes.CDLL(str(tmp_path / "b" / "lib" / "kernels.so"))
    (symbol,) = bundle.functions

    def call(*positions: int) -> tuple[int, np.ndarray]:
        feed, out = _feed(*positions), np.full((4, 3), 77, np.float32)
        arrays = [feed["x"], feed["i"], out]
        shapes = [(ctypes.c_int64 * a.ndim)(*a.shape) for a in arrays]
        tensors = [
            _Tensor(a.ctypes.data, (1, 0), a.ndim, 0 if a.dtype.kind == "i" else 2, a.itemsize * 8, 1,
                    ctypes.addressof(s), None, 0)
            for a, s in zip(arrays, shapes, strict=True)
        ]  # fmt: skip
        if abi == "ffi":
            given = (_Any * 3)(*(_Any(7, 0, ctypes.addressof(t)) for t in tensors))
            return getattr(library, f"__tvm_ffi_{symbol}")(None, given, 3, None), out
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(t) for t in tensors))
        return getattr(library, symbol)(pointers, (ctypes.c_int32 * 3)(7, 7, 7), 3, None, None, None), out

    status, out = call(0, -1, 4, 2)
    assert status == 0 and np.array_equal(out, _feed()["x"][[0, -1, 4, 2]])
    status, _ = call(0, -1, 4, 9)
    said = f"kernel {symbol}: Gather, operand 1: expected positions from -5 to 4, found 9"
    assert status == -1 and ears.heard().decode() == said
