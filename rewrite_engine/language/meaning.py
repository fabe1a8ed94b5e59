"""What a declared operator computes for one node: the types of its results, and its body as operators.

In: the rule that gives an operator its meaning, and a node's attributes, input types and constants. Out: types, or an
`Expansion`; None where the meaning does not hold for the node (its guard, its types).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite_engine.language.core import Answer, CoreRule, TemplateNode
from rewrite_engine.language.values import NodeView, View
from rewrite_engine.operators import Operator
from rewrite_engine.operators.types import TensorType

Array = np.ndarray[Any, Any]
UNKNOWN = TensorType("?", None)


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """A declared operator: its facts, and the rule from it to its body."""

    operator: Operator
    rule: CoreRule


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """The body for one node: references are `("input", k)`, `("node", j, output)`, `("constant", k)`, `("absent",)`.

    `nodes` are in the order in which they run; `types` and `attributes` (effective ones) go with them.
    """

    nodes: tuple[TemplateNode, ...]
    attributes: tuple[Mapping[str, object], ...]
    types: tuple[tuple[TensorType, ...], ...]
    constants: tuple[Array, ...]
    roots: tuple[tuple[str | int, ...], ...]


def expand(
    meaning: Meaning,
    attributes: Mapping[str, object],
    inputs: Sequence[TensorType | None],
    constants: Sequence[Array | None],
    n_outputs: int,
) -> Expansion | None:
    """The body of a node; `inputs` has None for one that is absent, `constants` may be shorter."""
    found = _attempt(meaning.rule, attributes, inputs, constants, n_outputs)
    return found if isinstance(found, Expansion) else None


def refusal(
    rule: CoreRule,
    attributes: Mapping[str, object],
    inputs: Sequence[TensorType | None],
    constants: Sequence[Array | None],
    n_outputs: int,
) -> str:
    """Why a node does not have the meaning that a rule gives its operator; empty where it has."""
    found = _attempt(rule, attributes, inputs, constants, n_outputs)
    return found if isinstance(found, str) else ""


def _attempt(
    rule: CoreRule,
    attributes: Mapping[str, object],
    inputs: Sequence[TensorType | None],
    constants: Sequence[Array | None],
    n_outputs: int,
) -> Expansion | str:
    from rewrite_engine.language.evaluate import answer, fit

    reason = ""
    known = [*constants, *[None] * (len(inputs) - len(constants))]
    views = tuple(
        None if kind is None else View(f"input {k}", kind, known[k], known[k] is not None, None, k)
        for k, kind in enumerate(inputs)
    )
    results = tuple(View(f"result {k}", UNKNOWN, None, False, None, len(inputs) + k) for k in range(n_outputs))
    node = NodeView(rule.defines, attributes, views, results, 0)
    for variant in rule.variants:
        if len(variant.nodes[0].outputs) != n_outputs:
            continue
        fitted = fit(variant, node)
        if fitted is None:
            continue
        found = answer(rule, *fitted)
        if not isinstance(found, Answer):
            reason = reason or found.reason
            continue
        form = fitted[0]
        assert form.template is not None
        position = {slot: k for k, slot in reversed(list(enumerate(form.nodes[0].inputs)))}

        def reference(ref: tuple[str | int, ...], place: Mapping[int, int] = position) -> tuple[str | int, ...]:
            return ("input", place[int(ref[1])]) if ref[0] == "slot" else ref

        nodes = tuple(
            TemplateNode(inner.op, tuple(map(reference, inner.inputs)), inner.outputs) for inner in form.template.nodes
        )
        roots = tuple(map(reference, form.template.roots))
        return Expansion(nodes, found.attributes, found.types, found.constants, roots)
    return reason or f"{rule.defines} is declared for other inputs or results"


def infer(
    meaning: Meaning,
    attributes: Mapping[str, object],
    inputs: Sequence[TensorType | None],
    constants: Sequence[Array | None],
    n_outputs: int,
) -> tuple[TensorType, ...]:
    """The types of the results of a node, unknown where its meaning does not hold."""
    body = expand(meaning, attributes, inputs, constants, n_outputs)
    if body is None:
        return (UNKNOWN,) * n_outputs
    found = []
    for root in body.roots:
        match root:
            case ("node", int() as node, int() as output):
                found.append(body.types[node][output])
            case ("constant", int() as index):
                found.append(TensorType(str(body.constants[index].dtype), body.constants[index].shape))
            case (_, int() as index):
                found.append(inputs[index] or UNKNOWN)
            case _:
                found.append(UNKNOWN)
    return tuple(found)


__all__ = ["Expansion", "Meaning", "expand", "infer", "refusal"]
