"""TrySequential: passes kept where they make the module cheaper, in the order given or in the best one found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import Module, read_placed
from rewrite_engine.graph.annotated_io import read_annotated, write_annotated
from rewrite_engine.graph.onnx_types import value_type
from rewrite_engine.language.core import RuleSet
from rewrite_engine.passes.base import Pass, apply
from rewrite_engine.passes.common import machine_for
from rewrite_engine.passes.plan_devices import PlanDevices, decide
from rewrite_engine.passes.regions import MergeRegions, PartitionGraph
from rewrite_engine.placement.rebuild import costs

Cost = Callable[[Module], float | None]
"""What a module costs; None where that is not known."""


def latency(module: Module, rules: RuleSet | None = None) -> int | None:
    """What a module costs, in picoseconds, when what is left to decide is decided by PlanDevices and MergeRegions.

    `rules` are the module's own, unless others are given; without any, the cost of a module that has
    operators without a target is None. Raises RewriteError where the module cannot be finished.
    """
    rules = rules or (module.rules if isinstance(module.rules, RuleSet) else None)
    module = replace(module, lowered={}, memory=None, rules=rules)
    annotated = read_annotated(module.model)
    if annotated.undecided:
        if rules is None:
            return None
        annotated = decide(annotated, rules, machine_for(module, None, "latency"), "latency")
        module = replace(module, model=write_annotated(annotated))
    if not annotated.regions:
        if not annotated.devices and not all(call.region for call in annotated.kernels):
            module = apply(MergeRegions(), module)
        module = apply(PartitionGraph(), module)
    if not annotated.devices:
        module = apply(PlanDevices(), module)
    machine = machine_for(module, None, "latency")
    return costs(read_placed(module.model), {target.name: target.launch for target in machine.targets}).total


class TrySequential:
    """Tries passes in order on the module at hand and keeps each result that is valid and cheaper.

    A result is valid when the pass and its checks succeed, the graph's inputs and outputs are what they were, and the
    cost can be said. `cost` is `latency` unless another is given. A flow of several passes that only pays as a whole is
    a `Sequential` among the passes. With `search`, orders and subsets of the passes are explored as well, the shorter
    first, until `budget` applications of a pass are used up; the cheapest result wins, the first among equals.
    """

    name = "TrySequential"

    def __init__(
        self, passes: Sequence[Pass], cost: Cost | None = None, search: bool = False, budget: int = 32
    ) -> None:
        if budget < 1:
            raise RewriteError(f"TrySequential: expected a budget of at least 1 application of a pass, found {budget}")
        self.passes, self.search, self.budget = tuple(passes), search, budget
        self.cost: Cost = latency if cost is None else cost

    def requires(self, module: Module) -> None:
        pass

    def run(self, module: Module) -> Module:
        best = _Best(module, self.cost)
        spent = 0
        for step in self.passes:
            best.offer(_attempt(step, best.module))
            spent += 1
        if self.search:
            self._explore(module, best, self.budget - spent)
        return best.module

    def _explore(self, module: Module, best: _Best, budget: int) -> None:
        """Sequences of different passes, breadth first; what fails is not gone on with."""
        waiting: deque[tuple[tuple[int, ...], Module]] = deque([((), module)])
        while waiting:
            used, current = waiting.popleft()
            for place, step in enumerate(self.passes):
                if place in used:
                    continue
                if budget <= 0:
                    return
                budget -= 1
                result = _attempt(step, current)
                if result is not None and best.offer(result):
                    waiting.append(((*used, place), result))

    def ensures(self, module: Module) -> None:
        pass

    def __call__(self, module: Module) -> Module:
        return apply(self, module)


class _Best:
    """The cheapest module so far."""

    def __init__(self, module: Module, cost: Cost) -> None:
        self.module, self.cost, self.interface = module, cost, _interface(module)
        self.price = self._price(module)

    def offer(self, module: Module | None) -> bool:
        """Takes the module where it is cheaper; whether it is valid."""
        if module is None or _interface(module) != self.interface:
            return False
        if self.price is None:  # the rules that the pass brought say what there was to begin with
            self.price = self._price(replace(self.module, rules=module.rules))
        price = self._price(module)
        if price is None:
            return False
        if self.price is None or price < self.price:
            self.module, self.price = module, price
        return True

    def _price(self, module: Module) -> float | None:
        try:
            return self.cost(module)
        except RewriteError:
            return None


def _attempt(step: Pass, module: Module) -> Module | None:
    try:
        return apply(step, module)
    except RewriteError:
        return None


def _interface(module: Module) -> object:
    graph = module.model.graph
    return [[(value.name, value_type(value).dtype) for value in values] for values in (graph.inputs, graph.outputs)]
