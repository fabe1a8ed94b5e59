"""The stages as passes: place, lower, plan memory. Each takes a module and returns another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rewrite_engine.backend.memory import MemoryPlan, plan
from rewrite_engine.backend.packing import Planner, pack
from rewrite_engine.backend.sharing import Sharing, sharing_of
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import Module, to_terms
from rewrite_engine.graph.placed import KernelCall, PlacedGraph
from rewrite_engine.graph.placed_io import read_placed, write_placed
from rewrite_engine.language.core import RuleSet
from rewrite_engine.language.meaning import Meaning
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.lower import lower
from rewrite_engine.machine import Machine
from rewrite_engine.passes.base import PassError
from rewrite_engine.placement.bodies import with_bodies
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
        return replace(module, model=write_placed(placement.graph), machine=placement.machine, rules=self.rules)

    def ensures(self, module: Module) -> None:
        if not isinstance(module.machine, Machine):
            raise PassError("Place: the result has no machine")


class LowerLoops:
    """Lowers the body of every kernel that is not lowered yet to a program of loop nests, in `Module.lowered`.

    Operators that rule files declare are lowered through their meanings, which `rules` know, or the rules that an
    earlier pass was given.
    """

    name = "LowerLoops"

    def __init__(self, rules: RuleSet | None = None) -> None:
        self.rules = rules

    def requires(self, module: Module) -> None:
        _placed(module, self.name)

    def run(self, module: Module) -> Module:
        rules = self.rules or module.rules
        placed = _placed(module, self.name)
        if isinstance(rules, RuleSet):
            placed = with_bodies(placed, rules.meanings)
        return replace(module, lowered={**programs(placed, module.lowered), **module.lowered})

    def ensures(self, module: Module) -> None:
        missing = [call.name for call in kernels(_placed(module, self.name)) if call.name not in module.lowered]
        if missing:
            raise PassError(f"LowerLoops: no program for {', '.join(missing)}")


class PlanMemory:
    """Gives every value of a placed module its storage, in `Module.memory`; `planner` lays out the arenas.

    Kernels that are lowered already may share bytes, see `backend.sharing`; `pinned` values are not overwritten.
    """

    name = "PlanMemory"

    def __init__(self, planner: Planner = pack, pinned: Sequence[str] = ()) -> None:
        self.planner, self.pinned = planner, tuple(pinned)

    def requires(self, module: Module) -> None:
        _placed(module, self.name)
        if not isinstance(module.machine, Machine):
            raise PassError("PlanMemory: the module has no machine; run Place first")

    def run(self, module: Module) -> Module:
        assert isinstance(module.machine, Machine)
        capacities = {device.name: device.memory for device in module.machine.devices}
        sharing = {
            name: sharing_of(program) for name, program in module.lowered.items() if isinstance(program, Program)
        }
        placed = _placed(module, self.name)
        return replace(module, memory=plan(placed, capacities, self.planner, sharing=sharing, pinned=self.pinned))

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


def sharing(placed: PlacedGraph, meanings: Mapping[str, Meaning]) -> dict[str, Sharing]:
    """What the kernels of a graph would allow if they were lowered to loop nests; what cannot be allows nothing.

    Only kernels whose result is as large as an operand are looked at.
    """
    found: dict[str, Sharing] = {}
    for call in kernels(placed):
        alike = {placed.types[name].bytes for name in call.inputs} & {placed.types[name].bytes for name in call.outputs}
        if len(call.outputs) == 1 and alike:
            with suppress(RewriteError):
                known = programs(with_bodies(replace(placed, steps=(call,)), meanings))
                found[call.name] = sharing_of(known[call.name])
    return found


def _placed(module: Module, name: str) -> PlacedGraph:
    try:
        return read_placed(module.model)
    except ValueError as error:
        raise PassError(f"{name}: the module is not placed ({error}); run Place first") from error
