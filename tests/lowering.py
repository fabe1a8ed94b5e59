"""Help for tests of lowering and evaluation: rules from text, and the facts of a match from its leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rewrite_engine import operators
from rewrite_engine.language import lower, scope, sources
from rewrite_engine.language.core import ABSENT, CoreRule, Facts, Variant
from rewrite_engine.operators.dtypes import array_dtype
from rewrite_engine.operators.types import TensorType

Leaf = str | np.ndarray | TensorType


def lowered(text: str):
    """(rules by name, problems, scope) of a text, without the checks that come before lowering."""
    found = sources.read_text(text, "test.pat", [])
    names, problems = scope.build(found.files, found.visible, found.blind())
    assert not found.problems and not problems, [p.message for p in (*found.problems, *problems)]
    rules, further = lower.core_rules(names)
    return {rule.name: rule for rule in rules}, further, names


def rule_of(text: str, name: str = "r") -> CoreRule:
    rules, problems, _ = lowered(text)
    assert not problems, [p.message for p in problems]
    return rules[name]


def typed(text: str) -> TensorType:
    """`float32[N, 3, _]`; `float32` alone has an unknown rank."""
    dtype, _, dims = text.partition("[")
    if not dims:
        return TensorType(dtype, None)
    parts = [part.strip() for part in dims.rstrip("]").split(",") if part.strip()]
    shape = tuple(None if p == "_" else int(p) if p.lstrip("-").isdigit() else p for p in parts)
    return TensorType(dtype, shape)


def facts_of(
    variant: Variant, leaves: Mapping[str, Leaf], attributes: Mapping[str, Mapping[str, object]] | None = None
) -> Facts:
    """The facts of a match: types of leaves as given ("float32[2, 3]", or an array for a constant), the rest inferred.

    `attributes` are those written on the node that makes the value of that name (or on every node of that operator).
    """
    types: list[TensorType] = [TensorType("?", None)] * len(variant.slots)
    constants: list[np.ndarray | None] = [None] * len(variant.slots)
    made = {out for node in variant.nodes for out in node.outputs}
    for number, slot in enumerate(variant.slots):
        if number in made and slot.name not in leaves:
            continue
        leaf = leaves[slot.name]
        if isinstance(leaf, np.ndarray):
            constants[number] = leaf
            types[number] = TensorType(array_dtype(leaf), leaf.shape)
        else:
            types[number] = typed(leaf) if isinstance(leaf, str) else leaf
    effective = []
    for node in variant.nodes:
        names = [variant.slots[out].name for out in node.outputs if out != ABSENT]
        written = next((v for k, v in (attributes or {}).items() if k in names or k == node.op), {})
        inputs = [None if slot == ABSENT else types[slot] for slot in node.inputs]
        known = [None if slot == ABSENT else constants[slot] for slot in node.inputs]
        effective.append(operators.effective_attributes(node.op, written, inputs, known))
        if all(name in leaves for name in names):
            continue
        found = operators.infer_types(node.op, effective[-1], inputs, known, len(node.outputs))
        for out, kind in zip(node.outputs, found, strict=True):
            if out != ABSENT and variant.slots[out].name not in leaves:
                types[out] = kind
    shown = [c if slot.reads_value else None for c, slot in zip(constants, variant.slots, strict=True)]
    return Facts(tuple(types), tuple(shown), tuple(c is not None for c in constants), tuple(effective))
