"""Names that nobody reads: captures (an error), `let`s and patterns of the named files (a warning)."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.diagnostics import Problem
from rewrite_engine.language import bindings, locate, syntax
from rewrite_engine.language.bindings import Bound
from rewrite_engine.language.check_expressions import Reader
from rewrite_engine.language.scope import Scope
from rewrite_engine.operators.types import ITEM_BITS


def unused_names(reader: Reader, kind: str) -> None:
    """Captures that nothing reads. `kind` is "pattern", "rule", "composite" or "supports".

    A composite hands its parameters to the kernel, embeds further constants and gives `with` values to the code
    generator; `supports` passes all inputs. Neither needs to read them.
    """
    wrong = {problem.span for problem in reader.problems if problem.message.startswith("unknown")}
    for bound in reader.bindings.names.values():
        if bound.span in wrong:
            continue  # a misspelt word, and no capture
        if bound.name in reader.read or bound.name in reader.bindings.reported:
            continue
        message = _unused(bound, kind, reader)
        if message:
            any_value = f"write `{'const ' * bound.constant}_` instead"
            hint = None if bound.parameter or bound.where or bound.kind == bindings.GIVEN else any_value
            if kind == "composite" and bound.kind == bindings.VALUE and not bound.parameter:
                hint = f"make it a parameter, or write `const {bound.name}`"
            elif bound.named:
                hint = f"leave out `as {bound.name}`"
            elif bound.kind == bindings.ATTRIBUTE:
                hint = "leave the attribute out to match any value"
            reader.problem(bound.span, message, hint)


def _unused(bound: Bound, kind: str, reader: Reader) -> str | None:
    if bound.kind == bindings.DIMENSION:
        return None
    if bound.parameter:
        return None if bound.count or bound.kind == bindings.GIVEN else f"parameter `{bound.name}` is not used"
    if bound.kind == bindings.GIVEN:
        return None if kind in ("composite", "supports") or bound.count else f"`{bound.name}` is given but never read"
    if bound.where:
        return None if bound.count else f"`{bound.name}` is bound by `where` but not used"
    if bound.count > 1:
        return None
    if not (kind == "composite" and bound.kind == bindings.VALUE) and _narrows(bound.type, reader):
        return None  # it is named to say what type it has
    if bound.named:
        return None if bound.count else f"`{bound.name}` is captured but never read"
    if kind == "supports" and bound.kind in (bindings.VALUE, bindings.LIST):
        return None
    if kind == "composite" and bound.kind == bindings.VALUE:
        if bound.constant:
            return None
        return f"`{bound.name}` is neither a parameter nor constant: the kernel could not be given it"
    return f"`{bound.name}` is captured but never read"


def _narrows(kind: syntax.TypePattern | None, reader: Reader) -> bool:
    """Whether a type refuses anything: `[...]` does not, nor `T[...]` where no other type and no guard mentions T."""
    if kind is None or kind.dtype is None:
        return kind is not None and kind.dims != ("...",)
    variable = kind.dtype not in ITEM_BITS and kind.dtype not in reader.scope.lets_in(reader.file)
    bound = reader.bindings.names.get(kind.dtype)
    mentioned = kind.dtype in reader.read or (bound is not None and bound.count > 1)
    return kind.dims != ("...",) or not variable or mentioned


def unused_declarations(
    scope: Scope, named: frozenset[str], used: set[tuple[str, str]], sources: Mapping[str, str]
) -> list[Problem]:
    """Warnings for `let`s and patterns of `named` files that nothing reads; silent where part of a file is broken."""
    found: list[Problem] = []
    for file in scope.files:
        if file.path not in named or scope.broken.get(file.path) or file.path in scope.incomplete:
            continue
        for item in file.items:
            if isinstance(item, syntax.Let | syntax.PatternDecl) and (file.path, item.name) not in used:
                kind = "let" if isinstance(item, syntax.Let) else "pattern"
                span = locate.word(sources, item.span, item.name)
                found.append(Problem(span, f"{kind} `{item.name}` is not used", severity="warning"))
    return found
