"""What a variant says about its matches before any is made: literals, attributes, ranks, dtypes, numbers of its guards.

In: a variant, `expand_rest` and `choose` done. Out: a `Plan`, from which candidates are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.language import subjects, values
from rewrite_engine.language.core import ABSENT, Facts, Variant
from rewrite_engine.language.meaning import Meaning as Declared
from rewrite_engine.language.program import Match, Program
from rewrite_engine.loops.dtypes import is_float
from rewrite_engine.operators.types import TensorType
from rewrite_engine.testing.verify.declared import formal_in_body

DTYPES = ("float32", "float16", "float64", "bfloat16", "int32", "int64", "int8", "uint8", "bool")
"""The dtypes that are tried, the likeliest first."""

_KEEPS_RANK = frozenset(
    {"Softmax", "LogSoftmax", "Transpose", "Dropout", "LayerNormalization", "RMSNormalization", "BatchNormalization",
     "QuantizeLinear", "DequantizeLinear", "Slice", "Pad", "Tile", "Concat", "Split", "Identity", "RotaryEmbedding",
     "Attention", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "CumSum", "Hardmax"}
)  # fmt: skip
"""Operators whose first operand and first result have one rank."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """`literals` are constants that the pattern writes, `attributes` those it gives to each node, `ranks` of slots.

    `dtypes` are those that the main type variable may have, `own` what single slots must have. `numbers` are those that
    stand in guards, attributes and literals.
    """

    variant: Variant
    free: tuple[int, ...]
    literals: Mapping[int, object]
    attributes: tuple[Mapping[str, object], ...]
    ranks: Mapping[int, int]
    own: Mapping[int, tuple[str, ...]]
    dtypes: tuple[str, ...]
    numbers: tuple[float, ...]
    checks: tuple[Any, ...]  # program.Check, with the subject worked out beside it
    known: frozenset[int]  # slots whose elements are known at compile time
    meanings: Mapping[str, Declared] = field(default_factory=dict, repr=False)  # of operators that rule files declare


def blank(variant: Variant) -> Match:
    """A match of which nothing is known, for what a pattern says by itself."""
    unknown = TensorType("?", None)
    count = len(variant.slots)
    facts = Facts((unknown,) * count, (None,) * count, (False,) * count, ({},) * len(variant.nodes))
    return roomy(Match(variant, facts))


def roomy(match: Match) -> Match:
    """With room for the loop variables of operands that were compiled later."""
    match.variables += [None] * 256
    return match


def plan(variant: Variant, numbers: Sequence[float] = (), meanings: Mapping[str, Declared] | None = None) -> Plan:
    """Reads the checks of a variant."""
    program = variant.program
    assert isinstance(program, Program)
    made = {slot for node in variant.nodes for slot in node.outputs}
    free = tuple(slot for slot in range(len(variant.slots)) if slot not in made)
    checks = tuple((check, check.about() if check.about is not None else None) for check in program.checks)
    literals: dict[int, object] = {}
    attributes: list[dict[str, object]] = [{} for _ in variant.nodes]
    own: dict[int, tuple[str, ...]] = {}
    ranks: dict[int, int] = {}
    match = blank(variant)
    for _, subject in checks:
        try:
            _read(subject, match, literals, attributes, own, ranks)
        except (values.EvaluationError, ArithmeticError, ValueError, TypeError, LookupError):
            continue  # it depends on the match
    known = {slot for slot in free if variant.slots[slot].constant} | set(literals)
    for node in variant.nodes:
        facts = operators.find(node.op)
        host = facts.host_inputs if facts is not None else frozenset()
        known |= {slot for k, slot in enumerate(node.inputs) if k in host and slot in free}
    _infer_ranks(variant, attributes, ranks)
    found = {float(n) for n in numbers} | {
        float(item)
        for value in literals.values()
        for item in (value if isinstance(value, tuple) else (value,))
        if isinstance(item, int | float)
    }
    return Plan(variant, free, literals, tuple(attributes), ranks, own, _dtypes(variant, own, meanings or {}),
                tuple(sorted(found)), checks, frozenset(known), meanings or {})  # fmt: skip


def _read(
    subject: Any,
    match: Match,
    literals: dict[int, object],
    attributes: list[dict[str, object]],
    own: dict[int, tuple[str, ...]],
    ranks: dict[int, int],
) -> None:
    match subject:
        case subjects.OfLiteral(slot=slot):
            value = plain_number(subject.value(match))
            if value is not None:
                literals[slot] = value
        case subjects.OfAttribute(node=node, name=name, value=run) if run is not None:
            value = attribute_number(run(match))
            if value is not None:
                attributes[node][name] = value
        case subjects.OfType(slot=slot):
            dtypes, dims = subject.wanted(match)
            if dtypes is not None:
                own[slot] = tuple(name for name in dtypes if name != "None")
            if "..." not in dims:
                ranks[slot] = len(dims)


def plain_number(value: object) -> object | None:
    """A literal as numbers and tuples of them; None where it is not known."""
    value = values.plain(value)
    if isinstance(value, values.Unknown):
        return None
    if isinstance(value, tuple):
        items = tuple(plain_number(item) for item in value)
        return None if None in items else items
    found = values.numpy_value(value)
    return found if isinstance(found, bool | int | float) else None


def attribute_number(value: object) -> object | None:
    """A value as an attribute holds it; None where it is not known."""
    value = values.plain(values.dtype_code(value))
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        return None
    found = plain_number(value)
    return int(found) if isinstance(found, bool) else found


def _infer_ranks(variant: Variant, attributes: Sequence[Mapping[str, object]], ranks: dict[int, int]) -> None:
    """Ranks that follow from permutations and from each other, to and fro."""
    for node, given in zip(variant.nodes, attributes, strict=True):
        perm = given.get("perm")
        if isinstance(perm, tuple):
            for slot in (node.inputs[0], node.outputs[0]):
                if slot != ABSENT:
                    ranks.setdefault(slot, len(perm))
        if node.op == "Gemm":
            for slot in node.inputs[:2]:
                ranks.setdefault(slot, 2)
    for _ in range(6):
        for node in variant.nodes:
            facts = operators.find(node.op)
            if facts is None or not node.inputs or not node.outputs:
                continue
            first, result = node.inputs[0], node.outputs[0]
            if first == ABSENT or result == ABSENT:
                continue
            unary = facts.pointwise and len(node.inputs) == 1
            if unary or node.op in _KEEPS_RANK or node.op in ("MatMul", "Clip") or node.op.startswith("Reduce"):
                for a, b in ((first, result), (result, first)):
                    if a in ranks:
                        ranks.setdefault(b, ranks[a])
            elif facts.pointwise and result in ranks and not any(slot in ranks for slot in node.inputs):
                ranks.setdefault(first, ranks[result])
            elif facts.pointwise:
                known = [ranks[slot] for slot in node.inputs if slot in ranks]
                if len(known) == len(node.inputs):
                    ranks.setdefault(result, max(known))


def _dtypes(variant: Variant, own: Mapping[int, tuple[str, ...]], meanings: Mapping[str, Declared]) -> tuple[str, ...]:
    """What may stand wherever the schemas and the pattern allow float32."""
    allowed = list(DTYPES)
    for node in variant.nodes:
        facts = operators.find(node.op)
        for position, slot in enumerate((*node.inputs, *node.outputs)):
            inside = position < len(node.inputs)
            formal = None
            if facts is not None and slot != ABSENT:
                formal = facts.input(position) if inside else facts.output(position - len(node.inputs))
            if facts is None and inside and node.op in meanings and slot != ABSENT:
                asked = formal_in_body(meanings, node.op, position)
                if asked is not None and "float32" in asked[1].dtypes:
                    allowed = [name for name in allowed if name in asked[1].dtypes]
            if formal is not None and "float32" in formal.dtypes and not (inside and position in facts.host_inputs):  # type: ignore[union-attr]
                allowed = [name for name in allowed if name in formal.dtypes]
            elif formal is not None and "float32" not in formal.dtypes and node.op in ("And", "Or", "Not", "Xor"):
                pass
    for dtypes in own.values():
        if "float32" in dtypes:
            allowed = [name for name in allowed if name in dtypes]
    pinned = [names for names in own.values() if len(names) == 1 and is_float(names[0]) and names[0] != "float32"]
    if pinned:
        allowed = [name for name in allowed if name == pinned[0][0]] or allowed
    return tuple(allowed) or ("float32",)
