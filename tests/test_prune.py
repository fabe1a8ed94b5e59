"""Plain problems: what is left out of them, and the search over what is left, against all choices of small e-graphs."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import pytest

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.extract.branch import branch
from rewrite_engine.egraph.needs import Facts, Option, members, needs_of, possible
from rewrite_engine.egraph.objectives.decisions import Decisions
from rewrite_engine.egraph.objectives.general import cheapest_sets, search_general
from rewrite_engine.egraph.problem import Kernel, Problem, Read, TargetInfo
from rewrite_engine.egraph.prune import pruned

VALUES = 9


def e_graph(kernels: list[tuple[int, int, list[int]]], roots: tuple[int, ...] = (0,)) -> Problem:
    """Kernels as (value, cost, operands), of one target without a launch."""
    return Problem(
        devices=("host",),
        targets=(TargetInfo("host", 0, 0),),
        values=1 + max(v for value, _, reads in kernels for v in (value, *reads)),
        kernels=tuple(Kernel(v, 0, cost, tuple(map(Read, reads)), n) for n, (v, cost, reads) in enumerate(kernels)),
        given=frozenset(),
        resident=frozenset(),
        copies={},
        roots=tuple((root, 0) for root in roots),
        solo=frozenset(),
        names=tuple(f"v{n}" for n in range(100)),
    )


def random_e_graph(seed: int) -> Problem:
    """Up to three kernels per value; most read later values, some lead back, and a few read what nothing computes."""
    rng = random.Random(seed)
    kernels = []
    for value in range(VALUES):
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3)) if value else 3):
            later = list(range(value + 1, VALUES)) or [value]
            reads = rng.sample(later, min(len(later), rng.randint(0, 3)))
            if rng.random() < 0.3:
                reads.append(rng.randrange(VALUES))
            kernels.append((value, rng.choice((0, 0, 1, 2, 5, 9)), sorted(set(reads))))
    return e_graph(kernels, (0,) if seed % 2 else (0, 1))


def cost_of(problem: Problem, chosen: Mapping[int, int]) -> int | None:
    """What one kernel per value costs, each that runs once; None where one waits for itself, or there is none."""
    done: list[int] = []
    waits: list[int] = []

    def compute(value: int) -> bool:
        if value in done:
            return True
        if value in waits or value not in chosen:
            return False
        waits.append(value)
        if not all(compute(read.value) for read in problem.kernels[chosen[value]].reads):
            return False
        waits.remove(value)
        done.append(value)
        return True

    if not all(compute(root) for root, _ in problem.roots):
        return None
    return sum(problem.kernels[chosen[value]].cost for value in done)


def every_choice(problem: Problem, kernels: list[int]) -> list[dict[int, int]]:
    of: dict[int, list[int]] = defaultdict(list)
    for number in kernels:
        of[problem.kernels[number].value].append(number)
    return [dict(zip(of, row, strict=True)) for row in itertools.product(*of.values())]


def least(problem: Problem, kernels: list[int]) -> int | None:
    costs = [cost_of(problem, chosen) for chosen in every_choice(problem, kernels)]
    return min((cost for cost in costs if cost is not None), default=None)


@pytest.mark.parametrize("part", range(6))
def test_the_least_cost_stays_and_searches_find_it(part: int) -> None:
    fewer = answers = proven = 0
    for seed in range(50 * part, 50 * part + 50):
        problem = random_e_graph(seed)
        every = list(range(len(problem.kernels)))
        best = least(problem, every)
        facts = pruned(problem, every)
        if best is None:
            assert facts is None
            with pytest.raises(RewriteError):
                solve(problem)
            continue
        answers += 1
        solution = solve(problem)
        assert solution.bound <= best <= solution.cost
        assert solution.cost == best
        proven += solution.status == "optimal"
        if facts is None:
            assert {k.value for k in problem.kernels} >= {value for value, _ in problem.roots}
            continue
        assert least(problem, facts.kernels) == best
        assert facts.bound <= best
        fewer += len(facts.kernels) < len(every)
        found = search_general(problem, tries=20)
        assert found is not None and not audit(problem, found.choices).problems
        assert found.cost == best
    assert answers > 20 and fewer > 12 and proven > answers * 0.8


@pytest.mark.parametrize("seed", range(30))
def test_prices_are_those_of_the_kernels(seed: int) -> None:
    problem = random_e_graph(seed)
    left = possible(options_of(problem), [root for root, _ in problem.roots])
    if not all(left.get(root) for root, _ in problem.roots):
        return
    decisions = Decisions(Facts(left, [root for root, _ in problem.roots]))
    sizes = [len(left[value]) for value in decisions.values]
    for picks in itertools.islice(itertools.product(*map(range, sizes)), 300):
        chosen = decisions.kernels(picks)
        priced = decisions.price(picks)
        assert (None if priced is None else priced[0]) == cost_of(problem, chosen)
        assert decisions.picks(chosen) == list(picks)


def options_of(problem: Problem) -> dict[int, list[Option]]:
    options: dict[int, list[Option]] = {value: [] for value in range(problem.values)}
    for number, kernel in enumerate(problem.kernels):
        reads = tuple(read.value for read in kernel.reads)
        if kernel.value not in reads:
            options[kernel.value].append(Option(number, kernel.cost, reads))
    return options


@pytest.mark.parametrize("seed", range(20))
def test_needs_are_what_every_choice_computes(seed: int) -> None:
    problem = random_e_graph(seed)
    needs = needs_of(options_of(problem))
    for value in range(VALUES):
        alone = replace(problem, roots=((value, 0),))
        ran = []
        for chosen in every_choice(problem, list(range(len(problem.kernels)))):
            if cost_of(alone, chosen) is not None:
                seen, todo = set(), [value]
                while todo:
                    at = todo.pop()
                    if at not in seen:
                        seen.add(at)
                        todo += [read.value for read in problem.kernels[chosen[at]].reads]
                ran.append(seen)
        expected = set(range(VALUES)) if not ran else set.intersection(*ran)
        assert set(members(needs[value])) == expected


def kept(kernels: list[tuple[int, int, list[int]]]) -> list[int]:
    problem = e_graph(kernels)
    facts = pruned(problem, range(len(problem.kernels)))
    assert facts is not None
    return facts.kernels


def test_a_kernel_goes_where_another_costs_no_more_with_all_that_it_draws_in() -> None:
    # v1 costs 3 with v3, or 4 alone
    assert kept([(0, 0, [1, 2]), (1, 1, [3]), (1, 4, []), (2, 0, []), (3, 2, [])]) == [0, 1, 3, 4]
    # v3 costs 4: together more, and only v1 wants it
    assert kept([(0, 0, [1, 2]), (1, 1, [3]), (1, 4, []), (2, 0, []), (3, 4, [])]) == [0, 2, 3]
    # v2 wants it as well, whatever is chosen: it is paid for
    assert kept([(0, 0, [1, 2]), (1, 1, [3]), (1, 4, []), (2, 0, [3]), (3, 4, [])]) == [0, 1, 3, 4]
    # v2 may want it: nothing is sure
    both = [(0, 0, [1, 2]), (1, 1, [3]), (1, 4, []), (2, 0, [3]), (2, 3, []), (3, 4, [])]
    assert kept(both) == [0, 1, 2, 3, 4, 5]


def test_a_kernel_goes_where_its_operands_cannot_be_had_without_its_own_value() -> None:
    assert kept([(0, 9, []), (0, 1, [1]), (1, 0, [0])]) == [0]


def test_a_certain_value_that_may_lead_back_is_no_reason_to_choose_it() -> None:
    # v1 by v2 is cheaper than alone, and v2 is needed anyway, but v2 may come from v1, and costs less so
    kernels = [(0, 0, [1, 2]), (1, 3, []), (1, 1, [2]), (2, 1, [1]), (2, 9, [])]
    assert kept(kernels) == [0, 1, 2, 3, 4]
    assert solve(e_graph(kernels)).cost == 4


def test_what_is_not_plain_is_left_alone() -> None:
    problem = e_graph([(0, 1, []), (0, 2, [])])
    assert pruned(problem, range(2)) is not None
    launched = replace(problem, targets=(TargetInfo("host", 0, 5),))
    apart = replace(problem, devices=("host", "d1"))
    joint = replace(problem, solo=frozenset({0}))
    assert [pruned(other, range(2)) for other in (launched, apart, joint)] == [None] * 3
    assert pruned(problem, [0]) is None, "there is no choice"


def test_pruning_stops_where_it_is() -> None:
    problem = e_graph([(0, 0, [1]), (1, 1, []), (1, 2, [])])
    facts = pruned(problem, range(3), lambda: False)
    assert facts is not None and facts.kernels == [0, 1, 2]


def test_shared_work_is_found_that_one_change_alone_makes_dearer() -> None:
    # v1 and v2 each cost 6 alone, and nothing beside v3, which costs 9
    kernels = [(0, 0, [1, 2]), (1, 6, []), (1, 0, [3]), (2, 6, []), (2, 0, [3]), (3, 9, [])]
    problem = e_graph(kernels)
    assert [problem.kernels[k].cost for k in cheapest_sets(problem).values()] != [0, 0]
    found = search_general(problem, tries=5)
    assert found is not None and found.cost == 9


@pytest.mark.parametrize("seed", range(40))
def test_branching_finds_the_least_cost_and_proves_that_nothing_is_cheaper(seed: int) -> None:
    problem = random_e_graph(seed)
    best = least(problem, list(range(len(problem.kernels))))
    left = possible(options_of(problem), [root for root, _ in problem.roots])
    if best is None:
        return
    facts = Facts(left, [root for root, _ in problem.roots])
    for highest in (None, best + 1):
        kernels, bound = branch(facts, highest, lambda: True)
        assert kernels is not None
        assert bound == best == cost_of(problem, {problem.kernels[k].value: k for k in kernels})
    assert branch(facts, best, lambda: True) == (None, best)
    kernels, bound = branch(facts, None, lambda: True, work=len(left))
    assert bound <= best and (kernels is None or bound == best)
    kernels, bound = branch(facts, None, lambda: False)
    assert bound <= best and (kernels is None or bound == best)
