"""Logical cycles: a value that may be computed from itself, through rewrites that lead back.

In: ways with cycles. Out: ways without, once so that their optimum is a lower bound, once so that it is a real choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite_engine.egraph.components import components
from rewrite_engine.egraph.extract.model import Machine, Way, Ways
from rewrite_engine.egraph.needs import dominators, members


@dataclass(frozen=True, slots=True, eq=False)
class Unrolled:
    """Ways without cycles: `relaxed` ones may cost less than they do, `real` ones are fewer (equal if not `cyclic`).

    `safe`: the optimum of the relaxed ways is a bound whatever launches cost, otherwise only when launches are free.
    """

    relaxed: dict[int, tuple[Way, ...]]
    real: dict[int, tuple[Way, ...]]
    cyclic: bool
    safe: bool


def break_cycles(
    ways: Ways, machine: Machine, given: frozenset[int], solo: frozenset[int], originals: frozenset[int]
) -> Unrolled:
    """Removes logical cycles: operands of the relaxed ways, whole ways of the real ones.

    A way of v that reads w is *idle* where w cannot be had without v: the first time that v is computed, another way
    does it, so the idle one only runs besides a proper way of v on another target. Relaxed, it becomes a companion and
    no longer reads w. What is then not needed any more is a chain from v to w, if nothing else is read on the way and
    no kernel of it joins several operands; taking such a chain out never splits a region (else: not `safe`).

    A cycle that remains is a true choice (A from B or B from A). There, members are put in an order, originals
    (kernel indices) first, and operands that come later go. That is not `safe`.

    An operand w that is no longer read may have joined two regions: its launch is taken off. If w is computed from v
    alone, and still needed, then it reads v from its device's memory (not from the idle way, nor from another kernel of
    the same target), so the refund is only due where another kernel provides that.
    """
    relaxed = {value: list(mine) for value, mine in ways.items()}
    real = {value: list(mine) for value, mine in ways.items()}
    cyclic, safe = False, True
    for component in _cyclic(relaxed):
        inside = set(component)
        lost_without = _lost_without(component, ways, given)
        for value in component:
            lost = lost_without[value]
            for place, way in enumerate(relaxed[value]):
                if not lost.isdisjoint(way.operands):
                    cyclic = True
                    safe &= _is_chain(value, lost, ways, machine) and not solo & inside
                    real[value].remove(way)
                    direct = len(lost) == 1 and _reads_only(value, ways[min(lost)], machine)
                    item = machine.target_devices[way.target] if direct else None
                    relaxed[value][place] = _without(way, lost, machine, companion=True, item=item)
    for component in _cyclic(relaxed):
        cyclic, safe = True, False
        depth = _depths(component, relaxed, given, originals)
        for value in component:
            later = {other for other in component if depth[other] >= depth[value]}
            for place, way in enumerate(relaxed[value]):
                if later & set(way.operands):
                    relaxed[value][place] = _without(way, later, machine, companion=way.companion, item=None)
            real[value] = [way for way in real[value] if not later & set(way.operands)]
    return Unrolled(_frozen(relaxed), _frozen(real), cyclic, safe)


def _is_chain(value: int, lost: set[int], ways: Ways, machine: Machine) -> bool:
    """Whether all that leads from a value to those lost without it reads nothing else and joins nothing."""
    return all(
        set(way.operands) <= lost | {value} and (len(way.inside) <= 1 or not machine.launches[way.target])
        for member in lost
        for way in ways[member]
    )


def _reads_only(value: int, ways: Iterable[Way], machine: Machine) -> bool:
    """Whether ways read nothing but this value, from their region or their own device's memory."""
    return all(
        set(way.operands) == {value} and all(item == machine.target_devices[way.target] for _, item in way.memory)
        for way in ways
    )


def _frozen(ways: Mapping[int, Iterable[Way]]) -> dict[int, tuple[Way, ...]]:
    return {value: tuple(mine) for value, mine in ways.items()}


def _cyclic(ways: Mapping[int, Sequence[Way]]) -> list[list[int]]:
    edges = {v: [o for way in mine for o in way.operands if o in ways] for v, mine in ways.items()}
    return [sorted(c) for c in components(edges) if len(c) > 1]


def _without(way: Way, operands: set[int], machine: Machine, companion: bool, item: int | None) -> Way:
    inside = tuple(value for value in way.inside if value not in operands)
    memory = tuple((value, item) for value, item in way.memory if value not in operands)
    refund = way.refund + machine.launches[way.target] * (len(way.inside) - len(inside))
    return replace(way, inside=inside, memory=memory, companion=companion, refund=refund, refund_item=item)


def _lost_without(component: Sequence[int], ways: Ways, given: frozenset[int]) -> dict[int, set[int]]:
    """Per member of a component, the other members that cannot be computed when it is not there.

    Members are numbered by their places, so that sets of them are small.
    """
    place = {value: n for n, value in enumerate(component)}
    inner: dict[int, list[tuple[int, ...]]] = {}
    for value in component:
        found = {tuple(place[o] for o in way.operands if o in place) for way in ways[value]}
        inner[place[value]] = [()] if value in given or () in found else sorted(found)
    lost: dict[int, set[int]] = {value: set() for value in component}
    for at, needs in dominators(inner).items():
        for other in members(needs & ~(1 << at)):
            lost[component[other]].add(component[at])
    return lost


def _depths(
    component: Sequence[int], ways: Mapping[int, Sequence[Way]], given: frozenset[int], originals: frozenset[int]
) -> dict[int, int]:
    """An order of a component in which every member keeps a way: originals as early as they can, then the rest."""
    inside = set(component)
    depth: dict[int, int] = {}
    for only_originals in (True, False):
        progress = True
        while progress:
            progress = False
            for value in component:
                if value in depth:
                    continue
                kept = [way for way in ways[value] if not only_originals or way.kernel in originals]
                if (value in given and not only_originals) or any(
                    all(operand in depth for operand in way.operands if operand in inside) and not way.companion
                    for way in kept
                ):
                    depth[value] = len(depth)
                    progress = True
    for value in component:
        depth.setdefault(value, len(depth))
    return depth
