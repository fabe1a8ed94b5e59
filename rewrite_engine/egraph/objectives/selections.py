"""Sets of kernels that compute the outputs, consumers first, the most promising first.

In: a problem and the least that an answer with some kernels costs. Out: selections of at most one kernel per value and
target, such that every value that is read is computed or given. What serves nobody is left out, but for kernels that
may join two others in one region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from rewrite_engine.egraph.components import components
from rewrite_engine.egraph.objectives.loads import Copy
from rewrite_engine.egraph.problem import Problem

Devices = frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """Kernels of the values that are `decided`, and what is still open.

    `pending` are values to decide with the memories in which they are read; `copies` has, for every memory that a
    decided value must be copied to, the copies that can bring it there.
    """

    chosen: tuple[int, ...]
    decided: frozenset[int]
    pending: Mapping[int, Devices]
    copies: tuple[tuple[Copy, ...], ...]


Least = Callable[[Partial], int]


def order_of(problem: Problem) -> dict[int, int] | None:
    """Values that an output can depend on, consumers first; None where one leads back to itself."""
    reads: dict[int, dict[int, None]] = {}
    for kernel in problem.kernels:
        mine = reads.setdefault(kernel.value, {})
        mine |= dict.fromkeys(read.value for read in kernel.reads if read.value not in problem.resident)
    edges: dict[int, list[int]] = {}
    todo = [value for value, _ in problem.roots if value not in problem.resident]
    while todo:
        value = todo.pop()
        if value not in edges:
            edges[value] = list(reads.get(value, ()))
            todo += edges[value]
    parts = components(edges)
    if any(len(part) > 1 for part in parts) or any(value in children for value, children in edges.items()):
        return None
    return {part[0]: place for place, part in enumerate(reversed(parts))}


def selections(
    problem: Problem, order: Mapping[int, int], least: Least, limit: Callable[[], int], step: Callable[[], None]
) -> Iterator[Partial]:
    """The selections that may cost less than `limit()`; `step` is called for each partial one."""
    ways = _Ways(problem, order)
    pending: dict[int, Devices] = {}
    for value, device in problem.roots:
        if value in order:
            pending[value] = pending.get(value, frozenset()) | {device}
    start = Partial((), frozenset(), pending, ())
    stack = [(least(start), start)]
    while stack:
        cost, partial = stack.pop()
        if cost >= limit():
            continue
        step()
        if not partial.pending:
            yield partial
            continue
        found = []
        for after in ways.decide(partial):
            step()
            mine = least(after)
            if mine < limit():
                found.append((mine, after))
        found.sort(key=lambda one: one[0], reverse=True)
        stack += found


class _Ways:
    """The ways to decide the first pending value of a partial selection."""

    def __init__(self, problem: Problem, order: Mapping[int, int]) -> None:
        self.problem, self.order = problem, order
        self.homes = [target.device for target in problem.targets]
        self.of: dict[int, dict[int, list[int]]] = {}
        for number, kernel in enumerate(problem.kernels):
            if kernel.value in order and kernel.value not in problem.resident:
                self.of.setdefault(kernel.value, {}).setdefault(kernel.target, []).append(number)
        self.given: dict[int, set[int]] = {}
        for value, device in problem.given:
            self.given.setdefault(value, set()).add(device)

    def decide(self, partial: Partial) -> Iterator[Partial]:
        problem = self.problem
        value = min(partial.pending, key=self.order.__getitem__)
        needs = partial.pending[value]
        rest = {other: devices for other, devices in partial.pending.items() if other != value}
        inner, asked = self._readers(partial, value)
        targets = self.of.get(value, {})
        for size in range(0 if value in self.given else 1, len(targets) + 1):
            for where in combinations(sorted(targets), size):
                if value in problem.solo:
                    if not asked <= {*where}:
                        continue
                    copies: list[tuple[Copy, ...]] | None = []
                else:
                    copies = self._copies(value, needs, where)
                if copies is None:
                    continue
                for picked in product(*(targets[t] for t in where)):
                    idle = sum(1 for k in picked if problem.kernels[k].target not in inner and not self._joins(k))
                    if idle > (0 if value in problem.solo else len(needs)):
                        continue
                    yield Partial(
                        (*partial.chosen, *picked),
                        partial.decided | {value},
                        self._more(rest, picked),
                        (*partial.copies, *copies),
                    )

    def _readers(self, partial: Partial, value: int) -> tuple[set[int], set[int]]:
        """The targets that may read a value within a region, and all that read it."""
        inner, every = set(), set()
        for number in partial.chosen:
            kernel = self.problem.kernels[number]
            for read in kernel.reads:
                if read.value == value:
                    every.add(kernel.target)
                    if read.device in (None, self.homes[kernel.target]):
                        inner.add(kernel.target)
        return inner, every

    def _joins(self, number: int) -> bool:
        """Whether a kernel that nobody reads may still save a launch: it puts two that it reads in one region."""
        kernel = self.problem.kernels[number]
        if not self.problem.targets[kernel.target].launch:
            return False
        own = (None, self.homes[kernel.target])
        reads = {r.value for r in kernel.reads if r.device in own and kernel.target in self.of.get(r.value, {})}
        return len(reads) > 1

    def _copies(self, value: int, needs: Devices, where: tuple[int, ...]) -> list[tuple[Copy, ...]] | None:
        """Per memory where the value is read and is not, the copies that bring it there; None where none does."""
        sources = {self.homes[t] for t in where} | self.given.get(value, set())
        found = []
        for device in sorted(needs - sources):
            ways = tuple(
                (value, source, device) for source in sorted(sources) if (value, source, device) in self.problem.copies
            )
            if not ways:
                return None
            found.append(ways)
        return found

    def _more(self, rest: Mapping[int, Devices], picked: tuple[int, ...]) -> dict[int, Devices]:
        more = dict(rest)
        for number in picked:
            kernel = self.problem.kernels[number]
            for read in kernel.reads:
                if read.value in self.order:
                    device = self.homes[kernel.target] if read.device is None else read.device
                    more[read.value] = more.get(read.value, frozenset()) | {device}
        return more
