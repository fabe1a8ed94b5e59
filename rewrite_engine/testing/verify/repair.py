"""From a candidate to a match: the first check that does not hold says what to change, until all of them hold.

In: a plan and a source of choices. Out: a candidate that satisfies the pattern and its guard, or None where none was
found within so many attempts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import subjects, values
from rewrite_engine.language.core import ABSENT, Answer, CoreRule, Facts, Refusal
from rewrite_engine.language.evaluate import answer
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.language.program import Match
from rewrite_engine.language.units import Quantity
from rewrite_engine.operators.types import TensorType
from rewrite_engine.testing.verify.candidate import Candidate, Unfit, numbers, settle, start
from rewrite_engine.testing.verify.draws import Source, choice
from rewrite_engine.testing.verify.node_draft import limited
from rewrite_engine.testing.verify.plan import Plan, attribute_number, plain_number, roomy

ATTEMPTS = 48
_ERRORS = (values.EvaluationError, ArithmeticError, ValueError, TypeError, LookupError, RewriteError)


def find_match(
    plan: Plan,
    source: Source,
    rule: CoreRule,
    skip: int | None = None,
    attempts: int = ATTEMPTS,
    view: Callable[[Candidate], Facts] = Candidate.facts,
) -> Candidate | None:
    """A candidate for which every check holds and the rule builds something; with `skip`, every check but that one.

    `view` gives what the rule is told of a candidate.
    """
    c = start(plan, source)
    for attempt in range(attempts):
        if attempt and attempt % 16 == 0:
            c = start(plan, source)
        try:
            settle(c, source)
            facts = view(c)
        except Unfit as unfit:
            _reopen(c, source, unfit.node)
            continue
        match = roomy(Match(plan.variant, facts))
        failing = first_failing(plan, match, skip)
        if failing is None:
            if skip is not None or rule.kind != "rule" or _built(c, source, rule, facts):
                return c
            continue
        _repair(c, source, match, plan.checks[failing][1])
    return None


def _built(c: Candidate, source: Source, rule: CoreRule, facts: Facts) -> bool:
    """Whether the rule builds something of the right type; if not, the result's shape is made what would be built."""
    variant = c.plan.variant
    if not isinstance(answer(rule, variant, facts), Refusal):
        return True
    types = list(facts.types)
    for root in variant.roots:
        types[root] = TensorType("?", None)
    found = answer(rule, variant, replace(facts, types=tuple(types)))
    assert variant.template is not None
    if isinstance(found, Refusal):
        _anything(c, source)
        return False
    for root, reference in zip(variant.roots, variant.template.roots, strict=True):
        kind = _type_of(reference, c, found)
        if kind is not None and kind.numel is not None and kind.shape != c.types[root].shape and source.integer(0, 3):
            _set_shape(c, source, root, [int(n) for n in kind.shape or ()])  # type: ignore[arg-type]
            return False
        if kind is not None and kind.dtype != c.types[root].dtype and source.integer(0, 1):
            _set_dtype(c, source, root, kind.dtype)
            return False
    _anything(c, source)
    return False


def _type_of(reference: tuple[Any, ...], c: Candidate, found: Answer) -> TensorType | None:
    match reference:
        case ("slot", int() as slot):
            return c.types[slot]
        case ("node", int() as node, int() as output):
            return found.types[node][output]
        case _:
            return None


def first_failing(plan: Plan, match: Match, skip: int | None = None) -> int | None:
    """The number of the first check that does not hold."""
    for number, (check, _) in enumerate(plan.checks):
        if number == skip:
            continue
        try:
            reason = check.run(match)
        except _ERRORS as error:
            reason = str(error) or "error"
        if reason is not None:
            return number
    return None


# ---------------------------------------------------------------- what to change


def _reopen(c: Candidate, source: Source, index: int) -> None:
    """Draws a node's operands and open attributes again; where they are results, something before it."""
    node = c.plan.variant.nodes[index]
    if source.integer(0, 3) and _fit(c, source, index):
        return
    c.written[index] = dict(c.plan.attributes[index])
    free = [slot for slot in node.inputs if slot in c.plan.free and slot not in c.plan.literals]
    if not free or source.integer(0, 2) == 2:
        free = free + [slot for slot in _upstream(c, node.inputs) if slot not in c.plan.literals]
    if free:
        c.forget(choice(source, free))
    for other in range(index):
        if source.integer(0, 3) == 3:
            c.written[other] = dict(c.plan.attributes[other])


