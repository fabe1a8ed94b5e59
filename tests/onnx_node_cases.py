"""ONNX's own node tests, and random single-node models, run through the operators' computes.

In: test cases of the `onnx` package (models of one or a few nodes, with inputs and expected outputs). Out: a verdict
for each, from the backend class of `rewrite_engine.testing.onnx_backend`.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops import execute
from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.build_c import build
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c import emit, host_operators
from rewrite_engine.loops.operators import Unsupported, operator_compute
from rewrite_engine.operators import TensorType, effective_attributes, find
from rewrite_engine.testing.onnx_backend import NumpyBackend, outputs_of

OPSET = 23
UNITS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case: "pass", "mismatch", "unsupported" or "error", and why."""

    name: str
    operators: tuple[str, ...]
    outcome: str
    reason: str = ""


@functools.cache
def all_cases() -> tuple[Any, ...]:
    """Every node test case of the installed `onnx` package."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(_defined(case) for case in load_model_tests(kind="node"))


def _defined(case: Any) -> Any:
    """The case without floats beyond the small integer that they become.

    What these become ONNX does not say, and the package's tests expect what the installed ml_dtypes makes of them.
    """
    found = re.search(r"_cast(?:like)?_B?FLOAT\d*_to_(U?)INT([24])(?:_expanded)?$", case.name)
    if found is None:
        return case
    low = 0 if found[1] else -(1 << int(found[2]) - 1)
    data_sets = []
    for (x, *others), (y,) in case.data_sets:
        given, wanted = _array(x), _array(y)
        inside = (given > low - 1) & (given < low + (1 << int(found[2])))
        kept = [
            numpy_helper.from_array(np.where(inside, a, 0).astype(a.dtype), t.name)
            for a, t in ((given, x), (wanted, y))
        ]
        data_sets.append(([kept[0], *others], [kept[1]]))
    return replace(case, data_sets=data_sets)


def operators_of(model: onnx.ModelProto) -> tuple[str, ...]:
    """The operators of a model, in order of first use; those of other domains with theirs."""
    names = (f"{n.domain}::{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type for n in model.graph.node)
    return tuple(dict.fromkeys(names))


def judge(case: Any) -> Verdict:
    """Runs every data set of a case, as built and composed, and compares at the case's own tolerances."""
    operators = operators_of(case.model)
    try:
        prepared = NumpyBackend.prepare(case.model)
        for inputs, expected in case.data_sets:
            _refuse_other_than_tensors((*inputs, *expected))
            made, feeds = prepared.specialised(inputs)
            read = {name: feeds[name] for name in made.inputs}
            for results in (_execute(made.plain, read), _execute(made.program, read)):
                for found, wanted in zip(results, expected, strict=True):
                    assert_close(found, _array(wanted), case.rtol or 1e-3, case.atol or 1e-7)
    except (Unsupported, RewriteError) as refusal:
        return Verdict(case.name, operators, "unsupported", " ".join(str(refusal).split()))
    except AssertionError as difference:
        return Verdict(case.name, operators, "mismatch", " ".join(str(difference).split())[:200])
    except Exception as failure:  # a defect: reported with the case, never hidden
        return Verdict(case.name, operators, "error", f"{type(failure).__name__}: {failure}"[:200])
    return Verdict(case.name, operators, "pass")


def judge_in_c(cases: Sequence[Any], batch: int = 300) -> list[Verdict]:
    """As `judge`, in C: the kernels of a batch in one library, each run twice into arrays that held garbage.

    A program with host operators runs in NumPy; its verdict's reason says so.
    """
    verdicts: list[Verdict] = []
    for start in range(0, len(cases), batch):
        verdicts += _judge_batch(cases[start : start + batch])
    return verdicts


def _judge_batch(cases: Sequence[Any]) -> list[Verdict]:
    found: dict[str, Verdict] = {}
    runs: list[tuple[Any, str, Program, list[Array], list[Array]]] = []
    for case in cases:
        operators = operators_of(case.model)
        try:
            prepared = NumpyBackend.prepare(case.model)
            for inputs, expected in case.data_sets:
                _refuse_other_than_tensors((*inputs, *expected))
                made, feeds = prepared.specialised(inputs)
                arrays = [np.ascontiguousarray(feeds[name]).reshape(feeds[name].shape) for name in made.inputs]
                runs.append((case, f"case{len(runs)}", made.program, arrays, [_array(y) for y in expected]))
        except (Unsupported, RewriteError) as refusal:
            found[case.name] = Verdict(case.name, operators, "unsupported", " ".join(str(refusal).split()))
    runs = [run for run in runs if run[0].name not in found]
    library = build([emit(program, symbol) for _, symbol, program, _, _ in runs if not host_operators(program)])
    for case, symbol, program, arrays, expected in runs:
        hosts = host_operators(program)
        kernel = None if hosts else library.kernel(symbol)
        reason = f"host operators ({', '.join(hosts)}) run in NumPy" if hosts else ""
        verdict = Verdict(case.name, operators_of(case.model), "pass", reason)
        try:
            for _ in range(2):
                results = [np.full(array.shape, 77).astype(array.dtype) for array in outputs_of(program)]
                if kernel is None:
                    execute.run(program, arrays, results)
                else:
                    kernel(arrays, results)
                for a, b in zip(results, expected, strict=True):
                    assert_close(a, b, case.rtol or 1e-3, case.atol or 1e-7)
        except AssertionError as difference:
            verdict = replace(verdict, outcome="mismatch", reason=" ".join(str(difference).split())[:200])
        if case.name not in found or found[case.name].outcome == "pass":  # the first that fails counts
            found[case.name] = verdict
    return [found[case.name] for case in cases]


