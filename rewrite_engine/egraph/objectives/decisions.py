"""Local search over what is left to decide, where nothing but kernels costs anything.

In: facts about options. Out: the options that the best answer found takes. A *decision* is an open value that an answer
needs; what its options draw in besides is in bits, so that a move costs microseconds, not a walk of the e-graph.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.needs import Facts, members

_WIDTH = 12  # bits of a set whose cost is looked up at once
_TURNS = 64  # moves between two looks at the clock


@dataclass(frozen=True, slots=True)
class _Draw:
    """An option: its own cost, what it draws in (bits, see `_Costs`), and the decisions that follow."""

    cost: int
    shared: int
    follow: tuple[int, ...]


class _Costs:
    """The cost of sets: bit n stands for values that the same options draw in, together."""

    def __init__(self, costs: Sequence[int]) -> None:
        self._tables: list[list[int]] = []
        for start in range(0, len(costs), _WIDTH):
            table = [0]
            for cost in costs[start : start + _WIDTH]:
                table += [known + cost for known in table]
            self._tables.append(table)

    def __call__(self, shared: int) -> int:
        total = place = 0
        while shared:
            total += self._tables[place][shared & ((1 << _WIDTH) - 1)]
            shared >>= _WIDTH
            place += 1
        return total


class Decisions:
    """Open values by number, their options, and what all answers pay (`fixed`)."""

    def __init__(self, facts: Facts) -> None:
        self.values = list(members(facts.open))
        self._number = {value: number for number, value in enumerate(self.values)}
        self._facts = facts
        self.first = self._follow(facts.drawn(facts.roots))
        self.fixed = sum(facts.options[v][0].cost for v in members(facts.certain & ~facts.open))
        takers: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by value drawn in: (decision, option)
        drawn = [[facts.drawn(option.operands) for option in facts.options[value]] for value in self.values]
        for number, row in enumerate(drawn):
            for place, mine in enumerate(row):
                for value in members(mine & ~facts.open & ~facts.certain):
                    if facts.options[value][0].cost:
                        takers[value].append((number, place))
        together: dict[tuple[tuple[int, int], ...], int] = defaultdict(int)
        for value, mine_ in takers.items():
            together[tuple(mine_)] += facts.options[value][0].cost
        self.takers = list(together)
        self.cost_of = _Costs(list(together.values()))
        shared: dict[tuple[int, int], int] = defaultdict(int)
        for bit, places in enumerate(together):
            for at in places:
                shared[at] |= 1 << bit
        self.options = [
            [
                _Draw(option.cost, shared[number, place], self._follow(drawn[number][place]))
                for place, option in enumerate(facts.options[value])
            ]
            for number, value in enumerate(self.values)
        ]

    def _follow(self, drawn: int) -> tuple[int, ...]:
        return tuple(self._number[value] for value in members(drawn & self._facts.open))

    def picks(self, chosen: Mapping[int, int]) -> list[int]:
        """The options with these kernels (by value), or the first."""
        found = []
        for value in self.values:
            kernels = [option.kernel for option in self._facts.options[value]]
            found.append(kernels.index(chosen[value]) if chosen.get(value) in kernels else 0)
        return found

    def kernels(self, picks: Sequence[int]) -> dict[int, int]:
        """The kernel of every value, by what was picked."""
        taken = dict(zip(self.values, picks, strict=True))
        return {value: mine[taken.get(value, 0)].kernel for value, mine in self._facts.options.items()}

    def price(self, picks: Sequence[int]) -> tuple[int, list[int]] | None:
        """The cost, and the decisions that are made; None where one follows from itself."""
        total, shared = self.fixed, 0
        state: dict[int, bool] = {}  # False: under way
        stack = list(self.first)
        options = self.options
        while stack:
            number = stack.pop()
            if number < 0:
                state[~number] = True
                continue
            if number in state:
                continue
            state[number] = False
            stack.append(~number)
            draw = options[number][picks[number]]
            total += draw.cost
            shared |= draw.shared
            for other in draw.follow:
                known = state.get(other)
                if known is None:
                    stack.append(other)
                elif not known:
                    return None
        return total + self.cost_of(shared), list(state)

    def anneal(
        self, start: Sequence[int], tries: int, seed: int, heat: float, keep_on: Callable[[], bool]
    ) -> list[int]:  # fmt: skip
        """The best picks met in so many moves, from picks that can be; the warmth falls to nothing."""
        rng, picks, best = random.Random(seed), list(start), list(start)
        found = self.price(picks)
        if found is None or not found[1]:
            return best
        now, made = found
        least, first = now, now
        warmth = 0.0
        for turn in range(tries):
            if not turn % _TURNS:
                if not keep_on():
                    break
                warmth = heat * first * (1 - turn / tries) ** 2
            undo = self._move(picks, made, rng)
            after = self.price(picks)
            if after is not None and (
                after[0] <= now or (warmth > 0 and rng.random() < math.exp((now - after[0]) / warmth))
            ):
                now, made = after
                if now < least:
                    least, best = now, list(picks)
            else:
                for number, place in reversed(undo):
                    picks[number] = place
        return best

    def _move(self, picks: list[int], made: Sequence[int], rng: random.Random) -> list[tuple[int, int]]:
        """One decision changes, and often others that could share what it draws in then; also what takes that back."""
        number = made[int(rng.random() * len(made))]
        mine = self.options[number]
        place = int(rng.random() * len(mine))
        undo = [(number, picks[number])]
        picks[number] = place
        shared = mine[place].shared
        if shared and rng.random() < 0.6:
            bits = list(members(shared))
            takers = self.takers[bits[int(rng.random() * len(bits))]]
            for other, same in rng.sample(takers, min(len(takers), rng.choice((1, 2, 4)))):
                if other != number:
                    undo.append((other, picks[other]))
                    picks[other] = same
        return undo
