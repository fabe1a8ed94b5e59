"""What the extraction program works on: a problem reduced to what can matter, and the order in which it is solved.

A *way* is a kernel as the program sees it. Targets are *tracked* when their regions matter (they have a launch); the
kernels of the others stand alone, which costs nothing and forbids nothing. An *item* is what may be demanded of a value
apart from an offer to join a region: presence in a memory (item = device), or, for a value of several results, that an
untracked target computes it (item = place of the target among the untracked ones).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INFINITE = 1 << 56  # picoseconds; larger than any cost, and 60 of them still fit into 64 bits
HIGHEST = INFINITE >> 2  # a cost from here on is not added up exactly: five hours


@dataclass(frozen=True, slots=True)
class Way:
    """A kernel: `inside` operands come from its region or its target's memory, `memory` ones are (value, item).

    A `companion` is a kernel whose operands need its own value: it can only run besides another kernel of that value.
    A `refund` is taken off the cost where its lost operands may have joined two regions: always, or only where another
    kernel provides `refund_item` to somebody.
    """

    kernel: int  # index into Problem.kernels
    target: int
    cost: int
    inside: tuple[int, ...]
    memory: tuple[tuple[int, int], ...]
    companion: bool = False
    refund: int = 0
    refund_item: int | None = None

    @property
    def operands(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*self.inside, *(value for value, _ in self.memory))))


Ways = Mapping[int, tuple[Way, ...]]  # by value


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value with everything local to it; `signature` is equal for values whose copies and targets are alike."""

    value: int
    ways: Mapping[int, tuple[Way, ...]]  # by target, ascending
    given: tuple[int, ...]  # devices
    copies: Mapping[tuple[int, int], int]
    solo: bool
    children: tuple[int, ...]
    signature: int


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """Targets and items of the program; `tracked` targets are numbered from 0 in states, their `position`."""

    target_devices: tuple[int, ...]
    launches: tuple[int, ...]
    tracked: tuple[int, ...]
    untracked: tuple[int, ...]
    items: int
    needed: int | None = None  # the item that any way of computing the value serves: only asked for by merged states

    @property
    def position(self) -> dict[int, int]:
        return {target: place for place, target in enumerate(self.tracked)}

    @property
    def tracked_devices(self) -> tuple[int, ...]:
        return tuple(self.target_devices[target] for target in self.tracked)

    @property
    def tracked_launches(self) -> tuple[int, ...]:
        return tuple(self.launches[target] for target in self.tracked)


@dataclass(frozen=True, slots=True)
class Coming:
    """What consumers still to come may ask of a value on the frontier: bit sets of items and tracked targets."""

    value: int
    slot: int
    items: int
    offers: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One step: the value in `slot` is computed, its children sit in `child_slots`; `live` is the frontier after it."""

    value: int
    slot: int
    child_slots: tuple[int, ...]
    live: tuple[Coming, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The reduced problem. `turns` visit consumers before producers; `slots` is the width of the frontier."""

    machine: Machine
    values: Mapping[int, Value]
    roots: tuple[tuple[int, int], ...]  # (value, item)
    root_slots: Mapping[int, int]
    turns: tuple[Turn, ...]
    slots: int
