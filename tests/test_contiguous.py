"""Contiguous sets on devices that are called: the dynamic program over ideals against all placements, and its parts."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from test_called import random_network, task_graph

from rewrite_engine.egraph.objectives.called import least_contiguous
from rewrite_engine.egraph.objectives.calls import Holdings, Network, fits, network, works
from rewrite_engine.egraph.objectives.chains import least_load_chain
from rewrite_engine.egraph.objectives.convex import Convex
from rewrite_engine.egraph.objectives.folded import folded
from rewrite_engine.egraph.objectives.ideals import ideals_of, words_of
from rewrite_engine.egraph.objectives.orders import blocks_of
from rewrite_engine.egraph.objectives.shifts import Shifts

LATE = frozenset({4, 5})


def leads(net: Network, late: frozenset[int]) -> set[tuple[int, int]]:
    """Pairs of values with a way from one to the other, none of them late."""
    pairs = {(o, v) for v, mine in enumerate(net.reads) for o in mine if not {o, v} & late}
    for middle, first, last in itertools.product(range(len(net.reads)), repeat=3):
        if (first, middle) in pairs and (middle, last) in pairs:
            pairs.add((first, last))
    return pairs


def is_convex(net: Network, places: tuple[int, ...], late: frozenset[int]) -> bool:
    pairs = leads(net, late)
    return not any(
        places[a] == places[c] != places[b] for a, b in pairs for b_, c in pairs if b == b_
    )  # fmt: skip


def is_chain(net: Network, places: tuple[int, ...], late: frozenset[int]) -> bool:
    """Whether some order of the devices has every read of a value that is not late go to the same or a later one."""
    hops = {(places[o], places[v]) for v, mine in enumerate(net.reads) for o in mine if not {o, v} & late}
    return any(all(order.index(a) <= order.index(b) for a, b in hops) for order in itertools.permutations(range(3)))


@pytest.mark.parametrize("late", [frozenset(), LATE])
@pytest.mark.parametrize("seed", range(12))
def test_the_best_chain_is_the_least_of_all_placements_that_are_chains(seed: int, late: frozenset[int]) -> None:
    net, _ = random_network(seed)
    chains, wholes = [], []
    for places in itertools.product(range(3), repeat=6):
        if fits(net, places):
            if is_chain(net, places, late):
                chains.append(max(works(net, places)))
            if is_convex(net, places, late):
                wholes.append(max(works(net, places)))
    blocks, reads = blocks_of(net, late)
    members = ideals_of(reads, 1000)
    assert members is not None
    found = least_load_chain(net, blocks, members)
    assert found is not None
    assert fits(net, found) and is_chain(net, tuple(found), late)
    assert max(works(net, found)) == min(chains)
    assert least_load_chain(net, blocks, members, min(chains)) is None, "nothing is below the least"
    assert least_load_chain(net, blocks, members, min(chains) + 1) is not None
    best, _ = least_contiguous(net, late, orders=20, tries=1500)
    assert is_convex(net, best.places, late) and fits(net, best.places)
    assert best.cost == max(works(net, best.places)) == min(wholes)


def test_ideals_are_counted_and_limited() -> None:
    chain = ideals_of([[], [0], [1]], 4)
    assert chain is not None and chain.sum(1).tolist() == [0, 1, 2, 3]
    free = ideals_of([[]] * 10, 1024)
    assert free is not None and len({row.tobytes() for row in free}) == 1024
    assert ideals_of([[]] * 10, 1023) is None
    none = ideals_of([], 1)
    assert none is not None and none.shape == (1, 0)


@pytest.mark.parametrize("seed", range(4))
def test_ideals_hold_with_each_block_what_it_reads(seed: int) -> None:
    rng = random.Random(seed)
    reads = [sorted(rng.sample(range(b), min(b, rng.randint(0, 2)))) for b in range(9)]
    found = ideals_of(reads, 10_000)
    assert found is not None
    every = np.array(list(itertools.product([False, True], repeat=9)))
    good = [row for row in every if all(row[o] for b in range(9) if row[b] for o in reads[b])]
    assert {row.tobytes() for row in found} == {np.array(row).tobytes() for row in good}
    assert len(found) == len(good)
    assert list(found.sum(1)) == sorted(found.sum(1))


def test_words_hold_one_bit_per_block() -> None:
    members = np.zeros((2, 70), np.bool_)
    members[1, [0, 63, 64, 69]] = True
    assert words_of(members).tolist() == [[0, 0], [1 | 1 << 63, 1 | 1 << 5]]


@pytest.mark.parametrize("seed", range(8))
def test_convex_sets_are_those_that_no_way_leads_back_into(seed: int) -> None:
    net, _ = random_network(seed)
    convex = Convex(net, LATE)
    seen = set()
    for places in itertools.product(range(3), repeat=6):
        if fits(net, places):
            seen.add(convex.holds(places, range(3)))
            assert convex.holds(places, range(3)) == is_convex(net, places, LATE)
    assert convex.holds((0,) * 6, range(3))
    net = network(task_graph([[], [0], [1]], [[9, 1, 1]] * 3, [1] * 3, 3), Holdings((0,) * 3, (None,) * 3))
    assert not Convex(net).holds((1, 2, 1), [1])
    assert Convex(net).holds((1, 2, 1), [2]), "only the devices asked for count"
    assert Convex(net, frozenset({2})).holds((1, 2, 1), [1])


def test_annealing_of_contiguous_sets_leaves_them_so() -> None:
    # 5 -> 10 -> 5: the two small ones on one device are even with the large one, but it is between them
    problem = task_graph([[], [0], [1]], [[90, 5, 5], [90, 10, 10], [90, 5, 5]], [0] * 3, 3)
    net = network(problem, Holdings((0,) * 3, (None,) * 3))
    start = least_contiguous(net, orders=1, rounds=0)[0]
    free = Shifts(net, start.places).anneal(start, 2000, 0, 0.4, lambda: True)
    kept = Shifts(net, start.places).anneal(start, 2000, 0, 0.4, lambda: True, Convex(net))
    assert (free.cost, kept.cost) == (10, 15)


def random_costless(seed: int) -> Network:
    """Some values take no time anywhere; memories hold everything."""
    rng = random.Random(seed)
    reads = [sorted(rng.sample(range(v), min(v, rng.randint(0, 2)))) for v in range(7)]
    mine = [rng.choice((0, 0, rng.randint(1, 9))) for _ in range(7)]
    costs: list[list[int | None]] = [[10 * cost, cost, cost] for cost in mine]
    hop = [rng.randint(0, 6) for _ in range(7)]
    for value in range(7):
        if not any(value in operands for operands in reads):
            hop[value] = rng.choice((0, hop[value]))
    return network(task_graph(reads, costs, hop, 3), Holdings((1,) * 7, (None, 7, 7)))


def test_folded_blocks_leave_the_least_load_as_it_is() -> None:
    fewer = 0
    for seed in range(20):
        net = random_costless(seed)
        graph = blocks_of(net)
        blocks, reads = folded(net, *graph)
        assert sorted(v for block in blocks for v in block) == list(range(7))
        members, whole = ideals_of(reads, 1000), ideals_of(graph[1], 1000)
        assert members is not None and whole is not None
        fewer += len(members) < len(whole)
        found, expected = least_load_chain(net, blocks, members), least_load_chain(net, graph[0], whole)
        assert found is not None and expected is not None
        assert max(works(net, found)) == max(works(net, expected))
    assert fewer > 5


def test_nothing_is_folded_where_memory_is_short() -> None:
    problem = task_graph([[], [0]], [[0, 0], [90, 9]], [5, 0], 2)
    wide, narrow = (network(problem, Holdings((4, 4), (None, room))) for room in (8, 7))
    assert [len(folded(net, *blocks_of(net))[0]) for net in (wide, narrow)] == [1, 2]
    wanted = network(task_graph([[], [0]], [[90, 9], [0, 0]], [5, 3], 2), Holdings((4, 4), (None, 8)))
    assert len(folded(wanted, *blocks_of(wanted))[0]) == 2, "on the host the last value need not be taken out"


def test_late_groups_come_in_the_mirror_image_of_their_order() -> None:
    # 0 -> 1 -> 2 there, 3 -> 4 -> 5 back; 5 goes with 0, 3 with 2, and 4 with nothing
    problem = task_graph([[], [0], [1], [2], [3], [4]], [[9, 1]] * 6, [1] * 6, 2)
    net = network(problem, Holdings((0,) * 6, (None, 5), ((0, 5), (2, 3))))
    late = frozenset({3, 4, 5})
    blocks, reads = blocks_of(net, late)
    assert reads[blocks.index([4])] == []
    blocks, reads = blocks_of(net, late, mirrored=True)
    there, back, alone = blocks.index([0, 5]), blocks.index([2, 3]), blocks.index([4])
    assert there in reads[alone] and alone in reads[back]
    assert reads[there] == []


def test_the_least_of_chains_is_said_only_where_it_is_known() -> None:
    net, _ = random_network(0)
    assert least_contiguous(net, ideals=3)[1] is None
    cost, least = least_contiguous(net, orders=1)[0].cost, least_contiguous(net, orders=1)[1]
    assert least is not None and cost <= least
    blocks, reads = blocks_of(net)
    members = ideals_of(reads, 1000)
    assert members is not None
    with pytest.raises(TimeoutError):
        least_load_chain(net, blocks, members, keep_on=lambda: False)
