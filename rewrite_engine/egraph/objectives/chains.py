"""The exact cut of a network into contiguous sets, one per device: a dynamic program over chains of ideals.

In: a network, blocks, and their ideals. Out: of all placements that cut some order of the blocks into one interval per
device, one whose busiest device is busy the least (Tarnawski et al., "Efficient Algorithms for Device Placement of DNN
Graph Operators", 2020, section 5). States are kept per ideal, devices used, and whether the host is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewrite_engine.egraph.objectives.calls import Network
from rewrite_engine.egraph.objectives.ideals import Members, words_of
from rewrite_engine.egraph.objectives.intervals import FAR, Blocks

Array = NDArray[np.int64]
Mask = NDArray[np.bool_]


def least_load_chain(
    net: Network, blocks: Blocks, members: Members, limit: int = FAR, keep_on: Callable[[], bool] = lambda: True
) -> list[int] | None:
    """The best such placement; None where none fits or is below the limit. Devices other than the host must be alike.

    `members` are all ideals of the blocks, smaller ones first. Raises TimeoutError when it may not keep on.
    """
    work, barred = _sums(net, blocks, members, min(1, net.devices - 1))
    order = np.argsort(work, kind="stable")  # what an ideal holds still comes before it
    members = members[order]
    host, unable = _sums(net, blocks, members, 0)
    held = _added(members, [sum(net.sizes[value] for value in block) for block in blocks])
    own = _Kind(work[order], barred[order], held, net.memory[-1] if net.devices > 1 else None)
    return _Chains(net, blocks, members, own, _Kind(host, unable, held, net.memory[0]), limit).places(keep_on)


def _sums(net: Network, blocks: Blocks, members: Members, device: int) -> tuple[Array, Array]:
    """Per ideal: the kernels' costs on a device, and how many blocks have none there."""
    rows = [[net.cost[value][device] for value in block] for block in blocks]
    return _added(members, [sum(cost or 0 for cost in row) for row in rows]), _added(members, [None in r for r in rows])


def _added(members: Members, numbers: Sequence[int]) -> Array:
    sums: Array = np.matmul(members, np.array(numbers, np.int64), dtype=np.int64)
    return sums


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """What ideals sum up to on one kind of device: kernels' costs, blocks that have none, bytes held."""

    work: Array
    barred: Array
    held: Array
    memory: int | None

    def fits(self, start: int, later: slice, limit: int) -> Mask:
        """Which of the later ideals add only what the device can do and hold, below the limit."""
        good: Mask = (self.barred[later] == self.barred[start]) & (self.work[later] - self.work[start] < limit)
        return good if self.memory is None else good & (self.held[later] - self.held[start] <= self.memory)


class _Hops:
    """What a device brings in and takes out for the difference of two ideals.

    Values that one block computes and the same blocks read are one hop: `made[ideal, hop]`, whether the ideal holds the
    block that computes it, and `read`, how many of those that read it. A value that the host reads at the end has a
    reader more, which no ideal holds.
    """

    def __init__(self, net: Network, blocks: Blocks, members: Members) -> None:
        at = {value: number for number, block in enumerate(blocks) for value in block}
        costs: dict[tuple[int, frozenset[int], bool], list[int]] = defaultdict(lambda: [0, 0])
        for value, readers in enumerate(net.readers):
            mine = costs[at[value], frozenset(at[r] for r in readers) - {at[value]}, value in net.wanted]
            mine[0] += net.into[value][-1]
            mine[1] += net.out[value][-1]
        hops = [(key, cost) for key, cost in costs.items() if any(cost) and (key[1] or key[2])]
        reads = np.zeros((len(blocks), len(hops)), np.float32)
        for column, ((_, readers_of, _), _) in enumerate(hops):
            reads[list(readers_of), column] = 1
        self.made = members[:, [home for (home, _, _), _ in hops]]
        self.read = (members.astype(np.float32) @ reads).astype(np.int16)
        self.readers = np.array([len(mine) + wanted for (_, mine, wanted), _ in hops], np.int16)
        self.into = np.array([cost[0] for _, cost in hops], np.int64)
        self.out = np.array([cost[1] for _, cost in hops], np.int64)
        leaves, enters = self.made & (self.read < self.readers), ~self.made & (self.read > 0)
        self.alone: Array = leaves @ self.out + enters @ self.into
        self._begun = leaves | enters

    def between(self, start: int, ends: Array) -> Array:
        """For each of the ends: what was not begun at the start costs what it would from nothing."""
        begun = np.flatnonzero(self._begun[start])
        rows = np.ix_(ends, begun)
        made, read, readers = self.made[rows], self.read[rows], self.readers[begun]
        mine, known = self.made[start, begun], self.read[start, begun]
        leaves = (made & ~mine & (read - known < readers)).astype(np.int64) - (made & (read < readers))
        enters = ((made == mine) & (read > known)).astype(np.int64) - (~made & (read > 0))
        cost: Array = self.alone[ends] + leaves @ self.out[begun] + enters @ self.into[begun]
        return cost


