"""What no answer avoids: a bound of the busiest device's load that needs no search.

In: a problem. Out: the values that every answer computes, and the least that the busiest device does for them. Launches
and copies count nothing here, so this is weak where they are dear, and sound anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rewrite_engine.egraph.needs import MOST_VALUES, members, needs_of, options_of, union
from rewrite_engine.egraph.problem import Problem

_ROUNDS = 200
_WHOLE = 10**6


def needed_of(problem: Problem) -> dict[int, int]:
    """Per value that is neither given nor constant, itself and what every way to it computes, as bits."""
    return needs_of(options_of(problem, range(len(problem.kernels))))


def unavoidable(problem: Problem) -> list[int]:
    """Values that every answer computes, ascending."""
    free = {value for value, _ in problem.given} | problem.resident
    roots = [value for value, _ in problem.roots if value not in free]
    if problem.values > MOST_VALUES:
        return sorted(set(roots))
    needs = needed_of(problem)
    return list(members(union(needs.get(root, 0) for root in roots)))


def least_load(problem: Problem) -> int:
    """The least load of the busiest device: the dearest of the cheapest kernels, or all their work shared out."""
    return max((bound for bound, _ in _dual(problem)), default=0)


def prices_of_devices(problem: Problem, most: int = 6) -> list[list[float]]:
    """Weights of devices, 1 together, by which the sum of loads bounds the largest: equal ones, and better ones."""
    found = {tuple(price): bound for bound, price in _dual(problem)}
    best = sorted(found, key=lambda price: -found[price])[: most - 1]
    return [list(price) for price in dict.fromkeys([next(iter(found)), *best])]


def _dual(problem: Problem) -> Iterator[tuple[int, list[float]]]:
    """Bounds of the busiest device's load, with the weights of all devices that give them.

    For any weights of devices that are 1 together, the weighted sum of loads is at most the largest, and each value
    that must be computed adds at least the least of its weighted kernels. The weights move towards the busy devices.
    """
    devices = sorted({problem.targets[kernel.target].device for kernel in problem.kernels})
    place = {device: number for number, device in enumerate(devices)}
    costs: dict[int, dict[int, int]] = {value: {} for value in unavoidable(problem)}
    for kernel in problem.kernels:
        mine = costs.get(kernel.value)
        if mine is not None:
            device = place[problem.targets[kernel.target].device]
            mine[device] = min(kernel.cost, mine.get(device, kernel.cost))
    rows = [mine for mine in costs.values() if mine]
    dearest = max((min(mine.values()) for mine in rows), default=0)
    price = [1 / len(devices)] * len(devices)
    for turn in range(_ROUNDS):
        weights = [math.floor(p * _WHOLE) for p in price]
        weights[0] += _WHOLE - sum(weights)
        total, loads = 0, [0] * len(devices)
        for mine in rows:
            cost, device = min((cost * weights[device], device) for device, cost in mine.items())
            total += cost
            loads[device] += mine[device]
        spread = [0.0] * len(problem.devices)
        for device, part in zip(devices, price, strict=True):
            spread[device] = part
        yield max(dearest, -(-total // _WHOLE)), spread
        highest = max(loads, default=0)
        if not highest:
            break
        step = 2.0 / (turn + 2)
        price = [p * math.exp(step * load / highest) for p, load in zip(price, loads, strict=True)]
        whole = sum(price)
        price = [p / whole for p in price]
