"""`operator com.x::Op(…) = PATTERN`: an operator without a public schema, by its meaning in known operators.

In: declarations. Out: per operator its facts (`operators.Operator`: inputs, results, attributes), its body as what a
rule would build, and the problems of what is no meaning. `lower_operators` makes the rule, `meaning` reads it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from rewrite_engine import operators
from rewrite_engine.diagnostics import Problem, did_you_mean
from rewrite_engine.language import locate, syntax
from rewrite_engine.language.syntax import OperatorDecl
from rewrite_engine.language.walk import names_read, walk
from rewrite_engine.operators import Attribute, Formal, Operator
from rewrite_engine.operators.dtypes import DTYPE_CODES
from rewrite_engine.operators.types import ITEM_BITS

# ---------------------------------------------------------------- facts


def facts(decls: Mapping[str, OperatorDecl], lets: Mapping[str, syntax.Let]) -> dict[str, Operator]:
    """What is known of declared operators, as of those in the operator table; `lets` may name sets of dtypes."""
    return {name: _facts(decl, decls, lets) for name, decl in decls.items()}


def _facts(decl: OperatorDecl, decls: Mapping[str, OperatorDecl], lets: Mapping[str, syntax.Let]) -> Operator:
    inputs = tuple(_formal(parameter, lets) for parameter in decl.parameters)
    required = [index for index, formal in enumerate(inputs) if formal.kind == "single"]
    endless = any(parameter.rest for parameter in decl.parameters)
    results = len(decl.pattern.items) if isinstance(decl.pattern, syntax.TuplePattern) else 1
    everything = tuple(DTYPE_CODES)
    return Operator(
        name=decl.name,
        domain=decl.name.rpartition("::")[0],
        inputs=inputs,
        outputs=tuple(Formal(f"y{k}" if results > 1 else "y", "single", f"y{k}", everything) for k in range(results)),
        attributes={name: _attribute(name, decl, decls, lets) for name in attributes_of(decl, lets)},
        min_inputs=max(required, default=-1) + 1,
        max_inputs=None if endless else len(inputs),
        min_outputs=1,
        max_outputs=results,
    )


def _formal(parameter: syntax.Parameter, lets: Mapping[str, syntax.Let]) -> Formal:
    kind = "variadic" if parameter.rest else "optional" if parameter.optional else "single"
    name = parameter.type.dtype if parameter.type is not None else None
    dtypes: tuple[str, ...] = tuple(DTYPE_CODES)
    if name is not None and name in ITEM_BITS:
        dtypes = (name,)
    elif name is not None and name in lets:
        dtypes = tuple(sorted(names_read(lets[name].value) & set(ITEM_BITS))) or dtypes
        name = None
    return Formal(parameter.name, kind, name or f"${parameter.name}", dtypes)


def attributes_of(decl: OperatorDecl, lets: Container[str] = ()) -> dict[str, bool]:
    """The attributes of a declared operator: those that it writes beside its inputs, and those that its pattern hands
    on; whether each may be absent."""
    found = handed_on(decl, lets)
    for keyword in decl.attributes:
        found[keyword.name] = found.get(keyword.name, True) and keyword.optional
    return found


def handed_on(decl: OperatorDecl, lets: Container[str] = ()) -> dict[str, bool]:
    """The attributes that the pattern captures under their own names; whether each may be absent."""
    bound = {parameter.name for parameter in decl.parameters} | captured_attributes(decl, lets).keys()
    found: dict[str, bool] = {}
    for node in walk((decl.pattern, *(binding.pattern for binding in decl.tail.where))):
        if isinstance(node, syntax.KeywordPattern) and _is_capture(node.value, lets):
            assert isinstance(node.value, syntax.Name)
            if node.value.name not in bound:
                found[node.value.name] = found.get(node.value.name, True) and node.optional
    return found


def captured_attributes(decl: OperatorDecl, lets: Container[str] = ()) -> dict[str, str]:
    """The names that attributes are captured under beside the inputs, as in `mode=m`, and those attributes."""
    return {
        keyword.value.name: keyword.name
        for keyword in decl.attributes
        if isinstance(keyword.value, syntax.Name) and _is_capture(keyword.value, lets)
    }


def _is_capture(value: syntax.Expr, lets: Container[str]) -> bool:
    if not isinstance(value, syntax.Name):
        return False
    return value.name not in lets and value.name not in ITEM_BITS and value.name not in ("true", "false")


def _attribute(
    name: str, decl: OperatorDecl, decls: Mapping[str, OperatorDecl], lets: Container[str], depth: int = 0
) -> Attribute:
    """An attribute, with the type that the operator which it is handed to gives it."""
    optional = attributes_of(decl, lets)[name]
    names = {name, *(capture for capture, attribute in captured_attributes(decl, lets).items() if attribute == name)}
    for call in walk((decl.pattern, *(binding.pattern for binding in decl.tail.where))):
        if not isinstance(call, syntax.CallPattern):
            continue
        for keyword in call.keywords:
            if isinstance(keyword.value, syntax.Name) and keyword.value.name in names:
                known = operators.find(call.names[0])
                if known is not None and keyword.name in known.attributes:
                    return Attribute(name, known.attributes[keyword.name].type, not optional)
                inner = decls.get(call.names[0])
                if inner is not None and depth < len(decls) and keyword.name in attributes_of(inner, lets):
                    found = _attribute(keyword.name, inner, decls, lets, depth + 1)
                    return Attribute(name, found.type, not optional)
    written = next((keyword.value for keyword in decl.attributes if keyword.name == name), None)
    items = written.items if isinstance(written, syntax.SetExpr) else (written,)
    kinds = {_WRITTEN.get(type(item), "any") for item in items}
    return Attribute(name, kinds.pop() if len(kinds) == 1 else "any", not optional)


_WRITTEN: Mapping[type, str] = {syntax.Text: "string"}
"""The type of an attribute that a value is written for; a number may be an int or a float."""


# ---------------------------------------------------------------- the body as a template


@dataclass(frozen=True, slots=True)
class Inner:
    """A value that the body of a declared operator names: output `index` of `count` of what `expr` builds."""

    expr: syntax.Expr
    index: int
    count: int


@dataclass(slots=True)
class Body:
    """The body as a right-hand side; `named` are its inner values."""

    results: tuple[syntax.Expr, ...] = ()
    named: dict[str, Inner] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def body_of(decl: OperatorDecl) -> Body:
    """The meaning of an operator as what builds it; problems where its pattern leaves something open."""
    body = Body()
    for binding in decl.tail.where:
        expr = _expression(binding.pattern, body)
        for index, name in enumerate(binding.names):
            if name != "_":
                body.named[name] = Inner(expr, index, len(binding.names))
    root = decl.pattern
    items = root.items if isinstance(root, syntax.TuplePattern) else (root,)
    body.results = tuple(_expression(item, body) for item in items)
    return body


def _expression(pattern: syntax.Pattern, body: Body) -> syntax.Expr:
    match pattern:
        case syntax.ValuePattern():
            if pattern.type is not None:
                body.problems.append(Problem(pattern.span, "give the type where the parameter is declared"))
            return syntax.Name(pattern.span, pattern.name)
        case syntax.NonePattern():
            return syntax.NoneExpr(pattern.span)
        case syntax.LiteralPattern():
            return pattern.value
        case syntax.CapturePattern():
            body.named[pattern.name] = Inner(_expression(pattern.pattern, body), 0, 1)
            return syntax.Name(pattern.span, pattern.name)
        case syntax.OutputPattern():
            number = syntax.Number(pattern.span, pattern.index)
            return syntax.Index(pattern.span, _expression(pattern.pattern, body), number)
        case syntax.CallPattern():
            return _call(pattern, body)
        case _:
            several = isinstance(pattern, syntax.Alternatives)
            what = "alternatives" if several else "wildcards, tuples or conditions inside"
            body.problems.append(Problem(pattern.span, f"the meaning of an operator has no {what}", _HINT))
            return syntax.NoneExpr(pattern.span)


def _call(call: syntax.CallPattern, body: Body) -> syntax.Expr:
    name = call.names[0]
    if len(call.names) > 1 or call.optional_call or call.optional_value:
        body.problems.append(Problem(call.span, "the meaning of an operator leaves nothing open", _HINT))
    elif not (name[:1].isupper() or "::" in name):
        body.problems.append(Problem(call.span, f"`{name}` is a pattern, which may match several things", _HINT))
    args: list[syntax.Expr] = []
    for argument in call.args:
        if isinstance(argument, syntax.Rest):
            args.append(argument)
        elif not isinstance(argument, syntax.SetExpr):
            args.append(_expression(argument, body))
    keywords = tuple((keyword.name, keyword.value) for keyword in call.keywords)
    return syntax.Call(call.span, syntax.Name(call.span, name), tuple(args), keywords, ())


_HINT = "write one operator after another: it says what is computed"


# ---------------------------------------------------------------- checks


def check(decl: OperatorDecl, decls: Mapping[str, OperatorDecl], sources: Mapping[str, str]) -> list[Problem]:
    """Problems of one declaration beyond those of its pattern."""
    span = locate.word(sources, decl.span, decl.name)
    if "::" not in decl.name:
        hint = f"write a domain: com.example::{decl.name}"
        return [Problem(span, f"`{decl.name}` has no domain: those operators are ONNX's own", hint)]
    if operators.find(decl.name) is not None:
        return [Problem(span, f"`{decl.name}` is known already")]
    problems: list[Problem] = []
    body = body_of(decl)
    problems += body.problems
    inputs, seen = {parameter.name for parameter in decl.parameters}, set[str]()
    for keyword in decl.attributes:
        if keyword.name in inputs:
            problems.append(Problem(keyword.span, f"`{keyword.name}` is an input of {decl.name} already"))
        elif keyword.name in seen:
            problems.append(Problem(keyword.span, f"attribute `{keyword.name}` is declared twice"))
        seen.add(keyword.name)
    for give in decl.tail.give:
        problems.append(Problem(give.span, "`with` has no meaning here: the pattern says what is computed"))
    known = {p.name for p in decl.parameters} | {*body.named}
    optional = {p.name for p in decl.parameters if p.optional}
    for node in walk((decl.pattern, *(binding.pattern for binding in decl.tail.where))):
        if isinstance(node, syntax.ValuePattern) and node.name not in known:
            problems.append(
                Problem(node.span, f"`{node.name}` is not an input of {decl.name}", did_you_mean(node.name, known))
            )
        elif isinstance(node, syntax.CallPattern) and (operator := operators.find(node.names[0])) is not None:
            for position, argument in enumerate(node.args):
                formal = operator.input(position)
                name = argument.name if isinstance(argument, syntax.ValuePattern) else ""
                if name in optional and formal is not None and formal.kind != "optional":
                    message = f"`{name}` may be absent, but {operator.name} needs its {formal.name}"
                    problems.append(Problem(argument.span, message))
    if decl.name in _reached(decl, decls):
        problems.append(Problem(span, f"operator `{decl.name}` is built from itself"))
    return problems


def _reached(decl: OperatorDecl, decls: Mapping[str, OperatorDecl]) -> set[str]:
    """The declared operators that a declaration is built from, directly or not."""
    found: set[str] = set()
    pending = [decl]
    while pending:
        here = pending.pop()
        for node in walk((here.pattern, here.tail)):
            for name in node.names if isinstance(node, syntax.CallPattern) else ():
                if name in decls and name not in found:
                    found.add(name)
                    pending.append(decls[name])
    return found


def in_order(decls: Mapping[str, OperatorDecl]) -> Sequence[OperatorDecl]:
    """Declarations, each after those that it is built from."""
    return sorted(decls.values(), key=lambda decl: len(_reached(decl, decls)))
