"""What matches: egglog's answer, what near misses say about it, and the command that lists it."""

from __future__ import annotations

import numpy as np
import pytest
from drawing import always, fitted, holds

from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.freeze import Explored, Match
from rewrite_engine.egraph.trace import nearest
from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
from rewrite_engine.language import load_text
from rewrite_engine.machine import build
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType

pytestmark = pytest.mark.second_python


def laid(explored: Explored, match: Match, node: int) -> set[int]:
    """The operators that a match lays on one node of its pattern."""
    assert explored.graph is not None
    pattern = match.form.nodes[node]
    inputs = tuple(ABSENT if slot == ABSENT else match.slots[slot] for slot in pattern.inputs)
    outputs = {k: match.slots[slot] for k, slot in enumerate(pattern.outputs) if slot != ABSENT}
    facts = find(pattern.op)
    swaps = facts is not None and facts.commutative and len(inputs) == 2
    return {
        number
        for number, applied in enumerate(explored.graph.operators)
        if applied.op == pattern.op
        and all(k < len(applied.outputs) and applied.outputs[k] == value for k, value in outputs.items())
        and (applied.inputs == inputs or (swaps and applied.inputs == inputs[::-1]))
    }


@always(40)
def test_a_near_miss_has_nothing_wrong_exactly_where_egglog_matched(examples):
    seen = {True: 0, False: 0}

    def check(case):
        graph, rules = case.graph, case.rules
        explored = explore(graph, rules.rules, build(rules), trace=True)
        assert explored.graph is not None and explored.saturation == "complete"
        for rule in rules.rules:
            for variant in rule.variants if rule.kind != "supports" else ():
                held = [m for m in explored.matches if m.rule is rule and m.variant == variant.index]
                for node, pattern in enumerate(variant.nodes):
                    matched = set().union(*(laid(explored, match, node) for match in held))
                    for number, applied in enumerate(explored.graph.operators):
                        if applied.op == pattern.op:
                            attempt = nearest(explored, rule, variant, node, number)
                            assert attempt is not None
                            assert attempt.holds == (number in matched), f"{rule.name}: {applied}"
                            seen[attempt.holds] += 1

    holds(examples, check, fitted())
    assert min(seen.values()) > (examples or 40), seen


def test_a_literal_beside_a_constant_with_the_same_find_rule():
    # Both find Mul of a constant; only the second asks for its elements.
    square = TensorType("float32", (4, 4))
    values = (Value("x", square), Value("c", TensorType("float32", ()), np.float32(1.5)), Value("y", square))
    terms = Terms(values, (Term("Mul", {}, (0, 1), (2,)),), (0,), (2,))
    rules = load_text("pattern scaled(c, x) = Mul(const c, x)\npattern and_a_half(x) = Mul(1.5, x)")
    explored = explore(terms, rules.rules, build(rules))
    assert [match.rule.name for match in explored.matches] == ["scaled", "and_a_half"]
