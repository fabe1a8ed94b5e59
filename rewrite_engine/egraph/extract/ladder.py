"""The runs that a search makes, from quick and rough to slow and exact, and the time that each may take."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rewrite_engine.egraph.extract.program import Outcome, Program
from rewrite_engine.egraph.extract.reduce import Limits
from rewrite_engine.egraph.extract.state import TooWide


@dataclass(frozen=True, slots=True)
class Rung:
    """One run within limits, for a `part` of the time that is left, but `least` seconds.

    `kind` is "bound"; "merging", a bound for frontiers that are too wide for those; "free", a bound without launches
    for what is too wide even so; or "answer", a beam.
    """

    kind: str
    limits: Limits
    part: float
    least: float = 0.0
    always: bool = True  # worth while even when there is a bound with launches already


LADDER = (
    Rung("bound", Limits(100, 3000), 0.3),
    Rung("answer", Limits(beam=100, compared=8), 0.4),
    Rung("free", Limits(30, 100, compared=16), 0.5, least=0.5, always=False),
    Rung("bound", Limits(1000, 6000), 0.4),
    Rung("merging", Limits(30, 100, compared=16), 0.5, always=False),
    Rung("bound", Limits(10000, 40000), 0.6),
    Rung("merging", Limits(300, 1000), 1),
)
LAST_RESORT = Limits(beam=4, compared=8)


def with_beam(beam: int) -> tuple[Rung, ...]:
    """A beam of this width, and bounds of about the same effort."""
    return (
        Rung("free", Limits(30, 100, compared=16), 0.4, least=0.5),
        Rung("merging", Limits(30, 100, compared=16), 0.4),
        Rung("answer", Limits(beam=beam, compared=8), 0.6),
        Rung("merging", Limits(300, 1000), 1),
    )


class Clock:
    """How much time is left, and whether something had to be cut short."""

    def __init__(self, seconds: float | None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self.ran_out = False

    def left(self) -> float | None:
        """Seconds that are left, None without a limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @property
    def over(self) -> bool:
        return self.left() == 0.0

    def part(self, share: float) -> Clock:
        """A clock for this share of what is left, one of several searches."""
        left = self.left()
        return Clock(None if left is None else left * share)

    def deadline(self, rung: Rung) -> float | None:
        """When a run has to stop."""
        now = time.monotonic()
        return None if self._deadline is None else now + max(rung.least, (self._deadline - now) * rung.part)


def attempt(program: Program, rung: Rung, clock: Clock) -> Outcome | None:
    """The outcome of a rung, or None where there were too many states or too little time."""
    try:
        return program.run(rung.limits, clock.deadline(rung))
    except TooWide:
        return None
    except TimeoutError:
        clock.ran_out = True
        return None
