"""Compares the two sides of one match, cheapest tier first: in exact algebra, as real numbers, in the types' floats.

In: `Sides` and a seed. Out: a `Verdict`: what was established, or how the sides differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import is_float
from rewrite_engine.operators.types import TensorType
from rewrite_engine.testing.verify import bounded, inputs, interpreter
from rewrite_engine.testing.verify.field import Field, is_simple
from rewrite_engine.testing.verify.interpreter import Undecided
from rewrite_engine.testing.verify.node_draft import Array
from rewrite_engine.testing.verify.plan import Plan
from rewrite_engine.testing.verify.rational import Rational
from rewrite_engine.testing.verify.sides import Graph, Invalid, Misfit, Sides, arguments, execute, program_of

APART = 1 / 8
"""An approximation keeps at least three bits: it is within this share of the larger of its result and its inputs."""


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How the sides differ: at `index` of result `output`, with these inputs. `kind` names the tier's finding."""

    kind: str
    message: str
    drawn: Mapping[str, Array] = field(default_factory=dict)
    output: int = 0
    left: Array | None = None
    right: Array | None = None


@dataclass(slots=True, eq=False)
class Verdict:
    """`exact`: equal in exact algebra (None: not decided), with the degree for the probability of error. `same`: every
    float was equal. `ulps`: the largest distance in units in the last place. `notes`: differences that are allowed."""

    exact: bool | None = None
    why: str = ""
    algebra: str = ""
    degree: int = 0
    same: bool = True
    ulps: float = 0.0
    apart: float = 0.0
    real: bool | None = None
    notes: list[str] = field(default_factory=list)
    difference: Difference | None = None


@dataclass(slots=True, eq=False)
class Case:
    """The programs of both sides and what they are given."""

    sides: Sides
    plan: Plan
    left: Program
    right: Program
    literal: Mapping[str, tuple[Array, float]]  # as written, and half a unit in the last digit
    small: frozenset[str]

    @property
    def label(self) -> str:
        return "reassociates" if self.sides.composed else self.sides.rule.label


def judge(sides: Sides, plan: Plan, seed: int, tiers: int = 3) -> Verdict:
    """The verdict on one match. Raises `NoProgram` where an operator cannot be computed."""
    case = case_of(sides, plan)
    verdict = Verdict()
    if tiers >= 2:
        _exact(case, seed, verdict)
    if tiers >= 3 and verdict.difference is None:
        _floats(case, seed, verdict)
    return verdict


def rejudge(sides: Sides, plan: Plan) -> Callable[[Mapping[str, Array]], Difference | None]:
    """A function of inputs: how the sides differ on them, if they do and the label does not allow it."""
    case = case_of(sides, plan)

    def differ(drawn: Mapping[str, Array]) -> Difference | None:
        verdict = Verdict()
        special = not all(np.isfinite(a.astype(np.float64)).all() for a in drawn.values() if is_float(a.dtype.name))
        compare(case, drawn, special, verdict)
        return verdict.difference

    return differ


def case_of(sides: Sides, plan: Plan) -> Case:
    """The programs of a match. Raises `NoProgram` where an operator cannot be computed, `Invalid` for unlike shapes."""
    slots = dict(zip(sides.left.inputs, plan.free, strict=False))
    literal = {
        name: (np.asarray(plan.literals[slot], np.float64), _written(plan.literals[slot]))
        for name, slot in slots.items()
        if slot in plan.literals
    }
    positions = inputs.positions(sides.variant)
    small = frozenset(name for name, slot in slots.items() if slot in positions)
    left = program_of(sides.left)
    try:
        right = program_of(sides.right, sides.composed)
    except Misfit as misfit:
        raise Invalid(f"the right side cannot be computed: {misfit}", sides.left) from None
    made = [[program.tensors[name].shape for name in program.outputs] for program in (left, right)]
    if made[0] != made[1]:
        raise Invalid(f"the left side computes the shapes {made[0]}, the right side {made[1]}", sides.left)
    return Case(sides, plan, left, right, literal, small)


def _written(value: object) -> float:
    """Half a unit in the last digit of a literal, where it is not exact."""
    numbers = value if isinstance(value, tuple) else (value,)
    found = 0.0
    for number in numbers:
        if isinstance(number, float) and not is_simple(number):
            exponent = Decimal(repr(number)).as_tuple().exponent
            found = max(found, 0.5 * 10.0 ** int(exponent))
    return found


def runtime_inputs(graph: Graph) -> dict[str, TensorType]:
    """The inputs that are no constants."""
    return {name: kind for name, kind in graph.inputs.items() if name not in graph.constants}


# ---------------------------------------------------------------- exact algebra


