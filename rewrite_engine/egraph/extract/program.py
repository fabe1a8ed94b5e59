"""The frontier program: runs all steps, then traces the best state back to kernels and regions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rewrite_engine.egraph.extract.model import Model, Turn, Way
from rewrite_engine.egraph.extract.options import Option
from rewrite_engine.egraph.extract.reduce import Limits, Reducer
from rewrite_engine.egraph.extract.state import (
    CHILDREN_PER_WORD,
    COST,
    FROM_MEMORY,
    LAST_BIT,
    MERGES,
    MODES,
    OPTION,
    PARENT,
    TAKES_OVER,
    Layout,
    canonical,
    initial,
    layout_of,
)
from rewrite_engine.egraph.extract.step import Stepper
from rewrite_engine.egraph.extract.tables import Array, Tables
from rewrite_engine.egraph.problem import Choice

_PORTION = 1500  # states expanded at once


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A finished run. `cost` is a bound unless a beam was on; `exact`: nothing was merged, cut or overlooked."""

    cost: int
    choices: tuple[Choice, ...]
    exact: bool
    states: int  # most kept after a step
    repeated: int  # steps that were looked up


@dataclass(frozen=True, slots=True, eq=False)
class _Record:
    options: Sequence[Option]
    heads: Array  # [state, head columns]
    exact: bool


class Program:
    """A model with all that its runs share."""

    def __init__(self, model: Model) -> None:
        """A program that merges states without limit needs a machine with the item `needed`."""
        self.model = model
        self.layout: Layout = layout_of(model)
        self.tables = Tables(model.machine, model.values)
        self.stepper = Stepper(model, self.layout, self.tables)

    def run(self, limits: Limits, deadline: float | None = None) -> Outcome:
        """The best outcome. Raises TooWide when there are more states than the limits allow, TimeoutError when the
        deadline (a time of `time.monotonic`) has passed.

        Steps that are alike and start from equal states, as in repeated layers, are computed once.
        """
        reducer = Reducer(self.model, self.layout, self.tables, limits)
        states = initial(self.layout, self.model)
        memory: dict[tuple[int, int, bytes], tuple[Array, _Record]] = {}
        records: list[_Record] = []
        base = most = repeated = widest = 0
        for turn in self.model.turns:
            low = int(states[:, COST].min())
            base += low
            states[:, COST] -= low
            key = self.stepper.turn_key(turn), states.shape[1], states.tobytes()
            known = memory.get(key)
            repeated += known is not None
            if known is None:
                known = memory[key] = self._step(reducer, turn, states, deadline)
            states = known[0].copy()
            records.append(known[1])
            most = max(most, len(states))
            widest = max(widest, states.shape[1] - 1)
            if not len(states):
                raise AssertionError(f"no way to compute value {turn.value} is left")
        best = int(np.argmin(states[:, COST]))
        choices = self._trace(records, best)
        exact = all(record.exact for record in records) and self.layout.open + LAST_BIT >= widest
        return Outcome(base + int(states[best, COST]), choices, exact, most, repeated)

    def _step(self, reducer: Reducer, turn: Turn, states: Array, deadline: float | None) -> tuple[Array, _Record]:
        """Expands the states in portions, to bound the memory, and reduces what comes out."""
        table, which = self.stepper.table(turn, states)
        parts = []
        cut = None if reducer.limits.beam is None else max(500, 20 * reducer.limits.beam)
        size = max(1, min(_PORTION, self.stepper.most // int(table.count.max(initial=1))))
        for start in range(0, len(states), size):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
            portion = slice(start, start + size)
            rows = self.stepper.expand(turn, states[portion], table, which[portion], cut)
            rows[:, PARENT] += start
            rows = canonical(self.layout, rows)
            parts.append(rows if len(states) <= size else reducer.distinct(rows))
        width = max(part.shape[1] for part in parts)
        rows = np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])
        rows, exact = reducer.reduce(rows, turn.live)
        heads = rows[:, : self.layout.demand].copy()
        rows = rows.copy()
        rows[:, PARENT : self.layout.demand] = 0
        return rows, _Record(table.options, heads, exact)

    def _trace(self, records: list[_Record], state: int) -> tuple[Choice, ...]:
        """Follows parents from the last state to the first, then replays the decisions to see their regions."""
        decisions = []
        for record, turn in zip(reversed(records), reversed(self.model.turns), strict=True):
            head = record.heads[state]
            decisions.append((turn, record.options[int(head[OPTION])], head))
            state = int(head[PARENT])
        regions = _Regions()
        for turn, option, head in reversed(decisions):
            self._replay(regions, turn, option, head)
        return regions.choices()

    def _replay(self, regions: _Regions, turn: Turn, option: Option, head: Array) -> None:
        value = self.model.values[turn.value]
        tracked = self.model.machine.position
        for number, use in enumerate(option.uses):
            way = value.ways[use.target][use.place]
            own = (turn.value, use.target)
            joins = use.joined or (value.solo and use.target not in tracked)
            kernel = regions.add(way, own if joins else None)
            if use.target not in tracked:  # no launch: alone, but for values that must stay inside
                for child, _ in way.memory:
                    if self.model.values[child].solo:
                        regions.read(kernel, (child, use.target), MERGES)
                continue
            for child in way.inside:
                place = value.children.index(child)
                word = int(head[MODES + number * self.layout.words + place // CHILDREN_PER_WORD])
                regions.read(kernel, (child, use.target), word >> 2 * (place % CHILDREN_PER_WORD) & 3)


class _Regions:
    """Regions in the making: kernels with a union-find, and who offers to take in which (value, target)."""

    def __init__(self) -> None:
        self.ways: list[Way] = []
        self._parent: list[int] = []
        self._offer: dict[tuple[int, int], int] = {}

    def add(self, way: Way, joins: tuple[int, int] | None) -> int:
        kernel = len(self.ways)
        self.ways.append(way)
        self._parent.append(kernel if joins is None else self._find(self._offer[joins]))
        return kernel

    def read(self, kernel: int, operand: tuple[int, int], mode: int) -> None:
        if mode == MERGES and operand in self._offer:
            self._parent[self._find(self._offer[operand])] = self._find(kernel)
        elif mode == TAKES_OVER or (mode != FROM_MEMORY and operand not in self._offer):
            self._offer[operand] = kernel
        elif mode != FROM_MEMORY and self._find(self._offer[operand]) != self._find(kernel):
            self._offer[operand] = kernel  # only after merged states: an offer that had been given up

    def choices(self) -> tuple[Choice, ...]:
        numbers: dict[int, int] = {}
        return tuple(
            Choice(way.kernel, numbers.setdefault(self._find(kernel), len(numbers)))
            for kernel, way in enumerate(self.ways)
        )

    def _find(self, kernel: int) -> int:
        while self._parent[kernel] != kernel:
            self._parent[kernel] = self._parent[self._parent[kernel]]
            kernel = self._parent[kernel]
        return kernel
