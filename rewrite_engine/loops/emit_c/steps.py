"""What a kernel in C does, in order: calls of nests, checks, loops of scans; and where its temporaries lie.

Calls that depend on nothing within a scan are made before it. A temporary lives from the first call that has it to the
last, and through a whole scan where it comes from outside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from rewrite_engine.loops.checks import Check
from rewrite_engine.loops.compute import Buffer, Scan
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c.function import NestFunction

ALIGNMENT = 64
SLACK = 256
"""Bytes after a temporary that may be read (and are never used): whole vectors at its end."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The steps of a scan begin."""

    scan: Scan


@dataclass(frozen=True, slots=True)
class End:
    """The steps of a scan end."""

    scan: Scan


Step = NestFunction | Check | Begin | End


@dataclass(slots=True)
class Steps:
    """Calls that pack constant operands (`prepare`, they fill `prepared`), the steps of every run, and functions."""

    prepare: list[NestFunction] = field(default_factory=list)
    prepared: list[str] = field(default_factory=list)
    run: list[Step] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    open: list[tuple[int, frozenset[str]]] = field(default_factory=list)  # scans: where they begin, names inside

    def call(self, nest: NestFunction) -> None:
        """The call comes next."""
        self.functions[nest.name] = nest.code
        self.run.append(nest)

    def call_once(self, nest: NestFunction, source: str, target: str, fixed: Collection[str]) -> None:
        """A call that makes `target` of `source` alone: as early, and as seldom, as `source` allows."""
        self.functions[nest.name] = nest.code
        if source in fixed:
            self.prepared.append(target)
            self.prepare.append(nest)
            return
        for depth, (position, inside) in enumerate(self.open):
            if source not in inside:
                self.run.insert(position, nest)
                self.open[depth:] = [(begin + 1, names) for begin, names in self.open[depth:]]
                return
        self.run.append(nest)

    def begin(self, scan: Scan) -> None:
        self.open.append((len(self.run), frozenset(scan.inside)))
        self.run.append(Begin(scan))

    def end(self, scan: Scan) -> None:
        self.open.pop()
        self.run.append(End(scan))


def carried_buffers(scan: Scan) -> dict[str, tuple[str, str]]:
    """following -> its two buffers, of which steps take turns, where no element of a result holds it."""
    stacked = {piece.part for piece in scan.stacked}
    names = (carry.following for carry in scan.carried if carry.following not in stacked)
    return {name: (f"{name}.even", f"{name}.odd") for name in names}


def elsewhere(scan: Scan) -> set[str]:
    """The names inside a scan that are no temporaries of their own: elements, and what is carried."""
    pieces = (*scan.sliced, *scan.stacked)
    return {*(p.part for p in pieces), *(n for carry in scan.carried for n in (carry.now, carry.following))}


def size_of(buffer: Buffer) -> int:
    """Bytes of a temporary, slack and alignment included."""
    size = buffer.size * numpy_dtype(buffer.dtype).itemsize + SLACK
    return -(-size // ALIGNMENT) * ALIGNMENT


def workspace(
    steps: list[Step], places: Mapping[str, str], tensors: Mapping[str, Buffer]
) -> tuple[dict[str, int], int]:
    """Offsets of the temporaries, those that live at once apart; first fit in order of birth. `places` have others."""
    sizes, lives = _lives(steps, places, tensors)
    dying: dict[int, list[str]] = {}
    for name, (_, last) in lives.items():
        dying.setdefault(last, []).append(name)
    offsets: dict[str, int] = {}
    live: dict[str, tuple[int, int]] = {}
    total = 0
    born = sorted(lives, key=lambda name: lives[name][0])  # stable: in order of mention
    at = 0
    for position in range(len(steps)):
        while at < len(born) and lives[born[at]][0] == position:
            name, at = born[at], at + 1
            offsets[name] = _first_gap(sorted(live.values()), sizes[name])
            live[name] = (offsets[name], offsets[name] + sizes[name])
            total = max(total, live[name][1])
        for name in dying.get(position, ()):
            del live[name]
    return offsets, total


def _lives(
    steps: list[Step], places: Mapping[str, str], tensors: Mapping[str, Buffer]
) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """The bytes of each temporary, and the positions of the first and the last step that have it."""
    sizes: dict[str, int] = {}
    lives: dict[str, tuple[int, int]] = {}
    begins: list[int] = []
    loops: list[tuple[int, int]] = []
    uses: dict[str, list[int]] = {}
    for position, step in enumerate(steps):
        if isinstance(step, Begin):
            begins.append(position)
        elif isinstance(step, End):
            loops.append((begins.pop(), position))
        for name, buffer in _mentions(step, tensors):
            if name not in places:
                sizes[name] = size_of(buffer)
                uses.setdefault(name, []).append(position)
    for name, positions in uses.items():
        first, last = positions[0], positions[-1]
        for begin, end in loops:  # inner ones first
            if first <= begin < last < end:
                last = end
        lives[name] = (first, last)
    return sizes, lives


def _mentions(step: Step, tensors: Mapping[str, Buffer]) -> Iterator[tuple[str, Buffer]]:
    if isinstance(step, NestFunction):
        yield from ((name, tensors[name]) for name in step.buffers)
    elif isinstance(step, Check):
        yield step.tensor, tensors[step.tensor]
    else:
        scan = step.scan
        given = (*(p.whole for p in (*scan.sliced, *scan.stacked)), *(carry.initial for carry in scan.carried))
        yield from ((name, tensors[name]) for name in given)
        for name, buffers in carried_buffers(scan).items():
            yield from ((buffer, tensors[name]) for buffer in buffers)
        if isinstance(step, End):
            yield from ((carry.final, tensors[carry.final]) for carry in scan.carried)


def _first_gap(taken: list[tuple[int, int]], size: int) -> int:
    start = 0
    for first, last in taken:
        if first - start >= size:
            return start
        start = max(start, last)
    return start
