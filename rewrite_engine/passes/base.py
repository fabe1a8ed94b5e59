"""Passes: module in, module out, with what they require and ensure checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import Module


class PassError(RewriteError):
    """A pass was given a module that it does not apply to, or its result does not hold what it promises."""


class Pass(Protocol):
    """Something that changes a module: it leaves the one it is given as it was and returns another.

    `requires` and `ensures` raise PassError with what is missing.
    """

    @property
    def name(self) -> str: ...

    def requires(self, module: Module) -> None: ...

    def run(self, module: Module) -> Module: ...

    def ensures(self, module: Module) -> None: ...


def apply(step: Pass, module: Module) -> Module:
    """Runs one pass between its checks."""
    step.requires(module)
    result = step.run(module)
    step.ensures(result)
    return result


class Sequential:
    """Passes one after another, as one pass."""

    name = "Sequential"

    def __init__(self, passes: Sequence[Pass]) -> None:
        self.passes = tuple(passes)

    def requires(self, module: Module) -> None:
        if self.passes:
            self.passes[0].requires(module)

    def run(self, module: Module) -> Module:
        for step in self.passes:
            module = apply(step, module)
        return module

    def ensures(self, module: Module) -> None:
        if self.passes:
            self.passes[-1].ensures(module)

    def __call__(self, module: Module) -> Module:
        return apply(self, module)
