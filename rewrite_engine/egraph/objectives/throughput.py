"""Throughput: the load of the busiest device, which a pipeline waits for.

In: a problem and answers to start from. Out: a solution whose cost is that load, with a lower bound. The sum of loads,
each weighted so that the weights are 1 together, is never more than the largest; the frontier program finds its least
exactly, and the weights are moved towards the devices that are busiest (a Lagrangian dual).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.objectives.alike import dealt, rows_of
from rewrite_engine.egraph.objectives.floors import Busiest
from rewrite_engine.egraph.objectives.least import least_load
from rewrite_engine.egraph.objectives.loads import Shares, loads, shares_of, weighted
from rewrite_engine.egraph.objectives.moves import Moves
from rewrite_engine.egraph.objectives.search import Best, improve
from rewrite_engine.egraph.objectives.small import enumerate_answers
from rewrite_engine.egraph.problem import Kernel, Problem, Solution
from rewrite_engine.egraph.regions import merged
from rewrite_engine.egraph.supply import region_needs

_BOUND_PART = 0.5
"""Of the time there is, what the bound may take; the rest is for answers."""
_STRETCHES = (1.0, 1.03, 1.06, 1.1, 1.15, 1.2, 1.3)
WEIGHT = 1000
"""The sum of the weights of devices: they are whole numbers, so that costs stay exact."""


def price(problem: Problem, found: Audit, shares: Shares) -> int:
    """The load of the busiest device of an audited answer."""
    regions = [[problem.kernels[k] for k in region] for region in found.regions]
    return max(loads(problem, regions, found.copies, shares), default=0)


def solve_throughput(
    problem: Problem,
    starts: Sequence[Solution],
    shares: Shares | None = None,
    floor: Shares | None = None,
    *,
    time_limit: float | None = None,
    gap: Fraction | float = 0,
    tries: int | None = None,
    seed: int = 0,
    rounds: int = 12,
    budget: int = 40_000,
) -> Solution:
    """The best placement found; status "optimal" only where its cost is proven.

    `shares` says who is busy with each copy, see `loads.shares_of`; `floor` what it takes at least, where that is less:
    copies that share a part of their paths.
    """
    shares = shares_of(problem) if shares is None else shares
    best = Best(problem, lambda found: price(problem, found, shares), Fraction(gap), time_limit)
    free = frozenset(number for number, target in enumerate(problem.targets) if not target.launch)
    for start in starts:
        best.offer(start.choices)
    limit = best.cost if best.cost is not None else 1 << 60
    if not best.done:
        _, chosen, certain = enumerate_answers(
            problem, lambda found, _: (best.price(found), True), lambda _: Busiest(problem, shares),
            limit, budget, best.part(_BOUND_PART),
        )  # fmt: skip
        if chosen is not None:
            best.offer(chosen)
        if certain and best.cost is not None and floor is None:
            best.bound = best.cost
    seconds = None if best.left is None else best.left * _BOUND_PART
    if best.cost is None or best.cost - best.bound > best.gap * best.cost:
        bound, found = bound_loads(problem, shares if floor is None else floor, seconds, rounds)
        best.bound = max(best.bound, bound)
        for numbers in found:
            if best.done and best.cost is not None:
                break
            best.offer_kernels(numbers, free)
    if not best.done:
        _search(best, shares, free, tries, seed)
    return best.solution()


def bound_loads(problem: Problem, shares: Shares, seconds: float | None, rounds: int) -> tuple[int, list[list[int]]]:
    """A lower bound of the busiest device's load, and the kernels of answers met on the way.

    Devices that are alike count as one with their number: its load is at most that many times the largest.
    """
    rows = rows_of(problem, {copy: shares[copy] for copy in problem.copies})
    merged, copies = rows.problem, rows.shares
    used = sorted({problem.targets[kernel.target].device for kernel in merged.kernels})
    price_of = [rows.counts[device] / len(problem.devices) for device in used]
    bound, answers = least_load(problem), []
    deadline = None if seconds is None else time.monotonic() + seconds
    last: Solution | None = None
    for turn in range(rounds):
        left = None if deadline is None else deadline - time.monotonic()
        if last is not None and left is not None and left <= 0:
            break
        weights = [0] * len(problem.devices)
        for device, share in zip(used, _whole(price_of), strict=True):
            weights[device] = share // rows.counts[device]
        whole = sum(weights[device] * rows.counts[device] for device in used)
        limit = None if left is None else max(0.0, left) / min(3, rounds - turn)
        found = last = solve(weighted(merged, weights, copies), time_limit=limit, gap=Fraction(1, 500), cutoff=last)
        bound = max(bound, -(-found.bound // max(1, whole)))
        stretches = (1.0,) if len(merged.kernels) == len(problem.kernels) else _STRETCHES
        answers += [dealt(rows, found.choices, stretch) for stretch in stretches]
        checked = audit(merged, found.choices)
        regions = [[merged.kernels[k] for k in region] for region in checked.regions]
        busy = loads(merged, regions, checked.copies, copies)
        level = [busy[device] / rows.counts[device] for device in used]
        if not max(level):
            break
        step = 2.0 / (turn + 2)
        price_of = [p * math.exp(step * mine / max(level)) for p, mine in zip(price_of, level, strict=True)]
        total = sum(price_of)
        price_of = [p / total for p in price_of]
    return bound, answers


def _whole(parts: Sequence[float]) -> list[int]:
    """Whole numbers in these proportions that add up to WEIGHT."""
    found = [int(part * WEIGHT) for part in parts]
    found[max(range(len(parts)), key=lambda n: (parts[n], -n))] += WEIGHT - sum(found)
    return found


def _search(best: Best, shares: Shares, free: frozenset[int], tries: int | None, seed: int) -> None:
    problem, moves = best.problem, Moves(best.problem)

    def score(numbers: list[int]) -> tuple[int, float] | None:
        if moves.alone(numbers):
            regions = [[problem.kernels[number]] for number in numbers]
            copies = _copies(problem, regions)
        else:
            try:
                checked = merged(problem, numbers)
            except RewriteError:
                return None
            if checked.problems:
                return None
            regions = [[problem.kernels[k] for k in region] for region in checked.regions]
            copies = list(checked.copies)
        if copies is None:
            return None
        busy = loads(problem, regions, copies, shares)
        return max(busy), sum(load * load for load in busy) / max(1, max(busy)) / len(busy) / 4

    if best.answer is None:
        return
    size = max(1, len(moves.of))
    allowed = max(60, min(3000, 150_000 // size)) if tries is None else tries
    found = improve(moves, moves.plan_of(best.answer.choices), score, allowed, seed, lambda: not best.done)
    if found is not None:
        numbers = moves.kernels(found[0])
        assert numbers is not None
        best.offer_kernels(numbers, free)


def _copies(problem: Problem, regions: Sequence[Sequence[Kernel]]) -> list[tuple[int, int, int]] | None:
    """The copies that kernels in regions of their own need; None where one is missing."""
    home: dict[int, list[int]] = {}
    for value, device in sorted(problem.given):
        home.setdefault(value, []).append(device)
    for region in regions:
        for kernel in region:
            home.setdefault(kernel.value, []).append(problem.targets[kernel.target].device)
    needs = dict.fromkeys(need for found in region_needs(problem, regions) for need in found)
    needs |= dict.fromkeys(root for root in problem.roots if root[0] not in problem.resident)
    copies = []
    for value, device in needs:
        sources = home.get(value, ())
        if device in sources:
            continue
        ways = [(problem.copies[value, s, device], s) for s in sources if (value, s, device) in problem.copies]
        if not ways:
            return None
        copies.append((value, min(ways)[1], device))
    return copies
