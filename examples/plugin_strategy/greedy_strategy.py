"""A strategy that looks at kernels one by one: each value by its cheapest kernel, whatever copies and launches cost."""

from __future__ import annotations

from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Choice, Problem
from rewrite_engine.egraph.regions import merge_regions
from rewrite_engine.placement.strategies import Options


def greedy(explored: Explored, options: Options) -> tuple[Choice, ...] | None:
    """Kernels for the outputs first, then for what these read; None where a value has no kernel that fits."""
    problem = explored.problem
    position = _positions(explored)
    by_value: dict[int, list[int]] = {}
    for number, kernel in enumerate(problem.kernels):
        earlier = all(position.get(read.value, -1) < position.get(kernel.value, -1) for read in kernel.reads)
        if kernel.payload in problem.originals and earlier:
            by_value.setdefault(kernel.value, []).append(number)
    there = {value for value, _ in problem.given} | problem.resident
    chosen: dict[tuple[int, int | None], int] = {}
    wanted: list[tuple[int, int | None]] = [(value, None) for value, _ in problem.roots]
    while wanted:
        value, target = need = wanted.pop()
        if value in there or need in chosen:
            continue
        able = [k for k in by_value.get(value, ()) if target in (None, problem.kernels[k].target)]
        if not able:
            return None
        chosen[need] = min(able, key=lambda k: (problem.kernels[k].cost, k))
        kernel = problem.kernels[chosen[need]]
        wanted += [(read.value, _bound_to(problem, read.value, kernel.target)) for read in kernel.reads]
    return merge_regions(problem, sorted(set(chosen.values()), key=lambda k: (position[problem.kernels[k].value], k)))


def _bound_to(problem: Problem, value: int, target: int) -> int | None:
    """The results of one operator together never leave the region that computes them."""
    return target if value in problem.solo else None


def _positions(explored: Explored) -> dict[int, int]:
    """Values in the order in which the model computes them; several results come after what they are taken from."""
    found: dict[int, int] = {}
    for place, node in enumerate(explored.terms.nodes):
        for output in node.outputs:
            if output >= 0:
                found.setdefault(explored.class_of[output], 2 * place + 1)
    for kernel in explored.problem.kernels:
        enode = explored.enodes[kernel.payload]
        if enode.result is not None and kernel.value in found:
            found[enode.inputs[0]] = found[kernel.value] - 1
    return found
