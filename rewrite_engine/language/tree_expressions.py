"""Grammar rules of expressions -> nodes of the syntax tree."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import syntax
from rewrite_engine.language.tree import Context, Handler, Part, is_token

_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?P<unit>[A-Za-z_]\w*)")
_LONGEST = 300  # digits: more than any dtype holds


def number(context: Context, span: Span, text: str) -> int | Fraction:
    """The exact value of a literal; a problem (and 0) when it is out of any range."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > _LONGEST or len(exponent) > 4 or abs(int(exponent or 0)) > _LONGEST:
        context.problem(span, "the number is out of range")
        return 0
    return int(text) if text.isdigit() else Fraction(text)


def unquote(token: str) -> str:
    """The text between the quotes."""
    return token[1:-1]


def _name(context: Context, span: Span, parts: list[Any]) -> syntax.Name:
    return syntax.Name(span, str(parts[0]))


def _variable(context: Context, span: Span, parts: list[Any]) -> syntax.Expr:
    (part,) = parts
    if isinstance(part, syntax.Name) and part.name == "inf":
        return syntax.Number(span, math.inf)
    return part  # type: ignore[no-any-return]


def _number(context: Context, span: Span, parts: list[Any]) -> syntax.Number:
    return syntax.Number(span, number(context, span, str(parts[0])))


def _quantity(context: Context, span: Span, parts: list[Any]) -> syntax.Quantity:
    found = _QUANTITY.fullmatch(str(parts[0]))
    assert found is not None, "the token QUANTITY has this form"
    return syntax.Quantity(span, Fraction(number(context, span, found["number"])), found["unit"])


def _text(context: Context, span: Span, parts: list[Any]) -> syntax.Text:
    return syntax.Text(span, unquote(parts[0]))


def _unary(context: Context, span: Span, parts: list[Any]) -> syntax.Unary:
    return syntax.Unary(span, str(parts[0]), parts[1])


def _binary(context: Context, span: Span, parts: list[Any]) -> syntax.Binary:
    left, op, right = parts
    return syntax.Binary(span, str(op), left, right)


def _comparator(context: Context, span: Span, parts: list[Any]) -> str:
    return " ".join(str(part) for part in parts)


def _compare(context: Context, span: Span, parts: list[Any]) -> syntax.Compare:
    return syntax.Compare(span, parts[0], tuple(zip(parts[1::2], parts[2::2], strict=True)))


def _conditional(context: Context, span: Span, parts: list[Any]) -> syntax.Conditional:
    return syntax.Conditional(span, *parts)


def _member(context: Context, span: Span, parts: list[Any]) -> syntax.Member:
    base, name = parts
    return syntax.Member(span, base, name.name if isinstance(name, syntax.Name) else str(name))


def _slice(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("slice", (parts[0], parts[1]))


def _index(context: Context, span: Span, parts: list[Any]) -> syntax.Index | syntax.Slice:
    base, subscript = parts
    if isinstance(subscript, Part):
        return syntax.Slice(span, base, *subscript.value)
    return syntax.Index(span, base, subscript)


def _build_args(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("build_args", parts)


def _apply(context: Context, span: Span, parts: list[Any]) -> syntax.Call:
    function, arguments = parts
    args: list[syntax.Expr] = []
    keywords: list[tuple[str, syntax.Expr]] = []
    like: list[syntax.Like] = []
    for argument in arguments.value:
        if isinstance(argument, syntax.KeywordPattern):
            if argument.optional:
                context.problem(argument.span, "`?` says that an attribute may be absent, which only a pattern can ask")
            keywords.append((argument.name, argument.value))
        elif isinstance(argument, syntax.Like):
            like.append(argument)
        else:
            args.append(argument)
    return syntax.Call(span, function, tuple(args), tuple(keywords), tuple(like))


def _comprehension(context: Context, span: Span, parts: list[Any]) -> syntax.Comprehension:
    body, names, iterable = parts
    return syntax.Comprehension(span, body, tuple(name.name for name in names.value), iterable)


def _like(context: Context, span: Span, parts: list[Any]) -> syntax.Like:
    return syntax.Like(span, parts[1].name)


def _none(context: Context, span: Span, parts: list[Any]) -> syntax.NoneExpr:
    return syntax.NoneExpr(span)


def _tuple(context: Context, span: Span, parts: list[Any]) -> syntax.TupleExpr:
    return syntax.TupleExpr(span, tuple(parts))


def _list(context: Context, span: Span, parts: list[Any]) -> syntax.Expr:
    if len(parts) == 1 and isinstance(parts[0], syntax.Comprehension):
        return parts[0]
    return syntax.ListExpr(span, tuple(parts))


def _set(context: Context, span: Span, parts: list[Any]) -> syntax.SetExpr:
    return syntax.SetExpr(span, tuple(parts))


def _value(context: Context, span: Span, parts: list[Any]) -> Any:
    return parts[0]


def _names(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("names", tuple(syntax.Name(context.token_span(p), "_") if is_token(p) else p for p in parts))


HANDLERS: dict[str, Handler] = {
    "name": _name,
    "operator_name": _name,
    "variable": _variable,
    "number": _number,
    "quantity": _quantity,
    "text": _text,
    "unary": _unary,
    "binary": _binary,
    "comparator": _comparator,
    "compare": _compare,
    "conditional": _conditional,
    "member": _member,
    "slice": _slice,
    "index": _index,
    "build_args": _build_args,
    "apply": _apply,
    "comprehension": _comprehension,
    "like": _like,
    "none_value": _none,
    "tuple_value": _tuple,
    "list_value": _list,
    "set": _set,
    "value": _value,
    "names": _names,
}
