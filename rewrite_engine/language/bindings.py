"""The names that a declaration binds: where, as what, how often they are read, and whether they may be absent.

In: the patterns and tail of one declaration. Out: `Bindings`, and problems of names: alternatives that differ, a name
that is bound twice in different ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rewrite_engine.diagnostics import Problem, Span
from rewrite_engine.language import syntax
from rewrite_engine.language.expand_chain import is_chain
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.walk import names_read, walk
from rewrite_engine.operators import Operator
from rewrite_engine.operators.types import ITEM_BITS

VALUE, NODE, LIST, ATTRIBUTE, GIVEN, DIMENSION = "value", "node", "list", "attribute", "given", "dimension"


@dataclass(slots=True)
class Bound:
    """One name. `operators` are those whose result it names, None when only a match can tell."""

    name: str
    span: Span
    kind: str
    count: int = 0  # occurrences in patterns, a `where` or `as` not counted
    parameter: bool = False
    where: bool = False
    named: bool = False  # by `as`
    optional: bool = False
    constant: bool = False
    operators: frozenset[str] | None = frozenset()
    type: syntax.TypePattern | None = None


@dataclass(slots=True)
class Bindings:
    """All names of a declaration. `partial` are bound by some alternatives only: nothing outside reads them."""

    names: dict[str, Bound] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)  # with a problem of their own already


@dataclass(frozen=True, slots=True)
class _Work:
    scope: Scope
    file: str
    bindings: Bindings
    problems: list[Problem]
    where: frozenset[str]
    total: Mapping[str, int]


def bind(
    scope: Scope,
    file: str,
    parameters: Sequence[syntax.Parameter],
    patterns: Sequence[syntax.Pattern],
    tail: syntax.Tail,
    problems: list[Problem],
) -> Bindings:
    """The bindings of a declaration with these parameters, patterns (several forms of one `supports`) and tail."""
    bindings = Bindings()
    roots = [*patterns, *(binding.pattern for binding in tail.where)]
    total: dict[str, int] = {}
    for name in (name for root in roots for name in _occurrences(root)):
        total[name] = total.get(name, 0) + 1
    where = frozenset(name for binding in tail.where for name in binding.names)
    outer = frozenset(parameter.name for parameter in parameters) | where
    work = _Work(scope, file, bindings, problems, outer, total)
    for parameter in parameters:
        if parameter.name in bindings.names:
            problems.append(Problem(parameter.span, f"parameter `{parameter.name}` is declared twice"))
            continue
        kind = LIST if parameter.rest else VALUE
        bound = Bound(parameter.name, parameter.span, kind, parameter=True, optional=parameter.optional)
        bound.type = parameter.type
        bindings.names[parameter.name] = bound
        _dimensions(work, parameter.type)
    for binding in tail.where:
        _bind_where(work, binding)
    for root in roots:
        _bind(work, root, optional=False)
    for give in tail.give:
        _give(work, give)
    return bindings


def _bind_where(work: _Work, binding: syntax.Binding) -> None:
    for name in binding.names:
        if name == "_":
            continue
        found = work.bindings.names.get(name)
        if found is not None:
            what = "bound by `where` already" if found.where else "the name of another value already"
            what = "a parameter" if found.parameter else what
            work.problems.append(Problem(binding.span, f"`{name}` is {what}", notes=((found.span, "bound here"),)))
            continue
        made = roots_of(work.scope, work.file, binding.pattern)
        work.bindings.names[name] = Bound(name, binding.span, NODE, where=True, operators=made)


def _bind(work: _Work, root: syntax.Pattern, optional: bool) -> set[str]:
    """Bind the names of a pattern; the result are those that every way of matching it binds."""
    match root:
        case syntax.ValuePattern():
            bound = _note(work, root.name, root.span, VALUE, optional or root.optional)
            bound.constant |= root.constant
            bound.type = bound.type or root.type
            _dimensions(work, root.type)
            return {root.name}
        case syntax.CapturePattern():
            names = _bind(work, root.pattern, optional)
            bound = _note(work, root.name, root.span, NODE, optional, counted=False)
            if bound.named or bound.where or bound.parameter:
                message = f"`{root.name}` names two different things"
                work.problems.append(Problem(root.span, message, notes=((bound.span, "bound here already"),)))
            bound.named, bound.kind, bound.type = True, NODE, bound.type or root.type
            bound.operators = roots_of(work.scope, work.file, root.pattern)
            _dimensions(work, root.type)
            return names | {root.name}
        case syntax.CallPattern():
            return _bind_call(work, root, optional)
        case syntax.Alternatives():
            return _bind_alternatives(work, root, optional)
        case syntax.TuplePattern():
            return set().union(*(_bind(work, item, optional) for item in root.items))
        case syntax.OutputPattern():
            return _bind(work, root.pattern, optional)
        case syntax.GuardedPattern():
            for binding in root.tail.where:
                _bind_where(work, binding)
            names = _bind(work, root.pattern, optional)
            for binding in root.tail.where:
                names |= _bind(work, binding.pattern, optional) | {name for name in binding.names if name != "_"}
            for give in root.tail.give:
                _give(work, give)
            return names | {give.name for give in root.tail.give}
        case _:
            return set()


def _bind_call(work: _Work, call: syntax.CallPattern, optional: bool) -> set[str]:
    names: set[str] = set()
    optional = optional or call.optional_value
    decl = work.scope.patterns_in(work.file).get(call.names[0]) if len(call.names) == 1 else None
    for position, argument in enumerate(call.args):
        absent = optional or (call.optional_call and position > 0)
        if isinstance(argument, syntax.Rest):
            _note(work, argument.name, argument.span, LIST, absent)
            names.add(argument.name)
        elif not isinstance(argument, syntax.SetExpr):
            names |= _bind(work, argument, absent)
            if isinstance(argument, syntax.ValuePattern) and decl is not None and position < len(decl.parameters):
                inner = decl.parameters[position]
                _pass(work, argument.name, decl, inner)
    for keyword in call.keywords:
        if is_chain(call):
            if keyword.name == "others" and isinstance(keyword.value, syntax.Name):
                _note(work, keyword.value.name, keyword.value.span, LIST, optional)
                names.add(keyword.value.name)
        elif isinstance(keyword.value, syntax.Name) and is_capture(work.scope, work.file, keyword.value.name):
            absent = optional or call.optional_call or keyword.optional
            operator = work.scope.operator(call.names[0]) if len(call.names) == 1 else None
            kind = ATTRIBUTE if input_called(operator, keyword.name) is None else VALUE
            _note(work, keyword.value.name, keyword.value.span, kind, absent)
            names.add(keyword.value.name)
    return names


def input_called(operator: Operator | None, name: str) -> int | None:
    """The position of an input called `name`, where the operator has no such attribute: `axes` of ReduceMean."""
    if operator is None or not name or name in operator.attributes:
        return None
    return next((i for i, formal in enumerate(operator.inputs) if formal.name == name), None)


def is_capture(scope: Scope, file: str, name: str) -> bool:
    """Whether a name that stands as the value of an attribute captures it."""
    return name not in scope.lets_in(file) and name not in ITEM_BITS and name not in ("true", "false")


def _pass(work: _Work, name: str, decl: syntax.PatternDecl, inner: syntax.Parameter) -> None:
    """What the caller's name takes over from the parameter of a named pattern."""
    bound = work.bindings.names[name]
    if not (bound.where or bound.named):
        bound.operators = None  # a node of the named pattern may stand behind the parameter
    for kind in facts_of(work.scope, decl, inner.name, frozenset()):
        bound.optional |= kind == "optional"
        bound.constant |= kind == "constant"
        if kind == GIVEN:
            bound.kind = GIVEN


