"""Who supplies every read from memory, at the least cost, such that the regions can run one after another.

In: kernels grouped into regions. Out: one supplier per (value, device) that is read, and an order of the regions. A
supplier is the region whose kernel computed the value there or where the copy starts, or an input of the graph.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.problem import Kernel, Memory, Problem

INPUT = -1  # the supplier of a value that is given
_MOST_TRIES = 2000


@dataclass(frozen=True, slots=True)
class Source:
    """One way to get a value into a memory: `region` computed it on `device`, from where it may be `copied`."""

    cost: int
    copied: bool
    region: int  # INPUT: given
    device: int


@dataclass(frozen=True, slots=True, eq=False)
class Supply:
    """`order` of the regions, `sources` of the needs, cheapest first; `stuck` regions wait for each other for ever."""

    order: tuple[int, ...]
    sources: Mapping[Memory, Source]
    cost: int
    stuck: tuple[int, ...] = ()


def region_needs(problem: Problem, regions: Sequence[Sequence[Kernel]]) -> list[list[Memory]]:
    """Per region, what its kernels read from memory, in order. Constants are everywhere and need nothing."""
    return [_needs(problem, region) for region in regions]


def reads_inside(problem: Problem, kernel: Kernel, value: int, device: int | None, made: frozenset[int]) -> bool:
    """Whether an operand comes from the kernel's own region, which computes the values `made`.

    A read from the memory of the kernel's own device counts as one from its region: there it is the same memory.
    """
    return value in made and device in (None, problem.targets[kernel.target].device)


def _needs(problem: Problem, region: Sequence[Kernel]) -> list[Memory]:
    made = frozenset(kernel.value for kernel in region)
    needs: dict[Memory, None] = {}
    for kernel in region:
        for read in kernel.reads:
            if read.value in problem.resident or reads_inside(problem, kernel, read.value, read.device, made):
                continue
            device = problem.targets[kernel.target].device if read.device is None else read.device
            needs[read.value, device] = None
    return list(needs)


def sources_of(
    problem: Problem, regions: Sequence[Sequence[Kernel]], needs: Sequence[Memory]
) -> dict[Memory, list[Source]]:
    """All ways to serve every need, cheapest first; a value of several results never leaves its region."""
    held: dict[int, list[tuple[int, int]]] = defaultdict(list)  # value -> (region, device)
    for value, device in sorted(problem.given):
        held[value].append((INPUT, device))
    for number, region in enumerate(regions):
        for kernel in region:
            if kernel.value not in problem.solo:
                held[kernel.value].append((number, problem.targets[kernel.target].device))
    result = {}
    for value, device in needs:
        found = []
        for region_number, source in held[value]:
            if source == device:
                found.append(Source(0, False, region_number, source))
            elif (value, source, device) in problem.copies:
                found.append(Source(problem.copies[value, source, device], True, region_number, source))
        result[value, device] = sorted(found, key=lambda s: (s.cost, s.copied, s.region, s.device))
    return result


def supply(problem: Problem, regions: Sequence[Sequence[Kernel]]) -> Supply:
    """The cheapest supply that lets all regions run; every need must have a source (see `sources_of`).

    Regions are scheduled with any of the cheapest sources; where that gets stuck, dearer sources of the needs that wait
    are admitted, the cheapest combination first; after many of those, whatever runs. With one kernel per value there is
    nothing to choose.
    """
    region_reads = region_needs(problem, regions)
    roots = [root for root in dict.fromkeys(problem.roots) if root[0] not in problem.resident]
    needs = list(dict.fromkeys([need for reads in region_reads for need in reads] + roots))
    sources = sources_of(problem, regions, needs)
    prices = {need: sorted({source.cost for source in sources[need]}) for need in needs}
    base = sum(prices[need][0] for need in needs)
    queue: list[tuple[int, tuple[tuple[Memory, int], ...]]] = [(base, ())]
    seen = {queue[0][1]}
    for _ in range(_MOST_TRIES):
        if not queue:
            break
        cost, raised = heapq.heappop(queue)
        level = dict(raised)
        limit = {need: prices[need][level.get(need, 0)] for need in needs}
        order, waiting = _schedule(region_reads, sources, limit, len(regions))
        if len(order) == len(regions):
            return Supply(tuple(order), _settle(order, region_reads, needs, sources), cost)
        for need in waiting:
            step = level.get(need, 0) + 1
            if step < len(prices[need]):
                following = tuple(sorted({**level, need: step}.items()))
                if following not in seen:
                    seen.add(following)
                    heapq.heappush(queue, (cost + prices[need][step] - prices[need][step - 1], following))
    every = {need: prices[need][-1] for need in needs}
    order, _ = _schedule(region_reads, sources, every, len(regions))
    stuck = tuple(sorted(set(range(len(regions))) - set(order)))
    if stuck:
        return Supply(tuple(order), {}, base, stuck)
    settled = _settle(order, region_reads, needs, sources)
    return Supply(tuple(order), settled, sum(source.cost for source in settled.values()))


def _schedule(
    region_reads: Sequence[Sequence[Memory]],
    sources: Mapping[Memory, Sequence[Source]],
    limit: Mapping[Memory, int],
    count: int,
) -> tuple[list[int], list[Memory]]:
    """Runs regions whose needs are met by an admitted source, lowest number first; also returns what still waits."""
    readers: dict[Memory, list[int]] = defaultdict(list)
    feeds: dict[int, list[Memory]] = defaultdict(list)
    missing = [len(reads) for reads in region_reads]
    for region, reads in enumerate(region_reads):
        for need in reads:
            readers[need].append(region)
    met: set[Memory] = set()
    ready = [region for region in range(count) if not missing[region]]

    def meet(need: Memory) -> None:
        if need not in met:
            met.add(need)
            for region in readers[need]:
                missing[region] -= 1
                if not missing[region]:
                    heapq.heappush(ready, region)

    for need in readers:
        for source in sources[need]:
            if source.cost <= limit[need] and source.region != INPUT:
                feeds[source.region].append(need)
    for need in readers:
        if any(source.region == INPUT and source.cost <= limit[need] for source in sources[need]):
            meet(need)
    order = []
    while ready:
        region = heapq.heappop(ready)
        order.append(region)
        for need in feeds[region]:
            meet(need)
    return order, [need for need in readers if need not in met]


def _settle(
    order: Sequence[int],
    region_reads: Sequence[Sequence[Memory]],
    needs: Sequence[Memory],
    sources: Mapping[Memory, Sequence[Source]],
) -> dict[Memory, Source]:
    """The cheapest source of every need that is there when its first reader runs; outputs are read last."""
    position = {region: place for place, region in enumerate(order)}
    deadline = dict.fromkeys(needs, len(order))
    for region, reads in enumerate(region_reads):
        for need in reads:
            deadline[need] = min(deadline[need], position[region])
    return {
        need: next(s for s in sources[need] if s.region == INPUT or position[s.region] < deadline[need])
        for need in needs
    }
