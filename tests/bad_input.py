"""Models that were broken on purpose, and programs that read at positions outside of their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import onnx_node_cases

from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.operators import operator_compute
from rewrite_engine.operators import TensorType, effective_attributes

BAD = (-7, -1, 0, 1, 2, 9, 50)
"""What a number is replaced by."""

Broken = tuple[str, onnx.ModelProto, list[np.ndarray]]
"""What was done, the model, its inputs."""


def broken_models(seed: int, count: int) -> Iterator[Broken]:
    """Node tests with one number of an attribute or of an operand, or one shape, changed."""
    generator = np.random.default_rng(seed)
    cases = [
        case
        for case in onnx_node_cases.all_cases()
        if len(case.model.graph.node) == 1 and not case.name.endswith("_expanded") and case.data_sets[0][0]
    ]
    made = 0
    while made < count:
        case = cases[generator.integers(len(cases))]
        found = _broken(case, generator)
        if found is not None:
            made += 1
            yield found


def _broken(case, generator: np.random.Generator) -> Broken | None:
    inputs = case.data_sets[0][0]
    if any(x is None or isinstance(x, (list, tuple, dict)) for x in inputs):
        return None
    arrays = [onnx_node_cases._array(x) for x in inputs]
    if any(x.dtype.kind in "OUST" for x in arrays):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    numbers = [
        a for a in model.graph.node[0].attribute if a.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS)
    ]
    whole = [k for k, x in enumerate(arrays) if x.dtype.kind in "iu" and x.size]
    long = [k for k, x in enumerate(arrays) if x.ndim]
    kind = generator.random()
    if kind < 0.4 and numbers:
        return f"{case.name}: {_attribute(generator.choice(numbers), generator)}", model, arrays
    if kind < 0.8 and whole:
        k = generator.choice(whole)
        arrays[k] = arrays[k].copy()
        least = 0 if arrays[k].dtype.kind == "i" else 2
        arrays[k].reshape(-1)[generator.integers(arrays[k].size)] = generator.choice(BAD[least:])
        return f"{case.name}: operand {k} is {arrays[k].reshape(-1)[:8].tolist()}", model, arrays
    if not long:
        return None
    k = generator.choice(long)
    axis, x = generator.integers(arrays[k].ndim), arrays[k]
    cut = np.take(x, range(generator.integers(0, x.shape[axis] + 1)), axis)
    arrays[k] = np.ascontiguousarray((cut, x[None], x[0] if len(x) else x)[generator.integers(3)])
    return f"{case.name}: operand {k} is {x.dtype}{list(arrays[k].shape)}", model, arrays


def _attribute(attribute: onnx.AttributeProto, generator: np.random.Generator) -> str:
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = int(generator.choice(BAD))
        return f"{attribute.name} is {attribute.i}"
    values = list(attribute.ints)
    if values and generator.random() < 0.7:
        values[generator.integers(len(values))] = int(generator.choice(BAD))
    else:
        values = values[:-1] if generator.random() < 0.5 else [*values, int(generator.choice(BAD))]
    del attribute.ints[:]
    attribute.ints.extend(values)
    return f"{attribute.name} is {values}"


def run_time(op: str, *arrays: np.ndarray, **attributes: object) -> tuple[Program, list[np.ndarray]]:
    """The program of an operator that knows none of its operands at compile time, and the operands."""
    builder = Builder()
    tensors = [builder.input(array.shape, array.dtype.name) for array in arrays]
    types = [TensorType(tensor.dtype, tensor.shape) for tensor in tensors]
    builder.enter(op, tensors)
    results = operator_compute(op)(builder, tensors, effective_attributes(op, attributes, types))
    return builder.program(list(results)[:1]), list(arrays)


def outside() -> list[tuple[Program, list[np.ndarray]]]:
    """Reads and writes at positions that are only known at run time, and outside: what happens without the checks."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((3, 5, 40)).astype(np.float32)
    far = np.array([0, -1, 7, 10**9, -(10**9), 2**31 - 1, -(2**31), 2], np.int64)
    rows = np.array([[far[k % 8], far[(k + 3) % 8]] for k in range(8)])
    spread = np.resize(far, (3, 5, 40))
    ones = np.ones((8, 40), np.float32)
    programs = [
        *(run_time("Gather", x, far, axis=axis) for axis in (0, 1, 2)),
        *(run_time("GatherElements", x, spread, axis=axis) for axis in (0, 1, 2)),
        run_time("GatherND", x, rows),
        *(run_time("ScatterElements", x, spread, x, axis=axis) for axis in (0, 2)),
        run_time("ScatterElements", x, spread, x, axis=1, reduction="add"),
        run_time("ScatterND", x, rows, ones, reduction="none"),
        run_time("ScatterND", x, rows, ones, reduction="max"),
    ]
    return [(replace(program, checks=()), arrays) for program, arrays in programs]
