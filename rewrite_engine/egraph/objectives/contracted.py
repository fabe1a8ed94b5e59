"""E-graphs of one target in which most values have one kernel: only the others are chosen, what they need comes along.

In: a problem. Out: its values with a choice, with what each kernel of theirs needs: a set of costs, each counted once,
and further values with a choice. A plan is priced by a walk over those alone. Costs of kernels are all that counts.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewrite_engine.egraph.problem import Problem

MOST_VALUES = 20_000
"""Beyond that, sets of costs take too much memory."""


@dataclass(frozen=True, slots=True)
class Needs:
    """`items` is a bit set of costs; `choices` are the values with a choice that come next. `kernel` needs them."""

    kernel: int
    items: int
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Contracted:
    """What all answers need (`root`), and what each kernel of a value with a choice does."""

    root: Needs
    options: Mapping[int, tuple[Needs, ...]]
    _table: NDArray[np.int64]  # [byte of a bit set, its value] -> sum of the costs in it

    def price(self, plan: Mapping[int, int]) -> tuple[int, list[int]] | None:
        """What the values with a choice that `plan` (value -> option) runs cost with all they need, and which they are.

        None where it leads in a circle.
        """
        items = self.root.items
        done: dict[int, bool] = {}  # False: under way
        order: list[int] = []
        stack = list(self.root.choices)
        while stack:
            value = stack.pop()
            if value < 0:
                done[~value] = True
                order.append(~value)
            elif value not in done:
                needs = self.options[value][plan[value]]
                items |= needs.items
                done[value] = False
                stack.append(~value)
                for other in needs.choices:
                    known = done.get(other)
                    if known is False:
                        return None
                    if known is None:
                        stack.append(other)
            elif not done[value]:
                return None
        row = np.frombuffer(items.to_bytes(len(self._table), "little"), np.uint8)
        return int(self._table[np.arange(len(row)), row].sum()), order

    def anneal(
        self, plan: Mapping[int, int], tries: int, seed: int, heat: float, keep_on: Callable[[], bool]
    ) -> dict[int, int]:
        """The best plan that simulated annealing finds in so many tries, from one that does not lead in a circle."""
        rng = random.Random(seed)
        current, found = dict(plan), self.price(plan)
        assert found is not None
        (now, order), first = found, found[0]
        best, least = dict(current), now
        for turn in range(tries if order else 0):
            if turn % 64 == 0 and not keep_on():
                break
            value = order[rng.randrange(len(order))]
            before = current[value]
            chosen = rng.randrange(len(self.options[value]) - 1)
            current[value] = chosen + (chosen >= before)
            after = self.price(current)
            warmth = heat * first * (1 - turn / tries) ** 2
            if after is None or (after[0] > now and rng.random() >= math.exp((now - after[0]) / warmth)):
                current[value] = before
                continue
            now, order = after
            if now < least:
                best, least = dict(current), now
        return best


def contract(problem: Problem) -> Contracted | None:
    """The problem without its values of one kernel; None where it has several targets, no answer, or is too large."""
    devices = {problem.targets[kernel.target].device for kernel in problem.kernels}
    reads_elsewhere = any(r.device not in (None, *devices) for kernel in problem.kernels for r in kernel.reads)
    if len({k.target for k in problem.kernels}) != 1 or reads_elsewhere or problem.solo or problem.values > MOST_VALUES:
        return None
    free = {value for value, _ in problem.given} | problem.resident
    kernels = _usable(problem, free)
    roots = [value for value, _ in problem.roots if value not in free]
    if any(root not in kernels for root in roots):
        return None
    costs: list[int] = []

    def item(kernel: int) -> int:
        if not problem.kernels[kernel].cost:
            return 0
        costs.append(problem.kernels[kernel].cost)
        return 1 << (len(costs) - 1)

    known: dict[int, tuple[int, frozenset[int]]] = dict.fromkeys(free, (0, frozenset()))

    def together(values: list[int]) -> tuple[int, frozenset[int]]:
        stack = list(values)
        while stack:
            value = stack[-1]
            reads = [] if value in known or len(kernels[value]) > 1 else kernels[value][0][1]
            missing = [read for read in reads if read not in known]
            stack += missing
            if not missing:
                stack.pop()
                if value not in known and len(kernels[value]) > 1:
                    known[value] = 0, frozenset((value,))
                elif value not in known:
                    items, choices = _union(known[read] for read in reads)
                    known[value] = items | item(kernels[value][0][0]), choices
        return _union(known[value] for value in values)

    options: dict[int, tuple[Needs, ...]] = {}
    items, choices = together(roots)
    root = Needs(-1, items, tuple(sorted(choices)))
    todo = list(root.choices)
    while todo:
        value = todo.pop()
        if value not in options:
            mine = []
            for kernel, reads in kernels[value]:
                items, choices = together(reads)
                mine.append(Needs(kernel, items | item(kernel), tuple(sorted(choices))))
            options[value] = tuple(mine)
            todo += [other for needs in mine for other in needs.choices]
    width = -(-len(costs) // 8)
    padded = np.zeros((width, 8), np.int64)
    padded.reshape(-1)[: len(costs)] = costs
    return Contracted(root, options, padded @ (np.arange(256) >> np.arange(8)[:, None] & 1))


def _union(parts: Iterable[tuple[int, frozenset[int]]]) -> tuple[int, frozenset[int]]:
    items, choices = 0, frozenset[int]()
    for mine, others in parts:
        items, choices = items | mine, choices | others
    return items, choices


def _usable(problem: Problem, free: set[int]) -> dict[int, list[tuple[int, list[int]]]]:
    """The kernels that can run at all, with what they read, by the value that they compute."""
    readers: dict[int, list[int]] = defaultdict(list)
    reads = [list(dict.fromkeys(r.value for r in k.reads if r.value not in free)) for k in problem.kernels]
    missing = [len(mine) for mine in reads]
    for number, mine in enumerate(reads):
        for value in mine:
            readers[value].append(number)
    found: dict[int, list[tuple[int, list[int]]]] = defaultdict(list)
    todo = deque(number for number, count in enumerate(missing) if not count)
    while todo:
        number = todo.popleft()
        value = problem.kernels[number].value
        if value in free:
            continue
        if value not in found:
            for reader in readers[value]:
                missing[reader] -= 1
                if not missing[reader]:
                    todo.append(reader)
        found[value].append((number, reads[number]))
    return {value: sorted(mine) for value, mine in found.items()}
