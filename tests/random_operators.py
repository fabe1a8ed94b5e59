"""Random models of one operator, from ONNX's node tests: other dtypes and elements, other shapes where these are free.

In: a seed. Out: trials; a verdict for each from ONNX Runtime and ONNX's reference evaluator. Operands that the operator
reads as shapes, axes or positions stay as the case has them, so that the model stays valid.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_node_cases import OPSET, UNITS, all_cases, assert_close, program_of, run_model

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops import execute
from rewrite_engine.loops.build import NeedsValue, Unsupported
from rewrite_engine.loops.build_c import build
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import is_float, numpy_dtype
from rewrite_engine.loops.emit_c import emit, host_operators
from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.operators import find
from rewrite_engine.operators.dtypes import DTYPE_CODES
from rewrite_engine.operators.facts import Operator
from rewrite_engine.testing.onnx_backend import outputs_of

Array = np.ndarray[Any, Any]

FIXED = frozenset({
    "Constant", "ConstantOfShape", "Range", "If", "Loop", "Scan", "Compress", "NonMaxSuppression", "Unique", "EyeLike",
    "BlackmanWindow", "HannWindow", "HammingWindow", "RoiAlign", "AffineGrid", "GridSample", "MaxUnpool", "Col2Im",
    "ReverseSequence", "Shape", "Size", "OneHot",
})  # fmt: skip
"""Operators whose operands hang on each other or decide everything: their elements stay, their dtypes change."""

POSITIVE = frozenset({"Log", "Sqrt", "Pow", "Acosh", "BatchNormalization", "ReduceLogSum"})
"""Operators that get positive elements half of the time."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A model of one operator and its inputs; `dtype` is that of the first operand."""

    op: str
    dtype: str
    model: onnx.ModelProto
    feeds: Mapping[str, Array]

    def shown(self) -> str:
        """One line: operator, attributes, operands."""
        node = self.model.graph.node[0]
        attributes = ", ".join(f"{a.name}={helper.get_attribute_value(a)!r}"[:60] for a in node.attribute)
        operands = ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.feeds.values())
        return f"{self.op}({operands}; {attributes})"


@dataclass(frozen=True, slots=True)
class Outcome:
    """ "agrees" (with each oracle that ran), "differs" (from each), "split" (from one), "alone" (no oracle ran),
    "refused" (by the engine) or "broke"; `reason` says what differs, by oracle."""

    trial: Trial
    kind: str
    reason: str = ""


@cache
def bases() -> Mapping[str, Sequence[tuple[onnx.NodeProto, tuple[Array, ...]]]]:
    """Node and inputs of each node test of one operator with a compute that means the same at opset 23."""
    found: dict[str, list[tuple[onnx.NodeProto, tuple[Array, ...]]]] = {}
    for case in all_cases():
        (node, *more), version = case.model.graph.node, case.model.opset_import[0].version
        if more or node.domain or node.op_type not in OPERATORS or case.name.endswith("_expanded"):
            continue
        operator = find(node.op_type)
        if (
            operator is None
            or _since(node.op_type, version) < _since(node.op_type, OPSET)
            or case.model.graph.initializer
        ):
            continue
        if {a.name for a in node.attribute} - operator.attributes.keys():
            continue
        inputs = [numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in case.data_sets[0][0]]
        arrays = tuple(np.asarray(x) for x in inputs if x is not None and not isinstance(x, (list, tuple, dict)))
        names = [name for name in node.input if name]
        if (
            len(arrays) == len(names)
            and all(x.dtype.kind not in "OUS" for x in arrays)
            and _allowed(operator, node, arrays)
        ):
            found.setdefault(node.op_type, []).append((node, arrays))
    return found


