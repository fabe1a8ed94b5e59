"""Expressions as text, for explanations: what a user would have written, on one line."""

from __future__ import annotations

from fractions import Fraction

from rewrite_engine.language import syntax

_DEEPEST = 60


def unparse(expr: syntax.Expr, depth: int = 0) -> str:
    """The expression as one line; "…" for what nests too deep to read."""
    if depth > _DEEPEST:
        return "…"

    def text(part: syntax.Expr) -> str:
        return unparse(part, depth + 1)

    def inner(part: syntax.Expr) -> str:
        wrapped = isinstance(part, (syntax.Binary, syntax.Compare, syntax.Conditional, syntax.Unary))
        return f"({text(part)})" if wrapped else text(part)

    match expr:
        case syntax.Name() | syntax.Like():
            return f"like {expr.name}" if isinstance(expr, syntax.Like) else expr.name
        case syntax.Rest():
            return f"*{expr.name}"
        case syntax.Number():
            return _number(expr.value)
        case syntax.Quantity():
            return f"{_number(expr.number)}{expr.unit}"
        case syntax.Text():
            return f'"{expr.value}"'
        case syntax.NoneExpr():
            return "none"
        case syntax.ListExpr():
            return f"[{', '.join(map(text, expr.items))}]"
        case syntax.SetExpr():
            return f"{{{', '.join(map(text, expr.items))}}}"
        case syntax.TupleExpr():
            return f"({', '.join(map(text, expr.items))})"
        case syntax.Comprehension():
            return f"{text(expr.body)} for {', '.join(expr.names)} in {text(expr.iterable)}"
        case syntax.Member():
            return f"{inner(expr.base)}.{expr.name}"
        case syntax.Index():
            return f"{inner(expr.base)}[{text(expr.index)}]"
        case syntax.Slice():
            bounds = ["" if bound is None else text(bound) for bound in (expr.start, expr.stop)]
            return f"{inner(expr.base)}[{':'.join(bounds)}]"
        case syntax.Call():
            words = [*map(text, expr.args), *(f"{name}={text(value)}" for name, value in expr.keywords)]
            return f"{text(expr.function)}({', '.join([*words, *map(text, expr.like)])})"
        case syntax.Unary():
            return f"{'not ' if expr.op == 'not' else expr.op}{inner(expr.operand)}"
        case syntax.Binary():
            return f"{inner(expr.left)} {expr.op} {inner(expr.right)}"
        case syntax.Compare():
            return " ".join([inner(expr.first), *(f"{symbol} {inner(operand)}" for symbol, operand in expr.rest)])
        case syntax.Conditional():
            return f"if {text(expr.test)} then {text(expr.then)} else {text(expr.otherwise)}"


def _number(value: int | float | Fraction) -> str:
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.9g}"
    return str(value)
