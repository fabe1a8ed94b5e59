"""Help for the tests of emitted C: many programs in one library, compared with the NumPy executor.

Sums differ in the order they are taken in, and exp, tanh and the like by a few units in the last place: floats are
compared at 2e-5 relative and at 2e-6 of the largest magnitude, those of 16 bits at two units of theirs; integers and
booleans are equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from rewrite_engine.loops import execute
from rewrite_engine.loops.build import Builder
from rewrite_engine.loops.build_c import Library, NoCompiler, build, find_compiler
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c import emit
from rewrite_engine.loops.operators import operator_compute
from rewrite_engine.operators import TensorType, effective_attributes

UNITS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def need_compiler() -> None:
    """Skips the test where there is no C compiler."""
    try:
        find_compiler()
    except NoCompiler as error:
        pytest.skip(str(error), allow_module_level=True)


def run_numpy(program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs by the NumPy executor."""
    outputs = [np.empty(program.tensors[n].shape, numpy_dtype(program.tensors[n].dtype)) for n in program.outputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        execute.run(program, inputs, outputs)
    return outputs


def run_c(library: Library, symbol: str, inputs: Sequence[np.ndarray], like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs by the kernel, into arrays that held garbage."""
    outputs = [np.full(array.shape, 77).astype(array.dtype) for array in like]
    library.kernel(symbol)(inputs, outputs)
    return outputs


def assert_same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Equal up to rounding; NaN where NaN is."""
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        unit = UNITS.get(b.dtype.name)
        if unit is None:
            wide = np.float32 if b.dtype.name.startswith("float") else None
            np.testing.assert_array_equal(a.astype(wide) if wide else a, b.astype(wide) if wide else b)
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        largest = float(np.max(np.abs(y[np.isfinite(y)]), initial=0))
        tolerance = max(2e-5, 2 * unit)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=max(2e-6, unit if unit > 1e-6 else 0) * max(largest, 1))


def check(
    programs: Sequence[tuple[Program, Sequence[np.ndarray]]],
    flags: Sequence[str] = (),
    lanes: int = 16,
    **options: object,
) -> Library:
    """Every program, as it is and composed, in C: twice the result of the NumPy executor."""
    sources = []
    for number, (program, _) in enumerate(programs):
        sources.append(emit(program, f"plain{number}", lanes=lanes))
        sources.append(emit(compose(program), f"composed{number}", lanes=lanes))
    library = build(sources, flags=flags, **options)  # type: ignore[arg-type]
    for number, (program, inputs) in enumerate(programs):
        expected = run_numpy(program, inputs)
        for symbol in (f"plain{number}", f"composed{number}"):
            for _ in range(2):
                assert_same(run_c(library, symbol, inputs, expected), expected)
    return library


def node(
    op: str, *arrays: np.ndarray, outputs: int = 1, attributes: Mapping[str, object] | None = None
) -> tuple[Program, list[np.ndarray]]:
    """The program of one operator and its inputs."""
    builder = Builder()
    tensors = [builder.input(array.shape, array.dtype.name, known=array) for array in arrays]
    types = [TensorType(tensor.dtype, tensor.shape) for tensor in tensors]
    results = operator_compute(op)(builder, tensors, effective_attributes(op, dict(attributes or {}), types))
    return builder.program(list(results)[:outputs]), list(arrays)
