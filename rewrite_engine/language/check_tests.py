"""`test` blocks: the graph is typed and makes sense, and what the verdict names exists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rewrite_engine.diagnostics import Problem, Span, did_you_mean
from rewrite_engine.language import bindings, locate, syntax
from rewrite_engine.language.bindings import bind
from rewrite_engine.language.check_expressions import Reader, read
from rewrite_engine.language.check_patterns import check_patterns
from rewrite_engine.language.expand_chain import is_chain
from rewrite_engine.language.handed import filled
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.language.walk import walk

_VARIABLE = "the inputs of a test have one type each: `x: float32[1, 8]`"


def check_test(test: syntax.TestDecl, scope: Scope, problems: list[Problem], used: set[tuple[str, str]]) -> None:
    """One test."""
    for node in walk((test.subject, test.where)):
        if is_chain(node):
            hint = "a graph holds one operator after another: Relu(Add(x, y))"
            problems.append(Problem(node.span, "a test writes each operator of its graph out", hint))
            return
    test = replace(
        test, subject=filled(scope, test.subject), where=tuple(filled(scope, binding) for binding in test.where)
    )
    tail = syntax.Tail(where=test.where)
    found = bind(scope, test.span.file, (), [test.subject], tail, problems)
    reader = Reader(scope, test.span.file, problems, used, found, builds="test")
    check_patterns([test.subject, *test.where], reader, in_test=True)
    _typed(reader)
    if test.result is not None:
        read(test.result, reader)
    if test.target is not None:
        _target(test, scope, reader)
    if test.verdict == "is not" and test.name is not None:
        _pattern(test.name, _last(test, test.name, reader), reader)
    if test.pattern is not None:
        _compared(test.pattern, reader)


def _typed(reader: Reader) -> None:
    for bound in reader.bindings.names.values():
        if bound.kind == bindings.DIMENSION:
            continue
        if bound.where or bound.named:
            continue
        if bound.kind == bindings.VALUE and bound.type is None:
            reader.problem(bound.span, f"input `{bound.name}` has no type", f"write `{bound.name}: float32[1, 8]`")
        elif bound.kind == bindings.ATTRIBUTE:
            reader.problem(bound.span, f"attribute value `{bound.name}` is not known", "a test writes attributes out")
        elif bound.type is not None and (
            bound.type.dtype is None or "..." in bound.type.dims or None in bound.type.dims
        ):
            reader.problem(bound.type.span, f"the type of input `{bound.name}` is open", _VARIABLE)
    for bound in reader.bindings.names.values():
        if bound.kind == bindings.DIMENSION and bound.name not in reader.scope.lets_in(reader.file):
            is_dtype = any(b.type is not None and b.type.dtype == bound.name for b in reader.bindings.names.values())
            if is_dtype:
                reader.problem(bound.span, f"the dtype `{bound.name}` is open", _VARIABLE)


def _compared(pattern: syntax.Pattern, reader: Reader) -> None:
    """The right side of `G is P`: the name of a pattern, composite or rule; or a pattern with names of its own."""
    if isinstance(pattern, syntax.ValuePattern) and pattern.type is None and not pattern.optional:
        _pattern(pattern.name, pattern.span, reader)
        return
    if not any(isinstance(node, syntax.CallPattern) for node in walk([pattern])):
        reader.problem(pattern.span, "a pattern needs at least one operator")
        return
    found = bind(reader.scope, reader.file, (), [pattern], syntax.Tail(), reader.problems)
    check_patterns([pattern], replace(reader, bindings=found))


def _pattern(name: str, span: Span, reader: Reader) -> None:
    others = _every_name(rule.name for rule in reader.scope.rules)
    others = others.union(*map(_composites, reader.scope.targets.values()))
    if reader.pattern(name, span) is None and name not in others and not reader.forgiven(name):
        known = {*reader.scope.patterns_in(reader.file), *others}
        reader.problem(
            span, f"unknown pattern `{name}`", did_you_mean(name, known) or f"declare it: pattern {name}(…) = …"
        )


def _target(test: syntax.TestDecl, scope: Scope, reader: Reader) -> None:
    name = str(test.target)
    target = scope.targets.get(name)
    if target is None:
        if not reader.forgiven(name):
            likely = did_you_mean(name, scope.targets) or f"declare it: target {name} on DEVICE {{ … }}"
            reader.problem(_last(test, name, reader), f"unknown target `{name}`", likely)
        return
    composites = _composites(target)
    if test.name is not None and test.name not in composites and not reader.forgiven(test.name):
        hint = did_you_mean(test.name, composites)
        reader.problem(_last(test, test.name, reader), f"target `{name}` has no composite `{test.name}`", hint)


def _composites(target: TargetScope) -> set[str]:
    return _every_name(item.name for item in target.items if isinstance(item, syntax.Composite))


def _every_name(declared: Iterable[str]) -> set[str]:
    """The names by which composites or rules may be called; `c` stands for every `c[…]`."""
    names = set(declared)
    return names | {name.partition("[")[0] for name in names}


def _last(test: syntax.TestDecl, word: str, reader: Reader) -> Span:
    """Where a name of the verdict stands: the composite and the target of `place` at the end, others at the front."""
    after = test.subject.span if test.verdict == "place" or word == test.name else None
    if test.result is not None:
        after = test.result.span
    where = test.span
    if after is not None:
        where = Span(where.file, after.end_line, after.end_column, where.end_line, where.end_column)
    else:
        # Past the title, which may hold the same word.
        where = Span(
            where.file, where.line, where.column + len("test") + len(test.title) + 2, where.end_line, where.end_column
        )
    return locate.word(reader.scope.texts(), where, word)
