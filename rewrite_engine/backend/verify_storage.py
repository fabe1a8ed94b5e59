"""Proofs about bytes: nothing that is live shares storage, and every storage lies inside its device.

In: a read graph.json and a memory plan. Out: problems, each with the node, the value and what was expected.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from rewrite_engine.backend.graph_reader import ReadGraph, where_is
from rewrite_engine.backend.memory import ARENA, HOST, MemoryPlan, Storage
from rewrite_engine.backend.packing import ALIGNMENT
from rewrite_engine.backend.verify_sharing import roots_of

Life = tuple[int, int]


def lifetimes_of(graph: ReadGraph, pinned: Collection[str] = ()) -> list[Life]:
    """Steps over which each entry must hold its bytes, from the order of the nodes alone; pinned ones to the end."""
    steps: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        if node.kind != "argument":
            steps[index] = len(steps)
    whole = (0, max(0, len(steps) - 1))
    lives = [(steps[entry.node],) * 2 if entry.node in steps else whole for entry in graph.entries]
    for index, node in enumerate(graph.nodes):
        for entry in node.inputs:
            first, last = lives[entry]
            lives[entry] = (first, max(last, steps[index]))
    for entry in graph.heads:
        lives[entry] = whole
    for number, found in enumerate(graph.entries):
        if found.name in pinned:
            lives[number] = (lives[number][0], whole[1])
    return lives


def pinned_values(plan: MemoryPlan) -> frozenset[str]:
    """Values whose bytes the plan keeps to the end of the run."""
    return frozenset(storage.value for storage in plan.storages if storage.kind == "pinned")


def _tenancies(graph: ReadGraph, plan: MemoryPlan) -> dict[int, Life]:
    """How long the bytes of each root are held, by entry: while it or anything that shares them is live."""
    lives = lifetimes_of(graph, pinned_values(plan))
    held: dict[int, Life] = {}
    for number, root in enumerate(roots_of(graph, plan)):
        first, last = held.get(root, lives[number])
        held[root] = min(first, lives[number][0]), max(last, lives[number][1])
    return held


def _long_lived_first(life: Life, number: int) -> tuple[int, int, int]:
    """By first step; of those, the long-lived ones first, so that the passing one is named as the intruder."""
    return life[0], -life[1], number


class _Tenant(NamedTuple):
    """Bytes of one value while it is live, in the order of their offsets."""

    start: int
    end: int
    entry: int


def shared_storage_ids(graph: ReadGraph, plan: MemoryPlan) -> Iterator[str]:
    """Entries of one storage id are on one device and never live together, but for those that share a root's bytes;
    that is all an executor knows of bytes."""
    lives = _tenancies(graph, plan)
    tenants: dict[int, list[int]] = {}
    for number, root in enumerate(roots_of(graph, plan)):
        entry, owner = graph.entries[number], graph.entries[root]
        if number == root:
            tenants.setdefault(entry.storage_id, []).append(number)
        elif (entry.storage_id, entry.device) != (owner.storage_id, owner.device):
            yield (
                f"{where_is(graph, entry.node)}: value `{entry.name}`: expected storage id {owner.storage_id} on "
                f"`{owner.device}` as for `{owner.name}`, found {entry.storage_id} on `{entry.device}`"
            )
    for identifier, numbers in sorted(tenants.items()):
        numbers.sort(key=lambda number: _long_lived_first(lives[number], number))
        furthest = numbers[0]
        for number in numbers[1:]:
            earlier, entry = graph.entries[furthest], graph.entries[number]
            where = f"{where_is(graph, entry.node)}: value `{entry.name}`: storage id {identifier}"
            if earlier.device != entry.device:
                yield f"{where}: expected device `{earlier.device}` as for `{earlier.name}`, found `{entry.device}`"
            if lives[number][0] <= lives[furthest][1]:
                yield f"{where}: expected bytes of its own, found them in use by `{earlier.name}`, which is live"
            if lives[number][1] >= lives[furthest][1]:
                furthest = number


def shared_bytes(graph: ReadGraph, plan: MemoryPlan) -> Iterator[str]:
    """No byte of a device belongs to two values that are live at one step."""
    storages, lives = plan.by_value(), _tenancies(graph, plan)
    by_device: dict[str, list[int]] = {}
    for number in lives:
        storage = storages.get(graph.entries[number].name)
        if storage is not None and storage.size > 0:
            by_device.setdefault(storage.device, []).append(number)
    for _, numbers in sorted(by_device.items()):
        numbers.sort(key=lambda number: _long_lived_first(lives[number], number))
        yield from _overlaps(graph, numbers, storages, lives)


def _overlaps(
    graph: ReadGraph, numbers: Iterable[int], storages: Mapping[str, Storage], lives: Mapping[int, Life]
) -> Iterator[str]:
    """A sweep over steps; the live tenants are kept in the order of their offsets, so neighbours are enough."""
    live: list[_Tenant] = []
    ends: list[tuple[int, _Tenant]] = []
    for number in numbers:
        first, last = lives[number]
        while ends and ends[0][0] < first:
            live.remove(heapq.heappop(ends)[1])
        storage = storages[graph.entries[number].name]
        tenant = _Tenant(storage.offset, storage.offset + storage.size, number)
        insort(live, tenant)
        heapq.heappush(ends, (last, tenant))
        place = live.index(tenant)
        for other in live[max(0, place - 1) : place] + live[place + 1 : place + 2]:
            if tenant.start < other.end and other.start < tenant.end:
                entry, clash = graph.entries[number], graph.entries[other.entry].name
                where = f"{where_is(graph, entry.node)}: value `{entry.name}`"
                mine, theirs = f"{tenant.start}..{tenant.end}", f"{other.start}..{other.end}"
                yield (
                    f"{where}: expected bytes {mine} of `{storage.device}` for itself, "
                    f"found them in use by `{clash}` ({theirs}), which is live"
                )


def device_limits(plan: MemoryPlan) -> Iterator[str]:
    """Storages are aligned, inside their device's memory, and the byte counts and capacities hold."""
    uses = plan.by_device()
    if HOST not in uses:
        yield f"memory plan: expected the device `{HOST}`, found {', '.join(uses)}"
    for storage in plan.storages:
        where = f"value `{storage.value}`"
        use = uses.get(storage.device)
        if use is None:
            yield f"{where}: expected a device of the memory plan, found `{storage.device}`"
            continue
        owns = storage.root == storage.value
        limit = use.arena if storage.kind in ARENA and owns else use.extent
        if storage.offset < 0 or storage.size < 0 or storage.offset + storage.size > limit:
            yield (
                f"{where}: expected it within the {limit} bytes of `{storage.device}`, "
                f"found bytes {storage.offset}..{storage.offset + storage.size}"
            )
        if storage.alignment < ALIGNMENT or storage.alignment % ALIGNMENT:  # what kernels in C rely on
            yield f"{where}: expected an alignment that is a multiple of {ALIGNMENT}, found {storage.alignment}"
        elif storage.offset % storage.alignment:
            yield f"{where}: expected an offset that is a multiple of {storage.alignment}, found {storage.offset}"
    for use in plan.devices:
        yield from _counts(use.device, plan)


def _counts(device: str, plan: MemoryPlan) -> Iterator[str]:
    use = plan.by_device()[device]
    here = [storage for storage in plan.storages if storage.device == device]
    weights = sum(storage.size for storage in here if storage.kind == "parameter")
    inputs_outputs = sum(storage.size for storage in here if storage.kind in ("input", "output"))
    facts = (
        ("weights", weights, use.weights),
        ("inputs and outputs", inputs_outputs, use.inputs_outputs),
        ("peak", use.arena + inputs_outputs, use.peak),
    )
    for fact, expected, found in facts:
        if expected != found:
            yield f"device `{device}`: expected {expected} bytes of {fact}, found {found}"
    if use.capacity is not None and use.weights + use.peak > use.capacity:
        needed = use.weights + use.peak
        yield f"device `{device}`: expected at most {use.capacity} bytes, found {needed} needed"