def facts_of(scope: Scope, decl: syntax.PatternDecl, name: str, seen: frozenset[str]) -> set[str]:
    """Of a parameter of a named pattern: "optional", "constant", "given" (bound by `with`)."""
    found: set[str] = set()
    if decl.name in seen:
        return found
    patterns = scope.patterns_in(decl.span.file)
    found |= {"optional" for parameter in decl.parameters if parameter.name == name and parameter.optional}
    found |= {GIVEN for give in decl.tail.give if give.name == name}
    for node in walk((decl.pattern, *(binding.pattern for binding in decl.tail.where))):
        match node:
            case syntax.ValuePattern(name=other) if other == name:
                found |= {"optional"} if node.optional else set()
                found |= {"constant"} if node.constant else set()
            case syntax.GuardedPattern():
                found |= {GIVEN for give in node.tail.give if give.name == name}
            case syntax.CallPattern(names=(callee,)) if callee in patterns:
                further = patterns[callee]
                for parameter, argument in zip(further.parameters, node.args, strict=False):
                    if isinstance(argument, syntax.ValuePattern) and argument.name == name:
                        found |= facts_of(scope, further, parameter.name, seen | {decl.name})
    return found


def _bind_alternatives(work: _Work, root: syntax.Alternatives, optional: bool) -> set[str]:
    sets = _bind_branches(work, root, optional)
    common = set.intersection(*sets)
    inside: dict[str, int] = {}
    for name in _occurrences(root):
        inside[name] = inside.get(name, 0) + 1
    for item, names in zip(root.items, sets, strict=True):
        own = names_read(item.tail) if isinstance(item, syntax.GuardedPattern) else frozenset()
        own |= {name for node in walk((item,)) if isinstance(node, syntax.Binding) for name in node.names}
        occurrences = list(_occurrences(item))
        for name in sorted(names - common):
            if name in work.where or work.total.get(name, 0) > inside.get(name, 0):
                continue  # bound outside as well: here it only says that two values are the same
            work.bindings.partial.add(name)
            if name not in own and occurrences.count(name) < 2:
                work.bindings.reported.add(name)
                missing = next(other for other, bound in zip(root.items, sets, strict=True) if name not in bound)
                work.problems.append(
                    Problem(
                        work.bindings.names[name].span,
                        f"the alternatives bind different names: `{name}` is missing in another one",
                        "write `_` where the value does not matter",
                        notes=((missing.span, f"this one does not bind `{name}`"),),
                    )
                )
    return common


