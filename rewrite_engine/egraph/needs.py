"""What values cannot do without: facts about and-or graphs, as sets of values in the bits of whole numbers.

In: the options to compute every value. Out: what each value needs whatever is chosen, what it can lead to, and what an
option draws in with it as far as nothing is to be chosen.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.components import components


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


def needs_of(options: Options) -> dict[int, int]:
    """Per value, itself and the values without which it cannot be computed; for one that never can, all values.

    A value needs what all its options need, an option what any of its operands does: sets shrink from "everything" to
    the greatest fixed point, which is also right where values lead back to themselves.
    """
    everything = (1 << (max(options, default=-1) + 1)) - 1
    found = dict.fromkeys(options, everything)
    readers: dict[int, dict[int, None]] = defaultdict(dict)
    inner = {
        value: [tuple(operand for operand in option.operands if operand in options) for option in mine]
        for value, mine in options.items()
    }
    for value, rows in inner.items():
        for operands in rows:
            for operand in operands:
                readers[operand][value] = None
    todo = deque(value for value, rows in inner.items() if () in rows)
    queued = set(todo)
    while todo:
        value = todo.popleft()
        queued.discard(value)
        common = everything
        for operands in inner[value]:
            mine = 0
            for operand in operands:
                mine |= found[operand]
            common &= mine
        common |= 1 << value
        if common != found[value]:
            found[value] = common
            for reader in readers[value]:
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
        self.open = 0
        for value, mine in options.items():
            self.open |= (len(mine) > 1) << value
        self._drawn: dict[int, int] = {}
        self._leads: dict[int, int] | None = None
        self._private: dict[int, int] | None = None

    def all_needs(self, values: Iterable[int]) -> int:
        """What any of these values needs."""
        found = 0
        for value in values:
            found |= self.needs.get(value, 0)
        return found

    def drawn(self, values: Iterable[int]) -> int:
        """These values and what they bring with them: open values are in it, but not what is chosen for them."""
        found = 0
        for value in values:
            found |= self._draw(value) if value in self.options else 0
        return found

    def _draw(self, start: int) -> int:
        stack = [(start, False)]
        while stack:
            value, opened = stack.pop()
            if value in self._drawn:
                continue
            mine = self.options[value]
            inner = [] if len(mine) > 1 else [operand for operand in mine[0].operands if operand in self.options]
            if opened or not inner:
                found = 1 << value
                for operand in inner:
                    found |= self._drawn[operand]
                self._drawn[value] = found
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
                found = 0
                for v in component:
                    found |= 1 << v
                    for w in edges[v]:
                        found |= self._leads.get(w, 0)
                self._leads.update(dict.fromkeys(component, found))
        return self._leads[value]

    def all_leads(self, values: Iterable[int]) -> int:
        """What any of these values may need."""
        found = 0
        for value in values:
            found |= self.leads(value) if value in self.options else 0
        return found

    def private(self, value: int) -> int:
        """What only this open value, and what it needs, can need: every way there from a root passes it."""
        if self._private is None:
            back: dict[int, list[Option]] = {v: [Option(0, 0, ())] if v in self.roots else [] for v in self.options}
            for v, mine in self.options.items():
                for w in dict.fromkeys(w for option in mine for w in option.operands if w in self.options):
                    back[w].append(Option(0, 0, (v,)))
            self._private = defaultdict(int)
            for v, passed in needs_of(back).items():
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
