"""Calls and comprehensions compiled: functions, `let`s with parameters, and the names that mean more than a value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite_engine.language import functions, predicates, syntax, values
from rewrite_engine.language.code import Absent, Code, Env, Meaning, Slots, Sources, Variable, as_view, constant, join
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.program import Match
from rewrite_engine.language.values import EvaluationError, NodeView, Unknown, ValueSet

if TYPE_CHECKING:
    from rewrite_engine.language.compile import Compiler


def compile_call(compiler: Compiler, expr: syntax.Call, env: Env) -> Code:
    """A function, or a `let` with parameters, of its arguments."""
    if not isinstance(expr.function, syntax.Name):
        raise LoweringError(expr.span, "only a name can be called")
    name = expr.function.name
    let = compiler.scope.lets_in(env.file).get(name)
    if let is not None and let.parameters is not None:
        if len(let.parameters) != len(expr.args):
            raise LoweringError(expr.span, f"{name}() takes {len(let.parameters)} arguments")
        local = {p: argument_of(compiler, a, env) for p, a in zip(let.parameters, expr.args, strict=True)}
        return compiler.let(let, local, env)
    function = functions.find(name) or predicates.find(name, compiler.scope.predicates)
    if function is None:
        raise LoweringError(expr.span, f"unknown function `{name}`")
    if not function.arity[0] <= len(expr.args) <= function.arity[1]:
        raise LoweringError(expr.span, f"{name}() does not take {len(expr.args)} arguments; {function.doc}")
    if function.function is None:
        return _special(compiler, name, expr, env)
    if name == "is_const":
        _ask(compiler, expr.args[0], env, compiler.asked.constant)
    parts = tuple(compiler.compile(argument, env, function.elements) for argument in expr.args)
    call = function.function
    code = join(parts, lambda found: call(*found))
    says = name == "cast" or (name == "full" and len(parts) == 3)
    return replace(code, typed=True) if says or (name in _MOVES and parts[0].typed) else code


_MOVES = frozenset({"reshape", "expand", "transpose"})
"""Functions that keep the dtype of their first argument."""


def argument_of(compiler: Compiler, argument: syntax.Expr, env: Env) -> Meaning:
    """An argument of a `let`: a name is passed as what it stands for, anything else is computed once."""
    if isinstance(argument, syntax.Name):
        found = compiler.meaning(argument.name, env)
        if found is None:
            raise LoweringError(argument.span, f"unknown name `{argument.name}`")
        return found
    code = compiler.compile(argument, env, elements=False)
    if code.constant or code.varies:
        return code
    compiler.memos += 1
    key, inner = compiler.memos, code.run

    def run(match: Match) -> object:
        if key not in match.memo:
            match.memo[key] = inner(match)
        return match.memo[key]

    return Code(run, typed=code.typed)


def _special(compiler: Compiler, name: str, expr: syntax.Call, env: Env) -> Code:
    first = expr.args[0]
    match name:
        case "present":
            return constant(not _is_absent(compiler, first, env))
        case "default":
            return compiler.compile(expr.args[1] if _is_absent(compiler, first, env) else first, env)
        case "readers" | "is_graph_output":
            _ask(compiler, first, env, compiler.asked.readers)
            parts = (compiler.compile(first, env, elements=False),)
            wants = name == "readers"
            return join(parts, lambda found: found[0], lambda match, found: _use(match, found, wants))
        case "supported":
            ask_supports(compiler, first)
            parts = (compiler.compile(first, env, elements=False),)
            return join(parts, lambda found: found[0], lambda match, found: supported(match, found)[0])
        case _:
            raise LoweringError(expr.span, f"{name}(…) can only stand alone, as a cost")


def _is_absent(compiler: Compiler, expr: syntax.Expr, env: Env) -> bool:
    return isinstance(expr, syntax.Name) and isinstance(compiler.meaning(expr.name, env), Absent)


def _ask(compiler: Compiler, expr: syntax.Expr, env: Env, asked: set[int | str]) -> None:
    found = compiler.meaning(expr.name, env) if isinstance(expr, syntax.Name) else None
    if isinstance(found, Slots):
        asked.add(found.slot)
    elif isinstance(found, Variable):
        asked.update(found.sources)


def ask_supports(compiler: Compiler, expr: syntax.Expr) -> None:
    """The facts that this target's `supports` may ask about the operands of the operator."""
    if compiler.supports is None:
        raise LoweringError(expr.span, "`supported` and `.cost` read this target's `supports`, in composites only")
    compiler.asked.supports = True


