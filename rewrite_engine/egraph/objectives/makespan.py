"""The makespan: when the last output is there, with all devices working at once.

In: a problem and answers to start from. Out: a solution whose cost is its makespan, with a lower bound: the longest
chain of kernels and copies that no placement avoids, or the least load of the busiest device.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import Audit
from rewrite_engine.egraph.objectives.ends import Ends
from rewrite_engine.egraph.objectives.loads import Shares
from rewrite_engine.egraph.objectives.moves import Moves
from rewrite_engine.egraph.objectives.search import Best, improve
from rewrite_engine.egraph.objectives.small import enumerate_answers
from rewrite_engine.egraph.objectives.tasks import Tasks, best_schedule, ranks, schedule, tasks_alone, tasks_of
from rewrite_engine.egraph.objectives.throughput import bound_loads
from rewrite_engine.egraph.problem import Kernel, Memory, Problem, Solution
from rewrite_engine.egraph.regions import merge_regions

_ORDERS = 3000
"""Steps that a search over orders of regions may take."""


def price(problem: Problem, found: Audit) -> int:
    """The makespan of an audited answer."""
    return makespan(_tasks(problem, found))


def price_below(problem: Problem, found: Audit, limit: int) -> tuple[int, bool]:
    """The makespan of an audited answer, or `limit` where it is not less, and whether that is certain."""
    tasks = _tasks(problem, found)
    ranked = ranks(tasks)
    assert ranked is not None, "tasks form a cycle"
    if max((rank + tasks.release[task] for task, rank in enumerate(ranked[0])), default=0) >= limit:
        return limit, True
    listed = schedule(tasks)
    assert listed is not None
    better, certain = best_schedule(tasks, min(limit, listed[0]), _ORDERS)
    return min(limit, listed[0] if better is None else better), certain


def _tasks(problem: Problem, found: Audit) -> Tasks:
    regions = [[problem.kernels[k] for k in region] for region in found.regions]
    tasks = tasks_of(problem, regions)
    assert tasks is not None, "the audit has found a source for every need"
    return tasks


def makespan(tasks: Tasks) -> int:
    """The least makespan that is found: exact for a few tasks, by list scheduling for many."""
    found = schedule(tasks)
    assert found is not None, "tasks form a cycle"
    if len(tasks.durations) <= 12:
        better, _ = best_schedule(tasks, found[0], _ORDERS)
        return found[0] if better is None else better
    return found[0]


def solve_makespan(
    problem: Problem,
    starts: Sequence[Solution],
    *,
    time_limit: float | None = None,
    gap: Fraction | float = 0,
    tries: int | None = None,
    seed: int = 0,
    budget: int = 40_000,
) -> Solution:
    """The best placement found from `starts`; status "optimal" only where its cost is proven."""
    best = Best(problem, lambda found: price(problem, found), Fraction(gap), time_limit)
    free = frozenset(number for number, target in enumerate(problem.targets) if not target.launch)
    moves = Moves(problem)
    for start in starts:
        best.offer(start.choices)
        best.offer_kernels([choice.kernel for choice in start.choices], free)
    best.bound = critical_path(problem)
    if best.done:
        return best.solution()
    limit = best.cost if best.cost is not None else 1 << 60
    _, choices, certain = enumerate_answers(
        problem, lambda found, most: price_below(problem, found, most), lambda order: Ends(problem, order),
        limit, budget, best.part(0.5),
    )  # fmt: skip
    if choices is not None:
        best.offer(choices)
    if certain and best.cost is not None:
        best.bound = best.cost
    if best.done:
        return best.solution()
    seconds = None if best.left is None else best.left / 2
    nothing: Shares = defaultdict(tuple)
    best.bound = max(best.bound, bound_loads(problem, nothing, seconds, 4)[0])
    if not best.done:
        _search(best, moves, free, tries, seed)
    return best.solution()


def _search(best: Best, moves: Moves, free: frozenset[int], tries: int | None, seed: int) -> None:
    problem = best.problem

    def score(numbers: list[int]) -> tuple[int, float] | None:
        tasks = tasks_alone(problem, numbers, moves.reads) if moves.alone(numbers) else None
        if tasks is None:
            launching = frozenset(range(len(problem.targets))) - free
            merged = _merged(problem, numbers, launching)
            if merged is None:
                return None
            tasks = tasks_of(problem, merged)
        found = None if tasks is None else schedule(tasks)
        return None if found is None else (found[0], 0.0)

    plans = [moves.plan_of(best.answer.choices)] if best.answer is not None else []
    early = earliest_plan(problem, moves)
    if early is not None:
        plans.append(early)
    size = max(1, len(moves.of))
    for number, plan in enumerate(plans):
        effort = 1_500_000 if len(free) == len(problem.targets) else 40_000  # regions take time to form
        allowed = max(60, min(6000, effort // size)) if tries is None else tries
        found = improve(moves, plan, score, allowed, seed + number, lambda: not best.done)
        if found is not None:
            numbers = moves.kernels(found[0])
            assert numbers is not None
            best.offer_kernels(numbers, free)


def _merged(problem: Problem, numbers: Sequence[int], launching: frozenset[int]) -> list[list[Kernel]] | None:
    try:
        choices = merge_regions(problem, numbers, None, launching)
    except RewriteError:
        return None
    regions: dict[int, list[Kernel]] = defaultdict(list)
    for choice in choices:
        regions[choice.region].append(problem.kernels[choice.kernel])
    return list(regions.values())


def critical_path(problem: Problem) -> int:
    """When the outputs can be there at the earliest, were every device free at any time and launches paid once.

    The earliest time of every value in every memory, found in the order of times, so that cycles do no harm. A region
    starts with a launch before its first kernel; here only kernels pay it that can read nothing from their own target.
    """
    inside: dict[tuple[int, int], int] = {}  # (value, target) -> earliest end
    memory: dict[Memory, int] = {}
    queue: list[tuple[int, int, int, int]] = []  # (time, kind, value, place); kind 0: memory, 1: computed
    readers: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    links: dict[Memory, list[tuple[int, int]]] = defaultdict(list)
    for (value, source, destination), cost in problem.copies.items():
        links[value, source].append((destination, cost))
    waiting: list[int] = []
    latest: list[int] = []
    own: list[bool] = []
    made = {(kernel.value, kernel.target) for kernel in problem.kernels}
    slots: list[int] = []
    for number, kernel in enumerate(problem.kernels):
        device = problem.targets[kernel.target].device
        reads = [r for r in dict.fromkeys(kernel.reads) if r.value not in problem.resident]
        waiting.append(len(reads))
        latest.append(0)
        own.append(any((r.value, kernel.target) in made and r.device in (None, device) for r in reads))
        for read in reads:
            where = device if read.device is None else read.device
            slot = len(slots)
            slots.append(number)
            if read.value not in problem.solo:
                readers[0, read.value, where].append(slot)
            if where == device:
                readers[1, read.value, kernel.target].append(slot)
        if not reads:
            _end(problem, number, 0, False, queue)
    for value, device in sorted(problem.given):
        heapq.heappush(queue, (0, 0, value, device))
    used = [False] * len(slots)
    while queue:
        time, kind, value, place = heapq.heappop(queue)
        known = memory if kind == 0 else inside
        if (value, place) in known:
            continue
        known[value, place] = time
        if kind == 1 and value not in problem.solo:
            heapq.heappush(queue, (time, 0, value, problem.targets[place].device))
        if kind == 0:
            for destination, cost in links[value, place]:
                heapq.heappush(queue, (time + cost, 0, value, destination))
        for slot in readers[kind, value, place]:
            if used[slot]:
                continue
            used[slot] = True
            number = slots[slot]
            waiting[number] -= 1
            latest[number] = max(latest[number], time)
            if not waiting[number]:
                _end(problem, number, latest[number], own[number], queue)
    ends = [memory[root] for root in problem.roots if root[0] not in problem.resident and root in memory]
    return max(ends, default=0)


def _end(problem: Problem, number: int, start: int, own: bool, queue: list[tuple[int, int, int, int]]) -> None:
    kernel = problem.kernels[number]
    launch = 0 if own else problem.targets[kernel.target].launch
    heapq.heappush(queue, (start + launch + kernel.cost, 1, kernel.value, kernel.target))


def earliest_plan(problem: Problem, moves: Moves) -> dict[int, tuple[int, ...]] | None:
    """Each value by the kernel that ends first when values are placed one after the other, the most urgent first."""
    average: dict[int, float] = {}
    for value, mine in moves.of.items():
        average[value] = sum(problem.kernels[k].cost for k in mine) / len(mine)
    reads = {
        v: list(dict.fromkeys(r.value for k in mine for r in problem.kernels[k].reads)) for v, mine in moves.of.items()
    }
    hop: dict[int, list[int]] = defaultdict(list)
    for (value, _, _), cost in problem.copies.items():
        hop[value].append(cost)
    delay = {value: sum(costs) / len(costs) / 2 for value, costs in hop.items()}
    left: dict[int, int] = defaultdict(int)
    for operands in reads.values():
        for operand in operands:
            left[operand] += 1
    urgent: dict[int, float] = defaultdict(float)
    todo = [value for value in reads if not left[value]]
    order = []
    while todo:
        value = todo.pop()
        order.append(value)
        urgent[value] += average[value]
        for operand in reads[value]:
            urgent[operand] = max(urgent[operand], urgent[value] + delay.get(operand, 0.0))
            left[operand] -= 1
            if not left[operand] and operand in reads:
                todo.append(operand)
    if len(order) < len(reads):
        return None
    place = {value: n for n, value in enumerate(reversed(order))}
    free: dict[int, int] = defaultdict(int)
    there: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # value -> (time, device, target)
    for value, device in problem.given:
        there[value].append((0, device, -1))
    plan: dict[int, tuple[int, ...]] = {}
    for value in sorted(reads, key=lambda v: (-urgent[v], place[v])):
        ends = []
        for number in moves.of[value]:
            kernel = problem.kernels[number]
            device = problem.targets[kernel.target].device
            ready: int | None = 0
            for read in kernel.reads:
                arrived = _arrival(
                    problem, there, read.value, kernel.target, device if read.device is None else read.device
                )
                ready = None if arrived is None or ready is None else max(ready, arrived)
            if ready is not None:
                ends.append((max(ready, free[device]) + kernel.cost, number))
        if not ends:
            continue
        end, number = min(ends)
        kernel = problem.kernels[number]
        device = problem.targets[kernel.target].device
        free[device] = end
        there[value].append((end, device, kernel.target))
        plan[value] = (number,)
    return plan


def _arrival(
    problem: Problem, there: Mapping[int, list[tuple[int, int, int]]], value: int, target: int, device: int
) -> int | None:
    if value in problem.resident:
        return 0
    times = []
    for time, where, by in there.get(value, ()):
        if value in problem.solo:
            times += [time] if by == target else []
        elif where == device:
            times.append(time)
        elif (value, where, device) in problem.copies:
            times.append(time + problem.copies[value, where, device])
    return min(times, default=None)
