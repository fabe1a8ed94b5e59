"""Units: exact amounts, dimensions of costs, and the messages of mismatches."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowering import lowered

from rewrite_engine.language import arithmetic, syntax, units
from rewrite_engine.language.dimensions import COST_NAMES, MismatchAt, check_dimension, dimension_of
from rewrite_engine.language.units import BYTES, ENERGY, NUMBER, TIME, Dimension, Quantity, UnitMismatch
from rewrite_engine.language.values import EvaluationError

DIMENSIONS = [NUMBER, TIME, ENERGY] + [Dimension(c, r) for c in sorted(units.COUNTS) for r in (False, True)]


def quantity(number: int | Fraction, unit: str) -> Quantity:
    found = units.lookup(unit)
    assert found is not None
    return Quantity(Fraction(number) * found.factor, found.dimension)


@pytest.mark.parametrize(
    ("unit", "factor", "dimension"),
    [
        ("KiB", 1024, "bytes"), ("KB", 1000, "bytes"), ("MiB", 1 << 20, "bytes"), ("B", 1, "bytes"),
        ("us", Fraction(1, 10**6), "a time"), ("ps", Fraction(1, 10**12), "a time"), ("s", 1, "a time"),
        ("pJ", Fraction(1, 10**12), "an energy"), ("nJ", Fraction(1, 10**9), "an energy"),
        ("GBps", 10**9, "a rate in bytes per second"), ("TMACS", 10**12, "a rate in macs per second"),
        ("TOPS", 10**12, "a rate in ops per second"), ("GHz", 10**9, "a rate in cycles per second"),
    ],
)  # fmt: skip
def test_units_are_exact(unit: str, factor: Fraction, dimension: str) -> None:
    found = units.lookup(unit)
    assert found is not None and (found.factor, str(found.dimension)) == (factor, dimension)


def test_an_unknown_unit_is_none() -> None:
    assert units.lookup("parsecs") is None and "GBps" in units.names()


@pytest.mark.parametrize(
    ("amount", "rate", "seconds"),
    [
        ((8, "GB"), (8, "GBps"), Fraction(1)),
        ((3, "macs"), (2, "TMACS"), Fraction(3, 2 * 10**12)),
        ((3, "macs"), (2, "TOPS"), Fraction(3, 10**12)),  # one MAC is two ops
        ((4, "ops"), (2, "TMACS"), Fraction(1, 10**12)),
        ((7, "cycles"), (1, "GHz"), Fraction(7, 10**9)),
        ((6, "flops"), (3, "TFLOPS"), Fraction(2, 10**12)),
    ],
)
def test_a_count_over_a_rate_is_a_time(amount: tuple[int, str], rate: tuple[int, str], seconds: Fraction) -> None:
    assert arithmetic.binary("/", quantity(*amount), quantity(*rate)) == Quantity(seconds, TIME)


def test_counts_times_an_energy_are_an_energy() -> None:
    assert arithmetic.binary("*", quantity(5, "bytes"), quantity(20, "pJ")) == quantity(100, "pJ")


@pytest.mark.parametrize(
    ("symbol", "left", "right", "message"),
    [
        ("+", (2, "us"), (3, "B"), "expected a time, found bytes; divide by a rate such as 8GBps"),
        ("/", (3, "macs"), (8, "GBps"), "macs cannot be divided by a rate in bytes per second; divide by a rate such"),
        ("*", (3, "B"), (3, "macs"), "bytes times macs has no meaning in a cost"),
        ("+", (2, "pJ"), (3, "B"), "expected an energy, found bytes; multiply by an energy for each, such as 20pJ"),
    ],
)
def test_mismatches_say_the_mend(symbol: str, left: tuple[int, str], right: tuple[int, str], message: str) -> None:
    with pytest.raises(EvaluationError) as error:
        arithmetic.binary(symbol, quantity(*left), quantity(*right))
    assert message in str(error.value)


amounts = st.fractions(min_value=-1000, max_value=1000)
quantities = st.builds(Quantity, amounts, st.sampled_from(DIMENSIONS))


@given(quantities, quantities)
def test_a_product_commutes_and_its_quotient_comes_back(left: Quantity, right: Quantity) -> None:
    try:
        product = arithmetic.binary("*", left, right)
    except EvaluationError:
        with pytest.raises(EvaluationError):
            arithmetic.binary("*", right, left)
        return
    assert product == arithmetic.binary("*", right, left)
    if right.dimension == NUMBER and right.amount and isinstance(product, Quantity):
        assert arithmetic.binary("/", product, right) == left


@given(quantities, quantities, quantities)
def test_sums_need_equal_dimensions_and_associate(a: Quantity, b: Quantity, c: Quantity) -> None:
    if not a.dimension == b.dimension == c.dimension:
        with pytest.raises(EvaluationError):
            arithmetic.binary("+", arithmetic.binary("+", a, b), c)
        return
    left = arithmetic.binary("+", arithmetic.binary("+", a, b), c)
    assert left == arithmetic.binary("+", a, arithmetic.binary("+", b, c))


@given(st.sampled_from(DIMENSIONS), st.sampled_from(DIMENSIONS))
def test_static_and_computed_dimensions_agree(left: Dimension, right: Dimension) -> None:
    """What the checker says of `a * b`, `a / b` and `a + b` is what evaluation gives."""
    span = syntax.Span("t", 1, 1, 1, 1)
    a, b = syntax.Name(span, "a"), syntax.Name(span, "b")
    for symbol in "+*/":
        expr = syntax.Binary(span, symbol, a, b)
        try:
            expected = dimension_of(expr, {"a": left, "b": right})
        except MismatchAt:
            with pytest.raises(EvaluationError):
                arithmetic.binary(symbol, Quantity(Fraction(6), left), Quantity(Fraction(2), right))
        else:
            found = arithmetic.binary(symbol, Quantity(Fraction(6), left), Quantity(Fraction(2), right))
            assert (found.dimension if isinstance(found, Quantity) else NUMBER) == expected


@given(st.integers(1, 10**18), st.sampled_from(["us", "MiB", "pJ", "GBps", "TMACS", "cycles"]))
def test_quantities_show_in_a_unit_that_exists(number: int, unit: str) -> None:
    shown = units.show(quantity(number, unit))
    name = shown.lstrip("0123456789.e+-")
    assert units.lookup(name) is not None, shown


def _cost(text: str) -> syntax.Expr:
    _, _, scope = lowered(f"let cost = {text}\nlet half(x) = x / 2\nlet clock = 1GHz")
    return scope.lets["cost"].value


@pytest.mark.parametrize(
    "text",
    [
        "2us + macs / 2TMACS + bytes / 64GBps", "if x.group == 1 then macs / 2TMACS else 5us", "half(2us)",
        "max(flops / 4TFLOPS, bytes / 64GBps)", "ops / 4TOPS", "100cycles / clock", "x.numel * 2ns", "x.bytes / 8GBps",
    ],
)  # fmt: skip
def test_costs_that_are_times(text: str) -> None:
    expr = _cost(text)
    lets = lowered("let half(x) = x / 2\nlet clock = 1GHz")[2].lets
    check_dimension(expr, TIME, {**COST_NAMES, "x": None}, lets)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("bytes", "expected a time, found bytes; divide by a rate such as 8GBps", 12),
        ("2us + bytes", "expected a time, found bytes; divide by a rate such as 8GBps", 12),
        ("5", "expected a time, found a number; write a unit, such as 2us", 12),
        ("1us + bytes * 20pJ", "expected a time, found an energy", 12),
    ],
)
def test_costs_that_are_not(text: str, message: str, column: int) -> None:
    with pytest.raises(UnitMismatch) as error:
        check_dimension(_cost(text), TIME, COST_NAMES)
    assert str(error.value) == message
    assert isinstance(error.value, MismatchAt) and error.value.span.column == column


def test_a_plain_number_beside_a_count_counts_the_same() -> None:
    assert arithmetic.compare("<=", quantity(3, "KiB"), 4096) is True
    with pytest.raises(EvaluationError, match="expected a time, found a number"):
        arithmetic.compare("<=", quantity(3, "us"), 4)
    assert arithmetic.binary("%", quantity(130, "B"), 64) == quantity(2, "B")
    assert quantity(1, "B").dimension == BYTES
