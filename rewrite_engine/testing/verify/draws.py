"""Where random choices come from: a seeded generator, or Hypothesis, which then shrinks them. Smaller is simpler."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Source(Protocol):
    """Gives whole numbers within bounds; the lower bound is the simplest."""

    def integer(self, low: int, high: int) -> int: ...


class Seeded:
    """Choices by a seed."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(repr(seed))

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class Drawn:
    """Choices that Hypothesis makes; `draw` is that of a composite strategy."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw
        self.choices: list[int] = []

    def integer(self, low: int, high: int) -> int:
        from hypothesis import strategies as st

        found = int(self._draw(st.integers(low, high))) if low < high else low
        self.choices.append(found)
        return found


class Recorded:
    """Choices made before, in order; the simplest once they are used up."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._rest = list(reversed(choices))

    def integer(self, low: int, high: int) -> int:
        return min(max(self._rest.pop(), low), high) if self._rest else low


def choice(source: Source, items: Sequence[T]) -> T:
    """One of the items; the first is the simplest."""
    return items[source.integer(0, len(items) - 1)]


def chance(source: Source, out_of: int) -> bool:
    """True about once in so many draws; False is simpler."""
    return source.integer(0, out_of - 1) == out_of - 1


def shuffled(source: Source, items: Sequence[T]) -> list[T]:
    """The items in some order; as they stand is the simplest."""
    rest, found = list(items), []
    while rest:
        found.append(rest.pop(source.integer(0, len(rest) - 1)))
    return found