def _exact(case: Case, seed: int, verdict: Verdict) -> None:
    random = np.random.default_rng([seed, 11])
    runtime = runtime_inputs(case.sides.left)
    plain = inputs.draw(runtime, case.small, (seed, 12), False, ())
    for algebra in (Field(seed), Rational(seed)):
        name = type(algebra).__name__.lower()
        try:
            drawn: dict[str, Any] = {}
            for key, kind in runtime.items():
                if isinstance(algebra, Rational):
                    drawn[key] = algebra.input(plain[key], kind.dtype, random, case.plan.numbers)
                else:
                    drawn[key] = algebra.input(plain[key], kind.dtype, random)
            left = _run(case, case.left, case.sides.left, drawn, algebra)
            right = _run(case, case.right, case.sides.right, drawn, algebra)
        except Undecided as undecided:
            verdict.why = str(undecided)
            continue
        verdict.algebra = name
        verdict.degree = algebra.degree if isinstance(algebra, Field) else 0
        where = next((k for k, (a, b) in enumerate(zip(left, right, strict=True)) if algebra.differ(a, b)), None)
        if where is None:
            if isinstance(algebra, Rational) and algebra.undefined:
                verdict.why = "something divides by zero"
                return
            verdict.exact = True
            return
        if algebra.rounded:
            verdict.why = "constants are rounded"
        elif algebra.random:
            verdict.why = "it rests on properties of functions"
        else:
            verdict.why = "the sides differ in exact arithmetic"
            verdict.exact = False
        return


def _run(case: Case, program: Program, graph: Graph, drawn: Mapping[str, Any], algebra: Any) -> list[Any]:
    for name, array in graph.constants.items():
        written = case.literal.get(name)
        if written is not None:
            algebra.rounded |= not np.all(written[0] == array.astype(np.float64))
        precise = case.sides.precise.get(name)
        if precise is not None:
            algebra.rounded |= not np.array_equal(precise, array.astype(np.float64))
    return computed(program, graph, drawn, algebra)


def computed(program: Program, graph: Graph, drawn: Mapping[str, Any], algebra: Any) -> list[Any]:
    """What a side computes in an algebra, given the elements of its run-time inputs. Raises `Undecided`."""
    held = dict(drawn)
    for name, array in graph.constants.items():
        kind = graph.inputs.get(name)
        held[name] = algebra.constant(array, kind.dtype if kind is not None else array.dtype.name)
    return interpreter.run(program, arguments(graph, held), algebra)


# ---------------------------------------------------------------- floats


def _floats(case: Case, seed: int, verdict: Verdict) -> None:
    runtime = runtime_inputs(case.sides.left)
    if verdict.exact is False:
        drawn = _whole(case, seed)
        compare(case, drawn, False, verdict)
        if verdict.difference is None and case.label != "approximates":
            held = {**drawn, **case.sides.left.constants, **case.sides.right.constants}
            left, right = execute(case.sides.left, case.left, held), execute(case.sides.right, case.right, held)
            _say(verdict, "algebra", "the sides differ in exact arithmetic", drawn, left, right)
        if verdict.difference is not None:
            return
    for special in (False, True):
        drawn = inputs.draw(runtime, case.small, (seed, 13, int(special)), special, case.plan.numbers)
        compare(case, drawn, special, verdict)
        if verdict.difference is not None:
            return


def _whole(case: Case, seed: int) -> dict[str, Array]:
    """Small whole numbers with ties, as exact algebra has them."""
    random = np.random.default_rng([seed, 14])
    drawn = inputs.draw(runtime_inputs(case.sides.left), case.small, (seed, 12), False, ())
    for name, array in drawn.items():
        if is_float(array.dtype.name):
            drawn[name] = random.integers(-3, 4, array.shape).astype(array.dtype)
    return drawn


def compare(case: Case, drawn: Mapping[str, Array], special: bool, verdict: Verdict) -> None:
    """Runs both sides on the same inputs and holds what differs against the label."""
    label = case.label
    held = {**drawn, **case.sides.left.constants, **case.sides.right.constants}
    left = execute(case.sides.left, case.left, held)
    right = execute(case.sides.right, case.right, held)
    same = all(_same(a, b) for a, b in zip(left, right, strict=True))
    verdict.same &= same
    if label == "exact" and not same:
        _say(verdict, "floats", _reason(case, verdict, drawn, special), drawn, left, right)
        return
    if same and verdict.exact is not False and (label == "exact" or verdict.exact):
        return
    if special and (label == "approximates" or same):
        return
    try:
        _bounds(case, drawn, left, right, special, verdict)
    except Undecided as undecided:
        verdict.why = verdict.why or str(undecided)
        if not same:
            verdict.notes.append(f"no bound is known: {undecided}")


def _reason(case: Case, verdict: Verdict, drawn: Mapping[str, Array], special: bool) -> str:
    """Why a rule that is called exact is not."""
    real = _real(case, drawn)
    if verdict.exact is not False and (real or (real is None and verdict.exact)):
        what = "on special values" if special else "in rounding"
        return f"the sides differ {what} only: exact is too strong a label, `reassociates` would say so"
    return "the sides compute different things"


def _real(case: Case, drawn: Mapping[str, Array]) -> bool | None:
    """Whether the sides agree as real numbers, on these inputs."""
    try:
        left, right = _bounded(case, drawn, real=True)
    except Undecided:
        return None
    return all(not _beyond(a, b).any() for a, b in zip(left, right, strict=True))


