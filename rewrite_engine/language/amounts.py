"""Amounts of a machine that no match enters: memories, launches, rates, and what a link takes for one byte.

In: an expression of a rule file. Out: its amount in base units, exact; or the problem with it.
"""

from __future__ import annotations

from fractions import Fraction

from rewrite_engine.diagnostics import Problem, RewriteError
from rewrite_engine.language import syntax
from rewrite_engine.language.scope import Scope, TargetScope
from rewrite_engine.language.units import Dimension, Quantity


def amount(
    expr: syntax.Expr, scope: Scope, target: TargetScope | None = None, *, positive: bool = False
) -> Fraction | Problem:
    """The amount of `64MiB`, `2 * sram`, `5us`: at least 0, or more than 0 where it must be `positive`."""
    from rewrite_engine.language.compile import Compiler, Env
    from rewrite_engine.language.names import LoweringError
    from rewrite_engine.language.values import EvaluationError

    try:
        code = Compiler(scope, target, {}).compile(expr, Env(None, expr.span.file))
    except (EvaluationError, LoweringError) as error:
        return Problem(expr.span, str(error))
    if not code.constant or not isinstance(code.value, Quantity):
        return Problem(expr.span, "expected an amount that is known when the file is loaded, such as 64MiB or 5us")
    found = code.value
    if found.amount < 0 or (positive and found.amount == 0):
        return Problem(expr.span, f"expected an amount {'above' if positive else 'of at least'} 0, found {found}")
    return found.amount


def link_problem(expr: syntax.Expr, scope: Scope, wanted: Dimension) -> Problem | None:
    """What is wrong with the cost or the energy of a link, where moving one byte shows it."""
    from rewrite_engine.language.evaluate import evaluate_link_cost

    try:
        evaluate_link_cost(expr, scope, 1, wanted)
    except RewriteError as error:
        return Problem(expr.span, str(error).removeprefix(f"{expr.span}: "))
    return None


__all__ = ["amount", "link_problem"]
