"""A process that places instances: one JSON line in, one JSON line out; it ends when its input does.

`python -m rewrite_engine.sweep.worker`. Models and rule files that were read stay, for the instances that follow, and
so do e-graphs: instances that differ in launches, memories, links, strategies or objectives share one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import load, to_terms
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.graph.terms import Terms
from rewrite_engine.language import RuleSet
from rewrite_engine.language import load as load_rules
from rewrite_engine.language.library import with_machine
from rewrite_engine.language.scope import Scope
from rewrite_engine.language.settings import of_machine
from rewrite_engine.placement.place import place
from rewrite_engine.placement.sharing import Explorations

NUMBERS = (".launch", ".memory")
MOST_RULES = 4  # rule sets that are kept


@dataclass(slots=True)
class Memory:
    """The model, the rules and the e-graphs of the instances before: instances come model by model."""

    model: tuple[str, Terms] | None = None
    rules: dict[str, RuleSet] = field(default_factory=dict)
    graphs: Explorations = field(default_factory=Explorations)

    def terms(self, instance: Mapping[str, Any]) -> Terms:
        """The model of an instance."""
        key = json.dumps([instance["model"], instance["dims"], instance["values"]], sort_keys=True)
        if self.model is None or self.model[0] != key:
            self.model = key, to_terms(load(instance["model"], dims=instance["dims"], values=instance["values"]))
        return self.model[1]

    def rule_set(self, instance: Mapping[str, Any]) -> tuple[str, RuleSet]:
        """The rules of an instance, and a key of all in them that an e-graph depends on."""
        settings = dict(instance["settings"])
        numbers = {path: settings.pop(path) for path in instance["settings"] if path.endswith(NUMBERS) or "->" in path}
        base = self._read(instance["rules"], settings)
        scope = base[1].scope
        assert isinstance(scope, Scope)
        if not all(of_machine(scope, path) for path in numbers):
            return self._read(instance["rules"], instance["settings"])
        return base[0], with_machine(base[1], numbers) if numbers else base[1]

    def _read(self, files: list[str], settings: Mapping[str, str]) -> tuple[str, RuleSet]:
        key = json.dumps([files, settings], sort_keys=True)
        if key not in self.rules:
            found = load_rules(files, settings=settings)
            while len(self.rules) >= MOST_RULES:
                self.rules.pop(next(iter(self.rules)))
            self.rules[key] = found
        return key, self.rules[key]


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
        terms = memory.terms(instance)
        key, rules = memory.rule_set(instance)
        found = place(
            terms, rules, strategy=instance["strategy"], objective=instance["objective"],
            targets=tuple(instance["targets"]), exploring=partial(memory.graphs.explore, key), **limits,
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
