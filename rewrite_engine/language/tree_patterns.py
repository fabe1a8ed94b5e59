"""Grammar rules of patterns and their tails -> nodes of the syntax tree."""

from __future__ import annotations

import math
from typing import Any

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import syntax
from rewrite_engine.language.tree import Context, Handler, Part, is_token, named
from rewrite_engine.language.tree_expressions import number, unquote

LITERAL_FUNCTIONS = frozenset({"sqrt", "exp", "log"})
"""Functions that may stand among literals in a pattern: `sqrt(2)`."""


def _alternatives(context: Context, span: Span, parts: list[Any]) -> syntax.Alternatives:
    return syntax.Alternatives(span, tuple(part for part in parts if not is_token(part)))


def _capture(context: Context, span: Span, parts: list[Any]) -> syntax.CapturePattern:
    pattern, name = parts[:2]
    return syntax.CapturePattern(span, pattern, name.name, named(parts, "typed"))


def _output(context: Context, span: Span, parts: list[Any]) -> syntax.OutputPattern:
    return syntax.OutputPattern(span, parts[0], int(number(context, span, str(parts[1]))))


def _captured_value(context: Context, span: Span, parts: list[Any]) -> syntax.Pattern:
    name = next(part.name for part in parts if isinstance(part, syntax.Name))
    if name == "inf" and len(parts) == 1:
        return syntax.LiteralPattern(span, syntax.Number(span, math.inf))
    return syntax.ValuePattern(
        span,
        name,
        constant=any(is_token(part, "CONST") for part in parts),
        optional=any(is_token(part, "OPTIONAL") for part in parts),
        type=named(parts, "typed"),
        sample=named(parts, "sample"),
    )


def _any(context: Context, span: Span, parts: list[Any]) -> syntax.AnyPattern:
    return syntax.AnyPattern(span, constant=any(is_token(part, "CONST") for part in parts))


def _none_pattern(context: Context, span: Span, parts: list[Any]) -> syntax.NonePattern:
    return syntax.NonePattern(span)


def _tuple_pattern(context: Context, span: Span, parts: list[Any]) -> syntax.Pattern:
    return parts[0] if len(parts) == 1 else syntax.TuplePattern(span, tuple(parts))


def _guarded(context: Context, span: Span, parts: list[Any]) -> syntax.GuardedPattern:
    return syntax.GuardedPattern(span, parts[0], parts[1])


def _literal_value(context: Context, span: Span, parts: list[Any]) -> syntax.Expr:
    negative = bool(parts) and is_token(parts[0], "MINUS")
    rest = parts[1:] if negative else parts
    if len(rest) == 1 and is_token(rest[0], "INT", "FLOAT"):
        value: syntax.Expr = syntax.Number(context.token_span(rest[0]), number(context, span, str(rest[0])))
    elif len(rest) == 1 and is_token(rest[0], "STRING"):
        return syntax.Text(span, unquote(rest[0]))
    elif negative:
        name = rest[0]
        if name.name != "inf":
            context.problem(span, f"expected a number after `-`, found `{name.name}`", "a pattern cannot compute")
        value = syntax.Number(name.span, math.inf)
    else:
        return syntax.ListExpr(span, tuple(rest))
    return syntax.Unary(span, "-", value) if negative else value


def _literal(context: Context, span: Span, parts: list[Any]) -> syntax.LiteralPattern:
    return syntax.LiteralPattern(span, _literal_value(context, span, parts))


def _sample(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("sample", parts[0].value)


def _arguments(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("arguments", parts)


def _call(context: Context, span: Span, parts: list[Any]) -> syntax.Pattern:
    callee = parts[0]
    at = next(i for i, part in enumerate(parts) if isinstance(part, Part))
    optional_call, optional_value = at == 2, len(parts) > at + 1
    args = [part for part in parts[at].value if not isinstance(part, syntax.KeywordPattern)]
    keywords = tuple(part for part in parts[at].value if isinstance(part, syntax.KeywordPattern))
    if isinstance(callee, syntax.SetExpr):
        names = []
        for item in callee.items:
            if isinstance(item, syntax.Name):
                names.append(item.name)
            else:
                context.problem(item.span, "expected the name of an operator in the set")
    else:
        names = [callee.name]
        literals = [arg.value for arg in args if isinstance(arg, syntax.LiteralPattern)]
        plain = len(literals) == len(args) and not (keywords or optional_call or optional_value)
        if callee.name in LITERAL_FUNCTIONS and plain:
            return syntax.LiteralPattern(span, syntax.Call(span, callee, tuple(literals), (), ()))
    return syntax.CallPattern(span, tuple(names), tuple(args), keywords, optional_call, optional_value)


def _rest_of(context: Context, span: Span, parts: list[Any]) -> syntax.Rest:
    return syntax.Rest(span, parts[1].name)


def _keyword(context: Context, span: Span, parts: list[Any]) -> syntax.KeywordPattern:
    name = parts[0].name if isinstance(parts[0], syntax.Name) else str(parts[0])
    return syntax.KeywordPattern(span, name, parts[1], optional=len(parts) == 3)


def _typed(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("typed", parts[0])


def _type(context: Context, span: Span, parts: list[Any]) -> syntax.TypePattern:
    """The dtype is a `Name` or a capitalised token that stands before the bracket."""
    dtype: str | None = None
    dims: list[int | str | None] = []
    for part in parts:
        if isinstance(part, Part):
            dims = part.value
        else:
            dtype = part.name if isinstance(part, syntax.Name) else str(part)
    return syntax.TypePattern(span, dtype, tuple(dims))


def _dims(context: Context, span: Span, parts: list[Any]) -> Part:
    dims: list[int | str | None] = []
    for part in parts:
        if isinstance(part, syntax.Name):
            dims.append(part.name)
        elif is_token(part, "INT"):
            dims.append(int(number(context, span, str(part))))
        else:
            dims.append(None if is_token(part, "ANY") else str(part))
    return Part("dims", dims)


def _binding(context: Context, span: Span, parts: list[Any]) -> syntax.Binding:
    names, pattern = parts
    return syntax.Binding(span, tuple(name.name for name in names.value), pattern)


def _give_one(context: Context, span: Span, parts: list[Any]) -> syntax.Give:
    return syntax.Give(span, parts[0].name, parts[1])


def _several(kind: str) -> Handler:
    return lambda context, span, parts: Part(kind, tuple(parts))


def _single(kind: str) -> Handler:
    return lambda context, span, parts: Part(kind, parts[0])


def _tail(context: Context, span: Span, parts: list[Any]) -> syntax.Tail:
    return syntax.Tail(named(parts, "where", ()), named(parts, "guard"), named(parts, "give", ()))


HANDLERS: dict[str, Handler] = {
    "alternatives": _alternatives,
    "capture": _capture,
    "output": _output,
    "captured_value": _captured_value,
    "any": _any,
    "none_pattern": _none_pattern,
    "tuple_pattern": _tuple_pattern,
    "guarded": _guarded,
    "literal": _literal,
    "sample": _sample,
    "arguments": _arguments,
    "call": _call,
    "rest_of": _rest_of,
    "keyword": _keyword,
    "typed": _typed,
    "type": _type,
    "dims": _dims,
    "binding": _binding,
    "give_one": _give_one,
    "where": _several("where"),
    "give": _several("give"),
    "guard": _single("guard"),
    "tail": _tail,
    "own_tail": _tail,
}
