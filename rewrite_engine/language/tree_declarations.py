"""Grammar rules of declarations -> nodes of the syntax tree, with their documentation (`##` lines just before them)."""

from __future__ import annotations

from typing import Any

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import syntax
from rewrite_engine.language.tree import Context, Handler, Part, TooDeep, is_token, named
from rewrite_engine.language.tree_expressions import unquote

VERSION = "1"
"""The version of the language that this package reads."""


def _documentation(context: Context, span: Span) -> str:
    lines: list[str] = []
    for line in reversed(context.lines[: span.line - 1]):
        text = line.strip()
        if not text.startswith("##"):
            break
        lines.append(text.lstrip("#").strip())
    return "\n".join(reversed(lines))


def _items(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("items", tuple(part for part in parts if part is not None))


def _version(context: Context, span: Span, parts: list[Any]) -> None:
    if str(parts[0]) != VERSION:
        context.problem(context.token_span(parts[0]), f"expected language {VERSION}, found {parts[0]}",
                        "this version of rewrite_engine reads language 1 only")  # fmt: skip


def _include(context: Context, span: Span, parts: list[Any]) -> syntax.Include:
    return syntax.Include(span, unquote(parts[0]))


def _let(context: Context, span: Span, parts: list[Any]) -> syntax.Let:
    return syntax.Let(span, parts[0].name, named(parts, "let_parameters"), parts[-1])


def _let_parameters(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("let_parameters", tuple(name.name for name in parts))


def _device(context: Context, span: Span, parts: list[Any]) -> syntax.DeviceDecl:
    return syntax.DeviceDecl(span, parts[0].name, tuple(part.value for part in parts[1:]))


def _device_field(context: Context, span: Span, parts: list[Any]) -> Part:
    return Part("device_field", ("memory", parts[0]))


def _link(context: Context, span: Span, parts: list[Any]) -> syntax.LinkDecl:
    source, arrow, destination, cost = parts[:4]
    return syntax.LinkDecl(span, source.name, destination.name, str(arrow) == "<->", cost, named(parts, "energy"))


def _operator(context: Context, span: Span, parts: list[Any]) -> syntax.OperatorDecl:
    name, signature, pattern, tail = parts
    parameters = tuple(part for part in signature.value if isinstance(part, syntax.Parameter))
    attributes = tuple(part for part in signature.value if isinstance(part, syntax.KeywordPattern))
    return syntax.OperatorDecl(span, name.name, parameters, pattern, tail, attributes)


def _target(context: Context, span: Span, parts: list[Any]) -> syntax.TargetDecl:
    items = tuple(part for part in parts[1:] if not isinstance(part, Part | TooDeep))
    return syntax.TargetDecl(span, parts[0].name, named(parts, "on"), named(parts, "extends"), items)


def _pattern(context: Context, span: Span, parts: list[Any]) -> syntax.PatternDecl:
    name, parameters, pattern, tail = parts
    doc = _documentation(context, span)
    return syntax.PatternDecl(span, name.name, parameters.value, pattern, tail, doc)


def _rule(context: Context, span: Span, parts: list[Any]) -> syntax.RuleDecl:
    name, *between, left, arrow, right, tail = parts
    label = next((str(part) for part in between if is_token(part, "LABEL")), "exact")
    each = named(between, "each", ())
    doc = _documentation(context, span)
    return syntax.RuleDecl(span, name.name, label, each, left, str(arrow) == "<=>", right, tail, doc)


def _test(context: Context, span: Span, parts: list[Any]) -> syntax.TestDecl:
    title, verdict, *rest = parts
    return syntax.TestDecl(span, unquote(title), where=named(rest, "where", ()), **verdict.value)


def _verdict(verdict: str, *fields: str) -> Handler:
    """Children in the order of `fields`; names of targets and patterns as text, tokens left out."""

    def handler(context: Context, span: Span, parts: list[Any]) -> Part:
        values = dict(zip(fields, (part for part in parts if not is_token(part)), strict=False))
        values = {field: value.value if isinstance(value, Part) else value for field, value in values.items()}
        for field in ("name", "target"):
            if isinstance(values.get(field), syntax.Name):
                values[field] = values[field].name
        return Part("verdict", {"verdict": verdict, **values})

    return handler


def _within(context: Context, span: Span, parts: list[Any]) -> Part:
    name, *chosen = (part.name for part in parts)
    return Part("within", f"{name}[{', '.join(chosen)}]" if chosen else name)


def _limit(context: Context, span: Span, parts: list[Any]) -> syntax.Limit:
    return syntax.Limit(span, str(parts[0]), parts[1])


def _option(context: Context, span: Span, parts: list[Any]) -> syntax.OptionDecl:
    return syntax.OptionDecl(span, parts[0].name, parts[1])


def _without(context: Context, span: Span, parts: list[Any]) -> syntax.Without:
    return syntax.Without(span, parts[0].name)


def _requires(context: Context, span: Span, parts: list[Any]) -> syntax.Requires:
    return syntax.Requires(span, parts[0])


def _supports(context: Context, span: Span, parts: list[Any]) -> syntax.Supports:
    forms = tuple(part for part in parts if not isinstance(part, Part | syntax.Tail))
    tail = next(part for part in parts if isinstance(part, syntax.Tail))
    doc = _documentation(context, span)
    return syntax.Supports(span, forms, tail, named(parts, "cost"), named(parts, "energy"), doc)


def _composite(context: Context, span: Span, parts: list[Any]) -> syntax.Composite:
    at = next(i for i, part in enumerate(parts) if isinstance(part, syntax.Tail))
    name, pattern, tail = parts[0].name, parts[at - 1], parts[at]
    each, parameters = named(parts, "each", ()), named(parts, "parameters", ())
    cost, energy = named(parts, "cost"), named(parts, "energy")
    doc = _documentation(context, span)
    return syntax.Composite(span, name, each, parameters, pattern, tail, cost, energy, doc)


def _each_one(context: Context, span: Span, parts: list[Any]) -> syntax.Each:
    name, operators = str(parts[0]), parts[-1]
    return syntax.Each(span, name, operators)


def _parameter(context: Context, span: Span, parts: list[Any]) -> syntax.Parameter:
    return syntax.Parameter(
        span,
        next(part.name for part in parts if isinstance(part, syntax.Name)),
        optional=any(is_token(part, "OPTIONAL") for part in parts),
        rest=any(is_token(part, "STAR") for part in parts),
        type=named(parts, "typed"),
    )


def _several(kind: str) -> Handler:
    return lambda context, span, parts: Part(kind, tuple(parts))


def _single(kind: str) -> Handler:
    return lambda context, span, parts: Part(kind, parts[0])


def _name_of(kind: str) -> Handler:
    return lambda context, span, parts: Part(kind, parts[-1].name)


HANDLERS: dict[str, Handler] = {
    "start": _items,
    "items": _items,
    "rest": _items,
    "version": _version,
    "include": _include,
    "let": _let,
    "let_parameters": _let_parameters,
    "device": _device,
    "device_field": _device_field,
    "link": _link,
    "operator": _operator,
    "target": _target,
    "on": _name_of("on"),
    "extends": _name_of("extends"),
    "pattern": _pattern,
    "rule": _rule,
    "test": _test,
    "becomes": _verdict("becomes", "subject", "result"),
    "is_match": _verdict("is", "subject", "pattern"),
    "is_no_match": _verdict("is not", "subject", "name"),
    "runs": _verdict("runs", "target", "subject", "name"),
    "rejects": _verdict("rejects", "target", "subject"),
    "place": _verdict("place", "subject", "result", "target"),
    "within": _within,
    "limit": _limit,
    "option": _option,
    "without": _without,
    "requires": _requires,
    "supports": _supports,
    "composite": _composite,
    "cost": _single("cost"),
    "energy": _single("energy"),
    "each": _several("each"),
    "each_one": _each_one,
    "parameters": _several("parameters"),
    "signature": _several("signature"),
    "parameter": _parameter,
}
