"""Kernels for what is read, consumers first: the walk that all baselines share, and the choice by a ranking.

In: an explored problem and who picks the kernels of one value. Out: kernels, in an order in which they can run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Kernel, Problem
from rewrite_engine.placement.given import Given, given_of

Rank = Callable[[Kernel], int | None]  # preference, smaller first; None: never
Pick = Callable[[int, set[int], set[int]], list[int] | None]
"""(value, devices where it is read, targets that read it from their own region): its kernels, None: there are none."""


def choose(explored: Explored, rank: Rank, given: Given | None = None) -> list[int] | None:
    """Serves demands, consumers first: each value by the best-ranked target from which all its readers are reached.

    The kernels, in an order in which they can run, or None where some value cannot be served. `given` is what
    `given_of` says of `explored`, where that is known already.
    """
    known = given or given_of(explored)

    def pick(value: int, devices: set[int], targets: set[int]) -> list[int] | None:
        return _pick(explored, known.candidates.get(value, ()), devices, targets, rank)

    return serve(explored.problem, known, pick)


def serve(problem: Problem, given: Given, pick: Pick) -> list[int] | None:
    """All kernels that `pick` finds for what is read, consumers first, in an order in which they can run."""
    order, there = given.order, problem.resident | {value for value, _ in problem.given}
    demands: dict[int, set[int]] = defaultdict(set)  # value -> devices where it is read
    inside: dict[int, set[int]] = defaultdict(set)  # tuple value -> targets that read it
    for value, device in problem.roots:
        demands[value].add(device)
    chosen: list[int] = []
    for value in sorted(order, key=order.__getitem__, reverse=True):
        if value not in demands and value not in inside:
            continue
        if value in there:
            continue
        picked = pick(value, demands.get(value, set()), inside.get(value, set()))
        if picked is None:
            return None
        for k in picked:
            chosen.append(k)
            kernel = problem.kernels[k]
            for read in kernel.reads:
                if read.value in problem.solo:
                    inside[read.value].add(kernel.target)
                else:
                    device = problem.targets[kernel.target].device if read.device is None else read.device
                    demands[read.value].add(device)
    return chosen[::-1]


def _pick(
    explored: Explored, candidates: Sequence[int], devices: set[int], targets: set[int], rank: Rank
) -> list[int] | None:
    """The kernels that compute one value: one, or for a tuple one per target that reads it."""
    problem = explored.problem

    def key(k: int) -> tuple[int, int, int, int]:
        kernel = problem.kernels[k]
        place = rank(kernel)
        assert place is not None
        return (place, -len(explored.covers.get(kernel.payload, ())), kernel.cost, k)

    def fed(kernel: Kernel) -> bool:
        home = problem.targets[kernel.target].device
        needs = ((read.value, home if read.device is None else read.device) for read in kernel.reads)
        return all(_arrives(problem, value, device) for value, device in needs)

    def reaches(k: int) -> bool:
        kernel = problem.kernels[k]
        home = problem.targets[kernel.target].device
        return all(home == d or (kernel.value, home, d) in problem.copies for d in devices)

    able = sorted((k for k in candidates if rank(problem.kernels[k]) is not None and fed(problem.kernels[k])), key=key)
    if targets:
        best = [next((k for k in able if problem.kernels[k].target == t), None) for t in sorted(targets)]
        return None if None in best else [k for k in best if k is not None]
    found = next((k for k in able if reaches(k)), None)
    return None if found is None else [found]


def _arrives(problem: Problem, value: int, device: int) -> bool:
    """Whether a graph input can get to a device; others are computed where they have to be."""
    homes = [home for given, home in problem.given if given == value]
    return not homes or any(home == device or (value, home, device) in problem.copies for home in homes)
