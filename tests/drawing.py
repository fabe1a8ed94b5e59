"""Drawn graphs on drawn machines for tests, and how a property is checked on them.

Every property has a quick part, the same in every run, and a slow one of many more examples, other ones each time
(`--hypothesis-seed=N` repeats one; REWRITE_ENGINE_EXAMPLES says how many).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as hypothesis

import rewrite_engine as rw
from rewrite_engine import api
from rewrite_engine.backend.bundle import Bundle
from rewrite_engine.backend.inputs import random_inputs
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import (
    ABSENT,
    CopyCall,
    KernelCall,
    PlacedGraph,
    Terms,
    load,
)
from rewrite_engine.graph import from_terms as module_from_terms
from rewrite_engine.graph.terms import Value
from rewrite_engine.language import RuleSet, load_text
from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.operators import find
from rewrite_engine.testing import strategies as st

WIDE = int(os.environ.get("REWRITE_ENGINE_EXAMPLES", "300"))


@dataclass(frozen=True, slots=True, repr=False)
class Case:
    """A graph on a machine; it prints as an operator per line, and the text of the rule file."""

    graph: Terms
    rules: RuleSet

    def __repr__(self) -> str:
        values = self.graph.values
        shown = [f"{values[i].name}: {values[i].type}" for i in self.graph.inputs]
        for node in self.graph.nodes:
            results = ", ".join(f"{values[o].name}: {values[o].type}" for o in node.outputs if o != ABSENT)
            operands = ("none" if i == ABSENT else said_of(values[i]) for i in node.inputs)
            given_ = [*operands, *(f"{key}={value!r}" for key, value in sorted(node.attributes.items()))]
            shown.append(f"{results} = {node.op}({', '.join(given_)})")
        shown.append("outputs: " + ", ".join(values[o].name for o in self.graph.outputs))
        return "\n".join(["", *shown, *(text for text, _ in self.rules.sources.values())])


def said_of(value: Value) -> str:
    return value.name if value.constant is None else f"{value.type} {value.constant.tolist()}"


def always(quick: int) -> Any:
    """A test's examples: so many, the same in each run; and many more in the slow part."""
    wide = pytest.param(0, id="wide", marks=pytest.mark.slow)
    return pytest.mark.parametrize("examples", [pytest.param(quick, id="quick"), wide])


def holds(examples: int, property_: Callable[..., None], *drawn: hypothesis.SearchStrategy[Any]) -> None:
    """Checks a property on so many examples; 0 stands for those of the slow part."""
    few: dict[str, Any] = {"derandomize": True, "database": None} if examples else {}
    settings(
        max_examples=examples or WIDE, deadline=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink], **few,
    )(given(*drawn)(property_))()  # fmt: skip


def on_machines(
    graphs: hypothesis.SearchStrategy[Terms], cut: bool = False, **sizes: int
) -> hypothesis.SearchStrategy[Case]:
    """With machines whose patterns are cut out of the graph, and (without `cut`) with others; `sizes` as there."""

    def machines(graph: Terms) -> hypothesis.SearchStrategy[RuleSet]:
        fitting = st.machines(graph=graph, max_rules=8, **sizes)
        return fitting if cut else fitting | fitting | st.machines(**sizes)

    return graphs.flatmap(lambda g: hypothesis.builds(Case, hypothesis.just(g), machines(g)))


def some_graphs() -> hypothesis.SearchStrategy[Terms]:
    """Graphs of four to twelve operators with shared values, absent operands, constants and several results."""
    names = ["Relu", "Neg", "Add", "Mul", "Sub", "Div", "Abs", "LeakyRelu", "Softmax", "Clip", "Max", "Concat", "Split"]
    return st.graphs(min_nodes=4, operators=names, dtypes=["float32"], dynamic=False)


def fitted() -> hypothesis.SearchStrategy[Case]:
    """Such graphs, and patterns and composites that fit them here and there."""
    return on_machines(some_graphs(), cut=True, max_patterns=4)


