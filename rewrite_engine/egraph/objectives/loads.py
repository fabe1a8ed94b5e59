"""How long each device is busy: its kernels and launches, and the copies into and out of its memory.

In: a problem and regions with their copies. Out: picoseconds per device. The host's memory is where others come to
fetch and leave data, so copies keep only the other device busy. A pipeline that works on several inputs at once takes
one every time its busiest device is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rewrite_engine.egraph.problem import Kernel, Problem

Copy = tuple[int, int, int]  # (value, from, to)
Shares = Mapping[Copy, Sequence[tuple[int, int]]]  # per copy: (device, picoseconds)


def shares_of(problem: Problem) -> dict[Copy, tuple[tuple[int, int], ...]]:
    """Every copy keeps the devices at its two ends busy, the host apart."""
    return {
        (value, source, destination): tuple((device, cost) for device in (source, destination) if device)
        for (value, source, destination), cost in problem.copies.items()
    }


def loads(problem: Problem, regions: Iterable[Sequence[Kernel]], copies: Iterable[Copy], shares: Shares) -> list[int]:
    """Picoseconds per device."""
    found = [0] * len(problem.devices)
    for region in regions:
        target = problem.targets[region[0].target]
        found[target.device] += target.launch + sum(kernel.cost for kernel in region)
    for copy in copies:
        for device, cost in shares[copy]:
            found[device] += cost
    return found


def weighted(problem: Problem, weights: Sequence[int], shares: Shares) -> Problem:
    """The problem whose cost is the sum of loads, each times the weight of its device."""
    devices = [target.device for target in problem.targets]
    return replace(
        problem,
        targets=tuple(replace(target, launch=target.launch * weights[target.device]) for target in problem.targets),
        kernels=tuple(replace(k, cost=k.cost * weights[devices[k.target]]) for k in problem.kernels),
        copies={copy: sum(weights[device] * cost for device, cost in shares[copy]) for copy in problem.copies},
    )
