"""Device memory as a hard limit: weights and the peak of live values must fit.

In: an explored graph, a placement that does not fit, and how to search. Out: the cheapest placement that was found to
fit. Bytes are given a price on devices that are too small, which the search then minds (a Lagrangian relaxation); the
price goes up until everything fits, then down again as far as it may. What is left of the memory is then filled. Small
problems are tried out first, by branch and bound.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite_engine.diagnostics import LimitReached, RewriteError
from rewrite_engine.egraph.audit import Audit, audit
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.objectives.moves import Moves
from rewrite_engine.egraph.objectives.small import FloorOf, enumerate_answers
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.egraph.regions import merged
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.graph.terms import ABSENT
from rewrite_engine.machine import Machine
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType

_ALIGNMENT = 64
_STEPS = 14
_MOST_FILLS = 200
_BUDGET = 20_000
_NEVER = 1 << 60
_DEAREST = 1 << 44  # picoseconds that a device's whole capacity may cost

Solve = Callable[[Explored], Solution]
Build = Callable[[Solution], PlacedGraph]
Price = Callable[[Solution], int]


@dataclass(frozen=True, slots=True)
class Exact:
    """What trying out small problems takes: a floor of prices, and whether it is certain what an answer costs, or that
    it costs at least so much."""

    floor_of: FloorOf
    sure: Callable[[Audit, int], bool]


@dataclass(frozen=True, slots=True)
class Use:
    """Bytes that a device needs: `weights`, and the most that values take at one step."""

    weights: int
    peak: int

    @property
    def total(self) -> int:
        return self.weights + self.peak


def uses(graph: PlacedGraph, machine: Machine) -> dict[str, Use]:
    """What each device has to hold, values as long as they are read, inputs and outputs throughout."""
    last: dict[str, int] = {}
    first: dict[str, int] = dict.fromkeys(graph.inputs, 0)
    end = len(graph.steps)
    for number, step in enumerate(graph.steps):
        names = step.inputs if isinstance(step, KernelCall) else (step.value,)
        made = step.outputs if isinstance(step, KernelCall) else (step.output,)
        last |= dict.fromkeys((*names, *made), number)
        first |= dict.fromkeys(made, number)
    last |= dict.fromkeys((*graph.inputs, *graph.outputs), end)
    weights: dict[str, int] = defaultdict(int)
    for name in graph.parameters:
        weights[graph.devices[name]] += _bytes(graph.types[name])
    change: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for name, start in first.items():
        size = _bytes(graph.types[name])
        change[graph.devices[name]][start] += size
        change[graph.devices[name]][last[name] + 1] -= size
    found = {}
    for device in machine.devices:
        peak = now = 0
        for step_number in sorted(change[device.name]):
            now += change[device.name][step_number]
            peak = max(peak, now)
        found[device.name] = Use(weights[device.name], peak)
    return found


def too_small(graph: PlacedGraph, machine: Machine) -> dict[str, Use]:
    """The devices whose memory does not hold what a placed graph needs there."""
    capacity = {device.name: device.memory for device in machine.devices}
    found = uses(graph, machine)
    return {name: use for name, use in found.items() if (limit := capacity[name]) is not None and use.total > limit}


def roomy(explored: Explored) -> bool:
    """Whether each device holds every value and constant at once, so that nothing can be too large for it."""
    limits = [device.memory for device in explored.machine.devices if device.memory is not None]
    kinds = (entry.type for entry in explored.classes)
    return not limits or min(limits) >= sum(
        _bytes(kind) for mine in kinds for kind in (mine if isinstance(mine, tuple) else (mine,))
    )


def fit(
    explored: Explored, solution: Solution, solve: Solve, build: Build, price: Price, additive: bool,
    exact: Exact | None, left: Callable[[], float | None] = lambda: None, known: Sequence[Solution] = (),
) -> Solution:  # fmt: skip
    """The cheapest solution that was found to fit, instead of one that does not; its bound is one of all that fit.

    `known` are others that fit, at their prices. `left` are the seconds that are left, None without a limit. Where
    nothing fits, the solution comes back as it is: whoever plans the memory says so. Raises LimitReached where none was
    found to fit in time.
    """
    machine = explored.machine
    best: Solution | None = None
    if exact is not None and left() != 0.0:
        best, certain = _enumerate(explored, build, price, exact, left())
        if certain:
            return solution if best is None else replace(best, bound=best.cost, status="optimal")
    over = too_small(build(solution), machine)
    numbers = {name: k for k, name in enumerate(explored.problem.devices)}
    capacity = {device.name: device.memory or 0 for device in machine.devices}
    rate: dict[str, float] = dict.fromkeys(over, 0.0)
    best = min([*known, *([] if best is None else [best])], key=lambda one: one.cost, default=None)
    bound = solution.bound
    low, high = dict(rate), dict.fromkeys(rate, 1.0)
    fits = False
    for _ in range(_STEPS):
        if left() == 0.0:
            break
        rate = {name: (low[name] + high[name]) / 2 if fits else high[name] for name in high}
        live = any(use.weights <= capacity[name] for name, use in over.items())
        whole = {numbers[name]: (rate[name], _bytes_per_kernel(explored, numbers[name], live)) for name in rate}
        try:
            found = solve(_priced(explored, whole))
        except LimitReached:
            break
        except RewriteError:
            if best is None:
                return solution
            break
        if additive and not live:
            fee = sum(math.ceil(rate[name] * capacity[name]) for name in rate)
            bound = max(bound, found.bound - fee)
        problems = too_small(build(found), machine)
        over |= problems
        for name in problems:
            if name not in high:
                low[name], high[name], fits = 0.0, max(high.values()), False
        if problems:
            low = {name: rate.get(name, 0.0) for name in high}
            if not fits:
                high = {name: high[name] * 32 for name in high}
                if all(high[name] * max(1, capacity[name]) > _DEAREST for name in high):
                    break
            continue
        cost = price(found)
        if best is None or cost < best.cost:
            best = replace(found, cost=cost)
        high, fits = dict(rate), True
    if best is None and left() == 0.0:
        raise LimitReached(
            f"no placement was found in time that fits the memory of {', '.join(over)}; "
            "give the search more (--time-limit), or leave the limit out"
        )
    best = _fill(explored, best, solution, build, price, left)
    if best is None:
        return solution
    bound = min(bound, best.cost)
    return replace(best, bound=bound, status="optimal" if bound == best.cost else "feasible")


def _fill(
    explored: Explored, best: Solution | None, wanted: Solution, build: Build, price: Price,
    left: Callable[[], float | None],
) -> Solution | None:  # fmt: skip
    """The answer with kernels of the one without a limit, one after the other, wherever that fits and is cheaper."""
    if best is None:
        return None
    problem, moves = explored.problem, Moves(explored.problem)
    plan = moves.plan_of(best.choices)
    tries = _MOST_FILLS
    better = True
    while better and tries > 0:
        better = False
        for value, kernels in moves.plan_of(wanted.choices).items():
            if plan.get(value) == kernels or tries <= 0 or left() == 0.0:
                continue
            tries -= 1
            candidate = {**plan, value: kernels}
            numbers = moves.kernels(candidate)
            if numbers is None:
                continue
            try:
                checked = merged(problem, numbers)
            except RewriteError:
                continue
            if checked.problems:
                continue
            found = Solution(checked.choices, checked.copies, checked.cost, 0, "feasible")
            cost = price(found)
            if cost < best.cost and not too_small(build(found), explored.machine):
                plan, best, better = candidate, replace(found, cost=cost), True
    return best


def _enumerate(
    explored: Explored, build: Build, price: Price, exact: Exact, seconds: float | None
) -> tuple[Solution | None, bool]:
    """The best answer of a small problem, by branch and bound in half of the time, and whether that is certain."""

    def below(found: Audit, limit: int) -> tuple[int, bool]:
        answer = Solution(found.choices, found.copies, found.cost, 0, "feasible")
        cost = price(answer)
        fits = cost < limit and not too_small(build(answer), explored.machine)
        return cost if fits else limit, exact.sure(found, limit)

    deadline = None if seconds is None else time.monotonic() + seconds / 2
    cost, choices, certain = enumerate_answers(explored.problem, below, exact.floor_of, _NEVER, _BUDGET, deadline)
    if choices is None:
        return None, certain
    checked = audit(explored.problem, choices)
    return Solution(checked.choices, checked.copies, cost, 0, "feasible"), certain


def _bytes_per_kernel(explored: Explored, device: int, live: bool) -> Mapping[int, int]:
    """Per kernel on a device, its share of the bytes it reads of constants; with `live`, those of its result too.

    A constant is there once, whoever reads it: each value that may read it is charged for an equal part, so that the
    parts of all kernels that run are never more than what is there.
    """
    problem = explored.problem
    here = [problem.targets[kernel.target].device == device for kernel in problem.kernels]
    constants: list[set[int]] = []
    readers: dict[int, set[int]] = defaultdict(set)
    for kernel in problem.kernels:
        node = explored.enodes[kernel.payload]
        facts = find(node.op) if node.fused is None else None
        elsewhere = frozenset(node.fused.table.host) if node.fused else facts.host_inputs if facts else frozenset()
        mine = {
            value
            for place, value in enumerate(node.inputs)
            if value != ABSENT and place not in elsewhere and explored.classes[value].constant is not None
        }
        constants.append(mine)
        for value in mine:
            readers[value].add(kernel.value)
    found = {}
    for number, kernel in enumerate(problem.kernels):
        if here[number]:
            share = sum(_size(explored, value) // len(readers[value]) for value in constants[number])
            found[number] = share + (_size(explored, kernel.value) if live else 0)
    return found


def _size(explored: Explored, value: int) -> int:
    kind = explored.classes[value].type
    return 0 if isinstance(kind, tuple) else kind.bytes or 0


def _priced(explored: Explored, prices: Mapping[int, tuple[float, Mapping[int, int]]]) -> Explored:
    """The graph with a price for bytes on devices, on top of the costs of kernels."""
    problem = explored.problem
    kernels = []
    for number, kernel in enumerate(problem.kernels):
        rate, share = prices.get(problem.targets[kernel.target].device, (0.0, {}))
        kernels.append(replace(kernel, cost=kernel.cost + int(rate * share.get(number, 0))))
    return replace(explored, problem=replace(problem, kernels=tuple(kernels)))


def _bytes(kind: TensorType) -> int:
    size = kind.bytes or 0
    return -(-size // _ALIGNMENT) * _ALIGNMENT
