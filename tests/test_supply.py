"""Who supplies what regions read: that supply is the cheapest with which all can run, or names those that cannot."""

from __future__ import annotations

import itertools
import random

from brute_force import random_problem

from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.problem import Choice, Kernel, Problem, Read, TargetInfo
from rewrite_engine.egraph.supply import INPUT, region_needs, sources_of, supply


def test_a_region_that_only_waits_for_the_cheapest_source_is_no_part_of_a_cycle() -> None:
    """Regions 1 and 2 wait for each other; region 0 could read what 1 computes, or, for more, what 3 computes."""
    kernels = (
        Kernel(3, 0, 1, (Read(1),), 0),
        Kernel(1, 1, 1, (Read(2),), 1),
        Kernel(2, 1, 1, (Read(1),), 2),
        Kernel(1, 2, 1, (Read(0),), 3),
    )
    problem = Problem(
        devices=("host", "a", "b"),
        targets=(TargetInfo("host", 0, 0), TargetInfo("a", 1, 5), TargetInfo("b", 2, 5)),
        values=4,
        kernels=kernels,
        given=frozenset({(0, 0)}),
        resident=frozenset(),
        copies={(1, 1, 0): 1, (1, 2, 0): 9, (0, 0, 2): 1},
        roots=((3, 0),),
        solo=frozenset(),
        names=("x", "p", "q", "y"),
    )
    found = audit(problem, [Choice(k, k) for k in range(4)])
    assert found.problems == [
        "the graph of regions has a cycle: 1 (`p` on a) <- 2 (`q` on a) <- 1 (`p` on a)",
    ]


def test_supply_is_the_cheapest_of_all_choices_of_sources_or_says_who_is_stuck() -> None:
    """Random kernels in random regions, logical cycles among them, against every choice of sources."""
    seen = {"run": 0, "stuck": 0, "dearer": 0}
    for seed in range(400):
        rng = random.Random(seed)
        problem = random_problem(seed, operators=4, cyclic=True)
        usable = [k for k in problem.kernels if k.value not in problem.resident]
        by_place = {(k.value, k.target): k for k in rng.sample(usable, min(len(usable), rng.randint(2, 9)))}
        regions = [[kernel] for kernel in by_place.values()]
        needs = list(dict.fromkeys(need for mine in region_needs(problem, regions) for need in mine))
        needs += [root for root in problem.roots if root not in needs and root[0] not in problem.resident]
        sources = sources_of(problem, regions, needs)
        ways = [[(s.region, s.cost) for s in sources[need]] for need in needs]
        if any(not mine for mine in ways) or any(value in problem.solo for value, _ in needs):
            continue
        costs = [
            sum(cost for _, cost in picked)
            for picked in itertools.product(*ways)
            if runs(region_needs(problem, regions), dict(zip(needs, (region for region, _ in picked), strict=True)))
        ]
        found = supply(problem, regions)
        assert bool(found.stuck) == (not costs), seed
        seen["stuck" if found.stuck else "run"] += 1
        if costs:
            assert found.cost == min(costs) == sum(source.cost for source in found.sources.values()), seed
            seen["dearer"] += found.cost > sum(min(cost for _, cost in mine) for mine in ways)
        else:
            assert audit(problem, [Choice(problem.kernels.index(r[0]), n) for n, r in enumerate(regions)]).problems
    assert min(seen.values()) >= 3, seen


def runs(reads: list[list[tuple[int, int]]], supplier: dict[tuple[int, int], int]) -> bool:
    """Whether regions can run one after another when these supply what they read."""
    done = {INPUT}
    while True:
        more = {n for n, mine in enumerate(reads) if n not in done and all(supplier[need] in done for need in mine)}
        if not more:
            return len(done) == len(reads) + 1
        done |= more