def trials(seed: int, count: int) -> Iterator[Trial]:
    """`count` trials: operators in turn, then their dtypes in turn, the rest at random."""
    generator = np.random.default_rng(seed)
    names = sorted(bases())
    for number in range(count):
        op = names[number % len(names)]
        node, arrays = bases()[op][generator.integers(len(bases()[op]))]
        trial = _vary(op, node, arrays, number // len(names), generator)
        if trial is not None:
            yield trial


def _vary(
    op: str, node: onnx.NodeProto, arrays: tuple[Array, ...], turn: int, generator: np.random.Generator
) -> Trial | None:
    operator = find(op)
    assert operator is not None
    names = [name for name in node.input if name]
    formals = [operator.input(k) for k, name in enumerate(node.input) if name]
    positions = [k for k, name in enumerate(node.input) if name]
    variable = formals[0].type if formals and formals[0] is not None else ""
    options = dtypes_of(op) if formals else []
    dtype = options[turn % len(options)] if options else (arrays[0].dtype.name if arrays else "float32")
    shapes = _shapes(operator, arrays, generator)
    feeds: dict[str, Array] = {}
    for name, position, formal, array, shape in zip(names, positions, formals, arrays, shapes, strict=True):
        same = formal is not None and formal.type == variable
        own = dtype if same else array.dtype.name
        free = same or is_float(own) or operator.pointwise
        fixed = position in operator.host_inputs or not free or op in FIXED
        try:
            feeds[name] = array.astype(numpy_dtype(own)) if fixed else elements(op, shape, own, generator)
        except (TypeError, ValueError):
            return None
    graph = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info(n, DTYPE_CODES[x.dtype.name], x.shape) for n, x in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return Trial(op, dtype, model, feeds)


def dtypes_of(op: str) -> list[str]:
    """The dtypes of an operator's first operand that are tried."""
    operator = find(op)
    first = operator.input(0) if operator is not None else None
    return [d for d in (first.dtypes if first is not None else ()) if _plain(d)]


def _shapes(operator: Operator, arrays: tuple[Array, ...], generator: np.random.Generator) -> list[tuple[int, ...]]:
    """The case's own shapes; for pointwise operators, others that broadcast."""
    if not operator.pointwise:
        return [array.shape for array in arrays]
    whole = tuple(int(n) for n in generator.integers(0, 5, generator.integers(0, 5)))
    shapes = [
        tuple(1 if generator.random() < 0.2 else n for n in whole[generator.integers(len(whole) + 1) :]) for _ in arrays
    ]
    shapes[0] = whole
    return [shape if array.ndim or k == 0 else () for k, (shape, array) in enumerate(zip(shapes, arrays, strict=True))]


def elements(op: str, shape: tuple[int, ...], dtype: str, generator: np.random.Generator) -> Array:
    """Random elements: normal or wide floats, small or extreme integers."""
    if dtype == "bool":
        return generator.random(shape) < 0.5
    if is_float(dtype):
        values = generator.standard_normal(shape) * generator.choice([0.3, 1.0, 5.0])
        if op in POSITIVE and generator.random() < 0.5:
            values = np.abs(values)
        return values.astype(numpy_dtype(dtype))
    low, high = (0, 7) if dtype.startswith("uint") else (-6, 7)
    if dtype in ("int2", "uint2"):
        low, high = max(low, -2), 1
    values = generator.integers(low, high, shape)
    if op in ("Div", "Mod"):
        values = np.where(values == 0, 1, values)
    return np.asarray(values).astype(numpy_dtype(dtype))


def run(trial: Trial) -> Outcome:
    """The engine, as built and composed, and both oracles on the trial."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            built, composed = run_model(trial.model, trial.feeds)
            for a, b in zip(built, composed, strict=True):
                assert_close(b, a, 1e-5, 1e-6)
        except (Unsupported, RewriteError, NeedsValue) as refusal:
            return Outcome(trial, "refused", str(refusal))
        except AssertionError as difference:
            return Outcome(trial, "broke", f"composed differs: {' '.join(str(difference).split())[:160]}")
        except Exception as failure:  # a defect, reported with the trial
            return Outcome(trial, "broke", f"{type(failure).__name__}: {failure}"[:160])
        reasons, agreed = [], 0
        for name, oracle in (("runtime", _runtime), ("reference", _reference)):
            try:
                expected = oracle(trial)
            except Exception:  # it does not have the operator, or not with this dtype
                continue
            try:
                for found, wanted in zip(built, expected, strict=False):
                    _compare(found, np.asarray(wanted))
                agreed += 1
            except AssertionError as difference:
                reasons.append(f"{name}: {' '.join(str(difference).split())[:160]}")
    if not reasons:
        return Outcome(trial, "agrees" if agreed else "alone")
    return Outcome(trial, "split" if agreed else "differs", "; ".join(reasons))


CORNERS = (
    "AveragePool", "Concat", "Conv", "CumSum", "Expand", "Gather", "LSTM", "MatMul", "MaxPool", "Pad", "ReduceSum",
    "Resize", "Slice", "Split", "Tile", "Transpose",
)  # fmt: skip
"""Operators that move and reduce: their index maps have the corners."""


def with_corners(count: int, seed: int = 5) -> list[tuple[Program, list[Array]]]:
    """Programs of such operators, from node tests with other elements, and their inputs."""
    generator = np.random.default_rng(seed)
    found: list[tuple[Program, list[Array]]] = []
    while len(found) < count:
        op = CORNERS[len(found) % len(CORNERS)]
        node, arrays = bases()[op][generator.integers(len(bases()[op]))]
        trial = _vary(op, node, arrays, 0, generator)
        if trial is not None:
            feeds = [np.asarray(x, order="C") for x in trial.feeds.values()]
            found.append((program_of(trial.model, trial.feeds), feeds))
    return found


def run_in_c(found: Iterable[Trial], batch: int = 300) -> Iterator[Outcome]:
    """The trials in C against the NumPy executor: "agrees" or "broke"; "refused" where the engine has no loop nest."""
    waiting: list[tuple[Trial, Program, list[Array]]] = []
    for trial in found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                program = compose(program_of(trial.model, trial.feeds))
                waiting.append((trial, program, [np.asarray(x, order="C") for x in trial.feeds.values()]))
            except (Unsupported, RewriteError, NeedsValue) as refusal:
                yield Outcome(trial, "refused", str(refusal))
        if len(waiting) == batch:
            yield from _in_c(waiting)
            waiting = []
    yield from _in_c(waiting)


def _in_c(runs: Sequence[tuple[Trial, Program, list[Array]]]) -> Iterator[Outcome]:
    nests = {k: program for k, (_, program, _) in enumerate(runs) if not host_operators(program)}
    library = build([emit(program, f"k{k}") for k, program in nests.items()]) if nests else None
    for k, (trial, program, arrays) in enumerate(runs):
        if library is None or k not in nests:
            yield Outcome(trial, "refused", f"host operators: {', '.join(host_operators(program))}")
            continue
        expected, found = ([np.full(x.shape, 77).astype(x.dtype) for x in outputs_of(program)] for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                execute.run(program, arrays, expected)
                library.kernel(f"k{k}")(arrays, found)
                for a, b in zip(found, expected, strict=True):
                    _compare(a, b)
            except (AssertionError, RewriteError) as difference:
                yield Outcome(trial, "broke", f"in C: {' '.join(str(difference).split())[:160]}")
                continue
        yield Outcome(trial, "agrees")


def _compare(found: Array, wanted: Array) -> None:
    """Narrow floats may differ by rounding in another order: four units at the largest magnitude."""
    if found.dtype.name.startswith("float8") and wanted.dtype == np.uint8:  # ONNX Runtime hands out the bytes
        wanted = wanted.view(found.dtype)
    unit = 4 * UNITS.get(found.dtype.name, 0.0)
    largest = float(np.max(np.abs(np.nan_to_num(wanted.astype(np.float64), posinf=0, neginf=0)), initial=0))
    assert_close(found, wanted, max(1e-3, unit), max(1e-5, unit * largest))


def _runtime(trial: Trial) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = trial.model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(trial.feeds)))


def _reference(trial: Trial) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(trial.model).run(None, dict(trial.feeds)))


def _plain(dtype: str) -> bool:
    return dtype in DTYPE_CODES and dtype not in ("string", "complex64", "complex128", "float8_e8m0fnu")


def _allowed(operator: Operator, node: onnx.NodeProto, arrays: tuple[Array, ...]) -> bool:
    formals: list[Any] = [operator.input(k) for k, name in enumerate(node.input) if name]
    return all(f is not None and x.dtype.name in f.dtypes for f, x in zip(formals, arrays, strict=True))


def _since(op: str, version: int) -> int:
    try:
        return int(onnx.defs.get_schema(op, version, "").since_version)
    except onnx.defs.SchemaError:
        return -1
