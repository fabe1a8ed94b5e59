"""Static units: the dimension of an expression before any match is known, so that costs are checked when a file loads.

In: an expression, the dimensions of the names it may read, the `let`s in reach. Out: a dimension, None where only a
match can tell, or `MismatchAt` with the span of the smallest expression whose parts do not go together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rewrite_engine.diagnostics import Span
from rewrite_engine.language import syntax, units
from rewrite_engine.language.text import unparse
from rewrite_engine.language.units import NUMBER, Dimension, UnitMismatch
from rewrite_engine.language.walk import walk

COST_NAMES: Mapping[str, Dimension] = {
    "macs": units.MACS,
    "flops": units.FLOPS,
    "ops": units.OPS,
    "bytes": units.BYTES,
    "input_bytes": units.BYTES,
    "const_bytes": units.BYTES,
    "output_bytes": units.BYTES,
}
"""What a kernel's cost may read besides its captures."""

_PROPERTIES = {"bytes": units.BYTES, "cost": units.TIME, "numel": NUMBER, "rank": NUMBER}
_SAME = frozenset({"min", "max", "sum", "abs", "default"})
_PLAIN = frozenset({"sqrt", "exp", "log", "len", "item"})
_DEEPEST_LET = 50
Rule = Callable[[Dimension, Dimension], Dimension]


class MismatchAt(UnitMismatch):
    """A `UnitMismatch` with the span of the expression in which it happens."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.span = span


def dimension_of(
    expr: syntax.Expr,
    names: Mapping[str, Dimension | None],
    lets: Mapping[str, syntax.Let] | None = None,
) -> Dimension | None:
    """The dimension of `expr`, or None when it cannot be told before a match.

    `names` gives what a cost may read (see `COST_NAMES`) and None for captures. Raises `MismatchAt`.
    """
    return _dimension(expr, names, lets or {}, 0)


def check_dimension(
    expr: syntax.Expr,
    wanted: Dimension,
    names: Mapping[str, Dimension | None],
    lets: Mapping[str, syntax.Let] | None = None,
) -> None:
    """Raise `MismatchAt` when `expr` certainly does not measure `wanted`."""
    found = dimension_of(expr, names, lets)
    if found is not None:
        try:
            units.expect(wanted, found)
        except UnitMismatch as mismatch:
            raise MismatchAt(str(mismatch), expr.span) from None


def _dimension(
    expr: syntax.Expr, names: Mapping[str, Dimension | None], lets: Mapping[str, syntax.Let], depth: int
) -> Dimension | None:
    def of(part: syntax.Expr) -> Dimension | None:
        return _dimension(part, names, lets, depth)

    match expr:
        case syntax.Number():
            return NUMBER
        case syntax.Quantity():
            unit = units.lookup(expr.unit)
            return unit.dimension if unit else None
        case syntax.Name():
            if expr.name in names:
                return names[expr.name]
            let = lets.get(expr.name)
            if let is None or let.parameters is not None or depth >= _DEEPEST_LET:
                return None
            return _dimension(let.value, {}, lets, depth + 1)
        case syntax.Member():
            return _PROPERTIES.get(expr.name)
        case syntax.Unary(op="-"):
            return of(expr.operand)
        case syntax.Conditional():
            of(expr.test)
            return _joined(expr, units.add, of(expr.then), of(expr.otherwise))
        case syntax.Binary(op="and" | "or"):
            of(expr.left)
            of(expr.right)
            return None
        case syntax.Binary():
            return _binary(expr, of(expr.left), of(expr.right))
        case syntax.Compare():
            left = of(expr.first)
            for operator, operand in expr.rest:
                right = of(operand)
                if operator not in ("in", "not in") and left is not None and right is not None:
                    _joined(expr, _compared, left, right)
                left = right
            return None
        case syntax.Call():
            return _call(expr, names, lets, depth)
        case _:
            return None


def _compared(left: Dimension, right: Dimension) -> Dimension:
    units.compare(left, right)
    return left


def _joined(expr: syntax.Expr, rule: Rule, left: Dimension | None, right: Dimension | None) -> Dimension | None:
    if left is None or right is None:
        return left or right
    try:
        return rule(left, right)
    except UnitMismatch as mismatch:
        raise MismatchAt(str(mismatch), expr.span) from None


def _quotient(left: Dimension, right: Dimension) -> Dimension:
    return units.divide(left, right)[0]


def _binary(expr: syntax.Binary, left: Dimension | None, right: Dimension | None) -> Dimension | None:
    if expr.op in ("+", "-"):
        return _joined(expr, units.add, left, right)
    if expr.op == "%":
        return left
    if left is None or right is None:  # a number that only a match can tell, most likely
        return (left or right) if expr.op == "*" else (left if right is None else None)
    return _joined(expr, units.multiply if expr.op == "*" else _quotient, left, right)


def _call(
    expr: syntax.Call, names: Mapping[str, Dimension | None], lets: Mapping[str, syntax.Let], depth: int
) -> Dimension | None:
    if not isinstance(expr.function, syntax.Name):
        return None
    found = [_dimension(argument, names, lets, depth) for argument in expr.args]
    name = expr.function.name
    let = lets.get(name)
    if let is not None and let.parameters is not None and depth < _DEEPEST_LET:
        bound: dict[str, Dimension | None] = dict(zip(let.parameters, found, strict=False))
        return _dimension(let.value, bound, lets, depth + 1)
    if name in _PLAIN:
        return NUMBER
    if name not in _SAME:
        return None
    result: Dimension | None = None
    for dimension in found:
        result = _joined(expr, units.add, result, dimension)
    return result


def size_for_rate(expr: syntax.Expr) -> str | None:
    """The mend where a size stands below a line instead of a rate: `bytes / 8GB`."""
    for part in walk((expr,)):
        if isinstance(part, syntax.Binary) and part.op == "/" and isinstance(part.right, syntax.Quantity):
            unit = units.lookup(part.right.unit)
            if unit is not None and unit.dimension == units.BYTES and units.lookup(f"{part.right.unit}ps"):
                return f"`{unparse(part.right)}` is a size; a rate is `{unparse(part.right)}ps`"
    return None
