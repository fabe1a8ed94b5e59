"""The graph as flat, frozen terms: what the e-graph loads and what tests build from pattern text.

In: a module (or a test's pattern). Out: values and operator applications in topological order, with effective
attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rewrite_engine.operators.types import TensorType

ABSENT = -1
"""Input index of an optional input that is not there (inner positions only: trailing ones are trimmed)."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value by name; `constant` holds its elements when they are known at compile time."""

    name: str
    type: TensorType
    constant: np.ndarray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One operator application. `op` is "Conv" or, outside the default domain, "com.microsoft::FusedMatMul".

    `attributes` are the effective ones (int, float, str, tuples of these, NumPy arrays for tensors, or an opaque
    object for a subgraph). Inputs and outputs index `Terms.values`.
    """

    op: str
    attributes: Mapping[str, object]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """A whole graph. `nodes` are in topological order; a value is produced by one node, is an input or a constant."""

    values: tuple[Value, ...]
    nodes: tuple[Term, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    pins: Mapping[int, str] = field(default_factory=dict)  # value -> device, from OnDevice marks and --pin
