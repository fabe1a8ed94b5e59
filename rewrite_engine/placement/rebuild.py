"""From chosen kernels back to a graph that runs: names, copies hop by hop, regions in order.

In: an explored e-graph and a solution. Out: a `PlacedGraph`, the cost recomputed from it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rewrite_engine.egraph.freeze import ENode, Explored
from rewrite_engine.egraph.fused import kernel_inputs
from rewrite_engine.egraph.problem import Choice, Kernel, Solution
from rewrite_engine.egraph.supply import INPUT, Source, supply
from rewrite_engine.graph.names import Names
from rewrite_engine.graph.placed import BodyNode, CopyCall, KernelCall, PlacedGraph, kept_outputs
from rewrite_engine.graph.terms import ABSENT
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType
from rewrite_engine.pause import collector_paused


@dataclass(frozen=True, slots=True)
class Costs:
    """What a placed graph costs by the sum of its parts, in picoseconds."""

    kernels: int
    copies: int
    launches: int

    @property
    def total(self) -> int:
        return self.kernels + self.copies + self.launches


_MOST_ORDERS = 4
"""The second is nearly always that of the first graph; equally cheap sources of a copy may go on changing places."""


@dataclass(slots=True, eq=False)
class _Run:
    """A chosen kernel: where it runs, the names of its results by index, and the choices of these results."""

    choice: Choice
    kernel: Kernel
    node: ENode
    outputs: dict[int, str] = field(default_factory=dict)
    results: dict[int, Choice] = field(default_factory=dict)

    @property
    def region(self) -> int:
        return self.choice.region


@collector_paused()
def rebuild(explored: Explored, solution: Solution, name: str) -> PlacedGraph:
    """The placed graph of a solution; steps are in an order in which they can run, region by region.

    Names follow that order: where the choices are in another one, they are brought into it and named again.
    """
    for _ in range(_MOST_ORDERS):
        making = _Rebuild(explored, solution, name)
        graph = making.graph(True)
        ordered = making.in_order(graph)
        if ordered == solution.choices:
            break
        solution = replace(solution, choices=ordered)
    return graph


@collector_paused()
def rebuild_kernels(explored: Explored, solution: Solution, name: str) -> PlacedGraph:
    """The kernels of a solution in its own order, without regions, after all copies."""
    return _Rebuild(explored, solution, name).graph(False)


def costs(graph: PlacedGraph, launches: Mapping[str, int]) -> Costs:
    """The cost of a placed graph: its kernels, its copies, and one launch per region."""
    kernels = [step for step in graph.steps if isinstance(step, KernelCall)]
    regions = {call.region: call.target for call in kernels}
    return Costs(
        sum(call.cost for call in kernels),
        sum(step.cost for step in graph.steps if isinstance(step, CopyCall)),
        sum(launches[target] for target in regions.values()),
    )


class _Rebuild:
    def __init__(self, explored: Explored, solution: Solution, name: str) -> None:
        self.explored, self.solution, self.name = explored, solution, name
        self.problem, self.machine = explored.problem, explored.machine
        self.own = {value.name for value in explored.terms.values}
        self.names = Names(self.own)
        self.types: dict[str, TensorType] = {}
        self.devices: dict[str, str] = {}
        self.parameters: dict[str, np.ndarray] = {}
        self.present: dict[tuple[int, int], str] = {}  # (value, device) -> name, for readers outside the region
        self.inside: dict[tuple[int, int], str] = {}  # (value, region) -> name
        self.given: dict[int, str] = {}  # value -> the graph input's name
        self.numbers = sorted({choice.region for choice in solution.choices})
        self.copies: list[CopyCall] = []
        self.made: dict[str, _Run] = {}  # by the name of the kernel call
        self.rewrites: dict[int, set[str]] = defaultdict(set)  # value -> the rules that computed it anew
        for match in explored.matches:
            if match.rule.kind == "rule":
                for root in match.roots:
                    self.rewrites[root].add(match.rule.name)

    def in_order(self, graph: PlacedGraph) -> tuple[Choice, ...]:
        """The choices in the order of the graph's steps: each kernel, then its results; regions numbered from 0."""
        numbers: dict[int, int] = {}
        found = []
        for step in graph.steps:
            if isinstance(step, KernelCall):
                run = self.made[step.name]
                number = numbers.setdefault(run.region, len(numbers))
                chosen = (run.choice, *(run.results[k] for k in sorted(run.results)))
                found += [Choice(choice.kernel, number) for choice in chosen]
        return tuple(found)

    def graph(self, regions: bool) -> PlacedGraph:
        terms = self.explored.terms
        inputs = tuple(self._input(index) for index in terms.inputs)
        runs = self._runs()
        self._copies()
        calls = [self._call(run) for run in runs]
        roots = [self._read(self.explored.class_of[i], self._root_device(i)) for i in terms.outputs]
        steps: list[KernelCall | CopyCall] = self._order(runs, calls) if regions else [*self.copies, *calls]
        output_names = tuple(terms.values[i].name for i in terms.outputs)
        return PlacedGraph(
            name=self.name,
            inputs=inputs,
            outputs=tuple(roots),
            parameters=dict(sorted(self.parameters.items())),
            steps=tuple(steps),
            types=dict(sorted(self.types.items())),
            devices=dict(sorted(self.devices.items())),
            output_names=() if output_names == tuple(roots) else output_names,
        )

    # ------------------------------------------------------------ values

    def _target(self, kernel: Kernel) -> str:
        return self.problem.targets[kernel.target].name

    def _device(self, kernel: Kernel) -> int:
        return self.problem.targets[kernel.target].device

    def _root_device(self, output: int) -> int:
        value = self.explored.class_of[output]
        return next(device for v, device in self.problem.roots if v == value)

    def _add(self, name: str, value: int, device: int) -> str:
        kind = self.explored.classes[value].type
        assert isinstance(kind, TensorType)
        self.types[name], self.devices[name] = kind, self.problem.devices[device]
        return name

    def _input(self, index: int) -> str:
        """A graph input, present where the problem says it is given."""
        value, name = self.explored.class_of[index], self.explored.terms.values[index].name
        device = min(device for v, device in self.problem.given if v == value)
        self.given.setdefault(value, name)
        self.present.setdefault((value, device), name)
        return self._add(name, value, device)

    def _fresh(self, value: int, device: int, owner: str) -> str:
        """The value's own name where it is first (on the device that wants it as an output), else one that is new."""
        base = self.problem.names[value]
        wanted = {d for v, d in self.problem.roots if v == value}
        if base not in self.types and (device in wanted or not wanted):
            return self._add(base if base in self.own else self.names.unique(base), value, device)
        return self._add(self.names.on_device(base, owner), value, device)

    def _runs(self) -> list[_Run]:
        """The chosen kernels in order; projections of a tuple become outputs of its kernel."""
        runs: list[_Run] = []
        tuples: dict[tuple[int, int], _Run] = {}
        for choice in self.solution.choices:
            kernel = self.problem.kernels[choice.kernel]
            node, device = self.explored.enodes[kernel.payload], self._device(kernel)
            if node.outputs > 1:
                run = _Run(choice, kernel, node)
                tuples[kernel.value, choice.region] = run
                runs.append(run)
                continue
            name = self._fresh(kernel.value, device, self._target(kernel))
            self.inside[kernel.value, choice.region] = name
            if node.result is not None:
                whole = tuples[node.inputs[0], choice.region]
                whole.outputs[node.result], whole.results[node.result] = name, choice
            else:
                runs.append(_Run(choice, kernel, node, {0: name}))
        return runs

    def _copies(self) -> None:
        """What every read from memory gets: a computed or given value at once, else a copy.

        A copy goes hop by hop over its cheapest path; the value is present at every stop.
        """
        index = {name: k for k, name in enumerate(self.problem.devices)}
        sources = supply(self.problem, self._regions()).sources
        for (value, device), source in sorted(sources.items()):
            if not source.copied:
                self.present[value, device] = self._made(value, source)
        for (value, device), source in sorted(sources.items()):
            if not source.copied:
                continue
            kind = self.explored.classes[value].type
            assert isinstance(kind, TensorType)
            size = self.machine.size(kind)
            here = self._made(value, source)
            for hop in self.machine.paths(size)[self.problem.devices[source.device], self.problem.devices[device]]:
                stop = index[hop.destination]
                if (value, stop) not in self.present:
                    name = self._fresh(value, stop, hop.destination)
                    self.copies.append(CopyCall(here, name, hop.source, hop.destination, size, hop.cost))
                    self.present[value, stop] = name
                here = self.present[value, stop]

    def _regions(self) -> list[list[Kernel]]:
        regions: dict[int, list[Kernel]] = {number: [] for number in self.numbers}
        for choice in self.solution.choices:
            regions[choice.region].append(self.problem.kernels[choice.kernel])
        return list(regions.values())

    def _made(self, value: int, source: Source) -> str:
        """The name of a value where a kernel computes it or the graph is given it."""
        return self.given[value] if source.region == INPUT else self.inside[value, self.numbers[source.region]]

    def _read(self, value: int, device: int, region: int | None = None, home: int | None = None) -> str:
        """The name under which a value is read from a memory, by a kernel of a region at `home` where one is given."""
        if region is not None and device == home and (value, region) in self.inside:
            return self.inside[value, region]
        constant = self.explored.classes[value].constant
        if (value, device) not in self.present and constant is not None:
            base, place = self.problem.names[value], self.problem.devices[device]
            own = device == 0 and base in self.own and base not in self.types
            name = base if own else self.names.on_device(base, place)
            self.present[value, device] = self._add(name, value, device)
            self.parameters[name] = constant
        return self.present[value, device]

    # ------------------------------------------------------------ kernels

    def _call(self, run: _Run) -> KernelCall:
        kernel, node = run.kernel, run.node
        device = self._device(kernel)
        target = self._target(kernel)
        host = self._host_operands(node)
        operands = [
            "" if value == ABSENT else self._read(value, 0 if k in host else device, run.region, device)
            for k, value in enumerate(node.inputs)
        ]
        short = node.op.rsplit("::", 1)[-1]
        name = self.names.numbered(node.offer.rule if node.fused else f"{target}.{short}")
        self.made[name] = run
        outputs = tuple(run.outputs.get(k, "") for k in range(node.outputs))
        body, inner = self._body(run, name, operands, outputs)
        payload = kernel.payload
        covers = self.explored.covers[payload]
        return KernelCall(
            name=name,
            target=target,
            device=self.problem.devices[device],
            region="",
            rule=node.offer.rule,
            inputs=tuple(dict.fromkeys(filter(None, operands))),
            outputs=tuple(filter(None, outputs)),
            host_inputs=frozenset(operands[k] for k in host if k < len(operands) and operands[k]),
            body=body,
            inner_types=inner,
            attributes=node.attributes if node.fused else {},
            cost=kernel.cost,
            cost_source=node.offer.source,
            covers=covers,
            rewrites=() if payload in self.problem.originals else self._rewrites(node),
        )

    def _host_operands(self, node: ENode) -> frozenset[int]:
        if node.fused is not None:
            return frozenset(node.fused.table.host)
        facts = find(node.op)
        return frozenset() if facts is None else facts.host_inputs

    def _body(
        self, run: _Run, name: str, operands: list[str], outputs: tuple[str, ...]
    ) -> tuple[tuple[BodyNode, ...], dict[str, TensorType]]:
        fused = run.node.fused
        if fused is None:
            return (
                BodyNode(run.node.op, run.node.attributes, tuple(operands), kept_outputs(run.node.op, outputs)),
            ), {}
        variant = fused.variant
        local = dict(zip(kernel_inputs(variant), operands, strict=True))
        local |= {slot: out for slot, out in zip(variant.roots, outputs, strict=True) if out}
        inner: dict[str, TensorType] = {}
        for node in variant.nodes:
            for slot in node.outputs:
                if slot != ABSENT and slot not in local:
                    local[slot] = self.names.unique(f"{name}.{variant.slots[slot].name.lstrip('$') or 'inner'}")
                    inner[local[slot]] = fused.types[slot]
        body = tuple(
            BodyNode(
                node.op,
                attributes,
                tuple("" if slot == ABSENT else local[slot] for slot in node.inputs),
                kept_outputs(node.op, ["" if slot == ABSENT else local[slot] for slot in node.outputs]),
            )
            for node, attributes in zip(variant.nodes, fused.node_attributes, strict=True)
        )
        return body, inner

    def _rewrites(self, node: ENode) -> tuple[str, ...]:
        """The rules behind what the kernel computes, by name."""
        made = (node.value,) if node.fused is None else (node.value, *node.fused.computed(node.slots))
        return tuple(sorted({name for value in made for name in self.rewrites.get(value, ())}))

    # ------------------------------------------------------------ order

    def _order(self, runs: list[_Run], calls: list[KernelCall]) -> list[KernelCall | CopyCall]:
        """Regions and copies in topological order; regions and kernels are numbered in that order."""
        members: dict[int, list[KernelCall]] = defaultdict(list)
        for run, call in zip(runs, calls, strict=True):
            members[run.region].append(call)
        units: list[_Unit] = [*members, *self.copies]
        maker: dict[str, _Unit] = {copy.output: copy for copy in self.copies}
        maker |= {output: region for region, group in members.items() for call in group for output in call.outputs}
        needs: dict[_Unit, set[_Unit]] = {
            region: {maker[i] for call in group for i in call.inputs if i in maker} - {region}
            for region, group in members.items()
        }
        needs |= {copy: {maker[copy.value]} if copy.value in maker else set() for copy in self.copies}
        steps: list[KernelCall | CopyCall] = []
        for unit in _topological(units, needs):
            if isinstance(unit, CopyCall):
                steps.append(unit)
                continue
            name = self.names.numbered(f"{members[unit][0].target}.region")
            steps += [replace(call, region=name) for call in members[unit]]
        return steps


_Unit = int | CopyCall  # a region, or a copy


def _topological(units: list[_Unit], needs: Mapping[_Unit, set[_Unit]]) -> Iterable[_Unit]:
    """Kahn's algorithm; among the ready ones the first in `units`."""
    order = {unit: k for k, unit in enumerate(units)}
    left = [len(needs[unit]) for unit in units]
    readers: dict[_Unit, list[_Unit]] = defaultdict(list)
    for unit in units:
        for other in needs[unit]:
            readers[other].append(unit)
    ready = [k for k, count in enumerate(left) if not count]
    done = 0
    while ready:
        unit = units[heapq.heappop(ready)]
        done += 1
        yield unit
        for reader in readers[unit]:
            left[order[reader]] -= 1
            if not left[order[reader]]:
                heapq.heappush(ready, order[reader])
    assert done == len(units), "regions and copies form a cycle"
