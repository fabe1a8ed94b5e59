"""Predicates: Python functions of plain values that guards call by name; rule files themselves never run Python.

In: functions given with the rule files, and those that installed packages offer. Out: rows like those of `functions`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import numpy as np

from rewrite_engine import plugins
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language import functions
from rewrite_engine.language.functions import Function
from rewrite_engine.language.values import EvaluationError, Unknown, ValueSet, show

Predicate = Callable[..., "bool | None"]
"""Takes ints, floats, strings, tuples and arrays (amounts in bytes and seconds). None: it cannot tell."""

_MANY = 99


def find(name: str, given: Mapping[str, Predicate]) -> Function | None:
    """The predicate of that name: among those `given`, else of an installed package; None where there is none.

    Raises RewriteError for a package that cannot be loaded, and for what is not a function of positional arguments.
    """
    if name in given:
        return as_function(name, given[name])
    plugin = plugins.find(plugins.PREDICATES, name)
    if plugin is None:
        return None
    return as_function(name, plugins.load(plugins.PREDICATES, name), f" of {plugin.distribution}")


def names(given: Mapping[str, Predicate]) -> tuple[str, ...]:
    """The names of all predicates, sorted."""
    return tuple(sorted({*given, *plugins.installed(plugins.PREDICATES)}))


def as_function(name: str, predicate: object, origin: str = "") -> Function:
    """A predicate as guards call it: unknown arguments make it unknown, and what it raises becomes a refusal."""
    where = f"predicate `{name}`{origin}"
    if not (name.isidentifier() and name[0].islower()):
        raise RewriteError(f"{where}: expected a name of letters, digits and _ that starts with a small letter")
    if functions.find(name) is not None:
        raise RewriteError(f"{where}: a function of the language has that name; choose another one")
    if not callable(predicate):
        raise RewriteError(f"{where}: expected a Python function, found {type(predicate).__name__}")
    call: Callable[..., object] = predicate
    return Function(name, _arity(call, where), f"{where} takes {_signature(call)}", _lifted(call, where), "bool")


def _arity(predicate: Callable[..., object], where: str) -> tuple[int, int]:
    """The least and the most arguments; anything where Python does not tell."""
    try:
        parameters = list(inspect.signature(predicate).parameters.values())
    except (TypeError, ValueError):
        return 0, _MANY
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise RewriteError(f"{where}: guards pass arguments by position; `{parameter.name}` takes a keyword only")
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(parameter.default is parameter.empty for parameter in positional)
    return least, _MANY if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)


def _signature(predicate: Callable[..., object]) -> str:
    try:
        return f"({', '.join(inspect.signature(predicate).parameters)})"
    except (TypeError, ValueError):
        return "any arguments"


def _lifted(predicate: Callable[..., object], where: str) -> Callable[..., object]:
    from rewrite_engine.language.evaluate import plain_value

    def call(*arguments: object) -> object:
        unknown = _unknown_in(arguments)
        if unknown is not None:
            return Unknown(unknown.reason, None, unknown.dimension)
        plain = [plain_value(a.items if isinstance(a, ValueSet) else a) for a in arguments]
        try:
            found = predicate(*plain)
        except Exception as error:
            raise EvaluationError(f"{where} failed: {type(error).__name__}: {error}") from error
        if found is None:
            shown = ", ".join(show(argument) for argument in plain)
            return Unknown(f"{where} cannot tell for ({shown})")
        if not isinstance(found, bool | np.bool_):
            raise EvaluationError(f"{where} returned {found!r}; expected True, False or None")
        return bool(found)

    return call


def _unknown_in(arguments: tuple[object, ...]) -> Unknown | None:
    """The first unknown among arguments and in their lists."""
    pending = list(reversed(arguments))
    while pending:
        argument = pending.pop()
        if isinstance(argument, Unknown):
            return argument
        if isinstance(argument, tuple | ValueSet):
            pending += reversed(argument.items if isinstance(argument, ValueSet) else argument)
    return None
