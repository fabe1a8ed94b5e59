"""Operators that rule files declare, in rules that are verified: types, what operands may be, bodies.

In: the meanings of a rule set. What a declared operator computes is its body, operator by operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language.meaning import Expansion, Meaning, expand, infer
from rewrite_engine.operators import Formal
from rewrite_engine.operators.types import TensorType

Meanings = Mapping[str, Meaning]
Types = Sequence[TensorType | None]
Constants = Sequence[np.ndarray[Any, Any] | None]


def infer_node(
    meanings: Meanings, op: str, attributes: Mapping[str, Any], inputs: Types, constants: Constants, n_outputs: int
) -> tuple[Mapping[str, object], Sequence[TensorType]]:
    """Effective attributes and the types of results, of operators of the table and of declared ones.

    Raises RewriteError, or what type inference raises, for operands that do not fit.
    """
    effective = operators.effective_attributes(op, attributes, inputs, constants)
    if op in meanings:
        return effective, infer(meanings[op], effective, inputs, constants, n_outputs)
    return effective, operators.infer_types(op, effective, inputs, constants, n_outputs)


def body(
    meanings: Meanings, op: str, attributes: Mapping[str, Any], inputs: Types, constants: Constants, n_outputs: int
) -> Expansion:
    """The body for one node. Raises RewriteError where the meaning does not hold for it."""
    found = expand(meanings[op], attributes, inputs, constants, n_outputs)
    if found is None:
        raise RewriteError(f"{op} has no meaning for these operands")
    return found


def readers(meanings: Meanings, op: str, position: int) -> Iterator[tuple[int, str, int]]:
    """Where the body of a declared operator reads an operand: the node's number, its operator, the position there."""
    for variant in meanings[op].rule.variants:
        template, inputs = variant.template, variant.nodes[0].inputs
        if template is None or position >= len(inputs):
            continue
        for number, node in enumerate(template.nodes):
            for k, reference in enumerate(node.inputs):
                if reference == ("slot", inputs[position]):
                    yield number, node.op, k


def formal_in_body(meanings: Meanings, op: str, position: int) -> tuple[int, Formal] | None:
    """What the first operator of the table that reads an operand asks of it, and the number of that node."""
    for number, inner, k in readers(meanings, op, position):
        facts = operators.find(inner)
        formal = facts.input(k) if facts is not None else None
        if formal is not None:
            return number, formal
        if inner in meanings:
            found = formal_in_body(meanings, inner, k)
            if found is not None:
                return number, found[1]
    return None


def spans(meanings: Meanings, ops: Sequence[str]) -> list[Any]:
    """Where the declared operators among `ops` are declared, and those that these need, in the order of the files."""
    needed: set[str] = set()
    pending = [op for op in ops if op in meanings]
    while pending:
        op = pending.pop()
        if op in needed:
            continue
        needed.add(op)
        for variant in meanings[op].rule.variants:
            if variant.template is not None:
                pending += [node.op for node in variant.template.nodes if node.op in meanings]
    return [meaning.rule.span for op, meaning in meanings.items() if op in needed]
