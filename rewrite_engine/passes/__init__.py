"""Passes: `Sequential([Place(rules), LowerLoops(), PlanMemory()])(module)`, and the classic ones, one decision each."""

from rewrite_engine.passes.annotate import AnnotateOps, AnnotateTarget
from rewrite_engine.passes.base import Pass, PassError, Sequential, apply
from rewrite_engine.passes.merge_composite import MergeComposite
from rewrite_engine.passes.plan_devices import PlanDevices
from rewrite_engine.passes.regions import MergeRegions, PartitionGraph
from rewrite_engine.passes.stages import LowerLoops, Place, PlanMemory
from rewrite_engine.passes.store import load_module, save_module
from rewrite_engine.passes.try_sequential import TrySequential, latency

__all__ = [
    "AnnotateOps",
    "AnnotateTarget",
    "LowerLoops",
    "MergeComposite",
    "MergeRegions",
    "PartitionGraph",
    "Pass",
    "PassError",
    "Place",
    "PlanDevices",
    "PlanMemory",
    "Sequential",
    "TrySequential",
    "apply",
    "latency",
    "load_module",
    "save_module",
]
