"""A placed graph: the kernel calls and copies of a module in the order in which they run.

It is what extraction rebuilds, what a placed ONNX model says (see `graph.placed_io`), and what the backend lowers.
Value names are unique across devices: a copy makes a new value, and so does computing a value a second time elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class BodyNode:
    """One operator inside a kernel; "" stands for an absent input and for an output nobody reads."""

    op: str
    attributes: Mapping[str, object]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """One computation by a target: a single operator or a composite.

    `inputs` are the values passed to it (all on `device`, but for those in `host_inputs`, which are read on the host as
    shapes, axes or sizes); `body` computes `outputs` from them. Inner names of the body are local to the kernel.
    """

    name: str  # unique, readable: "tern.qconv.3"
    target: str
    device: str
    region: str
    rule: str  # the capability it came from: "tern.qconv", "tern.supports.Relu", "host"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    host_inputs: frozenset[str]
    body: tuple[BodyNode, ...]
    inner_types: Mapping[str, TensorType]  # of the names local to the body
    attributes: Mapping[str, object]  # for the code generator (`with` of a composite)
    cost: int  # picoseconds (or picojoules)
    cost_source: str  # "formula" | "profile" | "roofline"
    covers: tuple[str, ...]  # first outputs of the original operators it stands for
    rewrites: tuple[str, ...] = ()  # the chain of rules, where it is not in the original


@dataclass(frozen=True, slots=True, eq=False)
class CopyCall:
    """One value over one link; `output` is the name of the copy."""

    value: str
    output: str
    source: str
    destination: str
    bytes: int
    cost: int


@dataclass(frozen=True, slots=True, eq=False)
class PlacedGraph:
    """Everything that runs. `devices` and `types` cover every input, parameter, copy and kernel output.

    `output_names` are the model's names for `outputs`, where these differ (an output that is an input, a parameter or
    another output); () when they are the same.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: Mapping[str, np.ndarray]
    steps: tuple[KernelCall | CopyCall, ...]
    types: Mapping[str, TensorType]
    devices: Mapping[str, str]
    output_names: tuple[str, ...] = ()


def kept_outputs(op: str, outputs: Sequence[str]) -> tuple[str, ...]:
    """The outputs of an operator in a body without those at the end that nobody reads and that it need not have.

    >>> kept_outputs("LSTM", ("y", "", "")), kept_outputs("TopK", ("values", "")), kept_outputs("Split", ("a", ""))
    (('y',), ('values', ''), ('a', ''))
    """
    count, least = len(outputs), least_outputs(op, len(outputs))
    while count > least and not outputs[count - 1]:
        count -= 1
    return tuple(outputs[:count])


def least_outputs(op: str, count: int) -> int:
    """How many of `count` outputs a node must list: those that are not optional, all where their number matters."""
    operator = find(op)
    if operator is None or any(output.kind == "variadic" for output in operator.outputs):
        return count  # Split, Loop, custom operators
    return min(count, sum(output.kind == "single" for output in operator.outputs))
