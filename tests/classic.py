"""The classic pipeline for tests: its passes, and what two placed graphs have in common whatever they call things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rewrite_engine.graph import Module, model_bytes, read_placed
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph
from rewrite_engine.language.core import RuleSet
from rewrite_engine.passes import (
    AnnotateTarget,
    MergeComposite,
    MergeRegions,
    PartitionGraph,
    Pass,
    PlanDevices,
    apply,
)
from rewrite_engine.placement.rebuild import Costs, costs


def pipeline(rules: RuleSet, targets: Sequence[str]) -> list[Pass]:
    return [
        MergeComposite(rules, targets),
        AnnotateTarget(targets, rules),
        MergeRegions(rules),
        PartitionGraph(),
        PlanDevices(rules),
    ]


def untouched(step: Pass, module: Module) -> Module:
    """The result of a pass, once it is sure that its argument is as it was."""
    before = model_bytes(module.model), dict(module.lowered), module.memory, module.machine, module.rules
    result = apply(step, module)
    after = model_bytes(module.model), dict(module.lowered), module.memory, module.machine, module.rules
    assert after == before, f"{step.name} changed its argument"
    return result


def chain(module: Module, rules: RuleSet, targets: Sequence[str]) -> Module:
    for step in pipeline(rules, targets):
        module = untouched(step, module)
    return module


def cost(module: Module) -> Costs:
    """What a placed module costs by its own machine."""
    return costs(read_placed(module.model), {target.name: target.launch for target in module.machine.targets})  # type: ignore[attr-defined]


def summary(graph: PlacedGraph) -> tuple[Any, Any]:
    """Regions as the kernels in them, and copies by the operator whose result they move; without any made-up name."""
    regions: dict[str, list[object]] = {}
    origin: dict[str, object] = {name: name for name in graph.inputs}
    moved: Counter[object] = Counter()
    for step in graph.steps:
        if isinstance(step, CopyCall):
            origin[step.output] = origin[step.value]
            moved[origin[step.value], step.source, step.destination, step.bytes, step.cost] += 1
        else:
            regions.setdefault(step.region, []).append(kernel(step))
            for place, output in enumerate(step.outputs):
                origin[output] = (step.covers, step.rule, place)
    return sorted(sorted(members, key=repr) for members in regions.values()), moved


def kernel(call: KernelCall) -> tuple[object, ...]:
    return call.target, call.device, call.rule, call.covers, call.cost, call.cost_source, [n.op for n in call.body]
