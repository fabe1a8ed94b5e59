"""From a candidate to a match: the first check that does not hold says what to change, until all of them hold.

In: a plan and a source of choices. Out: a candidate that satisfies the pattern and its guard, or None where none was
found within so many attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import subjects, values
from rewrite_engine.language.core import Answer, CoreRule, Facts, Refusal
from rewrite_engine.language.evaluate import answer
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.language.program import Match
from rewrite_engine.language.units import Quantity
from rewrite_engine.operators.dtypes import is_float
from rewrite_engine.operators.types import TensorType
from rewrite_engine.testing.verify.candidate import Candidate, Unfit, settle, start
from rewrite_engine.testing.verify.draws import Source, choice
from rewrite_engine.testing.verify.fitting import reopen
from rewrite_engine.testing.verify.plan import Plan, attribute_number, plain_number, roomy
from rewrite_engine.testing.verify.setters import anything, set_attribute, set_dtype, set_shape, set_value

ATTEMPTS, AFRESH = 48, 16
"""Changes that are tried in all, and after how many of them all is drawn again."""
_ERRORS = (values.EvaluationError, ArithmeticError, ValueError, TypeError, LookupError, RewriteError)


def find_match(
    plan: Plan,
    source: Source,
    rule: CoreRule,
    skip: int | None = None,
    attempts: int = ATTEMPTS,
    view: Callable[[Candidate], Facts] = Candidate.facts,
    begin: Callable[[Plan, Source], Candidate] = start,
) -> Candidate | None:
    """A candidate for which every check holds and the rule builds something; with `skip`, every check but that one.

    `view` gives what the rule is told of a candidate; `begin` makes those that changes start from.
    """
    c = begin(plan, source)
    for attempt in range(attempts):
        if attempt and attempt % AFRESH == 0:
            c = begin(plan, source)
        try:
            settle(c, source)
            facts = view(c)
        except Unfit as unfit:
            reopen(c, source, unfit.node)
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
        anything(c, source)
        return False
    for root, reference in zip(variant.roots, variant.template.roots, strict=True):
        kind = _type_of(reference, c, found)
        if kind is not None and kind.numel is not None and kind.shape != c.types[root].shape and source.integer(0, 3):
            set_shape(c, source, root, [int(n) for n in kind.shape or ()])  # type: ignore[arg-type]
            return False
        if kind is not None and kind.dtype != c.types[root].dtype and source.integer(0, 1):
            set_dtype(c, source, root, kind.dtype)
            return False
    anything(c, source)
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
                set_attribute(c, source, node, name, value)
            elif subject.absent:
                c.written[node].pop(name, None)
            else:
                c.written[node] = dict(c.plan.attributes[node])
        case subjects.OfLiteral(slot=slot, value=run):
            _reliteral(c, source, slot, plain_number(run(match)))
        case subjects.OfGuard():
            _satisfy(c, source, match, subject)
        case _:
            anything(c, source)


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
        set_dtype(c, source, slot, choice(source, dtypes))
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
    set_shape(c, source, slot, wanted)


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
        if comparison.places == (None, None):
            options.append(lambda comparison=comparison: _solve(c, source, comparison, subject.slots))  # type: ignore[misc]
    if options and source.integer(0, 5):
        try:
            choice(source, options)()
            return
        except _ERRORS:
            pass
    anything(c, source, subject.slots)


def _solve(c: Candidate, source: Source, comparison: subjects.Comparison, slots: Sequence[int]) -> None:
    """Makes both sides of a comparison equal by the constant that it is linear in; else draws again."""
    held = [k for k in slots if k in c.values and k not in c.plan.literals and is_float(c.values[k].dtype.name)]
    if not held:
        anything(c, source, slots)
        return

    def gap() -> Any:
        match = roomy(Match(c.plan.variant, c.facts()))
        left, right = (np.asarray(values.numpy_value(values.plain(run(match))), np.float64) for run in comparison.runs)
        return left - right

    slot = choice(source, held)
    array, before = c.values[slot], gap()
    c.values[slot] = array + np.ones((), array.dtype)
    slope = gap() - before
    with np.errstate(all="ignore"):
        steps = (before / slope)[np.isfinite(before / slope)]
        step = choice(source, (steps.min(), steps.max())) if steps.size else 0.0
        c.values[slot] = (array - step).astype(array.dtype)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _place(c: Candidate, source: Source, place: subjects.Place, other: object, symbol: str) -> None:
    other = values.plain(other)
    if isinstance(other, values.ValueSet):
        other = choice(source, other.items)
    if isinstance(other, Quantity):
        other = values.plain(other.amount)
    if symbol in ("!=", "not in"):
        anything(c, source, (place.slot,) if place.slot >= 0 else ())
        return
    match place.kind:
        case "dtype":
            set_dtype(c, source, place.slot, str(other))
        case "shape":
            wanted = plain_number(other)
            if isinstance(wanted, tuple):
                set_shape(c, source, place.slot, [int(n) for n in wanted])
            else:
                anything(c, source, (place.slot,))
        case "rank":
            _set_rank(c, source, place.slot, int(values.numpy_value(other)), symbol)
        case "numel":
            count = int(values.numpy_value(other))
            shapes: tuple[tuple[int, ...], ...] = (
                ((), (1,), (1, 1)) if count == 1 else ((count,), (count, 1), (count, 1, 1))
            )
            set_shape(c, source, place.slot, choice(source, shapes))
        case "dim":
            shape = [int(n) for n in c.types[place.slot].shape or ()]  # type: ignore[arg-type]
            size = int(values.numpy_value(other)) + {"<": -1, ">": 1}.get(symbol, 0)
            if -len(shape) <= place.index < len(shape):
                shape[place.index] = size
                set_shape(c, source, place.slot, shape)
            else:
                anything(c, source, (place.slot,))
        case "value":
            set_value(c, source, place.slot, other, symbol)
        case "attribute":
            _reattribute(c, source, place, other, symbol)
        case _:
            anything(c, source, (place.slot,))


def _set_rank(c: Candidate, source: Source, slot: int, rank: int, symbol: str) -> None:
    rank += {"<": -1, ">": 1}.get(symbol, 0)
    shape = [int(n) for n in c.types[slot].shape or ()]  # type: ignore[arg-type]
    shape = shape[len(shape) - rank :] if rank <= len(shape) else [1] * (rank - len(shape)) + shape
    set_shape(c, source, slot, shape)


def _reattribute(c: Candidate, source: Source, place: subjects.Place, other: object, symbol: str) -> None:
    node = place.node
    if node < 0:
        node = next((k for k, n in enumerate(c.plan.variant.nodes) if place.slot in n.outputs), -1)
    value = attribute_number(other)
    if node < 0 or value is None:
        anything(c, source, (place.slot,) if place.slot >= 0 else ())
        return
    held = c.effective[node].get(place.name)
    if isinstance(held, tuple) and not isinstance(value, tuple):
        value = (value,) * len(held)
    if isinstance(held, float) and isinstance(value, int):
        value = float(value)
    set_attribute(c, source, node, place.name, value)


__all__ = ["find_match", "first_failing"]
