"""Types behind operators that rule files declare: a model says nothing of them, their bodies do.

In: terms, and what the declared operators mean. Out: the same terms with the types that follow, theirs and those of
everything that reads them. A dtype or dimension that the model states stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rewrite_engine.graph.terms import ABSENT, Term, Terms
from rewrite_engine.language.meaning import Meaning, infer
from rewrite_engine.operators import effective_attributes, infer_types
from rewrite_engine.operators.calls import TypeMismatch
from rewrite_engine.operators.types import TensorType


def infer_declared(terms: Terms, meanings: Mapping[str, Meaning]) -> Terms:
    """The terms with types inferred through declared operators; nodes are in an order in which they can run."""
    if not any(node.op in meanings for node in terms.nodes):
        return terms
    values, nodes = list(terms.values), list[Term]()
    changed: set[int] = set()
    for node in terms.nodes:
        if node.op not in meanings and not changed & set(node.inputs):
            nodes.append(node)
            continue
        types = [None if i == ABSENT else values[i].type for i in node.inputs]
        constants = [None if i == ABSENT else values[i].constant for i in node.inputs]
        attributes = effective_attributes(node.op, node.attributes, types, constants)
        try:
            if node.op in meanings:
                found = infer(meanings[node.op], attributes, types, constants, len(node.outputs))
            else:
                found = infer_types(node.op, attributes, types, constants, len(node.outputs))
        except TypeMismatch:
            found = ()
        nodes.append(replace(node, attributes=attributes))
        for index, kind in zip(node.outputs, found, strict=False):
            if index != ABSENT and (merged := known_parts(values[index].type, kind)) != values[index].type:
                values[index] = replace(values[index], type=merged)
                changed.add(index)
    return replace(terms, values=tuple(values), nodes=tuple(nodes))


def known_parts(stated: TensorType, inferred: TensorType) -> TensorType:
    """What is stated, completed by what is inferred.

    >>> str(known_parts(TensorType("?", (None, 3)), TensorType("float32", (2, 4))))
    'float32[2, 3]'
    """
    dtype = inferred.dtype if stated.dtype == "?" else stated.dtype
    if stated.shape is None or inferred.shape is None or len(stated.shape) != len(inferred.shape):
        return TensorType(dtype, inferred.shape if stated.shape is None else stated.shape)
    shape = tuple(b if a is None else a for a, b in zip(stated.shape, inferred.shape, strict=True))
    return TensorType(dtype, shape)
