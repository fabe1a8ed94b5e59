"""Comparison of a bundle with ONNX Runtime on random inputs: the one place of the backend that runs a model elsewhere.

In: a bundle and the ONNX model it came from. Out: the largest error per output. A check that cannot fail is no check,
so the reference outputs of the two seeds must differ by far more than the tolerance, and the bundle runs twice per
seed, to equal bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.diagnostics import RewriteError

TOLERANCE = 1e-4
"""Of what computes in float32 or finer, relative to the largest magnitude of an output."""

SIGMOID = 4 * 2.0**-24
"""Of results of a Sigmoid, absolute: ONNX Runtime adds 1/2 to an odd function, so that its results are off by a few
spacings of floats near 1/2 however small they are. Where all are next to 0, that is much of their magnitude, and the
seeds must then differ by as much more, or the check proves nothing."""

SPACINGS = 4.0
"""Of a model with narrower floats: this many of their spacings (float16: 4 * 2**-10 = 3.9e-3)."""

STEPS = 4.0
"""Of a quantised model: this many quantisation steps of the output. Where sums in another order lie on the other side
of half a step, an inner value moves by one, and a few steps of that may reach the output: ONNX Runtime with and without
its optimisations differs by as much from itself. An output without a constant scale of its own is taken as quantised to
8 bits, a step being its range / 255."""

SEPARATION = 100.0
"""Outputs of two seeds must differ by at least this many times the tolerance of float32 …"""

ROUGH_SEPARATION = 4.0
"""… and by this many times their own, where that is wider."""


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One output for one seed (None: the inputs given).

    `error` is relative to the reference's largest magnitude, and so are `allowed` and `step`, the quantisation step of
    the output (0 where the model is not quantised).
    """

    output: str
    seed: int | None
    error: float
    magnitude: float
    repeatable: bool  # both runs of the bundle gave the same bits
    allowed: float = TOLERANCE
    step: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`separations` say, per output, how far the references of the two seeds are apart, relative to their magnitude.

    An output that no input can change (a constant, one without elements) has none. `tolerance` is the widest that an
    output was allowed.
    """

    checks: tuple[OutputCheck, ...]
    separations: Mapping[str, float]
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether every output is right, repeatable, and tells the seeds apart."""
        return not self.problems

    @property
    def agrees(self) -> bool:
        """Whether every output is right and repeatable; on what cannot tell right from wrong, it is not yet `ok`."""
        return all(check.error <= check.allowed and check.repeatable for check in self.checks)

    @property
    def largest_error(self) -> float:
        return max((check.error for check in self.checks), default=0.0)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, one sentence each."""
        found = []
        for check in self.checks:
            where = f"output `{check.output}`" + ("" if check.seed is None else f", seed {check.seed}")
            if not check.error <= check.allowed:
                message = f"expected an error of at most {check.allowed:g}, found {check.error:g}"
                found.append(f"{where}: {message}{f' ({check.error / check.step:.1f} steps)' if check.step else ''}")
            if not check.repeatable:
                found.append(f"{where}: expected the same bits in both runs, found a difference")
        for output, separation in self.separations.items():
            allowed = max((check.allowed for check in self.checks if check.output == output), default=self.tolerance)
            needed = max(SEPARATION * min(allowed, TOLERANCE), ROUGH_SEPARATION * allowed)
            if not separation >= needed:
                message = f"expected the seeds to differ by {needed:g}, found {separation:g}"
                found.append(f"output `{output}`: {message}: the check proves nothing")
        return tuple(found)


def compare(
    bundle: Bundle,
    reference_model: bytes,
    seed: int = 0,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    tolerance: float | None = None,
    engine: str = "auto",
) -> CheckReport:
    """Run `bundle` and `reference_model` (an ONNX file's bytes) on random inputs of `seed` and `seed + 1`.

    Given `inputs`, it runs on these alone. `engine` is that of `Bundle.executor`. Without a `tolerance` (relative to an
    output's largest magnitude) it follows from the model: TOLERANCE, SPACINGS of its narrow floats, or STEPS of its
    quantisation, whichever is widest.
    Outputs are paired by position. Raises RewriteError when ONNX Runtime is not installed or refuses the model.
    """
    from rewrite_engine.graph.rounding import rounding  # imports onnx

    session, rounds = open_session(reference_model), rounding(reference_model)
    seeds: Sequence[int | None] = (None,) if inputs is not None else (seed, seed + 1)
    executor = bundle.executor(engine)
    names = list(bundle.outputs)
    checks: list[OutputCheck] = []
    references = []
    for current in seeds:
        feed = dict(inputs) if inputs is not None else random_inputs(bundle.inputs, current or 0)
        first, second = executor.run(feed), executor.run(feed)
        reference = run_session(session, feed, len(names))
        references.append(reference)
        for position, (name, expected) in enumerate(zip(names, reference, strict=True)):
            error, magnitude = relative_error(first[name], expected)
            repeatable = first[name].tobytes() == second[name].tobytes()
            step = rounds.step(position, expected) / magnitude if magnitude else 0.0
            least = SIGMOID / magnitude if magnitude and position in rounds.sigmoids else 0.0
            allowed = max(TOLERANCE, SPACINGS * rounds.spacing, STEPS * step, least) if tolerance is None else tolerance
            checks.append(OutputCheck(name, current, error, magnitude, repeatable, allowed, step))
    separations = {}
    if len(references) == 2:
        pairs = zip(names, *references, strict=True)
        still = bundle.constant_outputs
        separations = {n: relative_error(one, other)[0] for n, one, other in pairs if n not in still and other.size}
    return CheckReport(tuple(checks), separations, max((check.allowed for check in checks), default=TOLERANCE))


def relative_error(found: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Largest difference over the largest finite magnitude of `expected`, and that magnitude.

    NaN and infinities must be in the same places; otherwise, and where types or shapes differ, the error is infinite.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf"), 0.0
    if found.size == 0:
        return 0.0, 0.0
    one, other = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(other)
    magnitude = float(np.abs(other[finite]).max(initial=0.0))
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return float("inf"), magnitude
    difference = float(np.abs(one[finite] - other[finite]).max(initial=0.0))
    if difference == 0.0:
        return 0.0, magnitude
    return (difference / magnitude if magnitude else float("inf")), magnitude


def open_session(model: bytes) -> Any:
    """ONNX Runtime with the model, graph optimisation off. Raises RewriteError where it cannot be had."""
    try:
        import onnxruntime
    except ImportError as error:
        raise RewriteError("the check needs ONNX Runtime: install rewrite-engine[check]") from error
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises types of its own, one per status code
        raise RewriteError(f"ONNX Runtime cannot load the reference model: {error}") from error


def run_session(
    session: Any, feed: Mapping[str, np.ndarray], outputs: int, names: Sequence[str] | None = None
) -> list[np.ndarray]:
    """The named outputs (None: all, of which there are `outputs`). Raises RewriteError where the model does not run."""
    try:
        arrays = [np.asarray(array) for array in session.run(names, dict(feed))]
    except Exception as error:  # as above
        raise RewriteError(f"ONNX Runtime cannot run the reference model: {error}") from error
    if len(arrays) != outputs:
        raise RewriteError(f"the reference model has {len(arrays)} outputs, expected {outputs} as in the bundle")
    return arrays
