"""Answers by what computes each value: the neighbours of an answer, for local search.

A *plan* says which kernels compute a value when it is needed. In: a problem. Out: the kernels that a plan runs, and
plans that differ in one value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rewrite_engine.egraph.problem import Choice, Memory, Problem

Plan = Mapping[int, tuple[int, ...]]  # value -> kernels that compute it


@dataclass(slots=True, eq=False)
class Moves:
    """The kernels of a problem by value; `fallback` computes values that a plan does not name."""

    problem: Problem
    fallback: dict[int, tuple[int, ...]] = field(default_factory=dict)
    of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    reads: list[list[Memory]] = field(default_factory=list)  # by kernel: what it reads from which memory

    inputs: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.inputs |= {value for value, _ in self.problem.given}
        resident = self.problem.resident
        for kernel in self.problem.kernels:
            home = self.problem.targets[kernel.target].device
            needs = ((r.value, home if r.device is None else r.device) for r in kernel.reads if r.value not in resident)
            self.reads.append(list(dict.fromkeys(needs)))
        for number, kernel in enumerate(self.problem.kernels):
            if kernel.value not in self.problem.resident:
                self.of[kernel.value].append(number)
        for value, mine in self.of.items():
            self.fallback[value] = (min(mine, key=lambda k: (self.problem.kernels[k].cost, k)),)

    def plan_of(self, choices: Sequence[Choice]) -> dict[int, tuple[int, ...]]:
        plan: dict[int, tuple[int, ...]] = {}
        for choice in choices:
            value = self.problem.kernels[choice.kernel].value
            plan[value] = (*plan.get(value, ()), choice.kernel)
        return plan

    def kernels(self, plan: Plan) -> list[int] | None:
        """What runs, producers first; None where the plan leads in a circle or nothing computes a value.

        A value of several results is computed on every target that takes one of them.
        """
        problem, inputs = self.problem, self.inputs
        state: dict[tuple[int, int], int] = {}  # (value, target or -1) -> 1: under way, 2: done
        order: dict[int, None] = {}
        stack: list[tuple[tuple[int, int], list[int] | None]] = [
            ((value, -1), None) for value, _ in reversed(problem.roots) if value not in problem.resident
        ]
        while stack:
            need, opened = stack.pop()
            if opened is not None:
                state[need] = 2
                order |= dict.fromkeys(opened)
                continue
            if need in state:
                if state[need] == 1:
                    return None
                continue
            value, target = need
            picked = self._pick(plan, value, target, value in inputs)
            if picked is None:
                return None
            state[need] = 1
            stack.append((need, picked))
            for number in picked:
                kernel = problem.kernels[number]
                for operand, _ in reversed(self.reads[number]):
                    child = (operand, kernel.target if operand in problem.solo else -1)
                    known = state.get(child)
                    if known == 1:
                        return None
                    if known is None:
                        stack.append((child, None))
        return list(order)

    def _pick(self, plan: Plan, value: int, target: int, is_input: bool) -> list[int] | None:
        named = plan.get(value, ())
        if target < 0:
            if not named and is_input:
                return []
            found = list(named or self.fallback.get(value, ()))
            return found or None
        mine = [k for k in named if self.problem.kernels[k].target == target]
        if not mine:
            mine = [k for k in self.of.get(value, ()) if self.problem.kernels[k].target == target]
            mine.sort(key=lambda k: (self.problem.kernels[k].cost, k))
        return mine[:1] or None

    def others(self, value: int, plan: Plan) -> list[int]:
        """Kernels that could compute a value instead of those that do."""
        now = plan.get(value, self.fallback.get(value, ()))
        return [k for k in self.of[value] if now != (k,)]

    def alone(self, numbers: Sequence[int]) -> bool:
        """Whether each of these kernels may as well be a region of its own."""
        problem = self.problem
        kernels = (problem.kernels[number] for number in numbers)
        return not any(problem.targets[k.target].launch or k.value in problem.solo for k in kernels)
