"""The rule from a declared operator to its body: declarations in, what is to be lowered out."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from rewrite_engine.language import syntax
from rewrite_engine.language.declared import attributes_of, body_of
from rewrite_engine.language.layout import Source
from rewrite_engine.language.syntax import OperatorDecl

RULE = "operator:"
"""What the name of the rule begins with."""


def operator_sources(decl: OperatorDecl, lets: Container[str]) -> list[Source]:
    """The rule from the operator to its body, for as many results as a node may have."""
    body = body_of(decl)
    args: list[syntax.Pattern | syntax.Rest] = []
    for parameter in decl.parameters:
        span, name = parameter.span, parameter.name
        plain = syntax.ValuePattern(span, name, optional=parameter.optional, type=parameter.type)
        args.append(syntax.Rest(span, name) if parameter.rest else plain)
    keywords = tuple(
        syntax.KeywordPattern(decl.span, name, syntax.Name(decl.span, name), optional)
        for name, optional in attributes_of(decl, lets).items()
    )
    call = syntax.CallPattern(decl.span, (decl.name,), tuple(args), keywords)
    tail = syntax.Tail(guard=decl.tail.guard)
    found = []
    for count in range(len(body.results), 0, -1):
        left: syntax.Pattern = call
        results, inner = body.results[:count], tail
        if count > 1:
            outputs = tuple(f"$y{k}" for k in range(count))
            left = syntax.TuplePattern(decl.span, tuple(syntax.ValuePattern(decl.span, name) for name in outputs))
            inner = replace(tail, where=(syntax.Binding(decl.span, outputs, call),))
        right = results[0] if count == 1 else syntax.TupleExpr(decl.span, results)
        found.append(Source(RULE + decl.name, "rule", decl.span, left, inner, template=right, inner=body.named))
    return found
