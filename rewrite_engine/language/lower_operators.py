"""The rule from a declared operator to its body: declarations in, what is to be lowered out."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from rewrite_engine.language import syntax
from rewrite_engine.language.declared import body_of, handed_on
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
        for name, optional in handed_on(decl, lets).items()
    )
    call = syntax.CallPattern(decl.span, (decl.name,), tuple(args), (*decl.attributes, *keywords))
    tail = syntax.Tail(guard=decl.tail.guard)
    found = []
    for count in range(len(body.results), 0, -1):
        results = body.results[:count]
        right = results[0] if count == 1 else syntax.TupleExpr(decl.span, results)
        source = Source(RULE + decl.name, "rule", decl.span, call, tail, template=right, inner=body.named)
        found.append(source if count == 1 else with_outputs(source, call, count))
    return found


def with_outputs(source: Source, call: syntax.CallPattern, count: int) -> Source:
    """The source with the first outputs of one operator as its results."""
    names = tuple(f"$y{k}" for k in range(count))
    results = syntax.TuplePattern(call.span, tuple(syntax.ValuePattern(call.span, name) for name in names))
    tail = replace(source.tail, where=(*source.tail.where, syntax.Binding(call.span, names, call)))
    return replace(source, pattern=results, tail=tail)
