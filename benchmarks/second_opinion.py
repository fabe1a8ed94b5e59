"""E-graphs as a mixed-integer program for HiGHS, with cuts against cycles as they turn up: a second opinion.

In: a problem of one target without launches or copies, that is, an e-graph. Out: the least cost and a bound.
"""

from __future__ import annotations

import time
from collections import defaultdict

import highspy
import numpy as np

from rewrite_engine.egraph.components import components
from rewrite_engine.egraph.problem import Problem

Answer = tuple[int | None, float, list[int]]


def highs(problem: Problem, best: int, seconds: float) -> Answer:
    """(cost of the best answer or None, a lower bound, its kernels), with answers of `best` or more left out."""
    deadline = time.monotonic() + seconds
    of = _useful(problem, best)
    kernels = [k for mine in of.values() for k in mine]
    column = {k: n for n, k in enumerate(kernels)}
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    model.setOptionValue("mip_rel_gap", 0.0)
    for k in kernels:
        model.addVar(0.0, 1.0)
        model.changeColCost(column[k], float(problem.kernels[k].cost))
        model.changeColIntegrality(column[k], highspy.HighsVarType.kInteger)
    infinite = highspy.kHighsInf
    free = {value for value, _ in problem.given} | problem.resident

    def row(low: float, high: float, terms: dict[int, float]) -> None:
        model.addRow(low, high, len(terms), np.array(list(terms), np.int32), np.array(list(terms.values())))

    for value in dict.fromkeys(value for value, _ in problem.roots if value not in free):
        row(1.0, infinite, {column[k]: 1.0 for k in of[value]})
    for mine in of.values():
        readers: dict[int, list[int]] = defaultdict(list)
        for k in mine:
            for read in problem.kernels[k].reads:
                readers[read.value].append(k)
        for operand, users in readers.items():  # a class runs one kernel: all that read an operand share a row
            if operand in free:
                continue
            row(-infinite, 0.0, {column[k]: -1.0 for k in of[operand]} | {column[k]: 1.0 for k in users})
        row(-infinite, 1.0, {column[k]: 1.0 for k in mine})
    bound = 0.0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return None, bound, []
        model.setOptionValue("time_limit", model.getRunTime() + left)
        model.run()
        info = model.getInfo()
        bound = max(bound, info.mip_dual_bound)
        if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None, bound, []
        values = model.getSolution().col_value
        chosen = [k for k in kernels if values[column[k]] > 0.5]
        cycles = _cycles(problem, chosen)
        if not cycles:
            return sum(problem.kernels[k].cost for k in chosen), bound, chosen
        for cycle in cycles:  # not all values around it may be computed from the next one
            ring = _ring(problem, chosen, cycle)
            around = [problem.kernels[k].value for k in ring]
            terms: dict[int, float] = {}
            for value, following in zip(around, [*around[1:], around[0]], strict=True):
                for k in of[value]:
                    if any(read.value == following for read in problem.kernels[k].reads):
                        terms[column[k]] = 1.0
            row(-infinite, len(ring) - 1.0, terms)


def _useful(problem: Problem, best: int) -> dict[int, list[int]]:
    """Kernels that an answer below `best` may hold, of values that outputs can need; the cheapest tree is no bound."""
    of: dict[int, list[int]] = defaultdict(list)
    for number, kernel in enumerate(problem.kernels):
        if kernel.cost < best:
            of[kernel.value].append(number)
    needed: dict[int, None] = {}
    todo = [value for value, _ in problem.roots]
    while todo:
        value = todo.pop()
        if value not in needed:
            needed[value] = None
            todo += [read.value for k in of[value] for read in problem.kernels[k].reads]
    return {value: of[value] for value in needed}


def _cycles(problem: Problem, chosen: list[int]) -> list[list[int]]:
    edges: dict[int, list[int]] = {problem.kernels[k].value: [] for k in chosen}
    for k in chosen:
        edges[problem.kernels[k].value] += [r.value for r in problem.kernels[k].reads if r.value in edges]
    return [part for part in components(edges) if len(part) > 1]


def _ring(problem: Problem, chosen: list[int], cycle: list[int]) -> list[int]:
    """The kernels of one shortest way round inside a strongly connected part."""
    members = set(cycle)
    by_value = {problem.kernels[k].value: k for k in chosen}
    start = min(cycle)
    before: dict[int, int] = {}
    todo = [start]
    for value in todo:
        for read in problem.kernels[by_value[value]].reads:
            if read.value == start:
                ring = [value]
                while ring[-1] != start:
                    ring.append(before[ring[-1]])
                return [by_value[v] for v in reversed(ring)]
            if read.value in members and read.value not in before:
                before[read.value] = value
                todo.append(read.value)
    raise AssertionError("a part that is strongly connected has a cycle")
