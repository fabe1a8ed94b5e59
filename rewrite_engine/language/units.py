"""Exact quantities: units, dimensions and the arithmetic that costs are checked with.

A quantity is a `Fraction` in base units (seconds, bytes, joules, cycles, single operations) with a `Dimension`. A MAC
is two ops. All is exact; what does not fit raises `UnitMismatch`, which says what was expected and the mend.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a quantity measures: `base` ("number", "time", "energy", "bytes", …), per second where `per_second`."""

    base: str
    per_second: bool = False

    def __str__(self) -> str:
        if self.per_second:
            return f"a rate in {'cycles' if self.base == 'cycles' else self.base} per second"
        return _PHRASES.get(self.base, self.base)


_PHRASES = {"number": "a number", "time": "a time", "energy": "an energy"}

NUMBER = Dimension("number")
TIME = Dimension("time")
ENERGY = Dimension("energy")
BYTES = Dimension("bytes")
FLOPS = Dimension("flops")
MACS = Dimension("macs")
OPS = Dimension("ops")
CYCLES = Dimension("cycles")
BANDWIDTH = Dimension("bytes", per_second=True)
FLOP_RATE = Dimension("flops", per_second=True)

COUNTS = frozenset({"bytes", "flops", "macs", "ops", "cycles"})
"""Dimensions that count things: a rate divides them, and a time or an energy may be given for each."""

_RATES = {"bytes": "8GBps", "flops": "4TFLOPS", "macs": "2TMACS", "ops": "4TOPS", "cycles": "1GHz"}
_OPS_EACH = {"macs": 2, "ops": 1}


@dataclass(frozen=True, slots=True)
class Unit:
    """`factor` base units of `dimension`."""

    name: str
    dimension: Dimension
    factor: Fraction


class UnitMismatch(Exception):
    """Two dimensions that do not go together; the message says what was expected, what was found and the mend."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount in base units. Plain numbers are not quantities: they stay `int`, `float` or `Fraction`."""

    amount: Fraction
    dimension: Dimension

    def __str__(self) -> str:
        return show(self)


def _units() -> dict[str, Unit]:
    table: dict[str, Unit] = {}

    def add(name: str, dimension: Dimension, factor: Fraction) -> None:
        table[name] = Unit(name, dimension, factor)

    small = {"": 0, "m": -3, "u": -6, "n": -9, "p": -12}
    large = {"": 0, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}
    for prefix, power in small.items():
        add(f"{prefix}s", TIME, Fraction(10) ** power)
        add(f"{prefix}J", ENERGY, Fraction(10) ** power)
    for prefix, power in large.items():
        size = Fraction(10) ** power
        add(f"{prefix}B", BYTES, size)
        add(f"{prefix}Bps", BANDWIDTH, size)
        add(f"{prefix}FLOPS", FLOP_RATE, size)
        add(f"{prefix}MACS", Dimension("macs", per_second=True), size)
        add(f"{prefix}OPS", Dimension("ops", per_second=True), size)
        add(f"{prefix}Hz", Dimension("cycles", per_second=True), size)
    for step, prefix in enumerate(("Ki", "Mi", "Gi", "Ti"), start=1):
        add(f"{prefix}B", BYTES, Fraction(1024) ** step)
        add(f"{prefix}Bps", BANDWIDTH, Fraction(1024) ** step)
    for base in sorted(COUNTS):
        add(base, Dimension(base), Fraction(1))
    add("cycle", CYCLES, Fraction(1))
    add("kHz", Dimension("cycles", per_second=True), Fraction(1000))
    return table


_UNITS = _units()


def lookup(unit: str) -> Unit | None:
    """The unit of that name, or None.

    >>> lookup("GBps").factor, str(lookup("us").dimension)
    (Fraction(1000000000, 1), 'a time')
    """
    return _UNITS.get(unit)


def names() -> tuple[str, ...]:
    """The names of all units, sorted."""
    return tuple(sorted(_UNITS))


def count(name: str) -> Dimension:
    """The dimension that counts `name` ("macs", "bytes", …)."""
    return Dimension(name)


def rate_for(dimension: Dimension) -> str | None:
    """A rate to divide by so that a time comes out, as an example for messages: "8GBps" for bytes."""
    return None if dimension.per_second else _RATES.get(dimension.base)


