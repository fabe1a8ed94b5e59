"""Patterns: operators and named patterns exist and take what they are given, attributes, types, literals.

In: the patterns of one declaration and the `Reader` of its names. Out: problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite_engine import operators
from rewrite_engine.diagnostics import Span, did_you_mean
from rewrite_engine.language import mistakes, syntax
from rewrite_engine.language.bindings import input_called, is_capture
from rewrite_engine.language.check_chain import check_chain
from rewrite_engine.language.check_expressions import Reader, read
from rewrite_engine.language.check_templates import check_attribute, find_operator, inputs, misspelt_dtype, with_named
from rewrite_engine.language.expand_chain import is_chain
from rewrite_engine.language.results import result_count
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.walk import names_bound, walk
from rewrite_engine.operators import Operator
from rewrite_engine.operators.types import ITEM_BITS


def check_patterns(
    roots: Sequence[syntax.Pattern | syntax.Binding | syntax.TypePattern],
    reader: Reader,
    in_test: bool = False,
    is_meaning: bool = False,
) -> None:
    """Check every node of the patterns, and the expressions inside them (tails of alternatives, attributes).

    `is_meaning`: they say what an operator computes, so that a literal may be made of attributes and shapes.
    """
    for node in walk(roots):
        match node:
            case syntax.CallPattern():
                _call(node, reader)
            case syntax.OutputPattern():
                _output(node, reader)
            case syntax.CapturePattern() if (count := result_count(reader.scope, node.pattern)) > 1:
                hint = "name them inside the parentheses, or by `where a, b = …`"
                reader.problem(node.span, f"`{node.name}` names one value, and here are {count}", hint)
            case syntax.Binding():
                _binding(node, reader)
            case syntax.TypePattern():
                check_type(node, reader)
            case syntax.LiteralPattern() if is_meaning:
                read(node.value, reader)
            case syntax.LiteralPattern():
                _literal(node, reader)
            case syntax.ValuePattern(sample=sample) if sample is not None and not in_test:
                hint = "in a pattern, test it: `if all(w == 0)`"
                reader.problem(node.span, f"`{node.name}` is filled with a value, which only a test can do", hint)
            case syntax.GuardedPattern():
                reader.within = names_bound(node)
                if node.tail.guard is not None:
                    read(node.tail.guard, reader)
                for give in node.tail.give:
                    read(give.value, reader)
                reader.within = frozenset()


def head(call: syntax.CallPattern) -> Span:
    """The name in front of a call; the whole call of a set of operators."""
    span = call.span
    if len(call.names) > 1:
        return span
    return Span(span.file, span.line, span.column, span.line, span.column + len(call.names[0]))


def _call(call: syntax.CallPattern, reader: Reader) -> None:
    if is_chain(call):
        check_chain(call, reader)
        return
    for argument in call.args:
        if isinstance(argument, syntax.SetExpr):
            reader.problem(argument.span, "a set cannot be an input", "a set stands for operators: `{Relu, Clip}(x)`")
    if call.optional_call and not call.args:
        reader.problem(call.span, "`Op?(…)` needs a first input: it is the result where the operator is left out")
    if len(call.names) == 1 and not (call.names[0][0].isupper() or "::" in call.names[0]):
        _named(call, call.names[0], reader)
        return
    for name in call.names:
        operator = find_operator(name, head(call), reader.problems, reader.scope.declared)
        if operator is None:
            continue
        open_ended = any(isinstance(argument, syntax.Rest) for argument in call.args)
        named = [(keyword.name, keyword.span) for keyword in call.keywords]
        count = with_named(operator, len(call.args), named, reader.problems)
        inputs(operator, count, open_ended, call.span, reader.problems)
        for keyword in call.keywords:
            if input_called(operator, keyword.name) is not None:
                continue
            if misspelt_dtype(keyword.name, keyword.value, reader):
                continue
            check_attribute(operator, keyword.name, keyword.value, keyword.span, reader.problems)
        for position, argument in enumerate(call.args):
            _dtype(operator, position, argument, reader)
    _keywords(call, reader)


def _keywords(call: syntax.CallPattern, reader: Reader) -> None:
    for keyword in call.keywords:
        value = keyword.value
        if not (isinstance(value, syntax.Name) and is_capture(reader.scope, reader.file, value.name)):
            read(value, reader)
            if keyword.optional:
                message = "`?` needs a name that the attribute is captured under"
                reader.problem(keyword.span, message, f"write `{keyword.name}=a?`, or leave it out to match any value")


def _named(call: syntax.CallPattern, name: str, reader: Reader) -> None:
    """A named pattern."""
    decl = reader.pattern(name, head(call))
    if decl is None:
        if not reader.forgiven(name):
            known = [*reader.scope.patterns_in(reader.file), *operators.names(), *reader.scope.declared]
            reader.problem(
                head(call),
                f"unknown pattern `{name}`",
                did_you_mean(name, known) or f"declare it: pattern {name}(…) = …",
            )
        return
    if call.keywords:
        reader.problem(call.keywords[0].span, f"pattern `{name}` has no attributes", "pass it as an argument")
    wanted, given = decl.parameters, call.args
    least = max((i + 1 for i, parameter in enumerate(wanted) if not (parameter.optional or parameter.rest)), default=0)
    endless = any(parameter.rest for parameter in wanted)
    if (len(given) > len(wanted) and not endless) or len(given) < least:
        shown = ", ".join(parameter.name + "?" * parameter.optional for parameter in wanted)
        count = f"{len(wanted)}" if least == len(wanted) else f"{least} to {len(wanted)}"
        message = f"pattern `{name}` takes {count} argument{'s' * (count != '1')}, found {len(given)}"
        reader.problem(call.span, message, f"{name}({shown})", (decl.span, "declared here"))
        return
    for parameter, argument in zip(wanted, given, strict=False):
        for operator, position in positions(reader.scope, decl, parameter.name, frozenset()):
            _dtype(operator, position, argument, reader)


def positions(scope: Scope, decl: syntax.PatternDecl, name: str, seen: frozenset[str]) -> list[tuple[Operator, int]]:
    """The operator inputs at which a parameter of a named pattern stands."""
    found: list[tuple[Operator, int]] = []
    if decl.name in seen:
        return found
    for node in walk((decl.pattern, *(binding.pattern for binding in decl.tail.where))):
        if not isinstance(node, syntax.CallPattern) or len(node.names) != 1:
            continue
        operator = scope.operator(node.names[0])
        inner = scope.patterns_in(decl.span.file).get(node.names[0])
        for position, argument in enumerate(node.args):
            if isinstance(argument, syntax.ValuePattern) and argument.name == name:
                if operator is not None:
                    found.append((operator, position))
                elif inner is not None and position < len(inner.parameters):
                    found += positions(scope, inner, inner.parameters[position].name, seen | {decl.name})
    return found


def _dtype(operator: Operator, position: int, argument: object, reader: Reader) -> None:
    """A typed capture at an input whose schema allows none of its dtypes."""
    formal = operator.input(position)
    if isinstance(argument, syntax.CapturePattern):
        kind, span = argument.type, argument.span
    elif isinstance(argument, syntax.ValuePattern):
        bound = reader.bindings.names.get(argument.name)
        kind, span = (bound.type if bound else argument.type), argument.span
    else:
        return
    dtypes = dtypes_of(kind, reader) if kind is not None else ()
    if formal is not None and dtypes and not any(formal.allows(dtype) for dtype in dtypes):
        shown = dtypes[0] if len(dtypes) == 1 else "{" + ", ".join(dtypes) + "}"
        allowed = ", ".join(formal.dtypes)
        message = f"input {formal.name} of {operator.name} cannot be {shown}"
        quantized = any("int" in dtype for dtype in dtypes) and "int8" not in formal.dtypes
        hint = f"it takes {allowed}" + ("; int8 comes as QDQ, QLinear or an integer operator" if quantized else "")
        reader.problem(span, message, hint)


def dtypes_of(kind: syntax.TypePattern, reader: Reader) -> tuple[str, ...]:
    """The dtypes that a type allows, () where it is a variable."""
    if kind.dtype in ITEM_BITS:
        return (kind.dtype,)
    let = reader.scope.lets_in(kind.span.file).get(kind.dtype or "")
    if let is not None and isinstance(let.value, syntax.SetExpr):
        names = [item.name for item in let.value.items if isinstance(item, syntax.Name)]
        return tuple(name for name in names if name in ITEM_BITS)
    return ()


def check_type(kind: syntax.TypePattern, reader: Reader) -> None:
    """The dtype of a type: a dtype, a set of them, or a capitalised variable."""
    if kind.dims.count("...") > 1:
        reader.problem(kind.span, "a type has at most one `...`")
    name = kind.dtype
    for dim in kind.dims:
        if isinstance(dim, str) and dim in reader.scope.lets_in(reader.file):
            reader.let(dim, kind.span)
    if name is None or name in ITEM_BITS:
        return
    let = reader.let(name, kind.span)
    if let is not None:
        items = let.value.items if isinstance(let.value, syntax.SetExpr) else ()
        if not items or not all(isinstance(item, syntax.Name) and item.name in ITEM_BITS for item in items):
            reader.problem(kind.span, f"`{name}` is not a set of dtypes", None, (let.span, "declared here"))
    elif not name[0].isupper() and not reader.forgiven(name):
        known = [*ITEM_BITS, *reader.scope.lets_in(reader.file)]
        hint = mistakes.dtype(name) or did_you_mean(name, known) or "a variable for a dtype is capitalised: `T[...]`"
        reader.problem(kind.span, f"unknown dtype `{name}`", hint)
    elif name.lower() in ITEM_BITS:
        reader.problem(kind.span, f"unknown dtype `{name}`", mistakes.dtype(name))


def _literal(node: syntax.LiteralPattern, reader: Reader) -> None:
    for part in walk((node.value,)):
        if isinstance(part, syntax.Name):
            if part.name in ("sqrt", "exp", "log", "true", "false"):
                continue
            reader.problem(part.span, f"expected a number, found `{part.name}`",
                           "a literal is written out; capture the input and test it with `if` otherwise")  # fmt: skip
        elif isinstance(part, syntax.Quantity):
            reader.problem(part.span, "expected a number without a unit")


def _operator_of(pattern: syntax.Pattern, scope: Scope) -> Operator | None:
    while isinstance(pattern, syntax.CapturePattern | syntax.GuardedPattern):
        pattern = pattern.pattern
    return scope.operator(pattern.names[0]) if isinstance(pattern, syntax.CallPattern) else None


def _output(node: syntax.OutputPattern, reader: Reader) -> None:
    inner = node.pattern
    while isinstance(inner, syntax.CapturePattern):
        inner = inner.pattern
    if not isinstance(inner, syntax.CallPattern):
        reader.problem(node.span, "only the result of an operator has further outputs", "write `Split(x)[1]`")
        return
    _outputs(_operator_of(inner, reader.scope), node.index + 1, node.span, reader)


def _outputs(operator: Operator | None, count: int, span: Span, reader: Reader) -> None:
    if operator is not None and operator.max_outputs is not None and count > operator.max_outputs:
        most = operator.max_outputs
        message = f"{operator.name} has {most} output{'s' * (most != 1)}, found {count}"
        reader.problem(span, message, ", ".join(formal.name for formal in operator.outputs))


def _binding(binding: syntax.Binding, reader: Reader) -> None:
    if len(binding.names) > 1:
        _outputs(_operator_of(binding.pattern, reader.scope), len(binding.names), binding.span, reader)


_Inner = Mapping[str, tuple[syntax.Pattern, int | None]]


def bare(
    scope: Scope,
    file: str,
    root: syntax.Pattern,
    tail: syntax.Tail | None = None,
    seen: frozenset[str] = frozenset(),
    result: int | None = None,
) -> syntax.Pattern | None:
    """The part of a pattern that would match any value, if any; names that `tail` binds stand for their patterns.

    `result` asks about one of several results.
    """

    def visit(pattern: syntax.Pattern, inner: _Inner, result: int | None = None) -> syntax.Pattern | None:
        match pattern:
            case syntax.ValuePattern(name=name) if name in inner:
                return visit(inner[name][0], {n: p for n, p in inner.items() if n != name}, inner[name][1])
            case syntax.ValuePattern() | syntax.AnyPattern() | syntax.NonePattern() | syntax.LiteralPattern():
                return pattern
            case syntax.CapturePattern():
                return visit(pattern.pattern, inner, result)
            case syntax.OutputPattern():
                return visit(pattern.pattern, inner)
            case syntax.GuardedPattern():
                return visit(pattern.pattern, {**inner, **_inner(pattern.tail)}, result)
            case syntax.TuplePattern(items=items) if result is not None and result < len(items):
                return visit(items[result], inner)
            case syntax.Alternatives() | syntax.TuplePattern():
                further = result if isinstance(pattern, syntax.Alternatives) else None
                return next((found for item in pattern.items if (found := visit(item, inner, further))), None)
            case syntax.CallPattern():
                return _bare_call(pattern, inner, result)
            case _:
                return None

    def _bare_call(call: syntax.CallPattern, inner: _Inner, result: int | None) -> syntax.Pattern | None:
        decl = scope.patterns_in(file).get(call.names[0])
        loose = None
        if decl is not None and decl.name not in seen:
            loose = bare(scope, decl.span.file, decl.pattern, decl.tail, seen | {decl.name}, result)
            names = [parameter.name for parameter in decl.parameters]
            if isinstance(loose, syntax.ValuePattern) and loose.name in names[: len(call.args)]:
                argument = call.args[names.index(loose.name)]
                loose = None if isinstance(argument, syntax.Rest | syntax.SetExpr) else visit(argument, inner)
        if loose is None and call.optional_call:
            first = next((argument for argument in call.args if not isinstance(argument, syntax.Rest)), None)
            return None if first is None or isinstance(first, syntax.SetExpr) else visit(first, inner)
        return loose

    return visit(root, _inner(tail) if tail is not None else {}, result)


def _inner(tail: syntax.Tail) -> _Inner:
    """What the names that `where` binds stand for: a pattern, and which of its results."""
    return {
        name: (binding.pattern, number if len(binding.names) > 1 else None)
        for binding in tail.where
        for number, name in enumerate(binding.names)
    }
