"""What baselines choose among: the kernels that compute a model as it was given, and the order of its values.

Of declared operators, which nothing runs as they are, the kernels of their bodies count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Kernel


class Given(NamedTuple):
    """`order` of the values, payloads of `usable` kernels, and per value the kernels that respect the order."""

    order: Mapping[int, float]
    usable: frozenset[int]
    candidates: Mapping[int, Sequence[int]]


def given_of(explored: Explored) -> Given:
    """The model as it was given, within an explored problem."""
    order = order_of(explored)
    usable = usable_in(explored, order)
    candidates: dict[int, list[int]] = defaultdict(list)
    for k, kernel in enumerate(explored.problem.kernels):
        if kernel.payload in usable:
            place = order.get(kernel.value, -1)
            if all(order.get(read.value, -1) < place for read in kernel.reads):
                candidates[kernel.value].append(k)
    return Given(order, usable, candidates)


def order_of(explored: Explored) -> dict[int, float]:
    """Values in the order in which the model computes them; inputs and constants first."""
    order: dict[int, float] = {}
    for index in explored.terms.outputs:
        order.setdefault(explored.class_of[index], 0)
    for k, node in enumerate(explored.terms.nodes):
        for o in node.outputs:
            if o >= 0:
                order[explored.class_of[o]] = order.get(explored.class_of[o]) or 2 * k + 2
    for index in explored.terms.inputs:  # which an Identity may compute, too
        order[explored.class_of[index]] = 0
    for kernel in explored.problem.kernels:
        enode = explored.enodes[kernel.payload]
        if enode.result is not None and kernel.value in order:
            order[enode.inputs[0]] = order[kernel.value] - 1
    return order


def usable_in(explored: Explored, order: dict[int, float]) -> frozenset[int]:
    """The payloads of kernels that compute the model as it was given, and of those behind declared operators.

    Such an operator is run by its body: no kernel computes it as it is, so that all kernels of its results count, and
    of the values between, which are put into the order just before.
    """
    problem = explored.problem
    given = [kernel for kernel in problem.kernels if kernel.payload in problem.originals]
    results = [kernel for kernel in given if explored.enodes[kernel.payload].result is not None]
    made = {kernel.value for kernel in given} - {kernel.value for kernel in results}
    made |= {kernel.value for kernel in results if kernel.reads[0].value in made}
    made |= problem.resident | {value for value, _ in problem.given}
    ways: dict[int, list[Kernel]] = defaultdict(list)
    for kernel in problem.kernels:
        ways[kernel.value].append(kernel)
    declared = {root for match in explored.matches if match.rule.defines for root in match.roots}
    pending = [value for value in sorted(order) if value in declared and value not in made]
    usable, seen, between = set(problem.originals), set(pending), list[int]()
    for value in pending:
        for kernel in ways[value]:
            usable.add(kernel.payload)
            for other in (read.value for read in kernel.reads):
                if other not in made and other not in seen:
                    seen.add(other)
                    pending.append(other)
                    between += [] if other in order else [other]
    _put_between(order, between, ways)
    return frozenset(usable)


def _put_between(order: dict[int, float], between: Sequence[int], ways: Mapping[int, Sequence[Kernel]]) -> None:
    """Orders each value right after what the first kernel that can compute it reads."""
    step = 0.5 / (len(between) + 1)
    readers: dict[int, list[Kernel]] = defaultdict(list)
    waiting: dict[Kernel, int] = {}
    ready: list[Kernel] = []
    for value in between:
        for kernel in ways[value]:
            reads = {read.value for read in kernel.reads if read.value not in order}
            waiting[kernel] = len(reads)
            ready += [] if reads else [kernel]
            for read in sorted(reads):
                readers[read].append(kernel)
    for kernel in ready:
        if kernel.value not in order:
            order[kernel.value] = max((order[read.value] for read in kernel.reads), default=0) + step
            for reader in readers[kernel.value]:
                waiting[reader] -= 1
                ready += [] if waiting[reader] else [reader]
