"""Index arithmetic in a normal form with floors only: linear forms over iterators, quotients and opaque atoms.

There are no remainders: x % c is x - c*(x//c), so the digits of a reshape cancel as linear terms. Quotients are decided
by bounds, split by common divisors, and nested ones become one; comparisons are decided by the bounds of a difference.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence

from rewrite_engine.loops import expr as _expr
from rewrite_engine.loops.expr import Expr

UNBOUNDED = 1 << 62
"""Magnitude of the bounds of an index that is read from data."""


def terms(index: Expr) -> tuple[int, dict[Expr, int]]:
    """The linear form of an index: its constant, and the coefficient of each atom (none is 0)."""
    if index.op == "const":
        assert isinstance(index.value, int)
        return index.value, {}
    if index.op == "lin":
        constant, coefficients = _linear_value(index)
        return constant, dict(zip(index.args, coefficients, strict=True))
    return 0, {index: 1}


def linear(constant: int, coefficients: Mapping[Expr, int]) -> Expr:
    """The index constant + sum of coefficient * atom, atoms in a fixed order."""
    kept = sorted(((atom, k) for atom, k in coefficients.items() if k), key=lambda item: _order(item[0]))
    if not kept:
        return _expr.const(constant, "index")
    if constant == 0 and len(kept) == 1 and kept[0][1] == 1:
        return kept[0][0]
    return _expr.intern("lin", tuple(atom for atom, _ in kept), "index", (constant, tuple(k for _, k in kept)))


def combine(node: Expr, args: Sequence[Expr]) -> Expr:
    """The linear form `node` over other arguments."""
    constant, coefficients = _linear_value(node)
    return _sum(constant, zip(args, coefficients, strict=True))


def add(a: Expr, b: Expr) -> Expr:
    """a + b."""
    return _sum(0, ((a, 1), (b, 1)))


def subtract(a: Expr, b: Expr) -> Expr:
    """a - b."""
    return _sum(0, ((a, 1), (b, -1)))


def multiply(a: Expr, b: Expr) -> Expr:
    """a * b; linear when one of them is a constant."""
    if a.op == "const":
        a, b = b, a
    if b.op == "const":
        assert isinstance(b.value, int)
        return _sum(0, ((a, b.value),))
    return _expr.intern("imul", (a, b) if _order(a) <= _order(b) else (b, a))


def floor_divide(index: Expr, divisor: int) -> Expr:
    """index // divisor, rounded towards minus infinity; `divisor` is a positive int."""
    divisor = operator.index(divisor)
    if divisor <= 0:
        raise ValueError(f"an index is divided by a positive int, found {divisor}")
    if divisor == 1:
        return index
    constant, coefficients = terms(index)
    whole = {atom: k // divisor for atom, k in coefficients.items() if k % divisor == 0}
    if whole or not 0 <= constant < divisor:  # (c*q + r) // c => q + r // c
        rest = {atom: k for atom, k in coefficients.items() if k % divisor}
        return add(linear(constant // divisor, whole), floor_divide(linear(constant % divisor, rest), divisor))
    low, high = bounds(index)
    if low // divisor == high // divisor:
        return _expr.const(low // divisor, "index")
    split = _split(constant, coefficients, divisor)
    if split is not None:  # (g*A + B) // c => A // (c/g)  when 0 <= B < g
        upper, _, unit = split
        return floor_divide(upper, divisor // unit)
    for atom, k in coefficients.items():
        if atom.op == "fdiv" and k == 1:  # (A + z//p) // c => (p*A + z) // (p*c)
            inner = _divisor(atom)
            return floor_divide(_sum(0, ((index, inner), (atom, -inner), (atom.args[0], 1))), inner * divisor)
    return _expr.intern("fdiv", (index,), "index", divisor)


def modulo(index: Expr, divisor: int) -> Expr:
    """index % divisor, in 0 .. divisor-1, as index - divisor * (index // divisor)."""
    return _sum(0, ((index, 1), (floor_divide(index, divisor), -divisor)))


def bounds(index: Expr) -> tuple[int, int]:
    """Inclusive bounds of an index over all values of its iterators (sound, not always tight)."""
    stack = [index]
    while stack:
        node = stack[-1]
        if node.bounds is not None:
            stack.pop()
            continue
        missing = [arg for arg in node.args if arg.dtype == "index" and arg.bounds is None and node.op in _BOUNDED]
        if missing:
            stack.extend(missing)
            continue
        object.__setattr__(node, "bounds", _bounds_of(node))
    assert index.bounds is not None
    return index.bounds


def decide(op: str, low: int, high: int) -> bool | None:
    """Whether 0 `op` d (`op` lt, le or eq) for every d in low .. high; None when it depends."""
    if op == "lt":
        return True if low > 0 else False if high <= 0 else None
    if op == "le":
        return True if low >= 0 else False if high < 0 else None
    return True if low == high == 0 else False if low > 0 or high < 0 else None


def flatten(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major position of `indices` in a tensor of `shape`."""
    strides = row_major(shape)
    return _sum(0, zip(indices, strides, strict=True))


def address(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major position of clipped indices."""
    return flatten(
        [_expr.minimum(_expr.maximum(index, 0), n - 1) for index, n in zip(indices, shape, strict=True)], shape
    )


def unflatten(position: Expr, shape: Sequence[int]) -> list[Expr]:
    """The indices of a row-major position in a tensor of `shape`."""
    indices = []
    for axis, (extent, stride) in enumerate(zip(shape, row_major(shape), strict=True)):
        if extent == 1:
            indices.append(_expr.const(0, "index"))
        else:
            digit = floor_divide(position, stride)
            indices.append(digit if axis == 0 else modulo(digit, max(extent, 1)))
    return indices


def row_major(shape: Sequence[int]) -> list[int]:
    """Strides in elements of a contiguous tensor; an axis of size 0 counts as 1."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


_BOUNDED = frozenset({"lin", "fdiv", "imul", "min", "max", "select"})


def _linear_value(node: Expr) -> tuple[int, tuple[int, ...]]:
    assert node.op == "lin" and isinstance(node.value, tuple)
    return node.value


def _divisor(node: Expr) -> int:
    assert node.op == "fdiv" and isinstance(node.value, int)
    return node.value


def _order(atom: Expr) -> tuple[int, int, str, bytes]:
    return (0, len(atom.name), atom.name, atom.digest) if atom.op == "var" else (1, 0, atom.op, atom.digest)


def _sum(constant: int, parts: Iterable[tuple[Expr, int]]) -> Expr:
    total: dict[Expr, int] = {}
    for part, factor in parts:
        inner, coefficients = terms(part)
        constant += factor * inner
        for atom, k in coefficients.items():
            total[atom] = total.get(atom, 0) + factor * k
    return linear(constant, total)


def _split(constant: int, coefficients: Mapping[Expr, int], divisor: int) -> tuple[Expr, Expr, int] | None:
    """(A, B, g) with index = g*A + B, g dividing `divisor`, and 0 <= B < g: only A decides the quotient."""
    ordered = sorted(coefficients.items(), key=lambda item: (-abs(item[1]), _order(item[0])))
    unit, best = divisor, None
    for position, (_, k) in enumerate(ordered, 1):
        unit = math.gcd(unit, k)
        if unit == 1:
            break
        rest = linear(constant % unit, dict(ordered[position:]))
        low, high = bounds(rest)
        if low >= 0 and high < unit:
            upper = linear(constant // unit, {atom: c // unit for atom, c in ordered[:position]})
            best = (upper, rest, unit)
    return best


def _bounds_of(node: Expr) -> tuple[int, int]:
    if node.op == "const":
        assert isinstance(node.value, int)
        return node.value, node.value
    if node.op == "var":
        return 0, max(node.extent - 1, 0)
    inner = [arg.bounds for arg in node.args if arg.dtype == "index" and arg.bounds is not None]
    if node.op == "lin":
        return _linear_bounds(node)
    if node.op == "fdiv":
        return inner[0][0] // _divisor(node), inner[0][1] // _divisor(node)
    if node.op == "imul":
        corners = [a * b for a in inner[0] for b in inner[1]]
        return max(min(corners), -UNBOUNDED), min(max(corners), UNBOUNDED)
    if node.op in ("min", "max"):
        pick = min if node.op == "min" else max
        return pick(inner[0][0], inner[1][0]), pick(inner[0][1], inner[1][1])
    if node.op == "select":  # the condition is of type bool, so `inner` holds the two branches
        return min(inner[0][0], inner[1][0]), max(inner[0][1], inner[1][1])
    return -UNBOUNDED, UNBOUNDED


def _interval(constant: int, coefficients: Mapping[Expr, int]) -> tuple[int, int]:
    low = high = constant
    for atom, k in coefficients.items():
        a, b = bounds(atom)
        low, high = low + min(k * a, k * b), high + max(k * a, k * b)
    return low, high


def _linear_bounds(node: Expr) -> tuple[int, int]:
    """Interval bounds, tightened where a term and a quotient make a remainder: k*x - k*q*(x//q) is in 0 .. k*(q-1)."""
    constant, coefficients = terms(node)
    low, high = _interval(constant, coefficients)
    for quotient, k_quotient in coefficients.items():
        if quotient.op != "fdiv":
            continue
        for k in sorted({k for k in coefficients.values() if k_quotient % k == 0 and k * k_quotient < 0}):
            q = -k_quotient // k
            if q < 2 or _divisor(quotient) % q:
                continue
            # x, such that x // q is this quotient
            inner_constant, inner = terms(floor_divide(quotient.args[0], _divisor(quotient) // q))
            if quotient in inner or not all(atom in coefficients for atom in inner):
                continue
            rest = {atom: c for atom, c in coefficients.items() if atom is not quotient}
            for atom, c in inner.items():
                rest[atom] -= k * c
            rest = {atom: c for atom, c in rest.items() if c}
            if len(rest) >= len(coefficients):
                continue
            rest_low, rest_high = bounds(linear(constant - k * inner_constant, rest))
            low = max(low, rest_low + min(0, k * (q - 1)))
            high = min(high, rest_high + max(0, k * (q - 1)))
    return low, high
