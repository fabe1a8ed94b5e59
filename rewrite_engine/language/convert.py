"""A rule read the other way round (`<=>`): its right-hand side as a pattern, its left-hand side as a template."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.language import names, syntax
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.template import is_operator

_HINT = "write two rules instead"


def captures(pattern: syntax.Pattern) -> Mapping[str, syntax.ValuePattern]:
    """The captures of a pattern as first written, with `const` and types: they mean the same in the other direction."""
    found: dict[str, syntax.ValuePattern] = {}
    for node in names.walk(pattern):
        if isinstance(node, syntax.ValuePattern):
            first = found.get(node.name, node)
            kept = first if first.constant or first.type is not None else node
            found[node.name] = kept
    return found


def as_pattern(expr: syntax.Expr, known: Mapping[str, syntax.ValuePattern]) -> syntax.Pattern:
    """The pattern that matches what the template builds; `known` are the captures of the other side."""
    match expr:
        case syntax.Name():
            return known.get(expr.name, syntax.ValuePattern(expr.span, expr.name))
        case syntax.NoneExpr():
            return syntax.NonePattern(expr.span)
        case syntax.TupleExpr():
            return syntax.TuplePattern(expr.span, tuple(as_pattern(item, known) for item in expr.items))
        case syntax.Number() | syntax.ListExpr():
            return syntax.LiteralPattern(expr.span, expr)
        case syntax.Unary(op="-", operand=syntax.Number()):
            return syntax.LiteralPattern(expr.span, expr)
        case syntax.Index(base=syntax.Call() as call, index=syntax.Number(value=int() as index)) if is_operator(call):
            return syntax.OutputPattern(expr.span, as_pattern(call, known), index)
        case syntax.Call() if is_operator(expr) and not expr.like:
            assert isinstance(expr.function, syntax.Name)
            args = tuple(arg if isinstance(arg, syntax.Rest) else as_pattern(arg, known) for arg in expr.args)
            keywords = tuple(syntax.KeywordPattern(v.span, name, v, optional=False) for name, v in expr.keywords)
            return syntax.CallPattern(expr.span, (expr.function.name,), args, keywords)
        case _:
            message = "`<=>` needs operators, captures and literals on its right side"
            raise LoweringError(expr.span, message, _HINT)


def as_expression(pattern: syntax.Pattern) -> syntax.Expr:
    """The template that builds what the pattern matches."""
    match pattern:
        case syntax.ValuePattern(optional=False):
            return syntax.Name(pattern.span, pattern.name)
        case syntax.NonePattern():
            return syntax.NoneExpr(pattern.span)
        case syntax.LiteralPattern():
            return pattern.value
        case syntax.TuplePattern():
            return syntax.TupleExpr(pattern.span, tuple(as_expression(item) for item in pattern.items))
        case syntax.OutputPattern():
            number = syntax.Number(pattern.span, pattern.index)
            return syntax.Index(pattern.span, as_expression(pattern.pattern), number)
        case syntax.CallPattern(optional_call=False, optional_value=False) if len(pattern.names) == 1:
            name = pattern.names[0]
            if name[:1].isupper() or "::" in name:
                args = tuple(_argument(arg) for arg in pattern.args)
                keywords = tuple((keyword.name, keyword.value) for keyword in pattern.keywords)
                return syntax.Call(pattern.span, syntax.Name(pattern.span, name), args, keywords, ())
    raise LoweringError(pattern.span, "`<=>` needs operators, captures and literals on its left side", _HINT)


def _argument(argument: syntax.Pattern | syntax.Rest | syntax.SetExpr) -> syntax.Expr:
    if isinstance(argument, syntax.Rest):
        return argument
    if isinstance(argument, syntax.SetExpr):
        raise LoweringError(argument.span, "a set cannot be built", _HINT)
    return as_expression(argument)
