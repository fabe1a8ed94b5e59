"""Whether sets of a network are contiguous: no way leads out of one and back in.

In: a network, and the values whose order matters. Out: a check of the devices of a placement, from bits of what comes
before and after each group. Between sets that are contiguous, ways may still lead both there and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rewrite_engine.egraph.needs import union
from rewrite_engine.egraph.objectives.calls import Network


class Convex:
    """Per group: its values, what leads to them and what they lead to, as bits. `late` values order nothing."""

    def __init__(self, net: Network, late: frozenset[int] = frozenset()) -> None:
        up, down = [0] * len(net.cost), [0] * len(net.cost)
        early = [value for value in net.order if value not in late]
        for value in early:
            for operand in net.reads[value]:
                if operand not in late:
                    up[value] |= up[operand] | 1 << operand
        for value in reversed(early):
            for reader in net.readers[value]:
                if reader not in late:
                    down[value] |= down[reader] | 1 << reader
        self._net = net
        self._mine = [union(1 << value for value in group if value not in late) for group in net.groups]
        self._up = [union(up[value] for value in group) for group in net.groups]
        self._down = [union(down[value] for value in group) for group in net.groups]

    def holds(self, places: Sequence[int], devices: Iterable[int]) -> bool:
        """Whether the sets of these devices are contiguous."""
        wanted = set(devices)
        sums = {device: [0, 0, 0] for device in wanted}
        for number, group in enumerate(self._net.groups):
            if places[group[0]] in wanted:
                mine = sums[places[group[0]]]
                mine[0] |= self._mine[number]
                mine[1] |= self._up[number]
                mine[2] |= self._down[number]
        return all(not up & down & ~own for own, up, down in sums.values())
