"""Elements as terms of Z3: floats are real numbers, integers bit vectors, functions such as Exp unknown but the same.

What is proved of two programs in this algebra holds for all values of the shapes at hand, in real arithmetic. Z3 is an
extra: `pip install rewrite-engine[prove]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.arithmetic import COMBINE_UFUNCS, apply, convert
from rewrite_engine.loops.dtypes import is_float, is_integer, numpy_dtype
from rewrite_engine.testing.verify.elements import Array, Objects, boxed, expect_finite
from rewrite_engine.testing.verify.field import FUNCTIONS, is_simple
from rewrite_engine.testing.verify.interpreter import Undecided

MOST_ELEMENTS = 96
"""Elements of all inputs together; what is larger takes Z3 too long."""


def solver() -> Any:
    """The module of Z3. Raises `RewriteError` where it is not installed."""
    try:
        import z3
    except ImportError:
        raise RewriteError(
            "tier 4 proves with Z3, which is not installed: pip install 'rewrite-engine[prove]', or ask for tier 3"
        ) from None
    return z3


class Symbolic(Objects):
    """The algebra; `rounded` is set where a constant was not exact."""

    def __init__(self) -> None:
        self.z3 = solver()
        self.zero = self.z3.RealVal(0)
        self.rounded = False

    def input(self, name: str, shape: tuple[int, ...], dtype: str) -> Array:
        """A tensor of unknown elements."""
        make: Callable[[str], Any]
        if is_float(dtype):
            make = self.z3.Real
        elif dtype == "bool":
            make = self.z3.Bool
        else:
            make = lambda text: self.z3.BitVec(text, _bits(dtype))
        found = np.empty(int(np.prod(shape)), object)
        for k in range(found.size):
            found[k] = make(f"{name}[{k}]")
        return found.reshape(shape)

    def floats(self, wide: Array) -> Array:
        expect_finite(wide)
        self.rounded |= not all(is_simple(v) for v in wide.reshape(-1).tolist())
        return self._each(lambda v: self._real(Fraction(v)), wide)

    def cast(self, value: Array, source: str, target: str) -> Array:
        if is_float(source) and is_float(target):
            return value
        if value.dtype != object:
            numbers = convert(value, target) if not is_float(target) else value
            return numbers if not is_float(target) else self._each(lambda v: self._real(Fraction(int(v))), numbers)
        z3 = self.z3
        if source == "bool":
            one, zero = (
                (z3.RealVal(1), z3.RealVal(0))
                if is_float(target)
                else tuple(z3.BitVecVal(n, _bits(target)) for n in (1, 0))
            )
            return self._each(lambda v: z3.If(v, one, zero), value)
        if target == "bool":
            return self._each(lambda v: v != 0, value)
        if is_float(source):
            raise Undecided(f"a cast to {target}")
        signed = not source.startswith("u")
        if is_float(target):
            return self._each(lambda v: z3.ToReal(z3.BV2Int(v, signed)), value)
        more = _bits(target) - _bits(source)
        if more <= 0:
            return self._each(lambda v: z3.Extract(_bits(target) - 1, 0, v), value)
        return self._each(lambda v: z3.SignExt(more, v) if signed else z3.ZeroExt(more, v), value)

    def apply(self, op: str, args: Sequence[Array], dtype: str, source: str) -> Array:
        if op == "select":
            return self._select(args[0], args[1], args[2], dtype)
        if not is_float(source) and all(np.asarray(a).dtype != object for a in args):
            return apply(op, [np.asarray(a) for a in args], dtype)
        if is_float(source):
            if op == "pow":
                return self._each(self._power, *args)
            if op in FUNCTIONS:
                return self._each(lambda *values: self._function(op)(*values), *args)
            table = self._real_operations()
        elif source == "bool":
            table = self._truth_operations()
        else:
            table = self._bit_operations(source)
            args = [self._lifted(a, source) for a in args]
        if op not in table:
            raise Undecided(f"Z3 is not asked about `{op}` of {source}")
        return self._each(table[op], *args)

    def combine(self, how: str, value: Array, axes: tuple[int, ...], dtype: str) -> Array:
        if value.dtype != object:
            return np.asarray(COMBINE_UFUNCS[how].reduce(value, axis=axes, dtype=numpy_dtype(dtype)))
        moved = np.moveaxis(value, axes, range(len(axes)))
        op = {"sum": "add", "prod": "mul"}.get(how, how)
        flat = moved.reshape(-1, *moved.shape[len(axes) :])
        return np.asarray(reduce(lambda a, b: self.apply(op, [a, b], dtype, dtype), flat), object)

    def plain(self, value: Array) -> Array:
        if np.asarray(value).dtype == object:
            raise Undecided("an index is computed from data")
        return np.asarray(value)

    # ------------------------------------------------------------ elements

    def _each(self, function: Callable[..., Any], *args: Any) -> Array:
        found = np.frompyfunc(function, len(args), 1)(*args)
        return found if isinstance(found, np.ndarray) else boxed(found, object)

    def _real(self, value: Fraction) -> Any:
        return self.z3.Q(value.numerator, value.denominator)

    def _lifted(self, value: Array, dtype: str) -> Array:
        if np.asarray(value).dtype == object:
            return value
        return self._each(lambda v: self.z3.BitVecVal(int(v), _bits(dtype)), np.asarray(value))

    def _select(self, condition: Array, yes: Array, no: Array, dtype: str) -> Array:
        if all(np.asarray(a).dtype != object for a in (condition, yes, no)):
            return np.asarray(np.where(condition, yes, no))
        if is_integer(dtype):
            yes, no = self._lifted(yes, dtype), self._lifted(no, dtype)
        if np.asarray(condition).dtype != object:
            return self._each(lambda c, a, b: a if c else b, condition, yes, no)
        return self._each(self.z3.If, condition, yes, no)

    def _function(self, name: str) -> Any:
        real = self.z3.RealSort()
        return self.z3.Function(name, *[real] * (3 if name in ("pow", "atan2", "fmod") else 2))

    def _power(self, base: Any, exponent: Any) -> Any:
        value = self.z3.simplify(exponent)
        if self.z3.is_rational_value(value):
            number = Fraction(value.numerator_as_long(), value.denominator_as_long())
            if number.denominator == 1 and 0 <= number <= 8:
                return reduce(lambda a, b: a * b, [base] * int(number), self.z3.RealVal(1))
            if number == Fraction(1, 2):
                return self._function("sqrt")(base)
        return self._function("pow")(base, exponent)

    def _real_operations(self) -> Mapping[str, Callable[..., Any]]:
        z3 = self.z3
        floor: Callable[[Any], Any] = lambda a: z3.ToReal(z3.ToInt(a))
        return {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "div": lambda a, b: a / b,
            "neg": lambda a: -a,
            "abs": lambda a: z3.If(a < 0, -a, a),
            "sign": lambda a: z3.If(a > 0, z3.RealVal(1), z3.If(a < 0, z3.RealVal(-1), z3.RealVal(0))),
            "min": lambda a, b: z3.If(b < a, b, a),
            "max": lambda a, b: z3.If(b > a, b, a),
            "floor": floor,
            "ceil": lambda a: -floor(-a),
            "lt": lambda a, b: a < b,
            "le": lambda a, b: a <= b,
            "eq": lambda a, b: a == b,
            "isnan": lambda a: z3.BoolVal(False),
            "isinf": lambda a: z3.BoolVal(False),
        }

    def _truth_operations(self) -> Mapping[str, Callable[..., Any]]:
        z3 = self.z3
        lift: Callable[[Any], Any] = lambda a: a if z3.is_expr(a) else z3.BoolVal(bool(a))
        return {
            "and": lambda a, b: z3.And(lift(a), lift(b)),
            "or": lambda a, b: z3.Or(lift(a), lift(b)),
            "not": lambda a: z3.Not(lift(a)),
            "xor": lambda a, b: z3.Xor(lift(a), lift(b)),
            "eq": lambda a, b: lift(a) == lift(b),
        }

    def _bit_operations(self, dtype: str) -> Mapping[str, Callable[..., Any]]:
        z3, unsigned = self.z3, dtype.startswith("u")
        less: Callable[[Any, Any], Any] = z3.ULT if unsigned else lambda a, b: a < b
        return {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "neg": lambda a: -a,
            "min": lambda a, b: z3.If(less(b, a), b, a),
            "max": lambda a, b: z3.If(less(a, b), b, a),
            "abs": lambda a: a if unsigned else z3.If(a < 0, -a, a),
            "lt": less,
            "le": lambda a, b: z3.Not(less(b, a)),
            "eq": lambda a, b: a == b,
        }


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("uint"))


__all__ = ["MOST_ELEMENTS", "Symbolic", "solver"]
