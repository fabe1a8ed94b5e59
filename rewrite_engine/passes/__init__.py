"""Passes: `Sequential([Place(rules), LowerLoops(), PlanMemory()])(module)`."""

from rewrite_engine.passes.base import Pass, PassError, Sequential, apply
from rewrite_engine.passes.stages import LowerLoops, Place, PlanMemory

__all__ = ["LowerLoops", "Pass", "PassError", "Place", "PlanMemory", "Sequential", "apply"]
