"""`let`s: the names that their values read, and parameters that nothing reads."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.diagnostics import Problem
from rewrite_engine.language import bindings, syntax
from rewrite_engine.language.bindings import Bindings, Bound
from rewrite_engine.language.check_expressions import Reader, read
from rewrite_engine.language.scope import Scope


def check_let(let: syntax.Let, scope: Scope, problems: list[Problem], used: set[tuple[str, str]]) -> None:
    """The names that a `let` reads: its parameters, other `let`s, functions."""
    names: Mapping[str, Bound] = {
        name: Bound(name, let.span, bindings.VALUE, parameter=True, operators=None) for name in let.parameters or ()
    }
    reader = Reader(scope, let.span.file, problems, used, Bindings(dict(names)), own_capabilities=True)
    if let.parameters is not None:
        reader.extra = frozenset({"inputs", "outputs"})
        read(let.value, reader)
        for name in let.parameters:
            if name not in reader.read:
                reader.problem(let.span, f"parameter `{name}` of `{let.name}` is not used")
    else:
        read(let.value, reader)