def _bind_branches(work: _Work, root: syntax.Alternatives, optional: bool) -> list[set[str]]:
    """Bind each alternative by itself: what one binds, by `where` or `as` too, the others may bind in their own way."""
    names = work.bindings.names
    outer = frozenset(names)
    sets: list[set[str]] = []
    merged: dict[str, Bound] = {}
    for item in root.items:
        sets.append(_bind(work, item, optional))
        for name in [name for name in names if name not in outer]:
            bound = names.pop(name)
            merged[name] = _merged(merged[name], bound) if name in merged else bound
    names |= merged
    return sets


def _merged(one: Bound, other: Bound) -> Bound:
    """What a name is that two alternatives bind: a match has one of them, so their readers do not add up."""
    rank = (GIVEN, LIST, ATTRIBUTE, NODE, VALUE, DIMENSION)
    known = one.operators is not None and other.operators is not None
    return Bound(
        one.name,
        one.span,
        min(one.kind, other.kind, key=rank.index),
        count=max(one.count, other.count),
        where=one.where or other.where,
        named=one.named or other.named,
        optional=one.optional or other.optional,
        constant=one.constant or other.constant,
        operators=(one.operators or frozenset()) | (other.operators or frozenset()) if known else None,
        type=one.type or other.type,
    )


def _give(work: _Work, give: syntax.Give) -> None:
    found = work.bindings.names.get(give.name)
    if found is None:
        work.bindings.names[give.name] = Bound(give.name, give.span, GIVEN)
    elif (found.parameter and found.count == 0) or found.kind == GIVEN:
        found.kind = GIVEN
    else:
        note = ((found.span, "bound here"),)
        work.problems.append(Problem(give.span, f"`{give.name}` is a value of the pattern already", notes=note))


def _note(work: _Work, name: str, span: Span, kind: str, optional: bool, counted: bool = True) -> Bound:
    bound = work.bindings.names.get(name)
    if bound is None:
        bound = work.bindings.names[name] = Bound(name, span, kind, operators=frozenset())
    elif kind == ATTRIBUTE and bound.kind not in (ATTRIBUTE, GIVEN):
        message = f"`{name}` names a value and an attribute"
        work.problems.append(Problem(span, message, notes=((bound.span, "bound here"),)))
    bound.count += counted
    bound.optional |= optional
    return bound


def _dimensions(work: _Work, kind: syntax.TypePattern | None) -> None:
    """Dimensions and dtype variables of a type."""
    for name in () if kind is None else (kind.dtype, *kind.dims):
        if not isinstance(name, str) or name == "..." or name in ITEM_BITS or name in work.scope.lets_in(work.file):
            continue
        assert kind is not None
        bound = work.bindings.names.setdefault(name, Bound(name, kind.span, DIMENSION))
        bound.count += bound.kind == DIMENSION or bound.parameter


def _occurrences(root: syntax.Pattern) -> Iterable[str]:
    """The names of captures in a pattern, as often as they stand there."""
    for node in walk((root,)):
        match node:
            case syntax.ValuePattern() | syntax.Rest():
                yield node.name
            case syntax.KeywordPattern(value=syntax.Name(name=name)):
                yield name


def roots_of(
    scope: Scope, file: str, root: syntax.Pattern, seen: frozenset[str] = frozenset()
) -> frozenset[str] | None:
    """The operators whose result a pattern can be; None where it may be anything."""
    match root:
        case syntax.CallPattern():
            if root.optional_call:
                return None
            if is_chain(root):
                chosen = root.args[-1] if root.args else None
                items = chosen.items if isinstance(chosen, syntax.SetExpr) else ()
                return frozenset(item.name for item in items if isinstance(item, syntax.Name)) or None
            decl = scope.patterns_in(file).get(root.names[0])
            if decl is not None:
                return None if decl.name in seen else roots_of(scope, decl.span.file, decl.pattern, seen | {decl.name})
            return frozenset(root.names) if all(scope.operator(name) for name in root.names) else None
        case syntax.CapturePattern() | syntax.GuardedPattern() | syntax.OutputPattern():
            return roots_of(scope, file, root.pattern, seen)
        case syntax.Alternatives():
            found = [roots_of(scope, file, item, seen) for item in root.items]
            known = [names for names in found if names is not None]
            return frozenset().union(*known) if len(known) == len(found) else None
        case _:
            return None
