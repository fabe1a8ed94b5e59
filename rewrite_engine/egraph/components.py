"""Strongly connected components of a graph: sets of nodes that lead to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def components(edges: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Strongly connected components, sinks first (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    done: set[int] = set()
    stack: list[int] = []
    result = []
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[int] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                    done.update(component)
                    result.append(component)
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(edges[following])))
            elif following not in done:
                low[node] = min(low[node], index[following])
    return result
