"""Strategies of graphs and models: valid by construction, over the operator table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.graph.branches import branch
from rewrite_engine.graph.module import Module
from rewrite_engine.graph.terms import Terms
from rewrite_engine.graph.terms_io import from_terms
from rewrite_engine.operators.types import TensorType
from rewrite_engine.testing.strategies.arrays import NUMBERS
from rewrite_engine.testing.strategies.growing import FLOATS, PLAIN, Choices, Growing
from rewrite_engine.testing.strategies.recipes import RECIPES

FIRST = ("Relu", "Add", "Mul", "MatMul", "Transpose", "Reshape", "Concat", "Split", "Softmax", "Conv")
ORDER = (*FIRST, *(name for name in RECIPES if name not in FIRST))
"""Every operator that is drawn, the simplest first."""
DEEP = ("Relu", "Add", "Mul", "Neg", "Sigmoid", "Transpose", "Softmax", "Sub", "Tanh", "Concat", "LayerNormalization")
"""Operators of long chains."""
LONG = 40
"""Room for so many operators: every fourth graph uses it."""
TRIES = 12


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    min_nodes: int = 0,
    max_nodes: int = 12,
    operators: Sequence[str] | None = None,
    dtypes: Sequence[str] = PLAIN,
    dynamic: bool = True,
    branches: bool = True,
) -> Terms:
    """Graphs as `Terms`, of `min_nodes` to `max_nodes` operators.

    Every value is read or an output; operators with several outputs, optional inputs, shared values, constants, `If`
    (with `branches`) and symbolic dimensions (with `dynamic`) occur. About every other graph of twenty or more
    operators is a chain. `operators` are those to draw from, `dtypes` those of new inputs.
    """
    wanted = ORDER if operators is None else tuple(operators)
    if not wanted and min_nodes:
        raise RewriteError("there are no operators to draw; expected names of operators")
    for name in wanted:
        if name not in RECIPES:
            hint = did_you_mean(name, RECIPES)
            raise RewriteError(f"there are no applications of `{name}` to draw" + (f"; {hint}" if hint else ""))
    if not 0 <= min_nodes <= max_nodes:
        raise RewriteError(f"expected 0 <= min_nodes <= max_nodes, found {min_nodes} and {max_nodes}")
    long = max_nodes >= LONG and draw(st.integers(0, 3)) == 3
    least = max(min_nodes, max_nodes * 2 // 3) if long else min_nodes
    numbers = draw(st.lists(NUMBERS, min_size=least, max_size=max_nodes))
    count, choices = len(numbers), Choices(draw(NUMBERS))
    deep = count >= 20 and choices.chance(50)
    growing = Growing(choices, dtypes, dynamic and choices.chance(30), deep)
    if deep and operators is None:
        wanted = DEEP
    branches = branches and operators is None and count > 0 and choices.chance(10)
    for number in numbers:
        growing.choices = Choices(number)
        if branches and not growing.nodes:
            _if(growing)
        else:
            _grow(growing, wanted)
    if len(growing.nodes) < min_nodes:
        reject()
    if not growing.nodes and not growing.inputs:
        growing.input(growing.dtypes[0], (2,))
    return growing.terms()


def models(
    *,
    min_nodes: int = 1,
    max_nodes: int = 12,
    operators: Sequence[str] | None = None,
    dtypes: Sequence[str] = PLAIN,
    dynamic: bool = True,
    branches: bool = True,
) -> st.SearchStrategy[Module]:
    """Modules of such graphs; keywords as those of `graphs`."""
    return graphs(
        min_nodes=min_nodes, max_nodes=max_nodes, operators=operators, dtypes=dtypes, dynamic=dynamic, branches=branches
    ).map(from_terms)


def _grow(growing: Growing, wanted: Sequence[str]) -> None:
    """One more operator; the next one in order where the one that was drawn finds nothing to read."""
    start = growing.choices.pick(len(wanted)) if wanted else 0
    for offset in range(min(len(wanted), TRIES)):
        name = wanted[(start + offset) % len(wanted)]
        if growing.apply(name, RECIPES[name]):
            return


def _if(growing: Growing) -> None:
    """Two branches that read one value and give one of the same type."""
    value = growing.value(FLOATS[:1], 2, 3, 1)
    kind, name = growing.values[value].type, growing.values[value].name
    condition = growing.constant(np.array(True)) if growing.choices.chance(20) else growing.value(("bool",), shape=())
    bodies: dict[str, object] = {}
    for label in ("then_branch", "else_branch"):
        inner = Growing(growing.choices, FLOATS[:1])
        inner.values.append(growing.values[value])
        inner.inputs.append(0)
        for k in range(1 + growing.choices.pick(2)):
            op = growing.choices.one_of(("Relu", "Neg", "Tanh", "Abs"))
            last = inner.nodes[-1].outputs[0] if inner.nodes else 0
            inner.append(op, {}, (last,), (TensorType(kind.dtype, kind.shape),))
            number = len(growing.values) + k
            inner.values[-1] = type(inner.values[-1])(f"{label}.{number}", kind)
        bodies[label] = branch(inner.terms(), label)
    assert name == growing.values[value].name
    growing.append("If", bodies, (condition, value), (TensorType(kind.dtype, kind.shape),))
