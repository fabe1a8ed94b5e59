"""Branch and bound for plain problems: what is certainly needed is decided, and what then needs no choice is left out.

In: facts about options. Out: a bound, and the cheapest answer where the search comes to its end. The node of the least
bound is gone on from, so that the bound is the best that so much work can prove, and the first answer is the cheapest.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from rewrite_engine.egraph.needs import Facts, members
from rewrite_engine.egraph.prune import closed

WORK = 300_000
"""Values of all nodes together, at most: seconds."""


def branch(
    facts: Facts, highest: int | None, keep_on: Callable[[], bool], work: int = WORK
) -> tuple[list[int] | None, int]:  # fmt: skip
    """The kernels of the cheapest answer, where it was found and costs less than `highest`, and a bound.

    A bound that reaches `highest` is `highest`: nothing is cheaper.
    """
    heap = [(facts.bound, 0, facts)]
    pushed = 0
    while heap:
        bound, _, node = heapq.heappop(heap)
        if highest is not None and bound >= highest:
            return None, highest
        open_ = list(members(node.certain & node.open))
        if not open_:
            return [node.options[value][0].kernel for value in members(node.certain)], bound
        value = min(open_, key=lambda v: len(node.options[v]))
        for option in node.options[value]:
            work -= len(node.options)
            if work < 0 or not keep_on():
                return None, bound
            child = closed({**node.options, value: [option]}, node.roots, keep_on)
            if child is not None:
                pushed += 1
                heapq.heappush(heap, (max(bound, child.bound), pushed, child))
    return None, facts.bound if highest is None else highest
