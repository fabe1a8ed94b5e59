"""Warnings across declarations: what an earlier one does already, and rules that change nothing or never end.

In: a scope without errors in these declarations. Out: warnings, each with both places. Declarations are compared as
they are written: captures by where they stand, named patterns by their names and not by what they mean, `where` only
for equality, conditions only as equal or absent, costs as equal text or as two plain times. So a warning is right, and
there are overlaps that give none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from rewrite_engine import operators
from rewrite_engine.diagnostics import Problem, Span
from rewrite_engine.language import locate, syntax, units
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.language.text import unparse
from rewrite_engine.language.walk import parts_of

Captures = dict[str, object]


def overlaps(scope: Scope, sources: dict[str, str]) -> list[Problem]:
    """Warnings for rules and composites that others make needless, and for rules that change nothing or never end."""
    found: list[Problem] = []
    found += _equal_rules(scope, sources)
    for rule in scope.rules:
        found += _back_to_itself(rule, sources)
    for target in scope.targets.values():
        found += _covered_composites(target, sources)
    return found


def _warning(span: Span, message: str, first: Span, hint: str | None = None) -> Problem:
    return Problem(span, message, hint, severity="warning", notes=((first, "it is this one"),))


# ---------------------------------------------------------------- rules


def _equal_rules(scope: Scope, sources: dict[str, str]) -> Iterator[Problem]:
    """Rules with one left side under one condition."""
    known: dict[object, syntax.RuleDecl] = {}
    shapes = [_shape(rule.left) for rule in scope.rules]
    count = Counter(shapes)
    for rule, shape in zip(scope.rules, shapes, strict=True):
        if rule.each or count[shape] == 1:
            continue
        names: dict[str, int] = {}
        left = (_key(rule.left, names), _key(rule.tail, names), rule.label)
        first = known.setdefault(left, rule)
        if first is rule:
            continue
        earlier: dict[str, int] = {}
        _key(first.left, earlier)
        _key(first.tail, earlier)
        same = _key(first.right, earlier) == _key(rule.right, names) and first.both == rule.both
        what = "does the same as" if same else "has the left side and the condition of"
        span, place = _place(rule, sources), _place(first, sources)
        yield _warning(span, f"rule `{rule.name}` {what} rule `{first.name}`", place)


def _back_to_itself(rule: syntax.RuleDecl, sources: dict[str, str]) -> Iterator[Problem]:
    """A rule that builds what it has matched, or something that it matches again with other constants."""
    bound: Captures = {}
    if rule.tail.where or rule.each or not _again(rule.left, rule.right, bound):
        return
    span = _place(rule, sources)
    changed = {name: value for name, value in bound.items() if not _is_name(value, name)}
    if not changed:
        message = f"rule `{rule.name}` builds what it has matched: it changes nothing"
        yield Problem(span, message, severity="warning")
    elif rule.tail.guard is None and any(not isinstance(value, syntax.Name) for value in changed.values()):
        message = f"rule `{rule.name}` matches what it has built, and so grows without bound"
        yield Problem(span, message, "add a condition that ends it", severity="warning")


def _is_name(value: object, name: str) -> bool:
    return isinstance(value, syntax.Name) and value.name == name


def _again(left: object, right: object, bound: Captures) -> bool:
    """Whether a left side matches a right side as it is written; `bound` is what its captures would be."""
    match left:
        case syntax.CapturePattern():
            return _again(left.pattern, right, bound)
        case syntax.ValuePattern():
            computed = isinstance(right, (syntax.Binary, syntax.Unary))
            fits = isinstance(right, syntax.Name) or (left.constant and computed) or _builds(right)
            return fits and left.type is None and _same(bound.setdefault(left.name, right), right)
        case syntax.CallPattern(names=(name,), optional_call=False):
            if not isinstance(right, syntax.Call) or not _is_name(right.function, name):
                return False
            if len(left.args) != len(right.args) or operators.find(name) is None:
                return False
            given = dict(right.keywords)
            for keyword in left.keywords:
                value = given.pop(keyword.name, None)
                if not isinstance(keyword.value, syntax.Name):
                    if value is None or not _same(keyword.value, value):
                        return False
                elif value is None or not _same(bound.setdefault(keyword.value.name, value), value):
                    return False
            return (
                not given
                and not right.like
                and all(_again(a, b, bound) for a, b in zip(left.args, right.args, strict=True))
            )
        case _:
            return False


def _builds(expr: object) -> bool:
    return isinstance(expr, syntax.Call) and isinstance(expr.function, syntax.Name) and expr.function.name[0].isupper()


# ---------------------------------------------------------------- composites


def _covered_composites(target: TargetScope, sources: dict[str, str]) -> Iterator[Problem]:
    """Composites that an earlier one of the target, no dearer, takes the place of wherever they hold."""
    own = {id(part) for opening in target.openings for part in opening.items}
    equal: dict[object, list[syntax.Composite]] = {}
    plain: dict[object, list[syntax.Composite]] = {}  # without a condition, by the operators in their order
    items = [i for i in target.items if isinstance(i, syntax.Composite) and not i.each and i.energy is None]
    shapes = [_shape(item.pattern) for item in items]
    count = Counter(shapes)
    for item, shape in zip(items, shapes, strict=True):
        if count[shape] == 1:
            continue
        same = equal.setdefault(_key((item.parameters, item.pattern, item.tail), {}), [])
        alike = plain.setdefault(shape, [])
        rivals = [*same, *(known for known in alike if _covers(known, item))]
        first = next((known for known in rivals if no_dearer(known.cost, item.cost)), None)
        if first is not None and id(item) in own:
            message = f"composite `{item.name}` is covered by composite `{first.name}` of `{target.name}`"
            span = locate.word(sources, item.span, item.name)
            place = locate.word(sources, first.span, first.name)
            yield _warning(span, f"{message}, which costs no more", place)
        if first is None:
            same.append(item)
            if item.tail == syntax.Tail():
                alike.append(item)


def _covers(general: syntax.Composite, special: syntax.Composite) -> bool:
    """Whether a composite without a tail takes all that another one takes, with the same parameters."""
    mine, other = general.parameters, special.parameters
    if special.tail.where or special.tail.give or len(mine) != len(other):
        return False
    for a, b in zip(mine, other, strict=True):
        if a.rest or a.type is not None or (b.optional and not a.optional):
            return False
    bound: Captures = {}
    named = {a.name: b.name for a, b in zip(mine, other, strict=True)}
    return _wider(general.pattern, special.pattern, bound) and all(
        named.get(name, other_name) == other_name for name, other_name in bound.items()
    )


def _wider(general: object, special: object, bound: Captures) -> bool:
    """Whether a pattern matches the same operators as another one, wherever that one matches."""
    match general, special:
        case syntax.CapturePattern(), syntax.CapturePattern():
            return general.type is None and _wider(general.pattern, special.pattern, bound)
        case syntax.ValuePattern(), syntax.ValuePattern():
            weaker = (special.constant or not general.constant) and (general.optional or not special.optional)
            same = bound.setdefault(general.name, special.name) == special.name
            return weaker and same and general.type is None
        case syntax.AnyPattern(), syntax.AnyPattern():
            return special.constant or not general.constant
        case syntax.CallPattern(), syntax.CallPattern():
            flags = (general.optional_call, general.optional_value) == (special.optional_call, special.optional_value)
            if general.names != special.names or len(general.args) != len(special.args) or not flags:
                return False
            there = {keyword.name: keyword for keyword in special.keywords}
            keywords = all(k.name in there and _same(k, there[k.name]) for k in general.keywords)
            return keywords and all(_wider(a, b, bound) for a, b in zip(general.args, special.args, strict=True))
        case _:
            return _same(general, special)


def no_dearer(one: syntax.Expr | None, other: syntax.Expr | None) -> bool:
    """Whether a cost is surely at most another: the same text, or two times."""
    if one is None or other is None:
        return one is None and other is None
    first, second = _time(one), _time(other)
    return first <= second if first is not None and second is not None else unparse(one) == unparse(other)


def _time(cost: syntax.Expr | None) -> Fraction | None:
    """The seconds of a cost that is one quantity."""
    unit = units.lookup(cost.unit) if isinstance(cost, syntax.Quantity) else None
    if unit is None or unit.dimension != units.TIME:
        return None
    assert isinstance(cost, syntax.Quantity)
    return Fraction(cost.number) * unit.factor


# ---------------------------------------------------------------- comparing


def _shape(pattern: object) -> tuple[object, ...]:
    """The operators and named patterns of a pattern, each with the number of its inputs: equal where patterns are."""
    found: list[object] = []
    stack = [pattern]
    while stack:
        part = stack.pop()
        if isinstance(part, syntax.CallPattern):
            found.append((part.names, len(part.args)))
            stack += part.args
        elif isinstance(part, syntax.CapturePattern):
            stack.append(part.pattern)
        elif isinstance(part, syntax.TuplePattern):
            stack += part.items
    return tuple(found)


def _key(part: object, names: dict[str, int]) -> object:
    """A declaration's part without positions; names by the order in which they first stand."""
    match part:
        case syntax.Name() | syntax.Like() | syntax.Rest():
            return (type(part).__name__, names.get(part.name, part.name))
        case syntax.ValuePattern() | syntax.CapturePattern() | syntax.Parameter():
            number = names.setdefault(part.name, len(names))
            return (type(part).__name__, number, *(_key(p, names) for p in parts_of(part) if p != part.name))
        case syntax.Binding():
            numbers = tuple(names.setdefault(name, len(names)) for name in part.names)
            return ("Binding", numbers, _key(part.pattern, names))
        case syntax.KeywordPattern(value=syntax.Name(name=name)):
            return ("Keyword", part.name, part.optional, names.setdefault(name, len(names)))
        case syntax.Tail():
            return (_key(part.where, names), _key(part.guard, names), _key(part.give, names))
        case tuple():
            return tuple(_key(item, names) for item in part)
        case syntax.Node():
            return (type(part).__name__, *(_key(value, names) for value in parts_of(part)))
        case _:
            return repr(part)


def _same(one: object, other: object) -> bool:
    return _key(one, {}) == _key(other, {})


def _place(rule: syntax.RuleDecl, sources: dict[str, str]) -> Span:
    return locate.word(sources, rule.span, rule.name)
