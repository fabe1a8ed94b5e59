"""Drawn graphs on drawn machines for tests, and how a property is checked on them.

Every property has a quick part, the same in every run, and a slow one of many more examples, other ones each time
(`--hypothesis-seed=N` repeats one; REWRITE_ENGINE_EXAMPLES says how many).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as hypothesis

from rewrite_engine.graph.terms import ABSENT, Terms, Value
from rewrite_engine.language import RuleSet
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
        fitting = st.machines(graph=graph, **sizes)
        return fitting if cut else fitting | st.machines(**sizes)

    return graphs.flatmap(lambda g: hypothesis.builds(Case, hypothesis.just(g), machines(g)))


def some_graphs() -> hypothesis.SearchStrategy[Terms]:
    """Graphs of four to twelve operators with shared values, absent operands, constants and several results."""
    names = ["Relu", "Neg", "Add", "Mul", "Sub", "Div", "Abs", "LeakyRelu", "Softmax", "Clip", "Max", "Concat", "Split"]
    return st.graphs(min_nodes=4, operators=names, dtypes=["float32"], dynamic=False)


def fitted() -> hypothesis.SearchStrategy[Case]:
    """Such graphs, and patterns and composites that fit them here and there."""
    return on_machines(some_graphs(), cut=True, max_patterns=4)
