"""Answers about a match: does it hold, what does it build, what does it cost.

In: a core rule's variant and the facts of one match. Out: an `Answer`, or a `Refusal` with the first clause that
failed. Nothing that a user's file or model says raises, but for a cost over a dimension that is not bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from rewrite_engine import operators
from rewrite_engine.diagnostics import Problem, RewriteError, Span
from rewrite_engine.language import core, names, syntax, units, values
from rewrite_engine.language.arithmetic import as_quantity
from rewrite_engine.language.build import BuildRefused, build
from rewrite_engine.language.compile import Compiler, Env, ReadsAbsent, constant
from rewrite_engine.language.core import Answer, CoreRule, Facts, Refusal, Variant
from rewrite_engine.language.lower import expand_rest
from rewrite_engine.language.program import Match, Program, Run
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.units import Dimension, Quantity, UnitMismatch
from rewrite_engine.language.values import EvaluationError, NodeView, Unknown

_USER_ERRORS = (EvaluationError, ArithmeticError, ValueError, TypeError, LookupError, RewriteError)


class UnboundCost(RewriteError):
    """A cost that rests on the size of `dimension`, which has none; the message says which cost, and how to bind it."""

    def __init__(self, what: str, dimension: str, span: Span | None = None, mend: str | None = None) -> None:
        self.what, self.dimension, self.span = what, dimension, span
        where = "" if span is None else f"{span}: "
        super().__init__(f"{where}{what}; {mend or f'bind it with --dim {dimension}=SIZE'}")


def answer(rule: CoreRule, variant: Variant, facts: Facts) -> Answer | Refusal:
    """What `rule` says of a match of `variant` (after `expand_rest`) of which `facts` are known.

    Costs are seconds, energies joules, both exact. Raises `UnboundCost` when everything holds but the cost rests on a
    dimension that is not known.
    """
    match = Match(variant, facts)
    program = match.program
    for check in program.checks:
        try:
            reason = check.run(match)
        except _USER_ERRORS as error:
            reason = str(error)
        if reason is not None:
            return Refusal(reason, check.span)
    span = program.span
    try:
        if rule.kind == "rule":
            assert variant.template is not None and program.template is not None
            attributes, types, constants = build(match, variant.template, program.template)
            return Answer(attributes, types, constants, given=_given(match, range(len(program.given))))
        span = program.cost_span or span
        cost = _amount(match, program.cost, span, units.TIME)
        span = program.energy_span or span
        energy = _amount(match, program.energy, span, units.ENERGY)
        span = program.span
        given = _given(match, program.attributes)
    except BuildRefused as refused:
        return Refusal(str(refused), refused.span)
    except UnboundCost:
        raise
    except _USER_ERRORS as error:
        return Refusal(str(error), span)
    attributes = (given,) if rule.kind == "composite" else ()
    return Answer(attributes, cost=cost, energy=energy, profile=program.profile, given=given)


def _given(match: Match, indices: range | tuple[int, ...]) -> Mapping[str, object]:
    """`with` values as plain Python and NumPy ones, by name; a rule's without a value for this match is left out."""
    found: dict[str, object] = {}
    for index in indices:
        give = match.program.given[index]
        try:
            value = match.given_value(index)
        except EvaluationError as error:
            if match.variant.template is not None:
                continue  # the template would have refused, had it read the value
            raise EvaluationError(f"`{give.name}`: {error}") from None
        if isinstance(value, Unknown) and match.variant.template is None:
            raise EvaluationError(f"`{give.name}` is not known: {value.reason}")
        found[give.name] = plain_value(value)
    return found


def plain_value(value: object) -> object:
    """A value for a code generator: ints, floats, strings, tuples and arrays only."""
    value = values.plain(value)
    match value:
        case Fraction():
            return int(value) if value.denominator == 1 else float(value)
        case Quantity():
            return plain_value(value.amount)
        case tuple():
            return tuple(plain_value(item) for item in value)
        case _:
            return value


def _amount(match: Match, run: Run | None, span: Span, wanted: Dimension) -> Fraction | None:
    if run is None:
        return None
    value = run(match)
    if value is None:
        return None
    if isinstance(value, Unknown):
        what = "energy" if wanted == units.ENERGY else "cost"
        message = f"the {what} cannot be told: {value.reason}"
        if value.dimension is None:  # no size would help
            raise EvaluationError(message)
        raise UnboundCost(message, value.dimension, span)
    return _checked(value, wanted)


def _checked(value: object, wanted: Dimension) -> Fraction:
    """The amount in base units; `EvaluationError` for another dimension, or less than nothing."""
    try:
        quantity = as_quantity(value)
        units.expect(wanted, quantity.dimension)
    except UnitMismatch as mismatch:
        raise EvaluationError(str(mismatch)) from None
    if quantity.amount < 0:
        raise EvaluationError(f"expected at least nothing, found {units.show(quantity)}")
    return quantity.amount


def profiles(rule: CoreRule) -> tuple[str, ...]:
    """The keys of measurements that a capability costs: `cost profile("key")`."""
    programs = (variant.program for variant in rule.variants if isinstance(variant.program, Program))
    return tuple(dict.fromkeys(program.profile for program in programs if program.profile is not None))


# ---------------------------------------------------------------- machines


