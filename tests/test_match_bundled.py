"""Near misses of the bundled rules on the graphs of their own tests: nothing is wrong exactly where egglog matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_match import laid

from rewrite_engine.egraph.encode import attribute_key
from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.trace import nearest
from rewrite_engine.graph.terms import Terms
from rewrite_engine.language import load
from rewrite_engine.language.core import CoreRule, RuleSet
from rewrite_engine.machine import HOST, build
from rewrite_engine.operators import find
from rewrite_engine.testing.graphs import GraphBuilder
from rewrite_engine.testing.in_file import own_tests

ROOT = Path(__file__).parents[1]
FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "patterns").rglob("*.pat"))
ALLOW = ("exact", "reassociates", "approximates")


def graphs(rules: RuleSet) -> list[Terms]:
    """The graphs of a file's own tests."""
    texts = {path: text for path, (text, _) in rules.sources.items()}
    found = []
    for case in own_tests(rules)[1]:
        builder = GraphBuilder(rules.scope, texts)
        outputs = builder.graph(case.declaration.subject, case.declaration.where)
        found.append(builder.terms(outputs))
    return found


def explored_in(rules: RuleSet, terms: Terms) -> Explored:
    """The e-graph of a graph with every rule; composites match as patterns do, and are kernels, too."""
    patterns = [replace(r, kind="pattern", target=None) for r in rules.rules if r.kind == "composite"]
    found = explore(terms, [*rules.rules, *patterns], build(rules).without_costs(), allow=ALLOW, trace=True)
    assert found.graph is not None and found.saturation == "complete"
    return found


def check_matches(explored: Explored, rule: CoreRule, every: bool) -> tuple[int, int]:
    """Compares attempts by a pattern's result, or by `every` node, with egglog's matches: how many hold and do not."""
    counts = [0, 0]
    for variant in rule.variants:
        held = [m for m in explored.matches if m.rule.name == rule.name and m.variant == variant.index]
        for node in range(len(variant.nodes)) if every else (len(variant.nodes) - 1,):
            pattern = variant.nodes[node]
            matched = set().union(*(laid(explored, match, node) for match in held))
            for number, applied in enumerate(explored.graph.operators):
                if applied.op in (pattern.choices or (pattern.op,)):
                    attempt = nearest(explored, rule, variant, node, number, most=0)
                    holds = attempt is not None and attempt.holds
                    assert holds == (number in matched), (rule.name, variant.index, applied)
                    counts[not holds] += 1
    return counts[0], counts[1]


def commutes(op: str) -> bool:
    facts = find(op)
    return facts is not None and facts.commutative


def check_supports(explored: Explored, rules: Sequence[CoreRule]) -> tuple[int, int]:
    """Compares capabilities of single operators with the kernels that the e-graph has."""
    counts = [0, 0]
    names = [target.name for target in explored.problem.targets]
    kernels = set()
    for kernel in explored.problem.kernels:
        node = explored.enodes[kernel.payload]
        if node.fused is None and node.result is None:
            kernels.add((names[kernel.target], node.op, node.inputs, attribute_key(node.attributes)))
    for number, applied in enumerate(explored.graph.operators):
        if set(applied.inputs) & set(applied.outputs):
            continue  # a kernel does not read its own result
        for target in names[1:]:
            holds = any(
                (attempt := nearest(explored, rule, variant, 0, number, most=0)) is not None and attempt.holds
                for rule in rules
                if rule.target == target
                for variant in rule.variants
                if variant.nodes[0].op == applied.op
            )
            orders = (applied.inputs, applied.inputs[::-1]) if commutes(applied.op) else (applied.inputs,)
            keys = {(target, applied.op, inputs, attribute_key(applied.attributes)) for inputs in orders}
            assert holds == bool(keys & kernels), (target, applied)
            counts[not holds] += 1
    return counts[0], counts[1]


QUICK = [(file, False) for file in FILES[::2]]
ALL = [pytest.param(file, True, marks=pytest.mark.slow) for file in FILES]


@pytest.mark.parametrize(("file", "every"), [*QUICK, *ALL])
def test_nothing_is_wrong_exactly_where_egglog_matched(file, every):
    rules = load([ROOT / file])
    found = graphs(rules) if every else graphs(rules)[::8]
    held = missed = 0
    for terms in found:
        explored = explored_in(rules, terms)
        single = [rule for rule in rules.rules if rule.kind == "supports"]
        counts = [check_matches(explored, rule, every) for rule in rules.rules if rule.kind != "supports"]
        counts.append(check_supports(explored, single))
        held, missed = held + sum(c[0] for c in counts), missed + sum(c[1] for c in counts)
    if any(rule.target != HOST for rule in rules.rules):
        assert held >= len(found) // 3 and missed >= len(found) // 3
