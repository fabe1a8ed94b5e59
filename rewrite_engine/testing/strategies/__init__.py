"""Hypothesis strategies of everything that the engine works with, for tests of rules, passes and the engine itself.

    from hypothesis import given
    from rewrite_engine.testing import strategies as st

    @given(st.graphs(max_nodes=8), st.machines())
    def test_a_placement_is_never_dearer_than_the_host(graph, machine): ...

`Terms`, `Module`, `RuleSet`, `Machine` and `Placement` are registered: `hypothesis.strategies.from_type` draws them.
"""

from hypothesis import strategies as _st

from rewrite_engine.graph.module import Module as _Module
from rewrite_engine.graph.terms import Terms as _Terms
from rewrite_engine.language import RuleSet as _RuleSet
from rewrite_engine.machine import Machine as _Machine
from rewrite_engine.machine import build as _build
from rewrite_engine.placement.place import Placement as _Placement
from rewrite_engine.testing.strategies.arrays import attributes, drawable, dtypes, shapes, tensors
from rewrite_engine.testing.strategies.engine import machines, matches, patterns, placements, rules, targets
from rewrite_engine.testing.strategies.graphs import graphs, models

_st.register_type_strategy(_Terms, graphs())
_st.register_type_strategy(_Module, models())
_st.register_type_strategy(_RuleSet, machines())
_st.register_type_strategy(_Machine, machines().map(_build))
_st.register_type_strategy(_Placement, placements())

__all__ = [
    "attributes", "drawable", "dtypes", "graphs", "machines", "matches", "models", "patterns", "placements", "rules",
    "shapes", "targets", "tensors",
]  # fmt: skip
