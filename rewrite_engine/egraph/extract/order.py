"""The order of elimination: consumers before producers, with as few values on the frontier as a greedy choice gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rewrite_engine.egraph.extract.model import Coming, Machine, Model, Turn, Value, Ways
from rewrite_engine.egraph.problem import Problem


def build_model(problem: Problem, machine: Machine, ways: Ways, roots: Sequence[tuple[int, int]]) -> Model:
    """Signatures, order, and a slot of the frontier for every value. The ways must not have a cycle."""
    values = _values(problem, machine, ways)
    order = _order(values, [value for value, _ in roots])
    root_slots, turns, slots = _turns(machine, values, order, [value for value, _ in roots])
    return Model(machine, values, tuple(roots), root_slots, turns, slots)


def _values(problem: Problem, machine: Machine, ways: Ways) -> dict[int, Value]:
    copies: dict[int, dict[tuple[int, int], int]] = {value: {} for value in ways}
    given: dict[int, list[int]] = {value: [] for value in ways}
    for (value, source, destination), cost in problem.copies.items():
        if value in copies:
            copies[value][source, destination] = cost
    for value, device in sorted(problem.given):
        if value in given:
            given[value].append(device)
    signatures: dict[object, int] = {}
    result = {}
    for value, mine in ways.items():
        by_target = {t: tuple(w for w in mine if w.target == t) for t in sorted({w.target for w in mine})}
        children = tuple(dict.fromkeys(operand for way in mine for operand in way.operands))
        held = {machine.target_devices[target] for target in by_target} | set(given[value])
        links = {pair: cost for pair, cost in sorted(copies[value].items()) if pair[0] in held}
        solo = value in problem.solo
        key = (tuple(by_target), tuple(given[value]), tuple(links.items()), solo)
        signature = signatures.setdefault(key, len(signatures))
        result[value] = Value(value, by_target, tuple(given[value]), links, solo, children, signature)
    return result


def _order(values: Mapping[int, Value], roots: Sequence[int]) -> list[int]:
    """Of the values whose consumers are done: the one that adds the fewest to the frontier, then the latest reached."""
    consumers = Counter(child for value in values.values() for child in value.children)
    frontier = dict.fromkeys(roots, 0)
    ready = {root for root in frontier if not consumers[root]}
    order: list[int] = []
    while frontier:
        best = min(ready, key=lambda v: (sum(c not in frontier for c in values[v].children), -frontier[v], v))
        order.append(best)
        del frontier[best]
        ready.discard(best)
        for child in values[best].children:
            consumers[child] -= 1
            frontier.setdefault(child, len(order))
            if not consumers[child]:
                ready.add(child)
    return order


def _turns(
    machine: Machine, values: Mapping[int, Value], order: Sequence[int], roots: Sequence[int]
) -> tuple[dict[int, int], tuple[Turn, ...], int]:
    position, devices = machine.position, machine.target_devices
    asks: dict[int, list[tuple[int, int, int]]] = {}  # value -> what its ways may ask: (child, item, offer or -1)
    left: Counter[tuple[int, int, int]] = Counter()
    for value, local in values.items():
        mine: dict[tuple[int, int, int], None] = {}
        for target, ways in local.ways.items():
            for way in ways:
                for child in way.inside:
                    mine[child, devices[target], position[target]] = None
                for child, item in way.memory:
                    mine[child, item, -1] = None
        asks[value] = list(mine)
        left.update(list(mine))
    open_asks: dict[int, dict[tuple[int, int], None]] = {value: {} for value in values}
    for child, item, offer in left:
        open_asks[child][item, offer] = None
    slot_of: dict[int, int] = {}
    free: list[int] = []
    width = 0

    def place(value: int) -> None:
        nonlocal width
        if value not in slot_of:
            if not free:
                free.append(width)
                width += 1
            free.sort(reverse=True)
            slot_of[value] = free.pop()

    for root in roots:
        place(root)
    root_slots = dict(slot_of)
    turns = []
    coming: dict[int, tuple[int, int]] = {}

    def refresh(value: int) -> None:
        items = offers = 0
        for item, offer in open_asks[value]:
            items |= 1 << item
            offers |= 1 << offer if offer >= 0 else 0
        coming[value] = items, offers

    for root in roots:
        refresh(root)
    for value in order:
        children = values[value].children
        for child in children:
            place(child)
        for ask in asks[value]:
            left[ask] -= 1
            if not left[ask]:
                del open_asks[ask[0]][ask[1:]]
        for child in children:
            refresh(child)
        slot = slot_of.pop(value)
        live = tuple(Coming(other, at, *coming[other]) for other, at in sorted(slot_of.items(), key=lambda kv: kv[1]))
        turns.append(Turn(value, slot, tuple(slot_of[child] for child in children), live))
        free.append(slot)
    return root_slots, tuple(turns), width
