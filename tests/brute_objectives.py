"""The best makespan and throughput of small problems by trying everything; beside `brute_force`, which does latency.

Nothing here is shared with the package but the types of a problem. What serves a read is the cheapest computed or given
value, as the package defines it: the least cost, where the value is there already before where it is copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from brute_force import _has_order, _selections, partitions

from rewrite_engine.egraph.problem import Kernel, Problem

Region = list[Kernel]
Service = dict[tuple[int, int], tuple[int, int, int]]  # (value, device) -> (cost, region or -1, from device)


def best_throughput(problem: Problem, limit: int, budget: int = 20_000) -> int | None:
    """The least load of the busiest device, where it is at most `limit`; TimeoutError beyond the budget."""
    return _best(problem, "throughput", limit, budget)


def best_makespan(problem: Problem, limit: int, budget: int = 20_000) -> int | None:
    """The least time until every output is there, over all orders of the regions, where it is at most `limit`."""
    return _best(problem, "makespan", limit, budget)


def _best(problem: Problem, objective: str, limit: int, budget: int) -> int | None:
    best = limit + 1
    for regions, service in answers(problem, limit, budget, copied=objective == "throughput"):
        best = min(best, price_of(problem, objective, regions, service, best - 1))
    return None if best > limit else best


def price_of(problem: Problem, objective: str, regions: list[Region], service: Service, limit: int) -> int:
    """What an answer costs, where that is at most `limit`; else more than that."""
    if objective == "makespan":
        return _earliest(problem, regions, service, limit)
    load = [0] * len(problem.devices)
    for region in regions:
        target = problem.targets[region[0].target]
        load[target.device] += target.launch + sum(kernel.cost for kernel in region)
    for (_, device), (cost, _, source) in service.items():
        if source != device:
            for end in (source, device):
                load[end] += cost if end else 0
    return max(load)


def _earliest(problem: Problem, regions: list[Region], service: Service, limit: int) -> int:
    waits: list[list[tuple[int, int]]] = []
    for region in regions:
        waits.append([(service[need][1], service[need][0]) for need in _needs(problem, region)])
    roots = [service[root] for root in problem.roots if root[0] not in problem.resident]
    best = limit + 1
    spent = [problem.targets[r[0].target].launch + sum(k.cost for k in r) for r in regions]
    homes = [problem.targets[r[0].target].device for r in regions]
    after = [0] * len(regions)  # from the end of a region to the end of all, were every device free
    for cost, by, _ in roots:
        if by >= 0:
            after[by] = max(after[by], cost)
    for _ in regions:
        for number, mine in enumerate(waits):
            for by, cost in mine:
                if by >= 0:
                    after[by] = max(after[by], cost + spent[number] + after[number])
    if any(sum(s for s, h in zip(spent, homes, strict=True) if h == device) >= best for device in set(homes)):
        return best

    steps = [3000]

    def run(done: dict[int, int], free: dict[int, int]) -> None:
        nonlocal best
        steps[0] -= 1
        if steps[0] < 0:
            raise TimeoutError
        if len(done) == len(regions):
            best = min(best, max((cost + (done[by] if by >= 0 else 0) for cost, by, _ in roots), default=0))
            return
        for number, region in enumerate(regions):
            if number in done or any(by >= 0 and by not in done for by, _ in waits[number]):
                continue
            target = problem.targets[region[0].target]
            start = max(
                [free.get(target.device, 0), *(cost + (done[by] if by >= 0 else 0) for by, cost in waits[number])]
            )
            end = start + target.launch + sum(kernel.cost for kernel in region)
            if end + after[number] < best:
                run({**done, number: end}, {**free, target.device: end})

    run({}, {})
    return best


def answers(problem: Problem, limit: int, budget: int, copied: bool) -> Iterator[tuple[list[Region], Service]]:
    """Kernels, regions of them and the cheapest service that can run: all where no device is busy beyond `limit`.

    Where copies are `copied` they keep a device busy, too, each at least one.
    """
    steps = [budget]
    total = limit * len(problem.devices) + 1
    for chosen, _ in _selections(problem, [total], steps, copied, limit):
        kernels = [problem.kernels[k] for k in chosen]
        least = [0] * len(problem.devices)
        for target in {kernel.target for kernel in kernels}:
            least[problem.targets[target].device] += problem.targets[target].launch
        for kernel in kernels:
            least[problem.targets[kernel.target].device] += kernel.cost
        if max(least) > limit or (not copied and _chain(problem, kernels) > limit):
            continue
        base = sum(kernel.cost for kernel in kernels)
        for _, parts in partitions(problem, kernels, base, [total]):
            steps[0] -= 1
            if steps[0] < 0:
                raise TimeoutError
            regions = [[kernels[k] for k in part] for part in parts]
            work = [0] * len(problem.devices)
            for region in regions:
                info = problem.targets[region[0].target]
                work[info.device] += info.launch + sum(kernel.cost for kernel in region)
            if max(work) > limit:
                continue
            service = service_of(problem, regions)
            if service is not None:
                yield regions, service


def _chain(problem: Problem, kernels: list[Kernel]) -> int:
    """The longest chain of kernels and copies to an output, launches between kernels of one target apart."""
    ready: dict[tuple[int, int], int] = dict.fromkeys(problem.given, 0)
    ends: dict[int, int] = {}
    for _ in kernels:
        for number, kernel in enumerate(kernels):
            home = problem.targets[kernel.target].device
            begin = problem.targets[kernel.target].launch
            for read in kernel.reads:
                if read.value not in problem.resident:
                    begin = max(begin, _there(problem, ready, read.value, home if read.device is None else read.device))
            ends[number] = begin + kernel.cost
        ready = dict.fromkeys(problem.given, 0)
        for number, kernel in enumerate(kernels):
            place = (kernel.value, problem.targets[kernel.target].device)
            ready[place] = min(ready.get(place, ends[number]), ends[number])
    return max((_there(problem, ready, v, d) for v, d in problem.roots if v not in problem.resident), default=0)


def _there(problem: Problem, ready: dict[tuple[int, int], int], value: int, device: int) -> int:
    """When a value is in a memory at the earliest; 0 where that is not known."""
    ways = [
        time + (0 if source == device else problem.copies.get((value, source, device), 10**9))
        for (other, source), time in ready.items()
        if other == value
    ]
    return min(ways, default=0)


def _needs(problem: Problem, region: Region) -> list[tuple[int, int]]:
    device = problem.targets[region[0].target].device
    made = {kernel.value for kernel in region}
    needs = []
    for read in (read for kernel in region for read in kernel.reads):
        if read.value not in problem.resident and not (read.value in made and read.device in (None, device)):
            needs.append((read.value, device if read.device is None else read.device))
    return needs


def service_of(problem: Problem, regions: list[Region]) -> Service | None:
    """The cheapest service of every need, all combinations in the order of their cost until one can run."""
    roots = [root for root in problem.roots if root[0] not in problem.resident]
    needs = list(dict.fromkeys([n for region in regions for n in _needs(problem, region)] + roots))
    options = []
    for value, device in needs:
        ways = []
        holders = [(-1, d) for v, d in sorted(problem.given) if v == value]
        if value not in problem.solo:
            for number, region in enumerate(regions):
                home = problem.targets[region[0].target].device
                holders += [(number, home) for kernel in region if kernel.value == value]
        for number, home in holders:
            cost = 0 if home == device else problem.copies.get((value, home, device))
            if cost is not None:
                ways.append((cost, number, home))
        options.append(sorted(ways, key=lambda way: (way[0], way[2] != device, way[1], way[2])))
    if any(not _runs_inside(region) for region in regions):
        return None
    for picked in sorted(itertools.product(*options), key=lambda ways: sum(way[0] for way in ways)):
        service = dict(zip(needs, picked, strict=True))
        edges = {(service[n][1], r) for r, region in enumerate(regions) for n in _needs(problem, region)}
        if _has_order(len(regions), {(a, b) for a, b in edges if a >= 0}):
            return service
    return None


def _runs_inside(region: Region) -> bool:
    edges = {
        (a, b)
        for a, b in itertools.product(range(len(region)), repeat=2)
        if any(read.value == region[a].value for read in region[b].reads)
    }
    return _has_order(len(region), edges)
