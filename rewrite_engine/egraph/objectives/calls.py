"""Devices that are called: one call per device brings what it reads, computes and takes the results back, in sequence.

In: a problem, and what it does not say: bytes, memories, values that stay together. Out: a network of whole numbers,
and the latency and loads of a placement in it. The host computes any number of values at once and pays for no copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.problem import Problem

Places = Sequence[int]
"""The device of every value."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Bytes that a value's kernel holds on its device, what devices have (None: enough), and values of one device."""

    sizes: tuple[int, ...]
    memory: tuple[int | None, ...]
    together: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Values 0..n-1 with `cost[value][device]` (None: no kernel), bytes, and the cost to bring one in or out.

    `groups` are the values that share a device, `group_of` the group of each; `order` has producers first.
    """

    reads: tuple[tuple[int, ...], ...]
    readers: tuple[tuple[int, ...], ...]
    cost: tuple[tuple[int | None, ...], ...]
    into: tuple[tuple[int, ...], ...]
    out: tuple[tuple[int, ...], ...]
    wanted: frozenset[int]  # values read on the host at the end
    sizes: tuple[int, ...]
    memory: tuple[int | None, ...]
    groups: tuple[tuple[int, ...], ...]
    group_of: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def devices(self) -> int:
        return len(self.memory)


def network(problem: Problem, holdings: Holdings) -> Network:
    """The network of a problem. Raises RewriteError where it has what calls do not know: two targets of a device,
    launches, values of several results, kernels that read different operands, copies that are missing."""
    devices, count = len(problem.devices), problem.values
    if len({t.device for t in problem.targets}) < len(problem.targets) or any(t.launch for t in problem.targets):
        raise RewriteError("expected one target per device, without launches")
    if problem.solo or problem.given or problem.resident:
        raise RewriteError("expected a problem whose values are all computed, each a single result")
    cost: list[list[int | None]] = [[None] * devices for _ in range(count)]
    reads: list[tuple[int, ...] | None] = [None] * count
    for kernel in problem.kernels:
        device = problem.targets[kernel.target].device
        mine = tuple(dict.fromkeys(read.value for read in kernel.reads))
        if reads[kernel.value] not in (None, mine) or cost[kernel.value][device] is not None:
            raise RewriteError(
                f"{problem.names[kernel.value]}: expected one kernel per device, all of the same operands"
            )
        reads[kernel.value] = mine
        cost[kernel.value][device] = kernel.cost
    operands = tuple(mine or () for mine in reads)
    readers: list[list[int]] = [[] for _ in range(count)]
    for value, mine in enumerate(operands):
        for operand in mine:
            readers[operand].append(value)
    hops = range(1, devices)
    into = tuple((0, *(problem.copies.get((value, 0, d), 0) for d in hops)) for value in range(count))
    out = tuple((0, *(problem.copies.get((value, d, 0), 0) for d in hops)) for value in range(count))
    groups = _groups(count, holdings.together)
    return Network(
        reads=operands,
        readers=tuple(map(tuple, readers)),
        cost=tuple(map(tuple, cost)),
        into=into,
        out=out,
        wanted=frozenset(value for value, _ in problem.roots),
        sizes=holdings.sizes,
        memory=holdings.memory,
        groups=groups,
        group_of=_homes(count, groups),
        order=_producers_first(operands, readers),
    )


def _homes(count: int, groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    home = [0] * count
    for number, group in enumerate(groups):
        for value in group:
            home[value] = number
    return tuple(home)


def _groups(count: int, together: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """All values in groups; sets that share a value are one group."""
    parent = list(range(count))

    def find(value: int) -> int:
        while parent[value] != value:
            parent[value] = value = parent[parent[value]]
        return value

    for mine in together:
        for value in mine[1:]:
            low, high = sorted((find(mine[0]), find(value)))
            parent[high] = low
    found: dict[int, list[int]] = {}
    for value in range(count):
        found.setdefault(find(value), []).append(value)
    return tuple(map(tuple, found.values()))


def _producers_first(reads: Sequence[Sequence[int]], readers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    left = [len(mine) for mine in reads]
    order = [value for value, missing in enumerate(left) if not missing]
    for value in order:
        for reader in readers[value]:
            left[reader] -= 1
            if not left[reader]:
                order.append(reader)
    if len(order) < len(reads):
        raise RewriteError("expected values that do not lead back to themselves")
    return tuple(order)


def works(net: Network, places: Places) -> list[int]:
    """How long each device is busy: kernels, every value it brings in, every value it takes out, each once."""
    work = [0] * net.devices
    for value, device in enumerate(places):
        cost = net.cost[value][device]
        assert cost is not None, "a placement names kernels that there are"
        work[device] += cost
        others = {places[reader] for reader in net.readers[value]}
        if value in net.wanted:
            others.add(0)
        others.discard(device)
        if others:
            work[device] += net.out[value][device]
            for other in others:
                work[other] += net.into[value][other]
    return work


def fits(net: Network, places: Places) -> bool:
    """Whether every value has a kernel where it is, groups are in one place, and memories hold what is there."""
    used = [0] * net.devices
    for value, device in enumerate(places):
        used[device] += net.sizes[value]
        if net.cost[value][device] is None:
            return False
    apart = any(len({places[value] for value in group}) > 1 for group in net.groups)
    return not apart and all(limit is None or mine <= limit for mine, limit in zip(used, net.memory, strict=True))


def ends(net: Network, places: Places) -> list[int] | None:
    """When each value is there; None where calls wait for each other.

    A call starts when everything it reads is there, and all its results are there when it ends.
    """
    count = len(places)
    work = works(net, places)
    unit = [count + device if device else value for value, device in enumerate(places)]
    left = [0] * (count + net.devices)
    members: list[list[int]] = [[] for _ in range(net.devices)]
    for value, device in enumerate(places):
        mine = unit[value]
        if device:
            members[device].append(value)
        for operand in net.reads[value]:
            if unit[operand] != mine:
                left[mine] += 1
    ready = [0] * (count + net.devices)
    end = [0] * count
    todo = [u for u in dict.fromkeys(unit) if not left[u]]
    done = 0
    for u in todo:
        if u < count:
            cost = net.cost[u][0]
            assert cost is not None
            last, results = ready[u] + cost, [u]
        else:
            last, results = ready[u] + work[u - count], members[u - count]
        done += len(results)
        for value in results:
            end[value] = last
            for reader in net.readers[value]:
                other = unit[reader]
                if other != u:
                    if last > ready[other]:
                        ready[other] = last
                    left[other] -= 1
                    if not left[other]:
                        todo.append(other)
    return end if done == count else None


def latency(net: Network, places: Places) -> int | None:
    """When the last value is there; None where calls wait for each other."""
    found = ends(net, places)
    return None if found is None else max(found, default=0)
