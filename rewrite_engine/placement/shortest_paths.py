"""Each operator where the cheapest way to it ends: a dynamic program over operators, as if the model were a tree.

In: an explored problem, and what baselines choose among. Out: a ranking. For each value and each target, the least that
it costs to have the value computed there: the kernel, what it reads from where that is cheapest, copies, and a launch
unless something it reads comes from the same target. A value with several readers is shared among them in equal parts.
What is computed where is then traced back from the outputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Kernel, Problem, Read
from rewrite_engine.placement.choosing import Rank
from rewrite_engine.placement.given import Given


@dataclass(frozen=True, slots=True)
class _Way:
    """The cheapest way to have a value computed by a target: its cost, its kernel, where its operands come from."""

    cost: int
    kernel: int
    sources: tuple[tuple[int, int], ...]  # (value, target)


Ways = Mapping[int, Mapping[int, _Way]]
"""Value -> target -> way."""


def shortest_paths(explored: Explored, given: Given) -> Rank:
    """Prefers the kernels on the cheapest paths."""
    problem = explored.problem
    homes = defaultdict[int, list[int]](list)
    for value, home in sorted(problem.given):
        homes[value].append(home)
    readers = defaultdict[int, set[int]](set)
    for kernel in problem.kernels:
        if kernel.payload in given.usable:
            for read in kernel.reads:
                readers[read.value].add(kernel.value)
    ways: dict[int, dict[int, _Way]] = {}
    for value in sorted(given.candidates, key=given.order.__getitem__):
        found: dict[int, _Way] = {}
        for k in given.candidates[value]:
            way = _way(problem, ways, homes, readers, k)
            target = problem.kernels[k].target
            if way is not None and (target not in found or way.cost < found[target].cost):
                found[target] = way
        ways[value] = found
    preferred = _traced(problem, ways, given)
    return lambda kernel: 0 if preferred.get((kernel.value, kernel.target)) is kernel else 1


def _way(
    problem: Problem, ways: Ways, homes: Mapping[int, list[int]], readers: Mapping[int, set[int]], k: int
) -> _Way | None:
    """The kernel with the cheapest way to each of its operands; None where one cannot be had."""
    kernel = problem.kernels[k]
    launch = problem.targets[kernel.target].launch
    cost, joins, sources = kernel.cost, False, []
    for read in kernel.reads:
        found = _source(problem, ways, homes.get(read.value, ()), max(len(readers[read.value]), 1), kernel, read)
        if found is None:
            return None
        price, target = found
        cost += price
        if target is not None:
            sources.append((read.value, target))
            joins = joins or (target == kernel.target and read.device is None)
    return _Way(cost + (0 if joins else launch), k, tuple(sources))


def _source(
    problem: Problem, ways: Ways, homes: Sequence[int], share: int, kernel: Kernel, read: Read
) -> tuple[int, int | None] | None:
    """What an operand costs where it is read, and the target that computes it (None: it is there already)."""
    if read.value in problem.resident:
        return 0, None
    device = problem.targets[kernel.target].device if read.device is None else read.device
    options: list[tuple[int, int]] = []
    for home in homes:
        copy = 0 if home == device else problem.copies.get((read.value, home, device))
        if copy is not None:
            options.append((copy, -1))
    for target, way in ways.get(read.value, {}).items():
        inside = target == kernel.target and read.device is None
        if read.value in problem.solo and not inside:
            continue
        copy = 0 if inside else _copy(problem, read.value, target, device)
        if copy is not None:
            options.append((way.cost // share + copy, target))
    if not options:
        return None
    cost, target = min(options)
    return cost, None if target < 0 else target


def _copy(problem: Problem, value: int, target: int, device: int) -> int | None:
    home = problem.targets[target].device
    return 0 if home == device else problem.copies.get((value, home, device))


def _traced(problem: Problem, ways: Ways, given: Given) -> dict[tuple[int, int], Kernel]:
    """The kernels on the ways, readers first; a value goes where it is cheapest for all that read it."""
    wanted: dict[int, list[tuple[int, int | None]]] = defaultdict(list)  # (device, target inside whose region)
    for value, device in problem.roots:
        wanted[value].append((device, None))
    chosen: dict[tuple[int, int], Kernel] = {}
    for value in sorted(ways, key=given.order.__getitem__, reverse=True):
        if value not in wanted or not ways[value]:
            continue
        if value in problem.solo:  # one for each target that reads it
            picked = {target for _, target in wanted[value] if target in ways[value]}
        else:
            prices = [
                (_total(problem, value, target, way, wanted[value]), target) for target, way in ways[value].items()
            ]
            able = [(price, target) for price, target in prices if price is not None]
            picked = {min(able)[1]} if able else set()
        for target in sorted(t for t in picked if t is not None):
            way = ways[value][target]
            kernel = problem.kernels[way.kernel]
            chosen[value, target] = kernel
            home = problem.targets[kernel.target].device
            for read in kernel.reads:
                inside = kernel.target if read.device is None else None
                wanted[read.value].append((home if read.device is None else read.device, inside))
    return chosen


def _total(problem: Problem, value: int, target: int, way: _Way, wanted: list[tuple[int, int | None]]) -> int | None:
    """What a value costs on a target, copies to all that read it included; None where one is not reached."""
    devices = {device for device, inside in wanted if inside != target}
    copies = [_copy(problem, value, target, device) for device in sorted(devices)]
    if None in copies:
        return None
    return way.cost + sum(copy for copy in copies if copy is not None)