SIZES = {"N": 3}
"""What symbolic dimensions are bound to."""
RUNNABLE = [op for op in st.drawable() if op in OPERATORS and not find(op).random]
"""Operators whose numbers are compared: those with a loop nest that give the same numbers each time."""
FUSED = ("Relu", "Add", "Mul", "Neg", "Abs", "Sub", "Sigmoid", "Identity", "Transpose", "Reshape", "Not", "MatMul")
"""Operators that the composites and rules of drawn machines speak of."""
HOST = load_text("", "host.pat")
"""A machine of the host alone."""


def bound(graph: Terms) -> rw.Module:
    """The module of a graph, imported as a model is, its dimensions bound."""
    names = {d for value in graph.values for d in value.type.shape or () if isinstance(d, str)}
    inputs = {d for i in graph.inputs for d in graph.values[i].type.shape or () if isinstance(d, str)}
    proto = ir.to_proto(module_from_terms(graph).model)
    return load(proto, dims={name: SIZES.get(name, 3) for name in sorted(names & inputs)})


def feeds(module: rw.Module, seed: int = 0) -> dict[str, np.ndarray]:
    terms = api.to_terms(module)
    return random_inputs({terms.values[i].name: terms.values[i].type for i in terms.inputs}, seed)


def numbers(bundle: Bundle, given_: Mapping[str, np.ndarray], engine: str = "numpy") -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bundle.run(given_, engine)


def runnable(max_nodes: int = 8) -> hypothesis.SearchStrategy[Case]:
    """Graphs that can be lowered; about every other one of few operators, so that rules and composites match."""
    sizes = {"min_nodes": 1, "max_nodes": max_nodes}
    return on_machines(st.graphs(operators=FUSED, **sizes) | st.graphs(operators=RUNNABLE, **sizes))


def placeable(max_nodes: int) -> hypothesis.SearchStrategy[Case]:
    """Graphs of any operators whose sizes are known; about every other one of few operators."""
    sizes = {"min_nodes": 1, "max_nodes": max_nodes, "dynamic": False}
    return on_machines(st.graphs(operators=FUSED, **sizes) | st.graphs(**sizes))


def compiled(module: rw.Module, rules: RuleSet) -> Bundle | None:
    """The bundle; None, and an event, where an operator is refused by name."""
    try:
        return rw.compile(module, rules, engine="numpy")
    except RewriteError as error:
        event(str(error)[:60])
        return None


def assert_copies_cross(graph: PlacedGraph) -> None:
    """A value is copied exactly where it is read on another device than its own: once for a value and a device."""
    read: dict[str, set[str]] = {}
    original = {}
    seen: set[tuple[str, str]] = set()
    for step in graph.steps:
        if isinstance(step, CopyCall):
            assert step.source != step.destination
            assert (graph.devices[step.value], graph.devices[step.output]) == (step.source, step.destination)
            assert graph.types[step.value] == graph.types[step.output]
            assert (step.value, step.destination) not in seen
            seen.add((step.value, step.destination))
            root = original[step.output] = original.get(step.value, step.value)
            assert (root, step.destination) not in read, "one copy of a value on a device"
            read[root, step.destination] = set()
        for name in (step.value,) if isinstance(step, CopyCall) else step.inputs:
            if isinstance(step, KernelCall):
                expected = "host" if name in step.host_inputs else step.device
                assert graph.devices[name] == expected, f"{step.name} reads {name} on {graph.devices[name]}"
            if name in original:
                read[original[name], graph.devices[name]].add(name)
        if isinstance(step, KernelCall):
            assert all(graph.devices[name] == step.device for name in step.outputs)
    for name in graph.outputs:
        assert graph.devices[name] == "host"
        if name in original:
            read[original[name], "host"].add(name)
    assert all(read.values()), "a copy that nobody reads"
    for name, root in original.items():
        assert graph.devices[name] != graph.devices[root], f"{name} is a copy of {root} on its own device"
