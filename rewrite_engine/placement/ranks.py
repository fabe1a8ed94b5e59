"""What the baselines prefer: rankings of kernels by target, for `choosing.choose`."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Kernel
from rewrite_engine.placement.choosing import Rank
from rewrite_engine.placement.given import Given


def by_order(explored: Explored, targets: Sequence[str]) -> Rank:
    """The ranking of `priority`: these targets in this order (without any, all but the host), then the others."""
    names = [target.name for target in explored.problem.targets]
    order = list(targets) or [name for name in names if name != "host"]
    rank = {names.index(name): k for k, name in enumerate(order) if name in names}
    return lambda kernel: rank.get(kernel.target, len(rank) + kernel.target)


def by_target(explored: Explored, target: str) -> Rank:
    """The ranking of `single`: the target, else the host."""
    names = [t.name for t in explored.problem.targets]
    only = {names.index(target): 0, 0: 1}
    return lambda kernel: only.get(kernel.target)


def by_map(explored: Explored, mapping: Mapping[str, str], fallback_place: str) -> Rank:
    """The ranking of `op-map`: operators go to the target or device that the map names, others to the fallback."""
    problem = explored.problem
    machine = explored.machine
    fallback = machine.targets_at(fallback_place)
    wanted = {op: machine.targets_at(place) for op, place in mapping.items()}
    whole: dict[int, set[str]] = defaultdict(set)  # value of several results -> operators that compute it
    for kernel in problem.kernels:
        if kernel.value in problem.solo:
            whole[kernel.value] |= _operators(explored, kernel)

    def rank(kernel: Kernel) -> int | None:
        node = explored.enodes[kernel.payload]
        ops = _operators(explored, kernel) if node.result is None else whole[node.inputs[0]]
        if all(kernel.target in wanted.get(op, fallback) for op in ops):
            return 0
        if node.fused is not None:
            return None
        return 1 if kernel.target in fallback else 2

    return rank


def _operators(explored: Explored, kernel: Kernel) -> set[str]:
    """The operators that a kernel computes."""
    node = explored.enodes[kernel.payload]
    return {node.op} if node.fused is None else {inner.op for inner in node.fused.variant.nodes}


def by_largest_sets(explored: Explored, given: Given) -> Rank:
    """The ranking of `largest`: connected supported sets, the largest first."""
    problem, usable = explored.problem, given.usable
    supported: dict[int, set[int]] = defaultdict(set)
    reads: dict[int, set[int]] = defaultdict(set)
    for kernel in problem.kernels:
        if kernel.payload in usable and kernel.target != 0:
            supported[kernel.target].add(kernel.value)
        if kernel.payload in usable:
            reads[kernel.value].update(read.value for read in kernel.reads)
    assigned: dict[int, int] = {}
    parts: list[tuple[int, int, list[int]]] = []  # the largest first, of these that of the first target

    def add(target: int, values: Iterable[int]) -> None:
        for part in _components(values, reads):
            heapq.heappush(parts, (-len(part), target, sorted(part)))

    for target, values in sorted(supported.items()):
        add(target, values)
    while parts:
        _, target, part = heapq.heappop(parts)
        left = [value for value in part if value not in assigned]
        if len(left) == len(part):
            assigned |= dict.fromkeys(part, target)
        else:  # what is left of it is smaller, and waits for its turn
            add(target, left)
    return lambda kernel: 0 if assigned.get(kernel.value) == kernel.target else 1 + kernel.target


def _components(values: Iterable[int], reads: Mapping[int, set[int]]) -> list[frozenset[int]]:
    """Connected parts of a set of values, along reads."""
    left = set(values)
    neighbours: dict[int, set[int]] = defaultdict(set)
    for value in left:
        for other in reads.get(value, set()) & left:
            neighbours[value].add(other)
            neighbours[other].add(value)
    parts = []
    for start in sorted(left):
        if start not in left:
            continue
        part, stack = {start}, [start]
        while stack:
            for other in neighbours[stack.pop()]:
                if other not in part:
                    part.add(other)
                    stack.append(other)
        left -= part
        parts.append(frozenset(part))
    return parts