def run_model(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> tuple[list[Array], list[Array]]:
    """The outputs of a model, each node lowered by its compute, executed in NumPy: as built, and composed."""
    program = program_of(model, feeds)
    return _execute(program, feeds), _execute(compose(program), feeds)


def program_of(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Program:
    """The program of a model, each node lowered by its compute, not composed."""
    builder = Builder()
    values: dict[str, Tensor | None] = {"": None}
    for initializer in model.graph.initializer:
        values[initializer.name] = builder.constant(numpy_helper.to_array(initializer))
    for name, array in feeds.items():
        values[name] = builder.input(array.shape, array.dtype.name, known=array)
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            raise Unsupported(f"operator {node.domain}::{node.op_type}")
        operands = _operands(node, values)
        attributes = _attributes(node)
        _refuse_later_opsets(node, operands, attributes)
        types = [None if t is None else TensorType(t.dtype, t.shape) for t in operands]
        attributes = effective_attributes(node.op_type, attributes, types)
        results = operator_compute(node.op_type)(builder, operands, attributes)
        values.update({name: result for name, result in zip(node.output, results, strict=False) if name})
    wanted = [tensor for value in model.graph.output if (tensor := values[value.name]) is not None]
    return builder.program(wanted)


def _execute(program: Program, feeds: Mapping[str, Array]) -> list[Array]:
    buffers = [program.tensors[name] for name in program.outputs]
    results = [np.empty(buffer.shape, numpy_dtype(buffer.dtype)) for buffer in buffers]
    execute.run(program, list(feeds.values()), results)
    return results


def run_node(
    op: str, feeds: Sequence[Array | None], outputs: int = 1, **attributes: Any
) -> tuple[list[Array], list[Array]]:
    """One operator on arrays, through its compute: as built, and composed."""
    model = node_model(op, feeds, outputs, **attributes)
    return run_model(model, {f"x{i}": x for i, x in enumerate(feeds) if x is not None})


def reference(op: str, feeds: Sequence[Array | None], outputs: int = 1, **attributes: Any) -> list[Array]:
    """The same by ONNX's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    model = node_model(op, feeds, outputs, **attributes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            np.asarray(y)
            for y in ReferenceEvaluator(model).run(None, {f"x{i}": x for i, x in enumerate(feeds) if x is not None})
        ]


def runtime(op: str, feeds: Sequence[Array | None], outputs: int = 1, **attributes: Any) -> list[Array]:
    """The same by ONNX Runtime."""
    import onnxruntime

    model = node_model(op, feeds, outputs, **attributes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {f"x{i}": x for i, x in enumerate(feeds) if x is not None}))


def node_model(op: str, feeds: Sequence[Array | None], outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    """A model of one node whose inputs have the types of the arrays."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(feeds)]
    results = [f"y{i}" for i in range(outputs)]
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, feeds, strict=True)
        if x is not None
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        op,
        typed,
        [helper.make_empty_tensor_value_info(name) for name in results],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def assert_close(found: Array, wanted: Array, rtol: float, atol: float) -> None:
    """The same dtype and shape, and values within the tolerances; NaN equals NaN, and integers are equal.

    Floats may always differ by rounding: two units in the last place of their dtype, and one unit of float32 at the
    largest magnitude (expected values are themselves sums with rounding errors).
    """
    assert found.dtype == wanted.dtype, f"dtype {found.dtype}, expected {wanted.dtype}"
    assert found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape}"
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.name in UNITS and wanted.size:
        magnitudes = np.abs(_comparable(wanted))
        rtol = max(rtol, 2 * UNITS[wanted.dtype.name])
        atol = max(atol, UNITS["float32"] * float(np.max(magnitudes[np.isfinite(magnitudes)], initial=0)))
    np.testing.assert_allclose(_comparable(found), _comparable(wanted), rtol=rtol, atol=atol)


def _comparable(array: Array) -> Array:
    """Small floats and small ints in a dtype that NumPy compares."""
    plain = array.dtype.kind in "biu" or array.dtype.name in ("float32", "float64", "complex64", "complex128")
    return array if plain and array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _refuse_later_opsets(node: onnx.NodeProto, operands: Sequence[object], attributes: Mapping[str, object]) -> None:
    operator = find(node.op_type)
    if operator is None:
        raise Unsupported(f"operator {node.op_type}, which opset {OPSET} does not have")
    later = sorted(attributes.keys() - operator.attributes.keys())
    if later:
        raise Unsupported(f"{node.op_type} with {', '.join(later)}, which opset {OPSET} does not have")
    if operator.max_inputs is not None and len(operands) > operator.max_inputs:
        raise Unsupported(f"{node.op_type} with {len(operands)} inputs, which opset {OPSET} does not have")


def _operands(node: onnx.NodeProto, values: Mapping[str, Tensor | None]) -> list[Tensor | None]:
    operands = [values[name] for name in node.input]
    while operands and operands[-1] is None:
        operands.pop()
    return operands


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    attributes: dict[str, object] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == onnx.AttributeProto.TENSOR:
            value = numpy_helper.to_array(value)
        elif attribute.type == onnx.AttributeProto.GRAPH:
            raise Unsupported(f"operator {node.op_type} with a subgraph")
        elif attribute.type == onnx.AttributeProto.STRINGS:
            value = tuple(text.decode() for text in value)
        attributes[attribute.name] = value
    return attributes


def _refuse_other_than_tensors(values: Sequence[Any]) -> None:
    for value in values:
        if value is None or isinstance(value, (list, tuple, dict)):
            raise Unsupported("sequences and optionals")
        if _array(value).dtype.kind in "OUST":
            raise Unsupported("strings")


def _array(value: Any) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
