"""Comparison kernel by kernel: the first whose result differs from what ONNX Runtime has for the same value.

In: a bundle and the ONNX model it came from. Out: an error per kernel result that is a value of that model (what rules
introduced is not, and is left out). ONNX Runtime runs the model once, with those values as outputs beside its own.
Every kernel is given ONNX Runtime's values, so that errors do not add up over a deep model and a code that one kernel
rounds the other way is no fault of the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.check import SPACINGS, TOLERANCE, open_session, relative_error, run_session
from rewrite_engine.backend.graph_reader import read_graph
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.runtime import StepTime
from rewrite_engine.diagnostics import RewriteError

_CODES = (np.dtype(np.uint8), np.dtype(np.int8))


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """A result of a kernel against the model's value of that name; `error` is relative to its largest magnitude.

    So is `allowed`: one code for results of 8 bits in a quantised model.
    """

    kernel: str
    rule: str
    value: str
    error: float
    magnitude: float
    ran: str
    allowed: float = TOLERANCE


@dataclass(frozen=True, slots=True)
class EachReport:
    """`checks` are in the order in which the kernels run; `kernels` counts all, `compared` those with a check.

    `tolerance` is that of values in float32 or finer.
    """

    checks: tuple[KernelCheck, ...]
    kernels: int
    tolerance: float

    @property
    def compared(self) -> int:
        """How many kernels have a result that is a value of the model."""
        return len({check.kernel for check in self.checks})

    @property
    def first(self) -> KernelCheck | None:
        """The first result that differs by more than is allowed."""
        return next((check for check in self.checks if not check.error <= check.allowed), None)


def compare_each(
    bundle: Bundle,
    reference_model: bytes,
    seed: int = 0,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    tolerance: float | None = None,
    engine: str = "auto",
) -> EachReport:
    """Run `bundle` and `reference_model` (an ONNX file's bytes) on random inputs of `seed`, or on `inputs`.

    `engine` is that of `Bundle.executor`; without a `tolerance` it follows from the model's rounding. Raises
    RewriteError when ONNX Runtime is not installed or refuses the model.
    """
    from rewrite_engine.graph.rounding import rounding  # imports onnx

    graph, problems = read_graph(bundle.graph)
    if graph is None:
        raise RewriteError("graph.json: " + "; ".join(problems))
    kernels = [node for node in graph.nodes if node.kind == "kernel"]
    rules = {node.name: str(node.facts.get("rule")) for node in kernels}
    wanted = [graph.entries[entry].name for node in kernels for entry in node.outputs]
    model, names = _with_outputs(reference_model, wanted)
    feed = dict(inputs) if inputs is not None else random_inputs(bundle.inputs, seed)
    reference = dict(zip(names, run_session(open_session(model), feed, len(names)), strict=True))
    rounds = rounding(reference_model)
    checks: list[KernelCheck] = []

    def observe(step: StepTime, results: Mapping[str, np.ndarray]) -> None:
        for value, found in results.items():
            if value in reference:
                expected = reference[value]
                error, magnitude = relative_error(found, expected)
                code = 1 / magnitude if rounds.quantised and expected.dtype in _CODES and magnitude else 0.0
                allowed = max(TOLERANCE, SPACINGS * rounds.spacing, code, _least(expected, magnitude))
                allowed = allowed if tolerance is None else tolerance
                checks.append(KernelCheck(step.name, rules[step.name], value, error, magnitude, step.ran, allowed))
                if error < float("inf"):  # shapes and dtypes agree
                    found[...] = expected

    bundle.executor(engine).run(feed, observe)
    return EachReport(tuple(checks), len(kernels), TOLERANCE if tolerance is None else tolerance)


def _least(expected: np.ndarray, magnitude: float) -> float:
    """The spacing of the least float16 numbers, where a value has no greater ones."""
    return SPACINGS * 2.0**-24 / magnitude if expected.dtype == np.float16 and magnitude else 0.0


def _with_outputs(model: bytes, wanted: Sequence[str]) -> tuple[bytes, list[str]]:
    """The model with those of the wanted values that it has as outputs too, and the names of all its outputs."""
    import onnx

    try:
        proto = onnx.load_model_from_string(model)
    except Exception as error:  # protobuf's own
        raise RewriteError(f"the reference model cannot be read: {error}") from error
    there = {name for node in proto.graph.node for name in node.output}
    known = {output.name for output in proto.graph.output}
    more = [name for name in dict.fromkeys(wanted) if name in there and name not in known]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    return proto.SerializeToString(), [output.name for output in proto.graph.output]
