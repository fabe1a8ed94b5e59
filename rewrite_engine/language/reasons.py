"""Why a clause of a guard does not hold: the part of it that fails first, and the values that this part saw.

In: a clause as compiled for one variant. Out: a function from a match to text, compiled when it is first asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rewrite_engine.language import syntax, values
from rewrite_engine.language.calls import argument_of
from rewrite_engine.language.code import Code, Env, ReadsAbsent, Slots, conjuncts
from rewrite_engine.language.names import LoweringError
from rewrite_engine.language.program import Match
from rewrite_engine.language.text import unparse

if TYPE_CHECKING:
    from rewrite_engine.language.compile import Compiler

OF_TYPES = frozenset({"shape", "dtype", "rank", "numel", "bytes"})
"""Members that are seen where a captured value is shown, since its type is."""

Part = tuple[syntax.Expr, Env, Code]


def why(compiler: Compiler, clause: syntax.Expr, env: Env) -> Callable[[Match], str]:
    """Says of a match for which the clause is false what it saw; "" where there is nothing to show."""
    reasons = _Reasons(compiler)

    def say(match: Match) -> str:
        return reasons.of(clause, env, match)

    return say


class _Reasons:
    """Compiled parts and leaves of one clause, by expression and environment."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self.parts: dict[tuple[int, int], list[Part]] = {}
        self.leaves: dict[tuple[int, int], Callable[[Match], str]] = {}

    def of(self, clause: syntax.Expr, env: Env, match: Match) -> str:
        """The first operand of an `and` that is not true, the body of a `let`, down to what is neither."""
        here, where = clause, env
        while True:
            failing = next((p for p in self._parts(here, where) if values.truth(p[2].run(match)) is not True), None)
            if failing is None:
                break
            here, where, _ = failing
        leaf = self._leaf(here, where)
        match.variables += [None] * (self.compiler.variables - len(match.variables))  # of what was compiled just now
        shown = leaf(match)
        return shown if here is clause else f"`{unparse(here)}`" + (f": {shown}" if shown else "")

    def _parts(self, expr: syntax.Expr, env: Env) -> list[Part]:
        key = (id(expr), id(env))
        if key not in self.parts:
            try:
                self.parts[key] = [(e, inner, self.compiler.compile(e, inner)) for e, inner in self._inside(expr, env)]
            except (LoweringError, ReadsAbsent):
                self.parts[key] = []
        return self.parts[key]

    def _inside(self, expr: syntax.Expr, env: Env) -> list[tuple[syntax.Expr, Env]]:
        lets = self.compiler.scope.lets_in(env.file)
        match expr:
            case syntax.Binary(op="and"):
                return [(operand, env) for operand in conjuncts(expr)]
            case syntax.Call(function=syntax.Name(name=name)) if name in lets:
                let = lets[name]
                if let.parameters is not None and len(let.parameters) == len(expr.args):
                    pairs = zip(let.parameters, expr.args, strict=True)
                    local = {parameter: argument_of(self.compiler, argument, env) for parameter, argument in pairs}
                    return [(let.value, Env(None, let.span.file, local, env.costs, env.lets + 1))]
            case syntax.Name(name=name) if name in lets and name not in env.local:
                captured = env.frame is not None and (name in env.frame.cells or name in env.frame.names.captured)
                if lets[name].parameters is None and not captured:
                    return [(lets[name].value, Env(None, lets[name].span.file, {}, env.costs, env.lets + 1))]
        return []

    def _leaf(self, expr: syntax.Expr, env: Env) -> Callable[[Match], str]:
        key = (id(expr), id(env))
        if key not in self.leaves:
            compared = isinstance(expr, syntax.Compare)
            self.leaves[key] = (_compared if compared else _other)(self.compiler, expr, env)  # type: ignore[arg-type]
        return self.leaves[key]


def _compared(compiler: Compiler, expr: syntax.Compare, env: Env) -> Callable[[Match], str]:
    """The operands of a comparison."""
    _, parts = compiler.comparison(expr, env)
    symbols = [symbol for symbol, _ in expr.rest]

    def say(match: Match) -> str:
        shown = [values.show(part.run(match)) for part in parts]
        return " ".join([shown[0], *(f"{s} {v}" for s, v in zip(symbols, shown[1:], strict=True))])

    return say


def _other(compiler: Compiler, expr: syntax.Expr, env: Env) -> Callable[[Match], str]:
    """The captures and attributes that a clause names, and of `all(… for t in list)` the first element that fails."""
    seen = _seen(compiler, expr, env)
    failing = _first_failing(compiler, expr, env)

    def say(match: Match) -> str:
        shown = [values.show(match.view(part)) if isinstance(part, int) else part(match) for part in seen]
        return ", ".join([*shown, *(failing(match) if failing is not None else ())])

    return say


def _seen(compiler: Compiler, clause: syntax.Expr, env: Env) -> list[int | Callable[[Match], str]]:
    """Slots of captures, and attributes with their values, in the order in which the clause names them."""
    found: dict[object, int | Callable[[Match], str]] = {}
    pending: list[Any] = [clause]
    while pending:
        part = pending.pop()
        match part:
            case syntax.Name():
                meaning = compiler.meaning(part.name, env)
                if isinstance(meaning, Slots):
                    found.setdefault(meaning.slot, meaning.slot)
            case syntax.Member(base=syntax.Name(name=base)) if part.name not in OF_TYPES:
                if isinstance(compiler.meaning(base, env), Slots):
                    found.setdefault(unparse(part), _shown(compiler, part, env))
            case syntax.Member() | syntax.Index():
                pending.append(part.base)
            case syntax.Call():
                pending += reversed(part.args)
            case syntax.Compare():
                pending += reversed([part.first, *(operand for _, operand in part.rest)])
            case syntax.Binary():
                pending += [part.right, part.left]
    return list(found.values())


def _shown(compiler: Compiler, expr: syntax.Expr, env: Env) -> Callable[[Match], str]:
    code, text = compiler.compile(expr, env), unparse(expr)
    return lambda match: f"`{text}`: {values.show(code.run(match))}"


def _first_failing(compiler: Compiler, clause: syntax.Expr, env: Env) -> Callable[[Match], list[str]] | None:
    """For `all(… for t in list)`: shows the first element for which it does not hold."""
    if not (isinstance(clause, syntax.Call) and len(clause.args) == 1):
        return None
    over = clause.args[0]
    if not isinstance(over, syntax.Comprehension) or clause.function != syntax.Name(clause.function.span, "all"):
        return None
    items = compiler.compile(over.iterable, env, elements=False)
    verdicts = compiler.compile(over, env)

    def failing(match: Match) -> list[str]:
        found, given = verdicts.run(match), items.run(match)
        if not isinstance(found, tuple) or not isinstance(given, tuple):
            return []
        wrong = (item for item, verdict in zip(given, found, strict=True) if values.truth(verdict) is False)
        return [f"not for {values.show(item)}" for item in itertools.islice(wrong, 1)]

    return failing
