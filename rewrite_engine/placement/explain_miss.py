"""Near misses: what stands in the way of a capability, a rule or a pattern around one operator of the model.

In: attempts of `egraph.trace`. Out: a `Miss`: what was expected, what was found, where in the model and in the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rewrite_engine.diagnostics import Span
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.trace import MOST_STEPS, Attempt, Failure, nearest
from rewrite_engine.language.core import ABSENT, CoreRule, Variant
from rewrite_engine.operators import find
from rewrite_engine.placement.explain_words import UNKNOWN, Words, saying

Entry = tuple[CoreRule, Variant, int, int]
"""A node of a variant's pattern laid on an operator of the e-graph: (rule, variant, pattern node, operator)."""


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a rule does not match: `fitting` of its `operators` are there; the first thing that is wrong, `text`.

    `kind` is that of `egraph.trace.Failure`, "unknown" for a guard that may hold or not, or "matches" where nothing is
    wrong. `span` is the clause or operator in the rule file, `value` the result of the operator at which it fails.
    `hint` is the likely mend.
    """

    rule: str
    kind: str
    span: Span
    text: str
    value: str
    fitting: int
    operators: int
    hint: str = ""


def closest(explored: Explored, among: Iterable[Entry], steps: int | None = None) -> Attempt | None:
    """The nearest miss of all, or what holds; of equally near ones the smallest pattern, then the first.

    `steps` bounds the search where there are many: roughly so many in all.
    """
    entries = sorted(among, key=lambda entry: len(entry[1].nodes))  # small ones soon rule large ones out
    best: Attempt | None = None
    for entry in entries:
        most = None if best is None else best.distance[0]
        allowed = MOST_STEPS if steps is None else min(steps // len(entries) + 4 * len(entry[1].nodes), MOST_STEPS)
        attempt = nearest(explored, *entry, most=most, steps=allowed)
        if attempt is not None and (best is None or attempt.distance[:3] < best.distance[:3]):
            best = attempt
    return best


def miss_of(words: Words, attempt: Attempt) -> Miss:
    """The first thing that is wrong with an attempt, in words."""
    rule, variant = attempt.rule, attempt.variant
    if attempt.holds:
        return Miss(rule.name, "matches", rule.span, "it matches", "", len(variant.nodes), len(variant.nodes))
    failure = attempt.failures[0]
    pattern = variant.nodes[failure.node]
    span = failure.refusal.span if failure.refusal is not None else pattern.span or rule.span
    text, hint = saying(words, attempt, failure)
    kind = "unknown" if failure.refusal is not None and UNKNOWN.search(failure.refusal.reason) else failure.kind
    hint = hint or _exchanged(words, attempt)
    value = _where(words, attempt, failure)
    return Miss(rule.name, kind, span, text, value, attempt.fitting, len(variant.nodes), hint)


def _where(words: Words, attempt: Attempt, failure: Failure) -> str:
    """The model's name for the result of the operator at hand."""
    graph = words.explored.graph
    assert graph is not None
    if failure.applied is None:
        return words.name(failure.value) if failure.value != ABSENT else ""
    applied = graph.operators[failure.applied]
    if applied.names:
        return applied.names[0]
    return next((words.name(value) for value in applied.outputs if value != ABSENT), "")


def _exchanged(words: Words, attempt: Attempt) -> str:
    """The hint where the pattern would match with the operands of one of its operators exchanged."""
    start = min(attempt.placed)
    for j, node in enumerate(attempt.variant.nodes):
        if len(node.inputs) == 2 and node.rest is None and not _commutes(node.op):
            turned = replace(node, inputs=node.inputs[::-1])
            nodes = (*attempt.variant.nodes[:j], turned, *attempt.variant.nodes[j + 1 :])
            variant = replace(attempt.variant, nodes=nodes)
            found = nearest(words.explored, attempt.rule, variant, start, attempt.placed[start], most=0)
            if found is not None and found.holds:
                return f"it would match with the operands of `{words.quote(node.span, node.op)}` exchanged"
    return ""


def _commutes(op: str) -> bool:
    facts = find(op)
    return facts is not None and facts.commutative