def _fit(c: Candidate, source: Source, index: int) -> bool:
    """Makes one operand fit the other, where the operator says how; whether something was changed."""
    node = c.plan.variant.nodes[index]
    facts = operators.find(node.op)
    present = [slot for slot in node.inputs if slot != ABSENT]
    if len(present) < 2 or any(slot not in c.types for slot in present[:2]) or facts is None:
        return False
    a, b = (present[0], present[1]) if source.integer(0, 2) else (present[1], present[0])
    shape = [int(n) for n in c.types[a].shape or ()]  # type: ignore[arg-type]
    other = [int(n) for n in c.types[b].shape or ()]  # type: ignore[arg-type]
    if node.op == "MatMul" and len(shape) >= 2 and len(other) >= 2:
        left = a == node.inputs[0]
        other[-2 if left else -1] = shape[-1 if left else -2]
        other[:-2] = shape[:-2] if len(other) == len(shape) else other[:-2]
        _set_shape(c, source, b, other)
        return True
    if (facts.pointwise and node.op not in _FIXED) or node.op == "Concat":
        _set_shape(c, source, b, shape)
        return True
    return False


_FIXED = frozenset({"Clip", "Cast"})


def _upstream(c: Candidate, slots: Sequence[int]) -> list[int]:
    """The free slots that values are computed from."""
    makers = {out: node for node in c.plan.variant.nodes for out in node.outputs}
    found: dict[int, None] = {}
    pending, seen = list(slots), set()
    while pending:
        slot = pending.pop()
        if slot == ABSENT or slot in seen:
            continue
        seen.add(slot)
        if slot in makers:
            pending += makers[slot].inputs
        else:
            found[slot] = None
    return list(found)


def _repair(c: Candidate, source: Source, match: Match, subject: Any) -> None:
    match subject:
        case subjects.OfType():
            _retype(c, source, match, subject)
        case subjects.OfAttribute(node=node, name=name, value=run):
            try:
                value = None if run is None else attribute_number(run(match))
            except _ERRORS:
                value = None
            if value is not None:
                _set_attribute(c, source, node, name, value)
            elif subject.absent:
                c.written[node].pop(name, None)
            else:
                c.written[node] = dict(c.plan.attributes[node])
        case subjects.OfLiteral(slot=slot, value=run):
            _reliteral(c, source, slot, plain_number(run(match)))
        case subjects.OfGuard():
            _satisfy(c, source, match, subject)
        case _:
            _anything(c, source)


def _anything(c: Candidate, source: Source, slots: Sequence[int] = ()) -> None:
    """Draws something that a clause reads again."""
    pool = [slot for slot in _upstream(c, slots or range(len(c.plan.variant.slots))) if slot not in c.plan.literals]
    if pool and source.integer(0, 3):
        c.forget(choice(source, pool))
        return
    if c.plan.variant.nodes:
        index = source.integer(0, len(c.plan.variant.nodes) - 1)
        c.written[index] = dict(c.plan.attributes[index])
    if source.integer(0, 2) == 2:
        c.main = choice(source, c.plan.dtypes)
        c.dtypes.clear()
        for slot in list(c.values):
            if slot not in c.plan.literals:
                c.forget(slot)


def _reliteral(c: Candidate, source: Source, slot: int, value: object) -> None:
    if value is None:
        c.forget(slot)
        return
    dtype = c.dtypes.get(slot, c.main)
    with np.errstate(all="ignore"):
        array = np.asarray(value).astype(numpy_dtype(dtype))
    c.values[slot], c.shapes[slot] = array, array.shape


def _retype(c: Candidate, source: Source, match: Match, subject: subjects.OfType) -> None:
    dtypes, dims = subject.wanted(match)
    slot = subject.slot
    actual = c.types[slot]
    if dtypes is not None and actual.dtype not in dtypes:
        _set_dtype(c, source, slot, choice(source, dtypes))
        return
    shape = list(actual.shape or ())
    wanted: list[int] = []
    rest = len(shape) - (len(dims) - 1)
    for position, dim in enumerate(dims):
        if dim == "...":
            count = max(rest, 0) if rest >= 0 else source.integer(0, 1)
            wanted += [int(n or 0) for n in shape[position : position + count]]
        elif isinstance(dim, int):
            wanted.append(dim)
        else:
            wanted.append(int(shape[position]) if position < len(shape) else choice(source, c.sizes))  # type: ignore[arg-type]
    _set_shape(c, source, slot, wanted)