def evaluate_quantity(expr: syntax.Expr, scope: Scope, dimension: Dimension) -> Fraction | Problem:
    """A size, a time or a rate that a rule file gives (`memory`, `launch`, `flops`, `bandwidth`), in base units."""
    return _standalone(expr, scope, dimension, {})


def evaluate_link_cost(expr: syntax.Expr, scope: Scope, bytes: int, dimension: Dimension = units.TIME) -> Fraction:
    """What moving a tensor of `bytes` over a link costs: seconds, or joules where `dimension` is `units.ENERGY`.

    Raises `RewriteError` where the formula has no such value.
    """
    size = Quantity(Fraction(bytes), units.BYTES)
    found = _standalone(expr, scope, dimension, {"bytes": size})
    if isinstance(found, Problem):
        raise RewriteError(f"{found.span}: {found.message}")
    return found


def _standalone(
    expr: syntax.Expr, scope: Scope, dimension: Dimension, known: Mapping[str, object]
) -> Fraction | Problem:
    compiler = Compiler(scope, None, {}, {})
    local = {name: constant(value) for name, value in known.items()}
    try:
        code = compiler.compile(expr, Env(None, expr.span.file, {**local}))
        return _checked(code.value if code.constant else code.run(_NO_MATCH), dimension)
    except ReadsAbsent as absent:
        return Problem(expr.span, f"`{absent}` is not known here")
    except names.LoweringError as error:
        return Problem(error.span, str(error), error.hint)
    except (*_USER_ERRORS, UnitMismatch) as error:
        return Problem(expr.span, str(error))


def _no_match() -> Match:
    span = Span("", 1, 1, 1, 1)
    program = Program(span, (), (), (), None, None, None, None, None, None, (), variables=64)
    return Match(Variant(0, (), (), (), (), None, program), Facts((), (), (), ()))


_NO_MATCH = _no_match()


# ---------------------------------------------------------------- `supported(conv)`, `conv.cost`


def cheapest(match: Match, node: NodeView) -> tuple[object, object]:
    """Whether this target's `supports` take an operator of the match by itself, and its least cost as a time."""
    key = ("supports", node.index)
    found = match.memo.get(key)
    if found is None:
        found = match.memo[key] = _cheapest(match, node)
    assert isinstance(found, tuple)
    return found[0], found[1]


def _cheapest(match: Match, node: NodeView) -> tuple[object, object]:
    best: Fraction | None = None
    reason: object = Unknown(f"the target does not support {node.op} by itself")
    supported = False
    for rule, form in match.program.capabilities.get(node.op, ()):
        fitted = fit(form, node)
        if fitted is None:
            continue
        given = answer(rule, fitted[0], fitted[1])
        if isinstance(given, Refusal):
            continue
        supported = True
        cost = given.cost if given.cost is not None else _roofline(match, node)
        if isinstance(cost, Unknown):
            reason = cost
        elif best is None or cost < best:
            best = cost
    return supported, reason if best is None else Quantity(best, units.TIME)


def fit(form: Variant, node: NodeView) -> tuple[Variant, Facts] | None:
    """The form laid over an operator of the match, with what is known of its operands; None where it does not fit."""
    pattern = form.nodes[0]
    extra = len(node.inputs) - len(pattern.inputs)
    if extra < 0 or (extra and pattern.rest is None):
        return None
    if pattern.rest is not None:
        present = [view is not None for view in node.inputs[len(pattern.inputs) :]]
        form = expand_rest(form, {0: present})
    pattern = form.nodes[0]
    bound: dict[int, values.View] = {}
    pairs = [*zip(pattern.inputs, node.inputs, strict=False), *zip(pattern.outputs, node.outputs, strict=False)]
    for slot, view in pairs:
        if slot == core.ABSENT:
            if view is not None and view in node.inputs:
                return None
        elif view is None or bound.setdefault(slot, view) is not view:
            return None
    if any(form.slots[slot].constant and not view.is_constant for slot, view in bound.items()):
        return None
    if len(bound) != len(form.slots):
        return None
    views = [bound[slot] for slot in range(len(form.slots))]
    facts = Facts(
        tuple(view.type for view in views),
        tuple(view.constant if slot.reads_value else None for slot, view in zip(form.slots, views, strict=True)),
        tuple(view.is_constant for view in views),
        (node.attributes,),
    )
    return form, facts


def _roofline(match: Match, node: NodeView) -> Fraction | Unknown:
    """The larger of the time to compute and the time to move, by the target's own limits."""
    inputs = [None if view is None else view.type for view in node.inputs]
    outputs = [None if view is None else view.type for view in node.outputs]
    flops = operators.work(node.op, node.attributes, inputs, outputs).flops
    size = operators.total_bytes([*inputs, *outputs])
    times: list[Fraction] = []
    for amount, rate in zip((flops, size), match.program.roofline, strict=True):
        if rate is None:
            continue
        if amount is None:
            return Unknown(f"the size of {node.op} is not known")
        times.append(Fraction(amount) / rate)
    return max(times) if times else Unknown(f"the target gives no cost for {node.op}, and no roofline")


__all__ = ["UnboundCost", "answer", "cheapest", "evaluate_link_cost", "evaluate_quantity", "plain_value"]
