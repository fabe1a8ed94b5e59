"""MergeRegions and PartitionGraph: kernels of one target gathered into regions, and regions made functions."""

from __future__ import annotations

from dataclasses import replace

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.egraph.problem import Kernel, Problem, Read, TargetInfo
from rewrite_engine.egraph.regions import merge_regions
from rewrite_engine.graph import Module, Names
from rewrite_engine.graph.annotated_io import HOST, Annotated
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.language.core import RuleSet
from rewrite_engine.machine import Machine
from rewrite_engine.passes.base import PassError
from rewrite_engine.passes.common import all_decided, machine_for, not_lowered, taken_names, written
from rewrite_engine.passes.operands import host_reads


class MergeRegions:
    """Joins kernels of one target that pass values to each other into regions, launched once each.

    Regions are convex, and the graph of regions and copies has no cycle. Each kernel's region is kept with it.
    """

    name = "MergeRegions"

    def __init__(self, machine: RuleSet | Machine | None = None) -> None:
        self.machine = machine

    def requires(self, module: Module) -> None:
        not_lowered(module, self.name)
        annotated = all_decided(module, self.name, "AnnotateTarget or AnnotateOps")
        if annotated.regions or annotated.devices:
            raise PassError(f"{self.name}: the module has region functions or copies already; run it before these")

    def run(self, module: Module) -> Module:
        annotated = all_decided(module, self.name, "AnnotateTarget or AnnotateOps")
        machine = machine_for(module, self.machine, self.name)
        machine = machine.reading(annotated.graph.types[name] for name in annotated.graph.inputs)
        problem = problem_of(annotated, machine)
        try:
            choices = merge_regions(problem, range(len(problem.kernels)))
        except RewriteError as error:
            raise PassError(f"{self.name}: {error}") from error
        steps = list(annotated.kernels)
        names = Names(name for name in taken_names(replace_regions(annotated, [""] * len(steps))))
        called: dict[int, str] = {}
        regions = [""] * len(steps)
        for choice in choices:
            place = problem.kernels[choice.kernel].payload
            if choice.region not in called:
                called[choice.region] = names.numbered(f"{steps[place].target}.region")
            regions[place] = called[choice.region]
        return written(module, replace_regions(annotated, regions), machine)

    def ensures(self, module: Module) -> None:
        for call in all_decided(module, self.name, self.name).kernels:
            if not call.region:
                raise PassError(f"{self.name}: kernel {call.name} is in no region")


class PartitionGraph:
    """Makes every region a function of its target's domain, and its kernels one call in the main graph.

    A kernel without a region becomes one of its own.
    """

    name = "PartitionGraph"

    def requires(self, module: Module) -> None:
        not_lowered(module, self.name)
        all_decided(module, self.name, "AnnotateTarget or AnnotateOps")

    def run(self, module: Module) -> Module:
        annotated = all_decided(module, self.name, "AnnotateTarget or AnnotateOps")
        names = Names(taken_names(annotated))
        regions = [call.region or names.numbered(f"{call.target}.region") for call in annotated.kernels]
        return written(module, replace(replace_regions(annotated, regions), regions=True))

    def ensures(self, module: Module) -> None:
        if not all_decided(module, self.name, self.name).regions and len(module.model.graph):
            raise PassError(f"{self.name}: the result has no region functions")


def replace_regions(annotated: Annotated, regions: list[str]) -> Annotated:
    """The graph with these regions of its kernels, in order."""
    left = iter(regions)
    steps = (replace(s, region=next(left)) if isinstance(s, KernelCall) else s for s in annotated.graph.steps)
    return replace(annotated, graph=replace(annotated.graph, steps=tuple(steps)))


def problem_of(annotated: Annotated, machine: Machine) -> Problem:
    """The placement problem in which everything is chosen but the regions: one kernel per value.

    A kernel's payload is its place among the graph's kernels. Graph inputs and outputs are on the host unless pinned.
    """
    graph = annotated.graph
    device = {d.name: k for k, d in enumerate(machine.devices)}
    target = {t.name: k for k, t in enumerate(machine.targets)}
    names = [*graph.inputs, *(name for name in graph.parameters if name not in graph.inputs)]
    kernels: list[Kernel] = []
    solo: list[int] = []
    calls = annotated.kernels
    for call in calls:
        if len(call.outputs) > 1:
            solo.append(len(names))
            names.append(call.name)
        names += call.outputs
    index = {name: k for k, name in enumerate(names) if k not in solo}
    for place, call in enumerate(calls):
        read = [Read(index[name], 0 if on_host else None) for name, on_host in host_reads(call)]
        values = [index[name] for name in call.outputs]
        if len(values) > 1:
            whole = values[0] - 1
            kernels.append(Kernel(whole, target[call.target], call.cost, tuple(dict.fromkeys(read)), place))
            kernels += [Kernel(value, target[call.target], 0, (Read(whole),), place) for value in values]
        else:
            kernels.append(Kernel(values[0], target[call.target], call.cost, tuple(dict.fromkeys(read)), place))
    copies = {}
    for name, value in index.items():
        kind = graph.types[name]
        if name in graph.parameters or (kind.bytes is None and machine.bindable != ()):
            continue
        for (source, destination), path in machine.paths(machine.size(kind)).items():
            copies[value, device[source], device[destination]] = sum(hop.cost for hop in path)
    home = {name: device[home_of(annotated, machine, name)] for name in (*graph.inputs, *graph.outputs)}
    return Problem(
        devices=tuple(device),
        targets=tuple(TargetInfo(t.name, device[t.device], t.launch) for t in machine.targets),
        values=len(names),
        kernels=tuple(kernels),
        given=frozenset((index[name], home[name]) for name in graph.inputs),
        resident=frozenset(index[name] for name in graph.parameters if name not in graph.inputs),
        copies=copies,
        roots=tuple(dict.fromkeys((index[name], home[name]) for name in graph.outputs)),
        solo=frozenset(solo),
        names=tuple(names),
    )


def home_of(annotated: Annotated, machine: Machine, name: str) -> str:
    """The device where a graph input is given or an output wanted: that of its pin, or the host."""
    place = annotated.pins.get(name, HOST)
    return next((target.device for target in machine.targets if target.name == place), place)
