"""Devices that can do the same at the same cost, such as a row of equal accelerators.

In: a problem and who is busy with its copies. Out: the problem with one device for each row, which bounds the real one;
and the way back, which deals kernels out to the devices of a row, one stretch after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rewrite_engine.egraph.objectives.loads import Copy, Shares
from rewrite_engine.egraph.problem import Choice, Problem


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """`problem` keeps the first device of each row; `counts[device]` is how many it stands for (0: it was taken out).

    `origin` are the kernels by their numbers in the real problem, `same[kernel]` those that do the same on the devices
    of a row, by numbers of the real problem.
    """

    problem: Problem
    shares: dict[Copy, Sequence[tuple[int, int]]]
    counts: tuple[int, ...]
    origin: tuple[int, ...]
    same: dict[int, tuple[int, ...]]


def rows_of(problem: Problem, shares: Shares) -> Rows:
    """Devices are alike when their targets have equal launches and kernels; copies then cost what is the least."""
    fixed = {device for _, device in (*problem.given, *problem.roots)} | {0}
    fixed |= {read.device for kernel in problem.kernels for read in kernel.reads if read.device is not None}
    able: dict[int, list[tuple[object, ...]]] = defaultdict(list)
    for target, info in enumerate(problem.targets):
        mine = [(k.value, k.cost, k.reads) for k in problem.kernels if k.target == target]
        able[info.device].append((info.launch, tuple(mine)))
    rows: dict[object, list[int]] = {}
    for device in range(len(problem.devices)):
        key = ("fixed", device) if device in fixed or len(able[device]) != 1 else ("row", *able[device])
        rows.setdefault(key, []).append(device)
    first = {device: row[0] for row in rows.values() for device in row}
    counts = [0] * len(problem.devices)
    for device in first.values():
        counts[device] += 1
    origin = []
    places: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, kernel in enumerate(problem.kernels):
        device = problem.targets[kernel.target].device
        places[
            first[device], kernel.value, kernel.cost, kernel.reads, kernel.target * (counts[first[device]] == 1)
        ].append(number)
        if first[device] == device:
            origin.append(number)
    least: dict[Copy, Sequence[tuple[int, int]]] = {}
    cost: dict[Copy, int] = {}
    for copy, price in problem.copies.items():
        value, source, destination = copy
        merged = (value, first[source], first[destination])
        if merged[1] == merged[2]:
            continue
        busy = [(first[device], time) for device, time in shares[copy]]
        if merged not in least or sum(time for _, time in busy) < sum(time for _, time in least[merged]):
            least[merged], cost[merged] = busy, price
    reduced = replace(problem, kernels=tuple(problem.kernels[n] for n in origin), copies=cost)
    same = {group[0]: tuple(group) for group in places.values()}
    return Rows(reduced, least, tuple(counts), tuple(origin), same)


def dealt(rows: Rows, choices: Sequence[Choice], stretch: float) -> list[int]:
    """The kernels of an answer to the reduced problem in the real one: each device of a row takes its share in turn.

    A share is `stretch` times the row's work divided by its devices.
    """
    numbers = [rows.origin[choice.kernel] for choice in choices]
    kernels = rows.problem.kernels
    work: dict[int, int] = defaultdict(int)
    for choice in choices:
        work[kernels[choice.kernel].target] += kernels[choice.kernel].cost
    done: dict[int, int] = defaultdict(int)
    dealt_out = []
    for choice, number in zip(choices, numbers, strict=True):
        kernel = kernels[choice.kernel]
        row = rows.same.get(number, (number,))
        share = max(1.0, stretch * work[kernel.target] / len(row))
        dealt_out.append(row[min(len(row) - 1, int(done[kernel.target] / share))])
        done[kernel.target] += kernel.cost
    return dealt_out
