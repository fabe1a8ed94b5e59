"""Rule files as text -> syntax trees with positions, and every syntax error of a file."""

from __future__ import annotations

from typing import Any

from rewrite_engine.diagnostics import Problem, Span
from rewrite_engine.language.grammar import parser
from rewrite_engine.language.reader import read
from rewrite_engine.language.syntax import Expr, RuleFile
from rewrite_engine.language.tree import Context, TooDeep, convert
from rewrite_engine.pause import collector_paused


def normalise(text: str) -> str:
    """The text without a byte order mark and with line feeds only; line and column numbers stay as they were."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


@collector_paused()
def parse(text: str, path: str, tests: bool = True) -> tuple[RuleFile, list[Problem]]:
    """The declarations of a rule file that can be read, and every syntax error in it. `path` is for messages.

    Without `tests` those of a file that has no syntax error elsewhere are passed over.

    >>> parse("let q8 = {int8, uint8}", "t.pat")[0].items[0].name
    'q8'
    >>> print(parse("suports Relu", "t.pat")[1][0].message)
    unknown declaration `suports`
    """
    source = normalise(text)
    context = Context(path, tuple(source.split("\n")))
    whole = None if tests else read(source, context, tests=False)
    if whole is None:
        whole = read(source, context := Context(path, context.lines))
    values = [whole] if whole is not None else _piecewise(source, context := Context(path, context.lines))
    items = [item for value in values for item in value.value if not isinstance(item, TooDeep)]
    problems = sorted(context.problems, key=lambda problem: (problem.span, problem.message))
    return RuleFile(path, source, tuple(items), frozenset(context.broken)), problems


def _piecewise(source: str, context: Context) -> list[Any]:
    """What can be read of a text with a syntax error, by Lark; every error is noted."""
    from lark.exceptions import UnexpectedInput

    try:
        return [convert(parser().parse(source, start="start"), context)]
    except UnexpectedInput:
        from rewrite_engine.language.resync import recover

        recovered = recover(source, context.path)
        context.broken.update(recovered.broken)
        context.problems.extend(recovered.problems)
        return [convert(tree, context) for tree in recovered.trees]


def parse_value(text: str, path: str) -> Expr | Problem:
    """One expression, such as the value of a setting, or what is wrong with it."""
    context = Context(path, (text,))
    expr: Expr | None = read(text, context, "value")
    if expr is None:
        return Problem(Span(path, 1, 1, 1, len(text) + 1), f"expected a value, found `{text}`")
    return context.problems[0] if context.problems else expr
