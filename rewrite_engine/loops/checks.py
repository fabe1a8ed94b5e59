"""What data must be for a kernel to run: positions that lie in their axis.

A check is a statement of the program like any other, an int64 without axes: `IN_RANGE`, or an element that is outside.
Every executor compares it right after that statement, before anything is read at those positions.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite_engine.diagnostics import RewriteError

IN_RANGE = -(1 << 63)
"""What a check leaves where every element is in its range. Of an element that is just that, it leaves the next one."""


class OutOfRange(RewriteError):
    """An operand holds a position outside of its axis."""


@dataclass(frozen=True, slots=True)
class Check:
    """The statement that writes `tensor` says whether operand `operand` of `operator` is from `low` to `high`."""

    tensor: str
    operator: str
    operand: int
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.operator}, operand {self.operand}: expected positions from {self.low} to {self.high}"

    def verify(self, found: int) -> None:
        """Raises OutOfRange unless `found`, what the statement left, is IN_RANGE."""
        if found != IN_RANGE:
            raise OutOfRange(f"{self}, found {found}")