def compile_comprehension(compiler: Compiler, expr: syntax.Comprehension, env: Env) -> Code:
    """`body for names in iterable`: the list of what the body gives."""
    named = compiler.meaning(expr.iterable.name, env) if isinstance(expr.iterable, syntax.Name) else None
    iterable = compiler.compile(expr.iterable, env, elements=isinstance(named, Slots))
    sources = _sources(compiler, expr.iterable, env)
    indices = tuple(range(compiler.variables, compiler.variables + len(expr.names)))
    compiler.variables += len(indices)
    local = {**env.local, **{n: Variable(i, sources) for n, i in zip(expr.names, indices, strict=True)}}
    body = compiler.compile(expr.body, Env(env.frame, env.file, local, env.costs, env.lets), elements=False)

    def run(match: Match) -> object:
        items = iterable.run(match)
        if isinstance(items, Unknown):
            return items
        return tuple(step(match, item) for item in _items(items))

    def step(match: Match, item: object) -> object:
        bound = (item,) if len(indices) == 1 else item
        if not isinstance(bound, tuple) or len(bound) != len(indices):
            raise EvaluationError(f"expected {len(indices)} values for each element, found {values.show(item)}")
        for index, value in zip(indices, bound, strict=True):
            match.variables[index] = value
        return body.run(match)

    return Code(run, varies=True)


def _sources(compiler: Compiler, expr: syntax.Expr, env: Env) -> tuple[int | str, ...]:
    """The slots that an iterable may give."""
    found: list[int | str] = []
    pending: list[Any] = [expr]
    while pending:
        part = pending.pop()
        match part:
            case syntax.Name():
                meaning = compiler.meaning(part.name, env)
                if isinstance(meaning, Slots):
                    found.append(meaning.slot)
                elif isinstance(meaning, Sources):
                    found += meaning.slots
            case syntax.Member(name="steps"):
                found += compiler.steps(part.base, env) or ()
            case syntax.Binary():
                pending += [part.left, part.right]
            case syntax.ListExpr() | syntax.SetExpr() | syntax.TupleExpr():
                pending += part.items
    return tuple(dict.fromkeys(found))


def _items(value: object) -> tuple[object, ...]:
    """What a comprehension goes over: a list, a set, or the rows of a constant."""
    value = values.plain(value)
    if isinstance(value, ValueSet):
        return value.items
    if isinstance(value, np.ndarray) and value.ndim:
        return tuple(value)
    if not isinstance(value, tuple):
        raise EvaluationError(f"expected a list after `in`, found {values.show(value)}")
    return value


def _use(match: Match, value: object, readers: bool) -> object:
    slot = as_view(value).slot
    known: tuple[Any, ...] = match.facts.readers if readers else match.facts.is_output
    return known[slot] if slot < len(known) else Unknown(f"the readers of `{as_view(value).name}` are not known")


def supported(match: Match, value: object) -> tuple[object, object]:
    """Whether this target runs the operator by itself, and its least cost."""
    from rewrite_engine.language.evaluate import cheapest

    node = as_view(value).node
    if not isinstance(node, NodeView):
        raise EvaluationError(f"`{as_view(value).name}` is not the result of an operator in this match")
    return cheapest(match, node)