# ---------------------------------------------------------------- setters: a free slot directly, a result by its maker


def _set_dtype(c: Candidate, source: Source, slot: int, dtype: str) -> None:
    if slot in c.plan.free and source.integer(0, 1):
        c.forget(slot)
        c.dtypes[slot] = dtype
    elif dtype in c.plan.dtypes:
        c.main = dtype
        for free in c.plan.free:
            if c.plan.own.get(free) is None:
                c.forget(free)
    else:
        _anything(c, source, (slot,))


def _set_shape(c: Candidate, source: Source, slot: int, shape: Sequence[int]) -> None:
    if any(n < 0 for n in shape) or math.prod(shape) > 40000:
        _anything(c, source, (slot,))
        return
    if slot in c.plan.free:
        kept = c.dtypes.get(slot)
        c.forget(slot)
        c.shapes[slot] = tuple(shape)
        if kept is not None:
            c.dtypes[slot] = kept
        if slot in c.plan.known and slot not in c.plan.literals:
            c.values[slot] = numbers(c.plan, source, tuple(shape), kept or c.main, False)
            c.dtypes.setdefault(slot, c.main)
        return
    index, node = next((k, n) for k, n in enumerate(c.plan.variant.nodes) if slot in n.outputs)
    inputs = node.inputs
    sized = node.op == "Expand" or (node.op == "Reshape" and math.prod(shape) == c.types[inputs[0]].numel)
    if sized and inputs[1] in c.plan.free and inputs[1] not in c.plan.literals:
        array = np.asarray(shape, np.int64)
        c.values[inputs[1]], c.shapes[inputs[1]] = array, array.shape
        return
    back = _back(c, index, slot, shape)
    if back and source.integer(0, 4):
        for operand, wanted in back:
            _set_shape(c, source, operand, wanted)
        return
    _anything(c, source, (slot,))