def _bounded(case: Case, drawn: Mapping[str, Array], real: bool) -> tuple[list[Any], list[Any]]:
    algebra = bounded.Bounded(real)
    found = []
    for program, graph in ((case.left, case.sides.left), (case.right, case.sides.right)):
        held: dict[str, Any] = {}
        for name, kind in graph.inputs.items():
            array = graph.constants.get(name, drawn.get(name))
            assert array is not None
            held[name] = algebra.given(array, kind.dtype, case.literal.get(name))
        for name, array in graph.constants.items():
            if name not in held:
                held[name] = algebra.known(array, case.sides.precise.get(name), array.dtype.name)
        found.append(interpreter.run(program, arguments(graph, held), algebra))
    return found[0], found[1]


def _beyond(a: Any, b: Any) -> Array:
    """Where two bounded values cannot be roundings of one number."""
    if np.asarray(a.center).dtype == np.bool_:
        return np.asarray((a.center != b.center) & ~a.error & ~b.error)
    with np.errstate(all="ignore"):
        x, y = np.asarray(a.center, np.float64), np.asarray(b.center, np.float64)
        room = a.error + b.error
        both = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y) > room, False)
        return np.asarray(~both & apart & np.isfinite(room))


def _bounds(
    case: Case, drawn: Mapping[str, Array], left: list[Array], right: list[Array], special: bool, verdict: Verdict
) -> None:
    if not special and not verdict.exact:
        reals = _bounded(case, drawn, real=True)
        different = any(_beyond(a, b).any() for a, b in zip(*reals, strict=True))
        verdict.real = not different and verdict.real is not False
        if case.label == "approximates":
            size = max(
                (_size(array.astype(np.float64)) for array in drawn.values() if is_float(array.dtype.name)), default=0.0
            )
            verdict.apart = max(verdict.apart, *(_share(a, b, size) for a, b in zip(*reals, strict=True)))
            if verdict.apart > APART:
                message = f"an approximation, but {verdict.apart:.2g} of the result's size apart"
                _say(verdict, "floats", message, drawn, left, right)
            return
        if different:
            _say(verdict, "floats", "the sides compute different things, rounding apart", drawn, left, right)
            return
    if case.label == "approximates":
        return
    bounds = _bounded(case, drawn, real=False)
    for a, b, bound_a, bound_b in zip(left, right, *bounds, strict=True):
        room = np.asarray(bound_a.error) + np.asarray(bound_b.error)
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float64), b.astype(np.float64)
            known = np.isfinite(bound_a.center) & np.isfinite(bound_b.center) if room.dtype != np.bool_ else True
            unequal = ~((x == y) | (np.isnan(x) & np.isnan(y)))
            room = np.where(room, np.inf, 0.0) if room.dtype == np.bool_ else room
            wrong = unequal & known & np.isfinite(room) & ~(np.abs(x - y) <= room)
        if wrong.any():
            _say(verdict, "floats", "the results are farther apart than rounding allows", drawn, left, right)
            return
        if not special and is_float(a.dtype.name):
            verdict.ulps = max(verdict.ulps, ulps(a, b))
        elif special and unequal.any():
            verdict.notes.append("the sides differ on special values or where numbers overflow")


def _size(array: Array) -> float:
    """The root mean square of the finite elements."""
    known = array[np.isfinite(array)]
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(known)))) if known.size else 0.0


def _share(a: Any, b: Any, size: float) -> float:
    """How far apart two results are, as a share of the larger of the result and the inputs (`size`)."""
    with np.errstate(all="ignore"):
        x, y = np.asarray(a.center, np.float64), np.asarray(b.center, np.float64)
        known = np.isfinite(x) & np.isfinite(y)
        apart = np.maximum(np.abs(x - y)[known] - np.asarray(a.error + b.error)[known], 0)
    found, whole = _size(apart), max(_size(x[known]), size)
    return 0.0 if found == 0 else found / whole if whole else np.inf


def ulps(a: Array, b: Array) -> float:
    """The largest distance in units in the last place of the larger number, where both are finite."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    unit, least, _ = bounded.UNITS.get(a.dtype.name, (2.0**-3, 0.0, 0.0))
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(x), np.abs(y))
        spacing = np.maximum(2.0 ** np.floor(np.log2(np.where(size > 0, size, 1))) * 2 * unit, 2 * least)
        apart = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y) / spacing, 0.0)
    return float(np.max(apart, initial=0.0))


def _same(a: Array, b: Array) -> bool:
    """Equal as numbers; NaN equals NaN, and zeros of both signs are equal."""
    if is_float(a.dtype.name):
        x, y = a.astype(np.float64), b.astype(np.float64)
        return bool(np.all((x == y) | (np.isnan(x) & np.isnan(y))))
    return np.array_equal(a, b)


def _say(
    verdict: Verdict, kind: str, message: str, drawn: Mapping[str, Array], left: list[Array], right: list[Array]
) -> None:
    output = next((k for k, (a, b) in enumerate(zip(left, right, strict=True)) if not _same(a, b)), 0)
    verdict.difference = Difference(kind, message, dict(drawn), output, left[output], right[output])


__all__ = ["Case", "Difference", "Verdict", "case_of", "compare", "computed", "judge", "rejudge", "runtime_inputs"]
