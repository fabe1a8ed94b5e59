"""A process that places instances: one JSON line in, one JSON line out; it ends when its input does.

`python -m rewrite_engine.sweep.worker`. Models and rule files that were read stay, for the instances that follow.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import load, to_terms
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.graph.terms import Terms
from rewrite_engine.language import RuleSet
from rewrite_engine.language import load as load_rules
from rewrite_engine.placement.place import place


@dataclass(slots=True)
class Memory:
    """The model and the rules of the instance before: instances come model by model."""

    model: tuple[str, Terms] | None = None
    rules: tuple[str, RuleSet] | None = None


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints must not mix with the answers
    memory = Memory()
    for line in sys.stdin:
        told = json.loads(line)
        out.write(json.dumps(run(told["instance"], told["limits"], memory)) + "\n")
        try:
            out.flush()
        except BrokenPipeError:  # nobody listens any more
            os._exit(1)


def run(instance: Mapping[str, Any], limits: Mapping[str, Any], memory: Memory) -> dict[str, Any]:
    """The result of one instance: costs, bound, baselines, seconds; or the error that it ended with."""
    started = time.perf_counter()
    try:
        model = json.dumps([instance["model"], instance["dims"]], sort_keys=True)
        if memory.model is None or memory.model[0] != model:
            memory.model = model, to_terms(load(instance["model"], dims=instance["dims"]))
        rules = json.dumps([instance["rules"], instance["settings"]], sort_keys=True)
        if memory.rules is None or memory.rules[0] != rules:
            memory.rules = rules, load_rules(instance["rules"], settings=instance["settings"])
        found = place(
            memory.model[1], memory.rules[1], strategy=instance["strategy"], objective=instance["objective"],
            targets=tuple(instance["targets"]), **limits,
        )  # fmt: skip
    except RewriteError as error:
        return {"error": str(error), "seconds": round(time.perf_counter() - started, 3)}
    regions = {step.region for step in found.graph.steps if isinstance(step, KernelCall)}
    return {
        "status": found.status, "saturation": found.saturation, "unit": found.unit, "cost": found.costs.total,
        "bound": found.bound, "kernels": found.costs.kernels, "copies": found.costs.copies,
        "launches": found.costs.launches, "regions": len(regions), "baselines": dict(found.baselines),
        "seconds": round(time.perf_counter() - started, 3),
    }  # fmt: skip


if __name__ == "__main__":
    main()
