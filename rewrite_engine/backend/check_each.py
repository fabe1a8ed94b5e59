"""Comparison kernel by kernel: the first whose result differs from what ONNX Runtime has for the same value.

In: a bundle and the ONNX model it came from. Out: an error per kernel result that is a value of that model (what rules
introduced is not, and is left out). ONNX Runtime runs the model once, with those values as outputs beside its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.check import TOLERANCE, open_session, relative_error, run_session
from rewrite_engine.backend.graph_reader import read_graph
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.backend.runtime import StepTime
from rewrite_engine.diagnostics import RewriteError


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """A result of a kernel against the model's value of that name; `error` is relative to its largest magnitude."""

    kernel: str
    rule: str
    value: str
    error: float
    magnitude: float
    ran: str


@dataclass(frozen=True, slots=True)
class EachReport:
    """`checks` are in the order in which the kernels run; `kernels` counts all, `compared` those with a check."""

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
        return next((check for check in self.checks if not check.error <= self.tolerance), None)


def compare_each(
    bundle: Bundle,
    reference_model: bytes,
    seed: int = 0,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    tolerance: float = TOLERANCE,
    engine: str = "auto",
) -> EachReport:
    """Run `bundle` and `reference_model` (an ONNX file's bytes) on random inputs of `seed`, or on `inputs`.

    `engine` is that of `Bundle.executor`. Raises RewriteError when ONNX Runtime is not installed or refuses the model.
    """
    graph, problems = read_graph(bundle.graph)
    if graph is None:
        raise RewriteError("graph.json: " + "; ".join(problems))
    kernels = [node for node in graph.nodes if node.kind == "kernel"]
    rules = {node.name: str(node.facts.get("rule")) for node in kernels}
    wanted = [graph.entries[entry].name for node in kernels for entry in node.outputs]
    model, names = _with_outputs(reference_model, wanted)
    feed = dict(inputs) if inputs is not None else random_inputs(bundle.inputs, seed)
    reference = dict(zip(names, run_session(open_session(model), feed, len(names), names), strict=True))
    checks: list[KernelCheck] = []

    def observe(step: StepTime, results: Mapping[str, np.ndarray]) -> None:
        for value, found in results.items():
            if value in reference:
                error, magnitude = relative_error(found, reference[value])
                checks.append(KernelCheck(step.name, rules[step.name], value, error, magnitude, step.ran))

    bundle.executor(engine).run(feed, observe)
    return EachReport(tuple(checks), len(kernels), tolerance)


def _with_outputs(model: bytes, wanted: Sequence[str]) -> tuple[bytes, list[str]]:
    """The model with those of the wanted values that it has as outputs too, and the names of these."""
    import onnx

    try:
        proto = onnx.load_model_from_string(model)
    except Exception as error:  # protobuf's own
        raise RewriteError(f"the reference model cannot be read: {error}") from error
    there = {name for node in proto.graph.node for name in node.output}
    names = [name for name in dict.fromkeys(wanted) if name in there]
    known = {output.name for output in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    return proto.SerializeToString(), names
