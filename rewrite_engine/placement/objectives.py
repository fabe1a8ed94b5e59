"""What a placement is judged by: latency, makespan, throughput, energy.

An objective says what kernels and copies cost, finds the best placement of an explored graph with a lower bound, and
prices placements: an answer to the problem, and the graph that was rebuilt from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.egraph.audit import audit
from rewrite_engine.egraph.extract import solve
from rewrite_engine.egraph.extract.ladder import Clock
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.objectives import makespan, throughput
from rewrite_engine.egraph.objectives.ends import Ends
from rewrite_engine.egraph.objectives.floors import Busiest, Sums
from rewrite_engine.egraph.objectives.loads import Copy
from rewrite_engine.egraph.objectives.tasks import Tasks
from rewrite_engine.egraph.problem import Solution
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.machine import Machine
from rewrite_engine.operators.types import TensorType
from rewrite_engine.placement.memory_limits import Exact
from rewrite_engine.placement.rebuild import Costs


@dataclass(frozen=True, slots=True)
class Search:
    """Limits of a search: `seconds` and the relative `gap` at which it may stop; `seed` of everything random."""

    seconds: float | None = None
    gap: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PricedCosts(Costs):
    """Costs whose total is the price of an objective that is no sum; the parts stand beside it."""

    price: int = 0

    @property
    def total(self) -> int:
        return self.price


class Objective(Protocol):
    """What `place(objective=…)` takes, beside a name."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str:
        """ "ps" or "pJ"."""
        ...

    @property
    def additive(self) -> bool:
        """Whether the price of a placement is the sum of its kernels, copies and launches."""
        ...

    def machine(self, machine: Machine) -> Machine:
        """The machine with costs in this objective's unit."""
        ...

    def solve(self, explored: Explored, search: Search, known: Sequence[Solution]) -> Solution:
        """The best placement, never worse than those known, with a lower bound of the price of any."""
        ...

    def price(self, explored: Explored, solution: Solution) -> int:
        """What an answer costs by this objective."""
        ...

    def measure(self, graph: PlacedGraph, machine: Machine) -> int:
        """What a placed graph costs by this objective."""
        ...


@dataclass(frozen=True, slots=True)
class Latency:
    """One thing at a time: the sum of kernels, copies and one launch per region. Exact."""

    name: str = "latency"
    unit: str = "ps"
    additive: bool = True

    def machine(self, machine: Machine) -> Machine:
        return machine

    def solve(self, explored: Explored, search: Search, known: Sequence[Solution]) -> Solution:
        cutoff = min(known, key=lambda s: s.cost, default=None)
        return solve(explored.problem, time_limit=search.seconds, gap=search.gap, cutoff=cutoff)

    def price(self, explored: Explored, solution: Solution) -> int:
        return solution.cost

    def measure(self, graph: PlacedGraph, machine: Machine) -> int:
        launches = {target.name: target.launch for target in machine.targets}
        regions = {step.region: step.target for step in graph.steps if isinstance(step, KernelCall)}
        return sum(step.cost for step in graph.steps) + sum(launches[target] for target in regions.values())


@dataclass(frozen=True, slots=True)
class Energy(Latency):
    """The sum of the energies of kernels and copies. Exact. What has no `energy` in its rule file counts nothing."""

    name: str = "energy"
    unit: str = "pJ"

    def machine(self, machine: Machine) -> Machine:
        return machine.by_energy()


@dataclass(frozen=True, slots=True)
class Makespan:
    """The time until the last output is there, with all devices at work at once: see `egraph.objectives.makespan`.

    Exact for small graphs; for others a search from the answers of the other strategies, beside a lower bound.
    """

    name: str = "makespan"
    unit: str = "ps"
    additive: bool = False

    def machine(self, machine: Machine) -> Machine:
        return machine

    def solve(self, explored: Explored, search: Search, known: Sequence[Solution]) -> Solution:
        clock = Clock(search.seconds)
        starts = [*known, _latency(explored, search, known)]
        return makespan.solve_makespan(
            explored.problem, starts, time_limit=clock.left(), gap=Fraction(search.gap), seed=search.seed
        )

    def price(self, explored: Explored, solution: Solution) -> int:
        return makespan.price(explored.problem, audit(explored.problem, solution.choices))

    def measure(self, graph: PlacedGraph, machine: Machine) -> int:
        return makespan.makespan(tasks_of_graph(graph, machine))


@dataclass(frozen=True, slots=True)
class Throughput:
    """The load of the busiest device, which a pipeline of several inputs waits for: `egraph.objectives.throughput`.

    Exact for small graphs; for others a search, beside the bound of a Lagrangian dual.
    """

    name: str = "throughput"
    unit: str = "ps"
    additive: bool = False

    def machine(self, machine: Machine) -> Machine:
        return machine

    def solve(self, explored: Explored, search: Search, known: Sequence[Solution]) -> Solution:
        clock = Clock(search.seconds)
        starts = [*known, _latency(explored, search, known)]
        shares = hop_shares(explored)
        return throughput.solve_throughput(
            explored.problem, starts, shares.whole, shares.last, time_limit=clock.left(), gap=Fraction(search.gap),
            seed=search.seed,
        )  # fmt: skip

    def price(self, explored: Explored, solution: Solution) -> int:
        problem = explored.problem
        return throughput.price(problem, audit(problem, solution.choices), hop_shares(explored).whole)

    def measure(self, graph: PlacedGraph, machine: Machine) -> int:
        return max(device_loads(graph, machine).values(), default=0)


