"""Verification of rules and composites by property: are both sides the same, whatever the shapes, types and values?

`verify(rules)` draws matches of every rule, guards included, and holds what the rule builds against what it replaces:
in shapes and dtypes, in exact algebra, in floats. `both_sides` computes a counterexample again.
"""

from rewrite_engine.testing.verify.replay import both_sides
from rewrite_engine.testing.verify.report import Counterexample, Protection, Report, RuleReport
from rewrite_engine.testing.verify.run import Options, verify, verify_file, verify_rule

__all__ = [
    "Counterexample", "Options", "Protection", "Report", "RuleReport", "both_sides", "verify", "verify_file",
    "verify_rule",
]  # fmt: skip
