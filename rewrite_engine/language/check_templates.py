"""Operators in patterns, templates and tests: that they exist, how many inputs they take, their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from rewrite_engine import operators
from rewrite_engine.diagnostics import Problem, Span, did_you_mean
from rewrite_engine.language import mistakes, syntax
from rewrite_engine.language.bindings import input_called
from rewrite_engine.operators import Attribute, Operator
from rewrite_engine.operators.types import ITEM_BITS

if TYPE_CHECKING:
    from rewrite_engine.language.check_expressions import Reader

NONE: Mapping[str, Operator] = {}
_DTYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype"})
_ELEMENTS = {"ints": "int", "floats": "float", "strings": "string"}
_PHRASES = {"int": "a whole number", "float": "a number", "string": 'a text in `"`', "ints": "a list of whole numbers",
            "floats": "a list of numbers", "strings": "a list of texts"}  # fmt: skip


def find_operator(
    name: str, span: Span, problems: list[Problem], declared: Mapping[str, Operator] = NONE
) -> Operator | None:
    """The operator of that name; a problem when there is none. `declared` are those of `operator` declarations."""
    found = operators.find(name) or declared.get(name)
    if found is None:
        hint = mistakes.operator(name) or did_you_mean(name, [*operators.names(), *declared])
        if "::" in name and hint is None:
            hint = f"declare its meaning: operator {name}(x) = …"
        problems.append(Problem(span, f"unknown operator `{name}`", hint))
    return found


def operator_call(call: syntax.Call, name: str, reader: Reader) -> None:
    """An operator that a template or a test builds."""
    if not reader.builds:
        reader.problem(
            call.span, f"`{name}(…)` builds an operator, which a guard, value or cost cannot", "use a function"
        )
        return
    operator = find_operator(name, call.function.span, reader.problems, reader.scope.declared)
    if operator is None:
        return
    open_ended = any(isinstance(argument, syntax.Rest) for argument in call.args)
    named = [(name, value.span) for name, value in call.keywords]
    count = with_named(operator, len(call.args), named, reader.problems)
    inputs(operator, count, open_ended, call.span, reader.problems)
    given = set()
    for attribute, value in call.keywords:
        if input_called(operator, attribute) is not None:
            continue
        given.add(attribute)
        if not misspelt_dtype(attribute, value, reader):
            check_attribute(operator, attribute, value, value.span, reader.problems)
    missing = [a.name for a in operator.attributes.values() if a.required and a.name not in given]
    if missing and not call.like:
        reader.problem(call.span, f"{name} needs the attribute `{missing[0]}`")


def with_named(operator: Operator, count: int, keywords: Sequence[tuple[str, Span]], problems: list[Problem]) -> int:
    """How many inputs there are with those given by name, such as `axes=[1]`; a problem where one is given twice."""
    reached = count
    for name, span in keywords:
        position = input_called(operator, name)
        if position is not None and position < count:
            problems.append(Problem(span, f"the input `{name}` of {operator.name} is given twice", _formals(operator)))
        elif position is not None:
            reached = max(reached, position + 1)
    return reached


def inputs(operator: Operator, count: int, open_ended: bool, span: Span, problems: list[Problem]) -> None:
    """Whether an operator can have that many inputs (`open_ended`: or more)."""
    least, most = operator.min_inputs, operator.max_inputs
    if (count < least and not open_ended) or (most is not None and count - open_ended > most):
        wanted = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        plural = "" if wanted == "1" else "s"
        problems.append(
            Problem(span, f"{operator.name} takes {wanted} input{plural}, found {count}", _formals(operator))
        )


def _formals(operator: Operator) -> str:
    shown = ", ".join(f.name + {"optional": "?", "variadic": "…"}.get(f.kind, "") for f in operator.inputs)
    return f"{operator.name}({shown})"


def check_attribute(operator: Operator, name: str, value: syntax.Expr, span: Span, problems: list[Problem]) -> None:
    """An attribute's name, and its type where the value is written out."""
    attribute = operator.attributes.get(name)
    if attribute is None:
        hint = did_you_mean(name, operator.attributes)
        if hint is None:
            known = ", ".join(sorted(operator.attributes))
            hint = f"it has {known}" if known else "it has none"
        problems.append(Problem(span, f"{operator.name} has no attribute `{name}`", hint))
        return
    for item in value.items if isinstance(value, syntax.SetExpr) else (value,):
        found = _found(attribute, item)
        if found:
            message = f"attribute `{name}` of {operator.name} is {_PHRASES[attribute.type]}, found {found}"
            problems.append(Problem(item.span, message))


def misspelt_dtype(name: str, value: syntax.Expr, reader: Reader) -> bool:
    """Reports a dtype that is written as elsewhere, or as a text: `to=float`, `to="float16"`."""
    if name not in _DTYPE_ATTRIBUTES or not isinstance(value, syntax.Name | syntax.Text):
        return False
    written = value.name if isinstance(value, syntax.Name) else value.value
    hint = mistakes.dtype(written)
    if isinstance(value, syntax.Text):
        hint = f"did you mean `{written}`?" if written in ITEM_BITS else hint
    elif written in reader.scope.lets_in(reader.file) or written in reader.options:
        return False
    if hint is not None:
        reader.problem(value.span, f"unknown dtype `{written}`", hint)
    return hint is not None


def _found(attribute: Attribute, value: syntax.Expr) -> str | None:
    """What a written-out value is instead of what the attribute wants; None where it fits or cannot be told."""
    wanted = attribute.type
    if wanted not in _PHRASES or (attribute.name in _DTYPE_ATTRIBUTES and isinstance(value, syntax.Name)):
        return None
    while isinstance(value, syntax.Unary) and value.op == "-":
        value = value.operand
    if isinstance(value, syntax.ListExpr):
        if wanted not in _ELEMENTS:
            return "a list"
        element = Attribute(attribute.name, _ELEMENTS[wanted], False)
        return next((f"{found} in it" for item in value.items if (found := _found(element, item))), None)
    if isinstance(value, syntax.Text):
        return None if wanted == "string" else "a text"
    if isinstance(value, syntax.Quantity):
        return "a quantity"
    if isinstance(value, syntax.Number):
        if wanted in _ELEMENTS:
            return "a single number"
        if wanted == "string":
            return "a number"
        whole = isinstance(value.value, int) or (isinstance(value.value, Fraction) and value.value.denominator == 1)
        return "a fraction" if wanted == "int" and not whole else None
    return None
