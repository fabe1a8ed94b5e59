"""Placements that cut an order of blocks into intervals, one per device: exact for loads, a good guess for latency.

In: a network and blocks of values in an order. Out: places. A dynamic program over prefixes: the next block is computed
on the host, or an interval of blocks on the next device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.objectives.calls import Network

Blocks = Sequence[Sequence[int]]
FAR = 1 << 62


def growing(net: Network, blocks: Blocks, first: int, device: int) -> Iterator[tuple[int, int, list[int]]]:
    """(end, work, what the last block brings in) of intervals from `first` that fit the device, shortest first."""
    inside: dict[int, int] = {}  # how many of a value's readers are inside
    members: set[int] = set()
    work = held = 0
    memory = net.memory[device]
    for end in range(first, len(blocks)):
        fresh: list[int] = []
        for value in blocks[end]:
            cost = net.cost[value][device]
            held += net.sizes[value]
            if cost is None or (memory is not None and held > memory):
                return
            work += cost
            members.add(value)
            readers = len(net.readers[value]) + (value in net.wanted)
            known = inside.get(value, 0)
            if known:
                work -= net.into[value][device]
            if known < readers:
                work += net.out[value][device]
            for operand in net.reads[value]:
                count = inside[operand] = inside.get(operand, 0) + 1
                if operand in members:
                    if count == len(net.readers[operand]) + (operand in net.wanted):
                        work -= net.out[operand][device]
                elif count == 1:
                    work += net.into[operand][device]
                    fresh.append(operand)
        yield end + 1, work, fresh


def least_load_cut(net: Network, blocks: Blocks, limit: int = FAR) -> list[int] | None:
    """The cut of this order whose busiest device is busy the least; the host takes an interval as well.

    Devices other than the host must be alike; None where nothing fits or is below the limit.
    """
    count, kinds = len(blocks), (1, 0) if net.devices > 1 else (0,)
    most = net.devices - 1
    best: dict[tuple[int, int, int], tuple[int, tuple[int, int, int, int] | None]] = {(0, 0, 0): (0, None)}
    for start in range(count):
        states = [(k, h, best[start, k, h][0]) for k in range(most + 1) for h in (0, 1) if (start, k, h) in best]
        if not states:
            continue
        for device in kinds:
            for end, work, _ in growing(net, blocks, start, device):
                if work >= limit * 2:
                    break
                if work >= limit:
                    continue
                for used, host, level in states:
                    if (device and used == most) or (not device and host):
                        continue
                    key = (end, used + 1, host) if device else (end, used, 1)
                    highest = max(level, work)
                    if key not in best or highest < best[key][0]:
                        best[key] = (highest, (start, used, host, used + 1 if device else 0))
    final = [(found[0], key) for key, found in best.items() if key[0] == count]
    if not final:
        return None
    places = [0] * len(net.cost)
    key = min(final)[1]
    while (step := best[key][1]) is not None:
        start, used, host, device = step
        for block in blocks[start : key[0]]:
            for value in block:
                places[value] = device
        key = (start, used, host)
    return places


@dataclass(slots=True, eq=False)
class _State:
    """A prefix that is placed; `ends`, when its values are there, is filled in when the state is gone on from."""

    level: int  # no placement that begins like this one ends before
    start: int
    end: int
    device: int
    used: int
    finish: int
    before: _State | None
    ends: list[int] | None = None


def rests(net: Network) -> list[int]:
    """How long after a value is there the last one is, at the least."""
    rest = [0] * len(net.cost)
    fastest = [min(cost for cost in row if cost is not None) for row in net.cost]
    for value in reversed(net.order):
        for reader in net.readers[value]:
            rest[value] = max(rest[value], rest[reader] + fastest[reader])
    return rest


def _frontiers(net: Network, blocks: Blocks, rest: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Per length of prefix: its values that are read later, as (block, the least time from there to the end)."""
    at = {value: number for number, block in enumerate(blocks) for value in block}
    fastest = [min(cost for cost in row if cost is not None) for row in net.cost]
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(blocks) + 1)]
    for value in range(len(net.cost)):
        later = sorted((at[r], rest[r] + fastest[r]) for r in net.readers[value] if at[r] != at[value])
        longest = 0
        for number in range(len(later) - 1, -1, -1):
            longest = max(longest, later[number][1])
            first = later[number - 1][0] if number else at[value]
            for length in range(first + 1, later[number][0] + 1):
                found[length].append((at[value], longest))
    return found


def least_latency_cut(net: Network, blocks: Blocks, rest: Sequence[int]) -> list[int] | None:
    """A cut of this order (producers in earlier blocks) with a small latency; None where nothing fits.

    Of the placements of a prefix on so many devices only the one is kept from which the end looks nearest.
    """
    count, most = len(blocks), net.devices - 1
    frontiers = _frontiers(net, blocks, rest)
    kept: list[list[_State | None]] = [[None] * (most + 1) for _ in range(count + 1)]
    kept[0][0] = _State(0, 0, 0, 0, 0, 0, None)
    for start in range(count):
        supported = all(net.cost[value][0] is not None for value in blocks[start])
        states = [state for state in kept[start] if state is not None]
        known = [_ends(net, blocks, state) for state in states]
        for state, end in zip(states, known, strict=True):
            state.ends = end
        for state, end in zip(states, known, strict=True):
            if supported:
                level, mine = state.level, list(end)
                for value in blocks[start]:
                    mine[value] = _on_host(net, value, mine)
                    level = max(level, mine[value] + rest[value])
                _keep(kept[start + 1], _State(level, start, start + 1, 0, state.used, 0, state))
        going = [(state, end, [0]) for state, end in zip(states, known, strict=True) if state.used < most]
        if not going:
            continue
        for stop, work, fresh in growing(net, blocks, start, 1):
            after = max((longest for block, longest in frontiers[stop] if block >= start), default=0)
            for state, end, ready in going:
                for value in fresh:
                    if end[value] > ready[0]:
                        ready[0] = end[value]
                finish = ready[0] + work
                level = max(state.level, finish + after)
                other = kept[stop][state.used + 1]
                if other is None or level < other.level:
                    kept[stop][state.used + 1] = _State(
                        level, start, stop, state.used + 1, state.used + 1, finish, state
                    )
    final = [state for state in kept[count] if state is not None]
    if not final:
        return None
    places = [0] * len(net.cost)
    state = min(final, key=lambda s: s.level)
    while state.before is not None:
        for block in blocks[state.start : state.end]:
            for value in block:
                places[value] = state.device
        state = state.before
    return places


def _on_host(net: Network, value: int, end: Sequence[int]) -> int:
    cost = net.cost[value][0]
    assert cost is not None
    return cost + max((end[operand] for operand in net.reads[value]), default=0)


def _keep(row: list[_State | None], state: _State) -> None:
    known = row[state.used]
    if known is None or state.level < known.level:
        row[state.used] = state


def _ends(net: Network, blocks: Blocks, state: _State) -> list[int]:
    if state.before is None:
        return [0] * len(net.cost)
    assert state.before.ends is not None, "states are gone on from in the order of their prefixes"
    end = list(state.before.ends)
    for block in blocks[state.start : state.end]:
        for value in block:
            end[value] = state.finish if state.device else _on_host(net, value, end)
    return end
