"""MergeComposite: operators that a target runs in one kernel become one composite, the call of an ONNX function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rewrite_engine.graph import Module
from rewrite_engine.graph.annotated_io import read_annotated
from rewrite_engine.language.core import RuleSet
from rewrite_engine.machine import build
from rewrite_engine.passes.assign import open_again, own_names, question
from rewrite_engine.passes.common import not_lowered, restricted, written
from rewrite_engine.placement.ranks import by_order

ALLOWED = ("exact", "reassociates")
"""The kinds of rewrites that `place` uses unless it is told otherwise."""


class MergeComposite:
    """Merges what composites of the `targets` (all by default) match, in the order of the targets, the largest first.

    `Relu(Conv(x, w)) --> tern.qconv.1(x, w)`, where `tern.qconv.1` is a function with the operators in it. Which target
    runs it is left to AnnotateTarget or AnnotateOps. An operator that an earlier target of the order can run by itself
    is not merged for a later one. Values that rewrites of the kinds `allow` show to be equal are computed once.
    Kernels that have a target other than the host stay. The module remembers the rules for the passes after this one.
    """

    name = "MergeComposite"

    def __init__(self, rules: RuleSet, targets: Sequence[str] | None = None, allow: Sequence[str] = ALLOWED) -> None:
        self.rules, self.targets, self.allow = rules, targets, allow

    def requires(self, module: Module) -> None:
        not_lowered(module, self.name)

    def run(self, module: Module) -> Module:
        annotated = read_annotated(module.model)
        machine = restricted(build(self.rules), self.targets, annotated, self.name)
        names = [target.name for target in machine.targets]
        asked = question(annotated, self.rules, machine, self.name, names, self.allow)
        rank = by_order(asked.explored, self.targets or ())
        found, payloads = asked.ask(self.name, rank, lambda kernel: True)
        steps = []
        taken = {*found.graph.types}
        for call, payload in zip(found.kernels, payloads, strict=True):
            if payload in asked.kept:
                steps.append(call)
            elif asked.explored.enodes[payload].fused is None:
                steps.append(open_again(call))
            else:
                steps.append(replace(own_names(call, payload, asked.explored, taken), target="", device=""))
        merged = replace(found, graph=replace(found.graph, steps=tuple(steps)))
        return written(module, merged, build(self.rules), self.rules)

    def ensures(self, module: Module) -> None:
        read_annotated(module.model)
