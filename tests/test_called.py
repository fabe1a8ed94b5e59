"""Devices that are called: the search against all placements of small random networks, counted by other code."""

from __future__ import annotations

import itertools
import random

import pytest

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.objectives.called import least_busy, least_latency
from rewrite_engine.egraph.objectives.calls import Holdings, Network, fits, latency, network, works
from rewrite_engine.egraph.objectives.intervals import growing
from rewrite_engine.egraph.objectives.orders import blocks_of, ordered
from rewrite_engine.egraph.objectives.shifts import Shifts
from rewrite_engine.egraph.problem import Kernel, Problem, Read, TargetInfo


def task_graph(
    reads: list[list[int]], costs: list[list[int | None]], hop: list[int], devices: int, launch: int = 0
) -> Problem:
    kernels, copies = [], {}
    for value, row in enumerate(costs):
        for device, cost in enumerate(row):
            if cost is not None:
                kernels.append(Kernel(value, device, cost, tuple(map(Read, reads[value])), len(kernels)))
        for device in range(1, devices):
            copies[value, 0, device] = copies[value, device, 0] = hop[value]
    read = {operand for mine in reads for operand in mine}
    return Problem(
        devices=tuple(f"d{k}" for k in range(devices)),
        targets=tuple(TargetInfo(f"d{k}", k, launch) for k in range(devices)),
        values=len(reads),
        kernels=tuple(kernels),
        given=frozenset(),
        resident=frozenset(),
        copies=copies,
        roots=tuple((value, 0) for value in range(len(reads)) if value not in read),
        solo=frozenset(),
        names=tuple(f"v{k}" for k in range(len(reads))),
    )


def random_network(seed: int) -> tuple[Network, list[int]]:
    """Six values on a host and two devices, some on the host only, a pair together, memory for about half."""
    rng = random.Random(seed)
    reads = [sorted(rng.sample(range(v), min(v, rng.randint(0, 2)))) for v in range(6)]
    costs: list[list[int | None]] = []
    for _ in range(6):
        mine = rng.randint(1, 9)
        costs.append([10 * mine, *([mine] * 2 if rng.random() < 0.85 else [None] * 2)])
    hop = [rng.randint(0, 6) for _ in range(6)]
    sizes = tuple(rng.randint(0, 9) for _ in range(6))
    room = sum(sizes) // 2
    together = (tuple(sorted(rng.sample(range(6), 2))),)
    return network(task_graph(reads, costs, hop, 3), Holdings(sizes, (None, room, room), together)), hop


def by_hand(net: Network, hop: list[int], places: tuple[int, ...]) -> tuple[int | None, int] | None:
    """(latency, greatest load) straight from the definition; None where the placement breaks a rule."""
    for group in net.groups:
        if len({places[v] for v in group}) > 1:
            return None
    work = [0, 0, 0]
    for device in range(3):
        mine = [v for v in range(6) if places[v] == device]
        if any(net.cost[v][device] is None for v in mine):
            return None
        if device and sum(net.sizes[v] for v in mine) > (net.memory[device] or 0):
            return None
        work[device] = sum(net.cost[v][device] or 0 for v in mine)
        if device:
            work[device] += sum(hop[u] for u in {u for v in mine for u in net.reads[v]} - set(mine))
            work[device] += sum(hop[v] for v in mine if v in net.wanted or set(net.readers[v]) - set(mine))
    end = [0] * 6
    for _ in range(20):
        before = list(end)
        for v in range(6):
            if places[v]:
                mine = [w for w in range(6) if places[w] == places[v]]
                outside = {u for w in mine for u in net.reads[w]} - set(mine)
                end[v] = max((end[u] for u in outside), default=0) + work[places[v]]
            else:
                end[v] = max((end[u] for u in net.reads[v]), default=0) + (net.cost[v][0] or 0)
        if end == before:
            return max(end), max(work)
    return None, max(work)  # they wait for each other: times grow without end


