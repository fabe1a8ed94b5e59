"""PlanDevices: where every value is, and one DeviceCopy per value and device where it is read elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rewrite_engine.egraph.explore import device_of
from rewrite_engine.egraph.problem import Kernel
from rewrite_engine.graph import Module, Names
from rewrite_engine.graph.annotated_io import Annotated, read_annotated
from rewrite_engine.graph.markers import DOMAIN, ON_DEVICE
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.graph.terms import ABSENT
from rewrite_engine.language.core import RuleSet
from rewrite_engine.machine import HOST, Machine
from rewrite_engine.operators.types import TensorType
from rewrite_engine.passes.assign import Question, question
from rewrite_engine.passes.base import PassError
from rewrite_engine.passes.common import machine_for, not_lowered, rules_for, taken_names, written
from rewrite_engine.passes.operands import reading
from rewrite_engine.passes.regions import home_of


class PlanDevices:
    """Puts every value on a device, and copies it once per device to where else it is read; uses up `OnDevice` marks.

    Kernels that have a target stay with it. Every other operator goes where it is marked, else to the device of what
    reads its results, where that is one device, else to the first device of its operands, else to the host; always
    only where a target can run it, and there to the first such target in the order of the rules.
    """

    name = "PlanDevices"

    def __init__(self, rules: RuleSet | Machine | None = None) -> None:
        self.given = rules

    def requires(self, module: Module) -> None:
        not_lowered(module, self.name)

    def run(self, module: Module) -> Module:
        annotated = read_annotated(module.model)
        machine = machine_for(module, self.given, self.name)
        machine = machine.reading(annotated.graph.types[name] for name in annotated.graph.inputs)
        _check_pins(annotated, machine, self.name)
        if annotated.undecided:
            rules = rules_for(module, self.given if isinstance(self.given, RuleSet) else None, self.name)
            annotated = decide(annotated, rules, machine, self.name)
        if not annotated.devices:
            annotated = _Copying(annotated, machine).planned()
        return written(module, annotated, machine, self.given if isinstance(self.given, RuleSet) else None)

    def ensures(self, module: Module) -> None:
        left = [n for n in module.model.graph.all_nodes() if n.domain == DOMAIN and n.op_type == ON_DEVICE]
        if left or not read_annotated(module.model).devices:
            raise PassError(f"{self.name}: {len(left)} OnDevice marks are left in the result")


def _check_pins(annotated: Annotated, machine: Machine, name: str) -> None:
    places = {target.name for target in machine.targets} | {device.name for device in machine.devices}
    for value, place in annotated.pins.items():
        if place not in places:
            raise PassError(
                f"{name}: `{value}` is marked for `{place}`, which is no target or device; "
                f"there are {', '.join(sorted(places))}"
            )


# ---- operators without a target -------------------------------------------------------------------------------------


def decide(annotated: Annotated, rules: RuleSet, machine: Machine, name: str) -> Annotated:
    """The graph with a target for every operator, as PlanDevices gives them; composites go to their own."""
    names = [target.name for target in machine.targets]
    asked = question(annotated, rules, machine, name, names)
    problem = asked.explored.problem
    wanted = _wanted(asked, machine)
    composites = asked.values(asked.composites)

    def rank(kernel: Kernel) -> int:
        here = problem.targets[kernel.target].device == wanted.get(kernel.value, 0)
        return kernel.target + (0 if here else len(problem.targets))

    def allowed(kernel: Kernel) -> bool:
        if kernel.value in composites:
            return kernel.payload in asked.composites
        return asked.explored.enodes[kernel.payload].fused is None

    return asked.ask(name, rank, allowed)[0]


def _wanted(asked: Question, machine: Machine) -> dict[int, int]:
    """The device of every value that a mark or a kernel with a target settles, itself or through its neighbours."""
    explored, problem = asked.explored, asked.explored.problem
    able: dict[int, set[int]] = defaultdict(set)  # value -> devices where a target can compute it
    for kernel in problem.kernels:
        able[kernel.value].add(problem.targets[kernel.target].device)
    number = {device: k for k, device in enumerate(problem.devices)}
    found = {value: problem.targets[target].device for value, target in asked.values(asked.kept).items()}
    found |= {value: problem.targets[target].device for value, target in asked.values(asked.composites).items()}
    found |= {explored.class_of[i]: number[device_of(machine, place)] for i, place in explored.terms.pins.items()}
    nodes = [
        (
            [explored.class_of[i] for i in node.inputs if i != ABSENT],
            [explored.class_of[o] for o in node.outputs if o != ABSENT],
        )
        for node in explored.terms.nodes
    ]
    readers: dict[int, list[int]] = defaultdict(list)
    for inputs, outputs in nodes:
        for value in inputs:
            readers[value] += outputs

    def settle(outputs: Iterable[int], devices: Iterable[int]) -> None:
        for device in devices:
            if all(value not in found and device in able[value] for value in outputs):
                found.update(dict.fromkeys(outputs, device))
                return

    for _, outputs in reversed(nodes):
        near = {found[reader] for value in outputs for reader in readers[value] if reader in found}
        settle(outputs, near if len(near) == 1 else ())
    for inputs, outputs in nodes:
        settle(outputs, [found[value] for value in inputs if value in found])
    for whole, value in ((explored.enodes[k.payload].inputs[0], k.value) for k in problem.kernels if k.value in found
                         and explored.enodes[k.payload].result is not None):  # fmt: skip
        found.setdefault(whole, found[value])
    return found


# ---- copies ---------------------------------------------------------------------------------------------------------


class _Copying:
    """An annotated graph while copies are put in."""

    def __init__(self, annotated: Annotated, machine: Machine) -> None:
        self.annotated, self.machine, self.graph = annotated, machine, annotated.graph
        self.names = Names(taken_names(annotated))
        self.types: dict[str, TensorType] = {}
        self.devices: dict[str, str] = {}
        self.parameters: dict[str, np.ndarray] = {}
        self.at: dict[tuple[str, str], str] = {}  # (value, device) -> its name there
        self.home: dict[str, tuple[str, str]] = {}  # value -> device where it is made, and its name there
        self.pending: list[CopyCall] = []

    def planned(self) -> Annotated:
        graph = self.graph
        self.wanted = {name: home_of(self.annotated, self.machine, name) for name in graph.outputs}
        for name in graph.inputs:
            self.make(name, name, home_of(self.annotated, self.machine, name))
        steps: list[KernelCall | CopyCall] = []
        for call in self.annotated.kernels:
            placed = reading(call, lambda name, host, device=call.device: self.read(name, HOST if host else device))  # type: ignore[misc]
            outputs = {name: self.made(name, call) for name in call.outputs}
            body = tuple(replace(b, outputs=tuple(outputs.get(o, o) for o in b.outputs)) for b in placed.body)
            steps += [*self.pending, replace(placed, outputs=tuple(outputs.values()), body=body)]
            self.pending.clear()
        results = tuple(self.read(name, self.wanted[name]) for name in graph.outputs)
        called = graph.output_names or graph.outputs
        placed_graph = PlacedGraph(
            name=graph.name,
            inputs=graph.inputs,
            outputs=results,
            parameters=dict(sorted(self.parameters.items())),
            steps=(*steps, *self.pending),
            types=dict(sorted(self.types.items())),
            devices=dict(sorted(self.devices.items())),
            output_names=() if called == results else called,
        )
        return replace(self.annotated, graph=placed_graph, pins={}, devices=True)

    def make(self, value: str, name: str, device: str) -> None:
        self.types[name], self.devices[name] = self.graph.types[value], device
        self.at[value, device] = name
        self.home.setdefault(value, (device, name))

    def made(self, value: str, call: KernelCall) -> str:
        """A result; one that is wanted elsewhere as a graph output leaves its name to the copy there."""
        elsewhere = self.wanted.get(value, call.device) != call.device
        name = self.names.on_device(value, call.target) if elsewhere else value
        self.make(value, name, call.device)
        return name

    def read(self, value: str, device: str) -> str:
        """The name of a value on a device; where it is not there, it is copied over the cheapest path."""
        if (value, device) in self.at:
            return self.at[value, device]
        if value in self.graph.parameters and value not in self.graph.inputs:
            name = self.names.on_device(value, device) if value in self.home else value
            self.make(value, name, device)
            self.parameters[name] = self.graph.parameters[value]
            return name
        source, here = self.home[value]
        size = self.machine.size(self.graph.types[value])
        path = self.machine.paths(size).get((source, device))
        if path is None:
            raise PassError(
                f"PlanDevices: `{value}` is computed on {source} and read on {device}, and no link leads there; "
                "declare one, or choose another target"
            )
        for hop in path:
            if (value, hop.destination) not in self.at:
                own = self.wanted.get(value) == hop.destination and value not in self.types
                name = value if own else self.names.on_device(value, hop.destination)
                self.make(value, name, hop.destination)
                self.pending.append(CopyCall(here, name, hop.source, hop.destination, size, hop.cost))
            here = self.at[value, hop.destination]
        return here