OBJECTIVES: Mapping[str, Objective] = {o.name: o for o in (Latency(), Makespan(), Throughput(), Energy())}


def find(objective: str | Objective) -> Objective:
    """The objective of that name; an unknown one is a RewriteError."""
    if not isinstance(objective, str):
        return objective
    if objective not in OBJECTIVES:
        hint = did_you_mean(objective, OBJECTIVES)
        known = ", ".join(OBJECTIVES)
        raise RewriteError(f"objective `{objective}` is not one of: {known}" + (f"; {hint}" if hint else ""))
    return OBJECTIVES[objective]


def exact_of(explored: Explored, aim: Objective) -> Exact | None:
    """How small problems are tried out by what the placed graph costs; None for objectives that are not of here."""
    problem = explored.problem
    if isinstance(aim, Latency):
        return Exact(lambda _: Sums(problem), lambda *_: True)
    if isinstance(aim, Makespan):
        return Exact(
            lambda order: Ends(problem, order),
            lambda found, limit: makespan.price_below(problem, found, limit)[1],
        )
    if isinstance(aim, Throughput):
        shares = hop_shares(explored)
        least = shares.whole if shares.last is None else shares.last
        return Exact(lambda _: Busiest(problem, least), lambda *_: True)
    return None


def _latency(explored: Explored, search: Search, known: Sequence[Solution]) -> Solution:
    """Where searches for other objectives start: the placement of least latency."""
    seconds = None if search.seconds is None else search.seconds / 4
    cutoff = min(known, key=lambda s: s.cost, default=None)
    return solve(explored.problem, time_limit=seconds, gap=max(search.gap, 0.001), cutoff=cutoff)


@dataclass(frozen=True, slots=True, eq=False)
class HopShares:
    """Who is busy with each copy: over all hops of its path, and over the last alone (others may share the rest)."""

    whole: dict[Copy, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    last: dict[Copy, tuple[tuple[int, int], ...]] | None = None


def hop_shares(explored: Explored) -> HopShares:
    """Per copy of a problem, the devices that its hops keep busy, the host apart. `last` is None where it is equal."""
    problem, machine = explored.problem, explored.machine
    number = {name: k for k, name in enumerate(problem.devices)}
    whole, last = {}, {}
    for value, source, destination in problem.copies:
        kind = explored.classes[value].type
        assert isinstance(kind, TensorType)
        path = machine.paths(machine.size(kind))[problem.devices[source], problem.devices[destination]]
        ends = [[(number[name], hop.cost) for name in (hop.source, hop.destination) if number[name]] for hop in path]
        whole[value, source, destination] = tuple(share for hop in ends for share in hop)
        last[value, source, destination] = tuple(ends[-1])
    return HopShares(whole, None if whole == last else last)


def device_loads(graph: PlacedGraph, machine: Machine) -> dict[str, int]:
    """Picoseconds for which each device of a placed graph is busy; copies count at their ends, but not at the host."""
    launches = {target.name: target.launch for target in machine.targets}
    found = {device.name: 0 for device in machine.devices}
    host = machine.devices[0].name
    regions: dict[str, KernelCall] = {}
    for step in graph.steps:
        if isinstance(step, CopyCall):
            for end in (step.source, step.destination):
                found[end] += step.cost if end != host else 0
        else:
            found[step.device] += step.cost
            regions[step.region] = step
    for call in regions.values():
        found[call.device] += launches[call.target]
    return found


def tasks_of_graph(graph: PlacedGraph, machine: Machine) -> Tasks:
    """The regions of a placed graph as tasks, numbered in the order of its steps."""
    launches = {target.name: target.launch for target in machine.targets}
    devices = {device.name: k for k, device in enumerate(machine.devices)}
    number: dict[str, int] = {}
    durations: list[int] = []
    places: list[int] = []
    there: dict[str, tuple[int, int]] = dict.fromkeys((*graph.inputs, *graph.parameters), (-1, 0))
    reads: dict[int, dict[str, None]] = defaultdict(dict)
    copies = {step.output: step for step in graph.steps if isinstance(step, CopyCall)}
    for step in graph.steps:
        if isinstance(step, CopyCall):
            continue
        if step.region not in number:
            number[step.region] = len(durations)
            durations.append(launches[step.target])
            places.append(devices[step.device])
        mine = number[step.region]
        durations[mine] += step.cost
        reads[mine] |= dict.fromkeys(step.inputs)
        there |= dict.fromkeys(step.outputs, (mine, 0))

    def arrival(name: str) -> tuple[int, int]:
        delay = 0
        while name in copies:
            delay += copies[name].cost
            name = copies[name].value
        return there[name][0], delay

    before: list[list[tuple[int, int]]] = []
    release = []
    for task in range(len(durations)):
        found = [arrival(name) for name in reads[task]]
        before.append([(by, delay) for by, delay in found if by not in (-1, task)])
        release.append(max((delay for by, delay in found if by < 0), default=0))
    tail, least = [0] * len(durations), 0
    for name in graph.outputs:
        by, delay = arrival(name)
        if by < 0:
            least = max(least, delay)
        else:
            tail[by] = max(tail[by], delay)
    return Tasks(durations, places, before, release, tail, least)