def expect(wanted: Dimension, found: Dimension) -> None:
    """Raise `UnitMismatch` unless `found` is `wanted`.

    >>> try:
    ...     expect(TIME, BYTES)
    ... except UnitMismatch as mismatch:
    ...     print(mismatch)
    expected a time, found bytes; divide by a rate such as 8GBps
    """
    if wanted != found:
        raise UnitMismatch(f"expected {wanted}, found {found}{_mend(wanted, found)}")


def _mend(wanted: Dimension, found: Dimension) -> str:
    if wanted == TIME and (rate := rate_for(found)):
        return f"; divide by a rate such as {rate}"
    if wanted == ENERGY and not found.per_second and found.base in COUNTS:
        return "; multiply by an energy for each, such as 20pJ"
    if found == NUMBER:
        example = {"time": "2us", "energy": "20pJ", "bytes": "64B"}.get(wanted.base, f"1{wanted.base}")
        return f"; write a unit, such as {_RATES[wanted.base] if wanted.per_second else example}"
    if wanted.per_second and not found.per_second and found.base == wanted.base:
        return f"; write a rate such as {_RATES[wanted.base]}"
    return ""


def add(left: Dimension, right: Dimension) -> Dimension:
    """The dimension of a sum, a difference, a minimum: both sides measure the same."""
    if left != right:
        wanted, found = (right, left) if left == NUMBER or (right == TIME and rate_for(left)) else (left, right)
        expect(wanted, found)
    return left


def compare(left: Dimension, right: Dimension) -> None:
    """Raise `UnitMismatch` unless both sides may be compared; a plain number beside a count counts the same."""
    if NUMBER in (left, right):
        other = right if left == NUMBER else left
        if not other.per_second and (other == NUMBER or other.base in COUNTS):
            return
    add(left, right)


def multiply(left: Dimension, right: Dimension) -> Dimension:
    """The dimension of a product: a count times an energy (or a time) is that energy for each thing counted."""
    if left == NUMBER:
        return right
    if right == NUMBER:
        return left
    for one, other in ((left, right), (right, left)):
        if one in (TIME, ENERGY) and not other.per_second and other.base in COUNTS:
            return one
        if one == TIME and other.per_second:
            return Dimension(other.base)
    raise UnitMismatch(f"{left} times {right} has no meaning in a cost")


def divide(left: Dimension, right: Dimension) -> tuple[Dimension, Fraction]:
    """The dimension of a quotient, and the factor that turns macs into ops or back where a rate asks for it.

    >>> str(divide(BYTES, BANDWIDTH)[0]), divide(MACS, Dimension("ops", per_second=True))[1]
    ('a time', Fraction(2, 1))
    """
    if right == NUMBER:
        return left, Fraction(1)
    if left == right:
        return NUMBER, Fraction(1)
    if right.per_second and not left.per_second:
        if left.base == right.base:
            return TIME, Fraction(1)
        if left.base in _OPS_EACH and right.base in _OPS_EACH:
            return TIME, Fraction(_OPS_EACH[left.base], _OPS_EACH[right.base])
        if (rate := rate_for(left)) is not None:
            raise UnitMismatch(f"{left} cannot be divided by {right}; divide by a rate such as {rate}")
    if right == TIME and left.base in COUNTS and not left.per_second:
        return Dimension(left.base, per_second=True), Fraction(1)
    raise UnitMismatch(f"{left} divided by {right} has no meaning in a cost")


_SHOWN = {"time": ("s", "ms", "us", "ns", "ps"), "energy": ("J", "mJ", "uJ", "nJ", "pJ"),
          "bytes": ("GiB", "MiB", "KiB", "B")}  # fmt: skip


def show(quantity: Quantity) -> str:
    """The quantity as a user would write it: the largest unit in which it is at least one.

    >>> show(Quantity(Fraction(3, 2_000_000), TIME))
    '1.5us'
    """
    amount, dimension = quantity.amount, quantity.dimension
    if dimension.per_second:
        suffix = {"bytes": "Bps", "flops": "FLOPS", "macs": "MACS", "ops": "OPS", "cycles": "Hz"}[dimension.base]
        units = tuple(prefix + suffix for prefix in ("T", "G", "M", "K", ""))
    else:
        units = _SHOWN.get(dimension.base, (dimension.base,))
    if dimension == NUMBER:
        return f"{float(amount):g}"
    for name in units:
        unit = _UNITS[name]
        if abs(amount) >= unit.factor or name == units[-1]:
            return f"{float(amount / unit.factor):g}{name}"
    raise AssertionError("every dimension has a smallest unit")
