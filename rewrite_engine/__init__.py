"""A rule-based graph rewriting engine for ONNX models: rule files in, a placed and lowered model out.

>>> import rewrite_engine as rw
>>> rules = rw.load_rules("npu.pat", "fastlib.pat")
>>> module = rw.load(rw.bundled_model())
>>> bundle = rw.compile(module, rules)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewrite_engine.api import (
        Bundle,
        Explanation,
        MatchedNode,
        Matches,
        Module,
        Placement,
        RuleSet,
        compile,
        explain,
        load,
        load_rules,
        match,
        place,
        reuse,
        supports,
        what_if,
        with_capabilities,
    )
    from rewrite_engine.backend.bindings import Bindings
    from rewrite_engine.bindings import compile_bindings
    from rewrite_engine.diagnostics import PatError, RewriteError
    from rewrite_engine.graph import bundled_model
    from rewrite_engine.placement.strategies import Dp, Largest, OpMap, Optimal, Priority, Single

__version__ = "0.1.0"
__all__ = ["Bindings", "Bundle", "Dp", "Explanation", "Largest", "MatchedNode", "Matches", "Module", "OpMap", "Optimal",
           "PatError", "Placement", "Priority", "RewriteError", "RuleSet", "Single", "bundled_model", "compile",
           "compile_bindings", "explain", "load", "load_rules", "match", "place", "reuse", "supports", "what_if",
           "with_capabilities"]  # fmt: skip

_HOMES = {"Bindings": "rewrite_engine.backend.bindings", "compile_bindings": "rewrite_engine.bindings",
          "PatError": "rewrite_engine.diagnostics", "RewriteError": "rewrite_engine.diagnostics",
          "bundled_model": "rewrite_engine.graph",
          **dict.fromkeys(("Dp", "Largest", "OpMap", "Optimal", "Priority", "Single"),
                          "rewrite_engine.placement.strategies")}  # fmt: skip


def __getattr__(name: str) -> object:
    """Names are imported on first use: the command line answers without onnx, egglog or a solver."""
    if name not in __all__:
        raise AttributeError(f"module `rewrite_engine` has no attribute `{name}`")
    from importlib import import_module

    from rewrite_engine.pause import collector_paused

    with collector_paused():
        return getattr(import_module(_HOMES.get(name, "rewrite_engine.api")), name)