class _Chains:
    """`level[host used, devices used, ideal]`: the least load of the busiest so far; `before`: the ideal it grew from.

    An ideal that grew on the host has that one as -1 - ideal.
    """

    def __init__(
        self, net: Network, blocks: Blocks, members: Members, own: _Kind, host: _Kind, limit: int
    ) -> None:  # fmt: skip
        self.net, self.blocks, self.members, self.own, self.host, self.limit = net, blocks, members, own, host, limit
        self.words = words_of(members)
        self.hops = _Hops(net, blocks, members)
        self.level = np.full((2, net.devices, len(members)), FAR, np.int64)
        self.before = np.zeros(self.level.shape, np.int32)
        self.level[0, 0, 0] = 0

    def places(self, keep_on: Callable[[], bool]) -> list[int] | None:
        room = self._room()
        for start in range(len(self.members) - 1):
            if not start % 16 and not keep_on():
                raise TimeoutError
            left = self.own.work[-1] - self.own.work[start]
            known = np.where(left < room, self.level[:, :, start], FAR)
            if known.min() < self.limit:
                self._grow(start, known)
        last = self.level[:, :, -1]
        if last.min() >= self.limit:
            return None
        host, used = (int(n) for n in np.unravel_index(int(last.argmin()), last.shape))
        return self._traced(host, used)

    def _room(self) -> NDArray[np.float64]:
        """[host used, devices used]: how much of the devices' work can still be done below the limit, at most."""
        net, blocks, limit = self.net, self.blocks, float(self.limit)  # twice the limit may pass 64 bits
        counts = np.arange(net.devices)[::-1].astype(np.float64)
        most = 0.0  # the work that the host takes off devices, per time of its own
        for block in blocks:
            mine, host = (sum(net.cost[value][d] or 0 for value in block) for d in (min(1, net.devices - 1), 0))
            most = max(most, mine / host if host else math.inf if mine else 0.0)
        return np.array([(counts + most) * limit, counts * limit]) + 1.0

    def _grow(self, start: int, known: Array) -> None:
        stop = int(np.searchsorted(self.own.work, self.own.work[start] + self.limit))
        ends = self._above(start, slice(start + 1, stop), self.own)
        if len(ends):
            loads = self.own.work[ends] - self.own.work[start] + self.hops.between(start, ends)
            ends, loads = ends[loads < self.limit], loads[loads < self.limit]
            for host in (0, 1):
                for used in range(self.net.devices - 1):
                    self._offer(host, used + 1, ends, np.maximum(loads, known[host, used]), start)
        if known[0].min() < self.limit:
            ends = self._above(start, slice(start + 1, len(self.members)), self.host)
            loads = self.host.work[ends] - self.host.work[start]
            for used in range(self.net.devices):
                self._offer(1, used, ends, np.maximum(loads, known[0, used]), -1 - start)

    def _above(self, start: int, later: slice, kind: _Kind) -> Array:
        """The later ideals that hold all of this one, and what a device of this kind can do beside it."""
        mine = self.words[start]
        good = kind.fits(start, later, self.limit) & ((self.words[later] & mine) == mine).all(1)
        ends: Array = np.flatnonzero(good) + later.start
        return ends

    def _offer(self, host: int, used: int, ends: Array, loads: Array, before: int) -> None:
        better = loads < np.minimum(self.level[host, used, ends], self.limit)
        self.level[host, used, ends[better]] = loads[better]
        self.before[host, used, ends[better]] = before

    def _traced(self, host: int, used: int) -> list[int]:
        places = [0] * len(self.net.cost)
        end = len(self.members) - 1
        while end:
            before = int(self.before[host, used, end])
            start = before if before >= 0 else -1 - before
            added = self.members[end] & ~self.members[start]
            for value in (v for block, new in zip(self.blocks, added, strict=True) if new for v in block):
                places[value] = used if before >= 0 else 0
            host, used, end = (host, used - 1, start) if before >= 0 else (0, used, start)
        return places