@pytest.mark.parametrize("seed", range(12))
def test_prices_agree_with_the_definition_and_the_searches_with_all_placements(seed: int) -> None:
    net, hop = random_network(seed)
    latencies, loads = [], []
    for places in itertools.product(range(3), repeat=6):
        expected = by_hand(net, hop, places)
        assert fits(net, places) == (expected is not None)
        if expected is not None:
            assert (latency(net, places), max(works(net, places))) == expected
            loads.append(expected[1])
            if expected[0] is not None:
                latencies.append(expected[0])
    found = least_latency(net, tries=4000, orders=40)
    assert found.cost == latency(net, found.places) == min(latencies)
    assert fits(net, found.places)
    busy = least_busy(net, tries=1500, orders=40)
    assert busy.cost == max(works(net, busy.places)) == min(loads)
    assert fits(net, busy.places)


def test_calls_that_wait_for_each_other_have_no_latency() -> None:
    # v0 on d1, v1 on d2 reads it, v2 on d1 reads that: d1's one call waits for d2's, which waits for it
    net = network(task_graph([[], [0], [1]], [[9, 1, 1]] * 3, [1, 1, 1], 3), Holdings((0, 0, 0), (None, 5, 5)))
    assert latency(net, (1, 2, 1)) is None
    # in at d2: v0; out of d2: v1. d1: v0, then out; d2: in, v1, out; the host reads v1 and takes 9 for v2
    assert latency(net, (1, 2, 0)) == (1 + 1) + (1 + 1 + 1) + 9


@pytest.mark.parametrize("seed", range(6))
def test_intervals_count_work_as_they_grow(seed: int) -> None:
    net, _ = random_network(seed)
    rng = random.Random(seed)
    blocks = [list(group) for group in net.groups]
    rng.shuffle(blocks)  # in any order, also readers first
    seen = 0
    for first in range(len(blocks)):
        for end, work, _ in growing(net, blocks, first, 1):
            inside = {value for block in blocks[first:end] for value in block}
            places = [int(value in inside) for value in range(6)]
            assert work == works(net, [p if net.cost[v][p] is not None else 2 for v, p in enumerate(places)])[1]
            seen += 1
    assert seen


@pytest.mark.parametrize("seed", range(6))
def test_shifts_count_what_a_fresh_count_says(seed: int) -> None:
    net, _ = random_network(seed)
    rng = random.Random(seed)
    shifts = Shifts(net, [0] * 6)
    made = 0
    for _ in range(60):
        group, target = rng.randrange(len(net.groups)), rng.randrange(3)
        if shifts.allowed(group, target):
            shifts.shift(group, target)
            made += 1
            assert shifts.work == works(net, shifts.places)
    assert made > 20
    assert fits(net, shifts.places)


def test_groups_that_lead_to_each_other_are_one_block() -> None:
    # v0 -> v1 -> v2, with v0 and v2 together: v1 cannot be between them
    problem = task_graph([[], [0], [1], [2]], [[9, 1]] * 4, [1] * 4, 2)
    net = network(problem, Holdings((0,) * 4, (None, 5), ((0, 2),)))
    blocks, reads = blocks_of(net)
    assert sorted(map(sorted, blocks)) == [[0, 1, 2], [3]]
    assert [sorted(blocks[b]) for b in ordered(reads, [0.0] * 2)] == [[0, 1, 2], [3]]
    late = blocks_of(net, frozenset({2}))[0]
    assert sorted(map(sorted, late)) == [[0, 2], [1], [3]]


def test_what_calls_do_not_know_is_refused() -> None:
    with pytest.raises(RewriteError, match="without launches"):
        network(task_graph([[]], [[1, 1]], [1], 2, launch=3), Holdings((0,), (None, 1)))


def test_no_room_is_said() -> None:
    net = network(task_graph([[]], [[None, 1]], [1], 2), Holdings((9,), (None, 5)))
    with pytest.raises(RewriteError, match="fits the memories"):
        least_latency(net, orders=3)
    with pytest.raises(RewriteError, match="fits the memories"):
        least_busy(net, orders=3)
