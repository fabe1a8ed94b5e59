"""Every objective against brute force on random problems of up to 10 operators and 2 to 4 targets, and with memory.

The quick runs are the first of the seeds that the slow ones go through.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from brute_force import _selections, brute_force, partitions, random_problem
from brute_objectives import answers, best_makespan, best_throughput, price_of, service_of
from models import parse

import rewrite_engine as rw
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.objectives.makespan import solve_makespan
from rewrite_engine.egraph.objectives.throughput import solve_throughput
from rewrite_engine.egraph.problem import Choice, Problem, Solution
from rewrite_engine.graph import to_terms
from rewrite_engine.graph.placed import PlacedGraph
from rewrite_engine.language import load_text
from rewrite_engine.placement.memory_limits import too_small
from rewrite_engine.placement.place import Placement, place
from rewrite_engine.placement.rebuild import costs, rebuild

OBJECTIVES = ("latency", "energy", "makespan", "throughput")


def operators_of(seed: int) -> int:
    return 2 + seed % 9


def by_energy(problem: Problem) -> Problem:
    """As energies are: there are none of launches."""
    return replace(problem, targets=tuple(replace(target, launch=0) for target in problem.targets))


@pytest.mark.parametrize("objective", ["latency", "energy"])
@pytest.mark.parametrize("problems", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_sums_against_brute_force(objective: str, problems: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1000 + problems):
        problem = random_problem(seed, operators=operators_of(seed))
        problem = by_energy(problem) if objective == "energy" else problem
        try:
            found = solve(problem)
        except RewriteError:
            seen["infeasible"] += 1
            with contextlib.suppress(TimeoutError):
                assert brute_force(problem, 10**6, 10_000) is None, seed
            continue
        checked = audit(problem, found.choices)
        assert not checked.problems and checked.cost == found.cost, seed
        try:
            best = brute_force(problem, found.cost, 10_000 if problems < 100 else 20_000)
        except TimeoutError:
            seen["not compared"] += 1
            continue
        assert best is not None and found.bound <= best <= found.cost, seed
        assert found.status != "optimal" or best == found.cost, seed
        seen["compared"] += 1
        seen[found.status] += 1
        seen[f"of {operators_of(seed)} operators"] += 1
    assert seen["compared"] >= problems * 0.75 and seen["of 10 operators"] >= problems / 9 * 0.4, seen
    assert seen["optimal"] >= 0.95 * seen["compared"], seen


Solver = Callable[..., Solution]
OTHERS: list[tuple[Solver, Callable[[Problem, int, int], int | None]]] = [
    (solve_throughput, best_throughput),
    (solve_makespan, best_makespan),
]


@pytest.mark.parametrize(("solver", "brute"), OTHERS)
@pytest.mark.parametrize("problems", [9, pytest.param(500, marks=pytest.mark.slow)])
def test_other_objectives_against_brute_force(solver: Solver, brute: Callable[..., int | None], problems: int) -> None:
    """The answer costs what it says, nothing costs less where it is proven, and the bound is below the optimum."""
    seen: Counter[str] = Counter()
    name = "makespan" if solver is solve_makespan else "throughput"
    for seed in range(2000, 2000 + problems):
        problem = random_problem(seed, operators=operators_of(seed))
        try:
            start = solve(problem)
        except RewriteError:
            continue
        found = solver(problem, [start], tries=100)
        assert not audit(problem, found.choices).problems and found.bound <= found.cost, seed
        assert (found.status == "optimal") == (found.bound == found.cost), seed
        seen[found.status] += 1
        regions = [
            [problem.kernels[c.kernel] for c in found.choices if c.region == number]
            for number in sorted({c.region for c in found.choices})
        ]
        service = service_of(problem, regions)
        assert service is not None, seed
        try:
            assert price_of(problem, name, regions, service, found.cost) == found.cost, seed
            best = brute(problem, found.cost - 1, 1_000 if problems < 100 else 40_000)
        except TimeoutError:
            seen["not compared"] += 1
            continue
        assert best is None or (found.bound <= best and found.status != "optimal"), seed
        seen["compared"] += 1
        seen["better known"] += best is not None
        seen["beyond 7 operators"] += operators_of(seed) > 7
    assert seen["compared"] >= problems / 2 and seen["beyond 7 operators"] >= problems / 20, seen
    assert seen["better known"] <= problems / 20, seen
    assert seen["optimal"] >= problems * 0.75, seen


# ---------------------------------------------------------------- models, rules, memory

UNARY = ("Relu", "Sigmoid", "Tanh", "Neg")


def random_model(rng: random.Random, count: int) -> str:
    values, text = ["x"], ""
    for number in range(count):
        op = rng.choice([*UNARY, "Add", "Add"])
        text += f" v{number} = {op}({', '.join(rng.choice(values[-3:]) for _ in range(2 if op == 'Add' else 1))})"
        values.append(f"v{number}")
    outputs = sorted({values[-1], rng.choice(values[1:])})
    return f"g (float[64] x) => ({', '.join(f'float[64] {name}' for name in outputs)}) {{{text} }}"


def random_board(rng: random.Random, memory: bool) -> str:
    """A host, and one to three targets on devices of their own or the host; a value takes 256 bytes."""
    every = ", ".join([f"{op}(x)" for op in UNARY] + ["Add(a, b)"])
    text = f"target host {{ supports {every} cost {rng.randint(40, 90)}ns energy {rng.randint(40, 90)}pJ }}\n"
    for number in range(rng.randint(1, 3)):
        device = "host"
        if rng.random() < 0.8:
            device = f"d{number}"
            limit = f"memory {rng.choice([256, 512, 768, 1024])}B" if memory else ""
            text += f"device {device} {{ {limit} }}\n"
            text += f"link host <-> {device}: {rng.randint(5, 60)}ns energy {rng.randint(5, 60)}pJ\n"
        text += f"target t{number} on {device} {{ launch {rng.choice([0, 20, 60])}ns\n"
        for op in rng.sample([*UNARY, "Add"], rng.randint(2, 5)):
            operands = "a, b" if op == "Add" else "x"
            text += f"  supports {op}({operands}) cost {rng.randint(1, 40)}ns energy {rng.randint(1, 40)}pJ\n"
        if rng.random() < 0.5:
            price = f"cost {rng.randint(1, 40)}ns energy {rng.randint(1, 40)}pJ"
            text += f"  composite both(a, b) = Relu(Add(a, b)) {price}\n"
        text += "}\n"
    return text


def placed(text: str, board: str, objective: str) -> tuple[Placement, Explored]:
    heard: list[Explored] = []
    found = place(
        to_terms(rw.load(parse(text))), load_text(board), objective=objective, allow=(), time_limit=4.0,
        observe=lambda explored, _: heard.append(explored),
    )  # fmt: skip
    return found, heard[0]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("models", [8, pytest.param(500, marks=pytest.mark.slow)])
def test_no_baseline_is_better(objective: str, models: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(models):
        rng = random.Random(f"baselines {seed}")
        found, _ = placed(random_model(rng, operators_of(seed)), random_board(rng, memory=False), objective)
        assert found.bound <= found.costs.total, seed
        assert (found.status == "optimal") == (found.bound == found.costs.total), seed
        assert all(cost is None or found.costs.total <= cost for cost in found.baselines.values()), seed
        seen[found.status] += 1
    assert objective in ("makespan", "throughput") or seen["optimal"] >= 0.95 * models, seen


def fitting(explored: Explored, limit: int, budget: int) -> int | None:
    """The least cost, below `limit`, of what fits all memories; TimeoutError beyond the budget."""
    problem, best, steps, seen = explored.problem, [limit], [budget], 0
    launches = {target.name: target.launch for target in explored.machine.targets}
    for chosen, least in _selections(problem, best, steps):
        kernels = [problem.kernels[k] for k in chosen]
        for _, regions in partitions(problem, kernels, least, best):
            seen += 1
            if seen > budget // 20:
                raise TimeoutError
            checked = audit(problem, [Choice(chosen[k], n) for n, region in enumerate(regions) for k in region])
            if not checked.problems and checked.cost < best[0]:
                answer = Solution(checked.choices, checked.copies, checked.cost, 0, "feasible")
                graph = rebuild(explored, answer, "model")
                if fits(graph, explored):  # copies that share a hop cost less than their sum
                    best[0] = min(best[0], costs(graph, launches).total)
    return None if best[0] == limit else best[0]


def fits(graph: PlacedGraph, explored: Explored) -> bool:
    return not too_small(graph, explored.machine)


def fitting_others(explored: Explored, objective: str, limit: int, budget: int) -> int | None:
    """The least makespan or load, below `limit`, of what fits all memories; TimeoutError beyond the budget."""
    problem, best, machine = explored.problem, limit, explored.machine
    for regions, service in answers(problem, limit - 1, budget, copied=objective == "throughput"):
        priced = price_of(problem, objective, regions, service, best - 1)
        if priced >= best:
            continue
        number = {id(kernel): k for k, kernel in enumerate(problem.kernels)}
        checked = audit(problem, [Choice(number[id(k)], n) for n, region in enumerate(regions) for k in region])
        if not checked.problems:
            answer = Solution(checked.choices, checked.copies, checked.cost, 0, "feasible")
            if not too_small(rebuild(explored, answer, "model"), machine):
                best = priced
    return None if best == limit else best


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("models", [6, pytest.param(500, marks=pytest.mark.slow)])
def test_memory_limits_against_brute_force(objective: str, models: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(models):
        rng = random.Random(f"memory {seed}")
        text, board = random_model(rng, operators_of(seed)), random_board(rng, memory=True)
        found, explored = placed(text, board, objective)
        free, _ = placed(text, re.sub(r"memory \d+B", "", board), objective)
        assert fits(found.graph, explored), seed
        assert found.bound <= found.costs.total and free.costs.total <= found.costs.total, seed
        seen["binding"] += free.costs.total < found.costs.total
        try:
            budget = 10_000 if models < 100 else 60_000
            if objective in ("latency", "energy"):
                best = fitting(explored, found.costs.total, budget)
            else:
                best = fitting_others(explored, objective, found.costs.total, budget // 20)
        except TimeoutError:
            seen["not compared"] += 1
            continue
        seen["compared"] += 1
        seen[found.status] += 1
        if best is not None:
            seen["better known"] += 1
            assert found.bound <= best and found.status != "optimal", seed
    assert seen["compared"] >= models / 2 and seen["binding"] >= models / 20, seen
    assert seen["better known"] <= models / 20, seen
