"""Mechanical mutations of rules: each takes a declaration's syntax tree and says what to write elsewhere in its text.

In: a `rule` declaration. Out: `Mutation`s: kind, what is changed, and the edits. The kinds were extended once,
after a first run over `algebra.pat`, and are fixed since.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import syntax
from rewrite_engine.language.walk import walk

EXCHANGED = {
    "Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Relu": "Abs", "Max": "Min", "Min": "Max", "Clip": "Relu",
    "Transpose": "Identity", "Sigmoid": "Tanh", "Gelu": "Relu", "Cos": "Sin", "Sin": "Cos", "HardSwish": "HardSigmoid",
    "HardSigmoid": "HardSwish", "LayerNormalization": "RMSNormalization", "Not": "Identity", "Reciprocal": "Neg",
    "ReduceMean": "ReduceSum", "Sqrt": "Exp", "Erf": "Tanh", "Where": "Where", "Softmax": "LogSoftmax", "Pow": "Mul",
    "MaxPool": "AveragePool", "AveragePool": "MaxPool", "Exp": "Sqrt", "Tanh": "Erf",
}  # fmt: skip
"""An operator, and another one of the same operands that computes something else."""

DTYPES = {"float32": "int32", "float16": "float64", "float64": "float16", "int8": "uint8", "uint8": "int8"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """`kind` is operator, operand order, attribute, constant, guard, axis or dtype; `edits` replace spans by text."""

    kind: str
    what: str
    edits: tuple[tuple[Span, str], ...]


def mutations(rule: syntax.RuleDecl, source: str) -> Iterator[Mutation]:
    """Every mutation of a rule, in the order of its text."""
    yield from _operators(rule, source)
    yield from _operand_order(rule, source)
    yield from _attributes(rule, source)
    yield from _constants(rule)
    yield from _guards(rule, source)
    yield from _dtypes(rule)


def text_of(span: Span, source: str) -> str:
    """The text of a span."""
    lines = source.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def edited(source: str, edits: tuple[tuple[Span, str], ...]) -> str:
    """The text with spans replaced, the last one first."""
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for span, text in sorted(edits, reverse=True):
        begin, end = starts[span.line - 1] + span.column - 1, starts[span.end_line - 1] + span.end_column - 1
        source = source[:begin] + text + source[end:]
    return source


# ---------------------------------------------------------------- operators and operands


def _builds(call: syntax.Call) -> bool:
    return isinstance(call.function, syntax.Name) and call.function.name[:1].isupper()


def _operators(rule: syntax.RuleDecl, source: str) -> Iterator[Mutation]:
    for node in walk((rule.right,)):
        if isinstance(node, syntax.Call) and isinstance(node.function, syntax.Name):
            name = node.function.name
            other = EXCHANGED.get(name)
            if other is not None and other != name:
                yield Mutation("operator", f"{name} becomes {other}", ((node.function.span, other),))
    results = rule.right.items if isinstance(rule.right, syntax.TupleExpr) else (rule.right,)
    for result in results:
        if isinstance(result, syntax.Name):
            yield Mutation("operator", f"`{result.name}` becomes its negative", ((result.span, f"Neg({result.name})"),))
    for node in walk((rule.right,)):
        if isinstance(node, syntax.Call) and _builds(node) and node.args and isinstance(node.args[0], syntax.Expr):
            first = text_of(node.args[0].span, source)
            yield Mutation("operator", f"{node.function.name} is left out", ((node.span, first),))  # type: ignore[attr-defined]
    for node in walk((rule.left,)):
        if isinstance(node, syntax.CallPattern) and len(node.names) == 1:
            name, other = node.names[0], EXCHANGED.get(node.names[0])
            if other is not None and other != name:
                span = node.span
                end = Span(span.file, span.line, span.column, span.line, span.column + len(name))
                yield Mutation("operator", f"{name} of the pattern becomes {other}", ((end, other),))


def _operand_order(rule: syntax.RuleDecl, source: str) -> Iterator[Mutation]:
    for node in walk((rule.right,)):
        if not (isinstance(node, syntax.Call) and isinstance(node.function, syntax.Name)):
            continue
        for first, second in zip(node.args, node.args[1:], strict=False):
            a, b = text_of(first.span, source), text_of(second.span, source)
            if a != b:
                what = f"`{a}` and `{b}` of {node.function.name} are exchanged"
                yield Mutation("operand order", what, ((first.span, b), (second.span, a)))


# ---------------------------------------------------------------- attributes, axes, constants


def _attributes(rule: syntax.RuleDecl, source: str) -> Iterator[Mutation]:
    for node in walk((rule.right,)):
        if not (isinstance(node, syntax.Call) and isinstance(node.function, syntax.Name)):
            continue
        for like in node.like:
            other = next(iter(node.args), None)
            if other is not None and not node.keywords:  # the attributes are not carried over
                yield Mutation("attribute", f"without `like {like.name}`", (_with_comma(like.span, source),))
        for name, value in node.keywords:
            kind = "axis" if name in ("axis", "axes", "perm") else "attribute"
            for what, text in _others(value, source):
                yield Mutation(kind, f"{name}={text_of(value.span, source)} becomes {what}", ((value.span, text),))
    for node in walk((rule.left,)):
        if isinstance(node, syntax.KeywordPattern) and not isinstance(node.value, syntax.Name):
            kind = "axis" if node.name in ("axis", "axes", "perm") else "attribute"
            what = f"{node.name}={text_of(node.value.span, source)} of the pattern may be anything"
            yield Mutation(kind, what, (_with_comma(node.span, source),))


def _with_comma(span: Span, source: str) -> tuple[Span, str]:
    """An argument and the comma before it, to be left out."""
    line = source.split("\n")[span.line - 1]
    start = span.column - 1
    before = line[:start].rstrip()
    if before.endswith(","):
        start = len(before) - 1
    return Span(span.file, span.line, start + 1, span.end_line, span.end_column), ""


def _others(value: syntax.Expr, source: str) -> Iterator[tuple[str, str]]:
    text = text_of(value.span, source)
    match value:
        case syntax.Text(value="none"):
            yield '"tanh"', '"tanh"'
        case syntax.Text(value="tanh"):
            yield '"none"', '"none"'
        case syntax.Number():
            yield f"{text} + 1", f"{text} + 1"
        case syntax.ListExpr(items=items) if len(items) > 1:
            parts = [text_of(item.span, source) for item in items]
            turned = f"[{', '.join([*parts[1:], parts[0]])}]"
            if turned != text:
                yield turned, turned
        case syntax.Name():
            yield f"2 * {text}", f"2 * {text}"
            yield f"{text} + 1", f"{text} + 1"
        case _:
            yield f"2 * ({text})", f"2 * ({text})"


def _constants(rule: syntax.RuleDecl) -> Iterator[Mutation]:
    for side, root in (("pattern", rule.left), ("right side", rule.right)):
        holders = [n for n in walk((root,)) if isinstance(n, syntax.KeywordPattern | syntax.Call)]
        values = [n.value if isinstance(n, syntax.KeywordPattern) else tuple(v for _, v in n.keywords) for n in holders]
        keywords = {id(part) for part in walk(values)}
        for node in walk((root,)):
            if not isinstance(node, syntax.Number) or id(node) in keywords:
                continue
            number = node.value
            other: int | float | Fraction
            if math.isinf(number):
                other = 0
            else:
                other = number + 1 if number == int(number) else number * 2
            text = str(other) if isinstance(other, int) else repr(float(other))
            yield Mutation("constant", f"{float(number):g} of the {side} becomes {text}", ((node.span, text),))


# ---------------------------------------------------------------- guards and types


def _guards(rule: syntax.RuleDecl, source: str) -> Iterator[Mutation]:
    tails = [rule.tail, *(n.tail for n in walk((rule.left,)) if isinstance(n, syntax.GuardedPattern))]
    for guard in (tail.guard for tail in tails if tail.guard is not None):
        for clause in _conjuncts(guard):
            text = text_of(clause.span, source)
            yield Mutation("guard", f"without `{text}`", ((clause.span, f"(({text}) or 1 == 1)"),))
    for node in walk((rule.left,)):
        if isinstance(node, syntax.ValuePattern) and node.type is not None:
            text = text_of(node.type.span, source)
            span = node.type.span
            line = source.split("\n")[span.line - 1]
            start = line[: span.column - 1].rstrip().removesuffix(":").rstrip()
            whole = Span(span.file, span.line, len(start) + 1, span.end_line, span.end_column)
            yield Mutation("guard", f"`{node.name}` without the type `{text}`", ((whole, ""),))


def _conjuncts(expr: syntax.Expr) -> list[syntax.Expr]:
    if isinstance(expr, syntax.Binary) and expr.op == "and":
        return [*_conjuncts(expr.left), *_conjuncts(expr.right)]
    return [expr]


def _dtypes(rule: syntax.RuleDecl) -> Iterator[Mutation]:
    roots = (rule.left, rule.right, *((rule.tail.guard,) if rule.tail.guard is not None else ()))
    for node in walk(roots):
        if isinstance(node, syntax.Name) and node.name in DTYPES:
            yield Mutation("dtype", f"{node.name} becomes {DTYPES[node.name]}", ((node.span, DTYPES[node.name]),))