def _back(c: Candidate, index: int, slot: int, shape: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Shapes of operands that would give a result of this shape, by what the operator does; empty where unknown."""
    node = c.plan.variant.nodes[index]
    facts, first = operators.find(node.op), node.inputs[0] if node.inputs else ABSENT
    if facts is None or first == ABSENT or first not in c.types:
        return []
    perm = c.effective[index].get("perm") if index < len(c.effective) else None
    rank = c.types[first].rank
    if node.op == "Transpose" and isinstance(perm, tuple) and len(perm) == len(shape):
        moved = [0] * len(shape)
        for k, axis in enumerate(perm):
            moved[axis] = shape[k]
        return [(first, moved)]
    if node.op == "MatMul" and len(shape) >= 2 and rank is not None and rank >= 2:
        a = [int(n) for n in c.types[first].shape or ()]  # type: ignore[arg-type]
        b = [int(n) for n in c.types[node.inputs[1]].shape or ()]  # type: ignore[arg-type]
        if len(b) >= 2:
            return [(first, [*shape[:-1], a[-1]]), (node.inputs[1], [*shape[:-2][: len(b) - 2], a[-1], shape[-1]])]
    if facts.pointwise:
        whole = c.types[slot].shape
        like = [(s, list(shape)) for s in node.inputs if s != ABSENT and c.types[s].shape == whole]
        return like or [(first, list(shape))]
    if node.op == "Unsqueeze" and node.inputs[1] in c.values:
        axes = {int(axis) % len(shape) for axis in c.values[node.inputs[1]].reshape(-1)} if shape else set()
        return [(first, [n for k, n in enumerate(shape) if k not in axes])]
    return [(first, list(limited(tuple(shape))))] if rank == len(shape) else []


def _set_attribute(c: Candidate, source: Source, node: int, name: str, value: object) -> None:
    if source.integer(0, 4) == 4:
        _anything(c, source, c.plan.variant.nodes[node].inputs)
    elif node >= 0:
        c.written[node][name] = value


def _set_value(c: Candidate, source: Source, slot: int, value: object, symbol: str) -> None:
    """Makes a constant stand in a relation to a number or an array: exactly there, or a little beyond."""
    if slot not in c.plan.free or slot not in c.values:
        _anything(c, source, (slot,))
        return
    held = c.values[slot]
    number = values.numpy_value(values.plain(value))
    wanted = np.asarray(number, np.float64)
    if held.dtype.kind == "b" or wanted.dtype.kind not in "fiu":
        _anything(c, source, (slot,))
        return
    step = {"<": -1, ">": 1}.get(symbol[:1], 0) * choice(source, (0, 1, 0.5) if symbol[-1] == "=" else (1, 0.5))
    with np.errstate(all="ignore"):
        try:
            array = np.broadcast_to(wanted + step, held.shape if wanted.ndim <= held.ndim else wanted.shape)
        except ValueError:
            array = wanted + step
        c.values[slot] = np.asarray(array).astype(held.dtype)
    c.shapes[slot] = c.values[slot].shape


def _satisfy(c: Candidate, source: Source, match: Match, subject: subjects.OfGuard) -> None:
    """Changes one side of a comparison to what the other side is; or draws again what the clause reads."""
    options: list[Callable[[], None]] = []
    for comparison in subject.comparisons:
        try:
            found = [run(match) for run in comparison.runs]
        except _ERRORS:
            continue
        for side in (0, 1):
            place, other = comparison.places[side], found[1 - side]
            if place is None or isinstance(other, values.Unknown):
                continue
            symbol = comparison.symbol if side == 0 else _MIRRORED.get(comparison.symbol, comparison.symbol)
            options.append(lambda place=place, other=other, symbol=symbol: _place(c, source, place, other, symbol))  # type: ignore[misc]
    if options and source.integer(0, 5):
        try:
            choice(source, options)()
            return
        except _ERRORS:
            pass
    _anything(c, source, subject.slots)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _place(c: Candidate, source: Source, place: subjects.Place, other: object, symbol: str) -> None:
    other = values.plain(other)
    if isinstance(other, values.ValueSet):
        other = choice(source, other.items)
    if isinstance(other, Quantity):
        other = values.plain(other.amount)
    if symbol in ("!=", "not in"):
        _anything(c, source, (place.slot,) if place.slot >= 0 else ())
        return
    match place.kind:
        case "dtype":
            _set_dtype(c, source, place.slot, str(other))
        case "shape":
            wanted = plain_number(other)
            if isinstance(wanted, tuple):
                _set_shape(c, source, place.slot, [int(n) for n in wanted])
            else:
                _anything(c, source, (place.slot,))
        case "rank":
            _set_rank(c, source, place.slot, int(values.numpy_value(other)), symbol)
        case "numel":
            count = int(values.numpy_value(other))
            shapes: tuple[tuple[int, ...], ...] = (
                ((), (1,), (1, 1)) if count == 1 else ((count,), (count, 1), (count, 1, 1))
            )
            _set_shape(c, source, place.slot, choice(source, shapes))
        case "dim":
            shape = [int(n) for n in c.types[place.slot].shape or ()]  # type: ignore[arg-type]
            size = int(values.numpy_value(other)) + {"<": -1, ">": 1}.get(symbol, 0)
            if -len(shape) <= place.index < len(shape):
                shape[place.index] = size
                _set_shape(c, source, place.slot, shape)
            else:
                _anything(c, source, (place.slot,))
        case "value":
            _set_value(c, source, place.slot, other, symbol)
        case "attribute":
            _reattribute(c, source, place, other, symbol)
        case _:
            _anything(c, source, (place.slot,))


def _set_rank(c: Candidate, source: Source, slot: int, rank: int, symbol: str) -> None:
    rank += {"<": -1, ">": 1}.get(symbol, 0)
    shape = [int(n) for n in c.types[slot].shape or ()]  # type: ignore[arg-type]
    shape = shape[len(shape) - rank :] if rank <= len(shape) else [1] * (rank - len(shape)) + shape
    _set_shape(c, source, slot, shape)


def _reattribute(c: Candidate, source: Source, place: subjects.Place, other: object, symbol: str) -> None:
    node = place.node
    if node < 0:
        node = next((k for k, n in enumerate(c.plan.variant.nodes) if place.slot in n.outputs), -1)
    value = attribute_number(other)
    if node < 0 or value is None:
        _anything(c, source, (place.slot,) if place.slot >= 0 else ())
        return
    held = c.effective[node].get(place.name)
    if isinstance(held, tuple) and not isinstance(value, tuple):
        value = (value,) * len(held)
    if isinstance(held, float) and isinstance(value, int):
        value = float(value)
    _set_attribute(c, source, node, place.name, value)


__all__ = ["find_match", "first_failing"]
