"""What values cannot do without: facts about and-or graphs, as sets of values in the bits of whole numbers.

In: the options to compute every value. Out: what each value needs whatever is chosen, what it can lead to, and what an
option draws in with it as far as nothing is to be chosen.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from rewrite_engine.egraph.components import components
from rewrite_engine.egraph.problem import Problem


@dataclass(frozen=True, slots=True)
class Option:
    """A kernel as one way to compute a value: its cost, and the values that it needs."""

    kernel: int
    cost: int
    operands: tuple[int, ...]


MOST_VALUES = 5_000
"""Beyond that, sets of values take too much time and memory."""
Options = Mapping[int, Sequence[Option]]
"""By value. A value that is not there, such as an input, is had for nothing."""


def options_of(problem: Problem, kernels: Iterable[int]) -> dict[int, list[Option]]:
    """These kernels of a problem as options; a value that nothing computes, and that is not there, has none."""
    free = problem.resident | {value for value, _ in problem.given}
    options: dict[int, list[Option]] = defaultdict(list)
    for number in kernels:
        kernel = problem.kernels[number]
        if kernel.value in free:
            continue
        operands = tuple(dict.fromkeys(read.value for read in kernel.reads if read.value not in free))
        if kernel.value not in operands:
            options[kernel.value].append(Option(number, kernel.cost, operands))
        for operand in operands:
            options.setdefault(operand, [])
    return options


def members(bits: int) -> Iterator[int]:
    """The values of a set, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def possible(options: Options, roots: Iterable[int]) -> dict[int, list[Option]]:
    """Options that can be completed from the inputs up, of values that a root may need."""
    waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)
    missing: list[int] = []
    todo: list[int] = []
    for value, mine in options.items():
        for option in mine:
            inner = [operand for operand in option.operands if operand in options]
            for operand in inner:
                waiting[operand].append((len(missing), value))
            missing.append(len(inner))
            if not inner:
                todo.append(value)
    had: set[int] = set()
    while todo:
        value = todo.pop()
        if value in had:
            continue
        had.add(value)
        for place, reader in waiting[value]:
            missing[place] -= 1
            if not missing[place]:
                todo.append(reader)
    found: dict[int, list[Option]] = {}
    wanted = [root for root in roots if root in options]
    while wanted:
        value = wanted.pop()
        if value in found:
            continue
        found[value] = [o for o in options[value] if all(w in had or w not in options for w in o.operands)]
        wanted += [operand for o in found[value] for operand in o.operands if operand in options]
    return dict(sorted(found.items()))


def union(sets: Iterable[int]) -> int:
    """All of these sets together."""
    return reduce(or_, sets, 0)


def needs_of(options: Options) -> dict[int, int]:
    """Per value, itself and the values without which it cannot be computed; for one that never can, all values."""
    return dominators(
        {
            value: [tuple(operand for operand in option.operands if operand in options) for option in mine]
            for value, mine in options.items()
        }
    )


def dominators(ways: Mapping[int, Sequence[tuple[int, ...]]]) -> dict[int, int]:
    """Per node, itself and the nodes that each choice of ways to it passes; all nodes where there is no way.

    A node needs what all its ways need, a way what any of its operands does: sets shrink from "everything" to the
    greatest fixed point, which is also right where nodes lead back to themselves.
    """
    everything = (1 << (max(ways, default=-1) + 1)) - 1
    found = dict.fromkeys(ways, everything)
    readers: dict[int, dict[int, None]] = defaultdict(dict)
    for node, rows in ways.items():
        for operands in rows:
            for operand in operands:
                readers[operand][node] = None
    todo = deque(node for node, rows in ways.items() if () in rows)
    queued = set(todo)
    while todo:
        node = todo.popleft()
        queued.discard(node)
        common = everything
        for operands in ways[node]:
            mine = 0
            for operand in operands:
                mine |= found[operand]
            common &= mine
        common |= 1 << node
        if common != found[node]:
            found[node] = common
            for reader in readers[node]:
                if reader not in queued:
                    queued.add(reader)
                    todo.append(reader)
    return found


class Facts:
    """What is known of options, all of which can be completed.

    `needs` as above; `certain` values are needed by the roots; `open` ones have more than one option.
    """

    def __init__(self, options: Options, roots: Iterable[int]) -> None:
        self.options = options
        self.needs = needs_of(options)
        self.roots = tuple(root for root in dict.fromkeys(roots) if root in options)
        self.certain = self.all_needs(self.roots)
        self.open = union(1 << value for value, mine in options.items() if len(mine) > 1)
        self._drawn: dict[int, int] = {}
        self._leads: dict[int, int] | None = None
        self._private: dict[int, int] | None = None

    def all_needs(self, values: Iterable[int]) -> int:
        """What any of these values needs."""
        return union(self.needs.get(value, 0) for value in values)

    def drawn(self, values: Iterable[int]) -> int:
        """These values and what they bring with them: open values are in it, but not what is chosen for them."""
        return union(self._draw(value) for value in values if value in self.options)

    def _draw(self, start: int) -> int:
        stack = [(start, False)]
        while stack:
            value, opened = stack.pop()
            if value in self._drawn:
                continue
            mine = self.options[value]
            inner = [] if len(mine) > 1 else [operand for operand in mine[0].operands if operand in self.options]
            if opened or not inner:
                self._drawn[value] = 1 << value | union(self._drawn[operand] for operand in inner)
            else:
                stack.append((value, True))
                stack += [(operand, False) for operand in inner if operand not in self._drawn]
        return self._drawn[start]

    def leads(self, value: int) -> int:
        """What a value may need, by any options: itself at least."""
        if self._leads is None:
            edges = {
                v: list(dict.fromkeys(w for option in mine for w in option.operands if w in self.options))
                for v, mine in self.options.items()
            }
            self._leads = {}
            for component in components(edges):
                found = union(1 << v | union(self._leads.get(w, 0) for w in edges[v]) for v in component)
                self._leads.update(dict.fromkeys(component, found))
        return self._leads[value]

    def all_leads(self, values: Iterable[int]) -> int:
        """What any of these values may need."""
        return union(self.leads(value) for value in values if value in self.options)

    def private(self, value: int) -> int:
        """What only this open value, and what it needs, can need: every way there from a root passes it."""
        if self._private is None:
            back: dict[int, list[tuple[int, ...]]] = {v: [()] if v in self.roots else [] for v in self.options}
            for v, mine in self.options.items():
                for w in dict.fromkeys(w for option in mine for w in option.operands if w in self.options):
                    back[w].append((v,))
            self._private = defaultdict(int)
            for v, passed in dominators(back).items():
                for w in members(passed & self.open & ~(1 << v)):
                    self._private[w] |= 1 << v
        return self._private.get(value, 0)

    @property
    def kernels(self) -> list[int]:
        """The kernels that are left, ascending."""
        return sorted(option.kernel for mine in self.options.values() for option in mine)

    @property
    def bound(self) -> int:
        """No answer costs less: certain values, each by its cheapest option."""
        return sum(min(option.cost for option in self.options[value]) for value in members(self.certain))
