"""AnnotateTarget and AnnotateOps: every operator and composite gets the target that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite_engine.diagnostics import did_you_mean
from rewrite_engine.egraph.problem import Kernel
from rewrite_engine.graph import Module
from rewrite_engine.graph.annotated_io import HOST, read_annotated
from rewrite_engine.language.core import RuleSet
from rewrite_engine.machine import build
from rewrite_engine.passes.assign import question
from rewrite_engine.passes.base import PassError
from rewrite_engine.passes.common import all_decided, not_lowered, restricted, rules_for, written
from rewrite_engine.placement.ranks import by_map, by_order


class AnnotateTarget:
    """Gives each operator or composite the first target of the list that can run it, the host where none can.

    A composite goes to its own target; where that is not in the list it falls apart into its operators. Kernels that
    have a target other than the host keep it, so that one flow can follow another. `rules` are those of the
    MergeComposite before, unless others are given.
    """

    name = "AnnotateTarget"

    def __init__(self, targets: Sequence[str], rules: RuleSet | None = None) -> None:
        self.targets, self.rules = list(targets), rules

    def requires(self, module: Module) -> None:
        not_lowered(module, self.name)
        rules_for(module, self.rules, self.name)

    def run(self, module: Module) -> Module:
        rules = rules_for(module, self.rules, self.name)
        annotated = read_annotated(module.model)
        machine = restricted(build(rules), self.targets, annotated, self.name)
        asked = question(annotated, rules, machine, self.name, self.targets)
        values = asked.values(asked.composites)

        def allowed(kernel: Kernel) -> bool:
            if kernel.value in values:
                return kernel.payload in asked.composites
            return asked.explored.enodes[kernel.payload].fused is None

        found, _ = asked.ask(self.name, by_order(asked.explored, self.targets), allowed)
        return written(module, found, machine, rules)

    def ensures(self, module: Module) -> None:
        all_decided(module, self.name, self.name)


class AnnotateOps:
    """Gives operators the target or device that a map says, by operator, and the others the fallback.

    A composite is kept where all its operators go to its target, and falls apart otherwise. What cannot run
    where it should goes to the fallback, or to any target that can run it.
    """

    name = "AnnotateOps"

    def __init__(self, mapping: Mapping[str, str], fallback: str = HOST, rules: RuleSet | None = None) -> None:
        self.mapping, self.fallback, self.rules = dict(mapping), fallback, rules

    def requires(self, module: Module) -> None:
        not_lowered(module, self.name)
        machine = build(rules_for(module, self.rules, self.name))
        places = {target.name for target in machine.targets} | {device.name for device in machine.devices}
        for place in (*self.mapping.values(), self.fallback):
            if place not in places:
                hint = did_you_mean(place, places)
                raise PassError(
                    f"{self.name}: no target or device is called `{place}`; there are {', '.join(sorted(places))}"
                    + (f"; {hint}" if hint else "")
                )

    def run(self, module: Module) -> Module:
        rules = rules_for(module, self.rules, self.name)
        machine = build(rules)
        names = [target.name for target in machine.targets]
        asked = question(read_annotated(module.model), rules, machine, self.name, names)

        def allowed(kernel: Kernel) -> bool:
            return kernel.payload in asked.composites or asked.explored.enodes[kernel.payload].fused is None

        found, _ = asked.ask(self.name, by_map(asked.explored, self.mapping, self.fallback), allowed)
        return written(module, found, machine, rules)

    def ensures(self, module: Module) -> None:
        all_decided(module, self.name, self.name)
