"""The stages as passes: place, lower, plan memory. Each takes a module and returns another."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from rewrite_engine.backend.memory import MemoryPlan, plan
from rewrite_engine.backend.packing import Planner, pack
from rewrite_engine.graph import Module, to_terms
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.graph.placed_io import read_placed, write_placed
from rewrite_engine.language.core import RuleSet
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.lower import lower
from rewrite_engine.machine import Machine
from rewrite_engine.passes.base import PassError
from rewrite_engine.placement.place import Placement, place


class Place:
    """Explores the module with a rule set, extracts the placement, and partitions the module accordingly.

    `Module(Relu(Conv(x, w))) --> region(composite(x, w))`, with DeviceCopy where a value changes memory. `placement`
    finds the placement alone; options are those of `placement.place`.
    """

    name = "Place"

    def __init__(self, rules: RuleSet, placement: Placement | None = None, **options: Any) -> None:
        self.rules, self.given, self.options = rules, placement, options

    def requires(self, module: Module) -> None:
        if module.lowered:
            raise PassError("Place: the module has lowered kernels already; place it before LowerLoops")

    def placement(self, module: Module) -> Placement:
        return self.given or place(to_terms(module), self.rules, name=module.source.name, **self.options)

    def run(self, module: Module) -> Module:
        placement = self.placement(module)
        return replace(module, model=write_placed(placement.graph), machine=placement.machine)

    def ensures(self, module: Module) -> None:
        if not isinstance(module.machine, Machine):
            raise PassError("Place: the result has no machine")


class LowerLoops:
    """Lowers the body of every kernel that is not lowered yet to a program of loop nests, in `Module.lowered`."""

    name = "LowerLoops"

    def requires(self, module: Module) -> None:
        _placed(module, self.name)

    def run(self, module: Module) -> Module:
        return replace(module, lowered={**programs(_placed(module, self.name)), **module.lowered})

    def ensures(self, module: Module) -> None:
        missing = [call.name for call in kernels(_placed(module, self.name)) if call.name not in module.lowered]
        if missing:
            raise PassError(f"LowerLoops: no program for {', '.join(missing)}")


class PlanMemory:
    """Gives every value of a placed module its storage, in `Module.memory`; `planner` lays out the arenas."""

    name = "PlanMemory"

    def __init__(self, planner: Planner = pack) -> None:
        self.planner = planner

    def requires(self, module: Module) -> None:
        _placed(module, self.name)
        if not isinstance(module.machine, Machine):
            raise PassError("PlanMemory: the module has no machine; run Place first")

    def run(self, module: Module) -> Module:
        assert isinstance(module.machine, Machine)
        capacities = {device.name: device.memory for device in module.machine.devices}
        return replace(module, memory=plan(_placed(module, self.name), capacities, self.planner))

    def ensures(self, module: Module) -> None:
        if not isinstance(module.memory, MemoryPlan):
            raise PassError("PlanMemory: the result has no memory plan")


def kernels(placed: PlacedGraph) -> list[KernelCall]:
    return [step for step in placed.steps if isinstance(step, KernelCall)]


def programs(placed: PlacedGraph, made: Collection[str] = ()) -> dict[str, Program]:
    """A program per kernel, by name, but for those that a code generator `made`.

    Raises RewriteError for an operator or a shape that cannot be lowered.
    """
    calls = [call for call in kernels(placed) if call.name not in made]
    return {call.name: compose(lower(call, placed.types, placed.parameters)) for call in calls}


def _placed(module: Module, name: str) -> PlacedGraph:
    try:
        return read_placed(module.model)
    except ValueError as error:
        raise PassError(f"{name}: the module is not placed ({error}); run Place first") from error
