"""What runs at the same time as what: regions as tasks on their devices, copies as delays between them.

In: a problem and regions. Out: tasks, and when each of them starts and ends. A device runs one region at a time; a
region starts when all it reads has arrived and its results are there when it ends; links carry any number of copies at
once, and a copy starts when its value is there.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.problem import Kernel, Memory, Problem
from rewrite_engine.egraph.supply import INPUT, region_needs, supply


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """Tasks 0..n-1. `before[t]` are (task, delay) pairs; `release[t]` is when its inputs have arrived, `tail[t]` how
    long after its end the last output has. `least` is when outputs that no task computes have arrived."""

    durations: Sequence[int]
    devices: Sequence[int]
    before: Sequence[Sequence[tuple[int, int]]]
    release: Sequence[int]
    tail: Sequence[int]
    least: int = 0


Sources = Mapping[Memory, tuple[int, int]]  # per need: the region that has it (INPUT: given) and the delay until there


def tasks_of(problem: Problem, regions: Sequence[Sequence[Kernel]], sources: Sources | None = None) -> Tasks | None:
    """The tasks of regions that run on `sources`, by default the cheapest; None where a need has no source."""
    needs = region_needs(problem, regions)
    if sources is None:
        sources = _sources(problem, regions, needs)
        if sources is None:
            return None
    durations = [problem.targets[r[0].target].launch + sum(k.cost for k in r) for r in regions]
    devices = [problem.targets[region[0].target].device for region in regions]
    before: list[list[tuple[int, int]]] = []
    release = []
    for region in needs:
        found = [sources[need] for need in region]
        before.append([(source, delay) for source, delay in found if source != INPUT])
        release.append(max((delay for source, delay in found if source == INPUT), default=0))
    tail, least = [0] * len(regions), 0
    for root in problem.roots:
        if root[0] in problem.resident:
            continue
        source, delay = sources[root]
        if source == INPUT:
            least = max(least, delay)
        else:
            tail[source] = max(tail[source], delay)
    return Tasks(durations, devices, before, release, tail, least)


def tasks_alone(problem: Problem, numbers: Sequence[int], reads: Sequence[Sequence[Memory]]) -> Tasks | None:
    """The tasks of kernels that are regions of their own, given what each kernel of the problem reads.

    The same as `tasks_of`, quicker; None also where a value is computed twice.
    """
    durations, devices, before, release = [], [], [], []
    home: dict[int, tuple[int, int]] = {value: (INPUT, device) for value, device in problem.given}
    if len(home) < len(problem.given):
        return None
    copies = problem.copies
    for place, number in enumerate(numbers):
        kernel = problem.kernels[number]
        device = problem.targets[kernel.target].device
        arrivals, ready = [], 0
        for value, where in reads[number]:
            source, origin = home[value]
            delay = 0 if origin == where else copies.get((value, origin, where))
            if delay is None:
                return None
            if source == INPUT:
                ready = max(ready, delay)
            else:
                arrivals.append((source, delay))
        if kernel.value in home:
            return None
        home[kernel.value] = place, device
        durations.append(kernel.cost)
        devices.append(device)
        before.append(arrivals)
        release.append(ready)
    tail, least = [0] * len(numbers), 0
    for value, where in problem.roots:
        if value in problem.resident:
            continue
        source, origin = home[value]
        delay = 0 if origin == where else copies.get((value, origin, where))
        if delay is None:
            return None
        if source == INPUT:
            least = max(least, delay)
        else:
            tail[source] = max(tail[source], delay)
    return Tasks(durations, devices, before, release, tail, least)


def _sources(
    problem: Problem, regions: Sequence[Sequence[Kernel]], needs: Sequence[Sequence[Memory]]
) -> dict[Memory, tuple[int, int]] | None:
    """The only source of every need, or where there are several the cheapest ones that let everything run."""
    held: dict[int, list[tuple[int, int]]] = {}
    for value, device in sorted(problem.given):
        held.setdefault(value, []).append((INPUT, device))
    several = False
    for number, region in enumerate(regions):
        for kernel in region:
            if kernel.value not in problem.solo:
                mine = held.setdefault(kernel.value, [])
                several |= bool(mine)
                mine.append((number, problem.targets[kernel.target].device))
    wanted = dict.fromkeys([need for region in needs for need in region])
    wanted |= dict.fromkeys(root for root in problem.roots if root[0] not in problem.resident)
    found: dict[Memory, tuple[int, int]] = {}
    if several:
        if any(not held.get(value) for value, _ in wanted):
            return None
        plan = supply(problem, regions)
        return None if plan.stuck else {need: (s.region, s.cost) for need, s in plan.sources.items()}
    for value, device in wanted:
        if value not in held:
            return None
        number, source = held[value][0]
        delay = 0 if source == device else problem.copies.get((value, source, device))
        if delay is None:
            return None
        found[value, device] = number, delay
    return found


def ranks(tasks: Tasks) -> tuple[list[int], list[int]] | None:
    """How long it takes from the start of each task to the end of all, resources apart, and tasks in an order in which
    all come before what they wait for; None where they form a cycle."""
    count = len(tasks.durations)
    left = [0] * count
    for befores in tasks.before:
        for task, _ in befores:
            left[task] += 1
    ready = [task for task in range(count) if not left[task]]
    after = list(tasks.tail)
    order = []
    while ready:
        task = ready.pop()
        order.append(task)
        rank = after[task] = after[task] + tasks.durations[task]
        for earlier, delay in tasks.before[task]:
            after[earlier] = max(after[earlier], rank + delay)
            left[earlier] -= 1
            if not left[earlier]:
                ready.append(earlier)
    return (after, order) if len(order) == count else None


def schedule(tasks: Tasks, priority: Sequence[float] | None = None) -> tuple[int, list[int]] | None:
    """The makespan and the start of every task by list scheduling; None where tasks form a cycle.

    Tasks are taken by `priority` (default: their ranks), largest first, but never before one that they wait for, and
    start in the first gap of their device that is long enough.
    """
    found = ranks(tasks)
    if found is None:
        return None
    rank, order = found
    count = len(rank)
    if priority is None:
        producers_first = order[::-1]  # equal ranks stay in this order
        sequence = sorted(producers_first, key=rank.__getitem__, reverse=True)
    else:
        sequence = _topological(tasks, priority)
    starts, ends = [0] * count, [0] * count
    busy: dict[int, list[tuple[int, int]]] = {device: [] for device in tasks.devices}
    longest = tasks.least
    for task in sequence:
        ready = tasks.release[task]
        for earlier, delay in tasks.before[task]:
            arrived = ends[earlier] + delay
            if arrived > ready:
                ready = arrived
        duration = tasks.durations[task]
        start = _gap(busy[tasks.devices[task]], ready, duration)
        starts[task], ends[task] = start, start + duration
        if duration:
            insort(busy[tasks.devices[task]], (start, start + duration))
        longest = max(longest, start + duration + tasks.tail[task])
    return longest, starts


def _topological(tasks: Tasks, priority: Sequence[float]) -> list[int]:
    import heapq

    count = len(tasks.durations)
    after: list[list[int]] = [[] for _ in range(count)]
    left = [len(before) for before in tasks.before]
    for task, before in enumerate(tasks.before):
        for earlier, _ in before:
            after[earlier].append(task)
    ready = [(-priority[task], task) for task in range(count) if not left[task]]
    heapq.heapify(ready)
    sequence = []
    while ready:
        _, task = heapq.heappop(ready)
        sequence.append(task)
        for later in after[task]:
            left[later] -= 1
            if not left[later]:
                heapq.heappush(ready, (-priority[later], later))
    return sequence


def _gap(busy: list[tuple[int, int]], ready: int, duration: int) -> int:
    """The first time from `ready` on at which a device is free for long enough."""
    if not busy or busy[-1][1] <= ready:
        return ready
    low, high = 0, len(busy)
    while low < high:  # intervals that end before `ready` cannot matter
        middle = (low + high) // 2
        if busy[middle][1] <= ready:
            low = middle + 1
        else:
            high = middle
    for start, end in busy[low:]:
        if ready + duration <= start:
            return ready
        ready = max(ready, end)
    return ready


def best_schedule(tasks: Tasks, limit: int, budget: int) -> tuple[int | None, bool]:
    """The least makespan below `limit` over all orders, and whether that is certain (the budget of steps sufficed).

    Of the tasks that could go next, one ends first; some task that could start on its device before that goes next
    there in a best order (Giffler and Thompson), so no others are tried.
    """
    ranked = ranks(tasks)
    if ranked is None:
        return None, True
    rank, _ = ranked
    best = limit
    if tasks.least >= limit:
        return None, True
    work = dict.fromkeys(tasks.devices, 0)
    for device, duration in zip(tasks.devices, tasks.durations, strict=True):
        work[device] += duration
    start = _Run({}, dict.fromkeys(tasks.devices, 0), work, tasks.least)
    stack = [start]
    while stack:
        run = stack.pop()
        budget -= 1
        if budget < 0:
            return (best if best < limit else None), False
        if run.longest >= best:
            continue
        if len(run.ends) == len(rank):
            best = run.longest
            continue
        starts = _starts(tasks, run)
        if any(begin + rank[task] >= best for task, begin in starts.items()):
            continue
        if any(run.free[device] + left >= best for device, left in run.left.items() if left):
            continue
        first = min(starts, key=lambda task: (starts[task] + tasks.durations[task], task))
        device, end = tasks.devices[first], starts[first] + tasks.durations[first]
        rivals = [t for t, begin in starts.items() if tasks.devices[t] == device and (begin < end or t == first)]
        stack += [_after(tasks, run, task, starts[task]) for task in sorted(rivals, key=lambda t: (rank[t], t))]
    return (best if best < limit else None), True


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Tasks that have been given a time: their `ends`; per device when it is free and the work left for it."""

    ends: dict[int, int]
    free: dict[int, int]
    left: dict[int, int]
    longest: int


def _starts(tasks: Tasks, run: _Run) -> dict[int, int]:
    """When each task that waits for none could start."""
    found = {}
    for task, before in enumerate(tasks.before):
        if task not in run.ends and all(earlier in run.ends for earlier, _ in before):
            arrived = (run.ends[earlier] + delay for earlier, delay in before)
            found[task] = max(tasks.release[task], run.free[tasks.devices[task]], *arrived)
    return found


def _after(tasks: Tasks, run: _Run, task: int, start: int) -> _Run:
    end, device = start + tasks.durations[task], tasks.devices[task]
    left = {**run.left, device: run.left[device] - tasks.durations[task]}
    longest = max(run.longest, end + tasks.tail[task])
    return _Run({**run.ends, task: end}, {**run.free, device: end}, left, longest)
