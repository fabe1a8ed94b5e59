"""From Lark's tree to the syntax tree, bottom up and without recursion. Each grammar rule has one small function.

`tree_expressions`, `tree_patterns` and `tree_declarations` hold those functions in tables, by the name of the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from rewrite_engine.diagnostics import Problem, Span
from rewrite_engine.language import syntax

if TYPE_CHECKING:
    from lark import Token, Tree

DEEPEST = 250
"""How deep a declaration may nest. Rules nest some ten deep; what reads the tree later may lean on this."""


@dataclass(frozen=True, slots=True)
class Context:
    """The file at hand; `problems` collects what the grammar lets through and the language does not."""

    path: str
    lines: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)  # names whose declarations cannot be read

    def token_span(self, token: Token) -> Span:
        """The span of a token."""
        return Span(self.path, token.line or 1, token.column or 1, token.end_line or 1, token.end_column or 1)

    def problem(self, span: Span, message: str, hint: str | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem(span, message, hint))


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of syntax that is no node by itself, such as a tail's guard; `kind` is the name of its grammar rule."""

    kind: str
    value: Any


Handler = Callable[[Context, Span, list[Any]], Any]


def is_token(part: object, *kinds: str) -> bool:
    """Whether a child is a token (of one of these kinds)."""
    kind = getattr(part, "type", None)
    return isinstance(part, str) and (kind in kinds if kinds else kind is not None)


def named(parts: list[Any], kind: str, default: Any = None) -> Any:
    """The value of the `Part` of that kind among the children."""
    return next((part.value for part in parts if isinstance(part, Part) and part.kind == kind), default)


def convert(tree: Tree[Any], context: Context) -> Any:
    """The syntax tree of a Lark tree. Nesting beyond `DEEPEST` is a problem, once for each outermost declaration."""
    functions = handlers()
    finished: list[tuple[Any, int]] = []
    pending: list[tuple[Any, bool]] = [(tree, False)]
    while pending:
        node, opened = pending.pop()
        if not hasattr(node, "children"):
            finished.append((node, 0))
        elif not opened:
            pending.append((node, True))
            pending.extend((child, False) for child in reversed(node.children))
        else:
            count = len(node.children)
            parts = finished[len(finished) - count :]
            del finished[len(finished) - count :]
            span = _span(node, context)
            depth = 1 + max((depth for _, depth in parts), default=0)
            value = functions[node.data](context, span, [part for part, _ in parts])
            finished.append(finish(context, span, value, depth))
    return finished[0][0]


def finish(context: Context, span: Span, value: Any, depth: int) -> tuple[Any, int]:
    """A value and how deep it nests, `TooDeep` in place of a declaration or item that nests too deep to be read."""
    if depth < DEEPEST:
        return value, depth
    if depth == DEEPEST:
        hint = "give parts of it names, with `where` or `let`"
        context.problem(span, f"nested more than {DEEPEST} deep", hint)
    if _is_item(value):
        context.broken.add(getattr(value, "name", ""))
        return TooDeep(), 0
    return value, depth


@dataclass(frozen=True, slots=True)
class TooDeep:
    """Stands for a declaration, or an item of a target, that nests too deep to be read further."""


def _is_item(value: Any) -> bool:
    return isinstance(
        value,
        syntax.Declaration | syntax.Supports | syntax.Composite | syntax.Requires | syntax.Limit | syntax.OptionDecl,
    )


def _span(tree: Tree[Any], context: Context) -> Span:
    meta = tree.meta
    if meta.empty:
        return Span(context.path, 1, 1, 1, 1)
    return Span(context.path, meta.line, meta.column, meta.end_line, meta.end_column)


@cache
def handlers() -> dict[str, Handler]:
    """The function of each grammar rule, by its name."""
    from rewrite_engine.language import tree_declarations, tree_expressions, tree_patterns

    return {**tree_expressions.HANDLERS, **tree_patterns.HANDLERS, **tree_declarations.HANDLERS}
