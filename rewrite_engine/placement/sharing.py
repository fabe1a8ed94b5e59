"""One exploration for many machines: those that differ in launches, memories and links alone.

What a kernel costs and whether a target runs it depends on the rules, the model and the rooflines. Where these stay,
the e-graph does, and its problem gets other numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.graph.terms import Terms
from rewrite_engine.machine import Machine
from rewrite_engine.operators.types import TensorType

_MOST = 4  # explorations of one model that are kept


def on_machine(explored: Explored, machine: Machine) -> Explored:
    """The e-graph on a machine with the same devices, targets and links, at other launches, memories and link costs."""
    machine = machine.reading(explored.terms.values[i].type for i in explored.terms.inputs)
    targets = tuple(
        replace(info, launch=target.launch)
        for info, target in zip(explored.problem.targets, machine.targets, strict=True)
    )
    problem = replace(explored.problem, targets=targets, copies=copies_on(explored, machine))
    return replace(explored, machine=machine, problem=problem)


def copies_on(explored: Explored, machine: Machine) -> dict[tuple[int, int, int], int]:
    """The copies of the problem at what they cost on another machine."""
    devices, found = explored.problem.devices, {}
    for value, source, destination in explored.problem.copies:
        kind = explored.classes[value].type
        assert isinstance(kind, TensorType)
        path = machine.paths(machine.size(kind))[devices[source], devices[destination]]
        found[value, source, destination] = sum(hop.cost for hop in path)
    return found


@dataclass(slots=True, eq=False)
class Explorations:
    """The last explorations by what they depend on; `explored` counts those that were not there yet."""

    explored: int = 0
    _terms: Terms | None = None
    _known: dict[object, Explored] = field(default_factory=dict)

    def explore(self, key: object, terms: Terms, rules: Any, machine: Machine, **options: Any) -> Explored:
        """As `explore`; `key` is equal only for equal rules and rooflines. Another model empties the store."""
        if terms is not self._terms:
            self._terms, self._known = terms, {}
        key = key, machine.unit, tuple(target.name for target in machine.targets), _frozen(options)
        if key in self._known:
            return on_machine(self._known[key], machine)
        found = explore(terms, rules, machine, **options)
        self.explored += 1
        while len(self._known) >= _MOST:
            self._known.pop(next(iter(self._known)))
        self._known[key] = found
        return found


def _frozen(options: Mapping[str, Any]) -> tuple[object, ...]:
    """What an exploration depends on beside its operands; `clock` only listens."""
    pins = tuple(sorted(options.get("pins", {}).items()))
    return tuple(options.get("allow", ())), options.get("limits"), pins, options.get("trace", False)
