"""Near misses in words: what stands in the way of a capability, a rule or a pattern around one operator of the model.

In: an attempt of `egraph.trace`. Out: a `Miss`: what was expected, what was found, where in the model and in the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rewrite_engine.diagnostics import Span
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.trace import MOST_STEPS, Attempt, Failure, nearest
from rewrite_engine.language.core import ABSENT, CoreRule, Variant
from rewrite_engine.operators import find

Entry = tuple[CoreRule, Variant, int, int]
"""A node of a variant's pattern laid on an operator of the e-graph: (rule, variant, pattern node, operator)."""

_UNKNOWN = re.compile(r"(?:dimension (?:`([^`]+)`|\d+)|the rank|the dtype) of `[^`]+` is unknown")
_NOT_NAMED = "the model does not say it and gives it no name, so that no --dim binds it"

QUOTED = 72  # characters of a rule file that a message quotes


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


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """What values and places of a rule file are called. `sources` are the texts of the rule files, by path."""

    explored: Explored
    sources: Mapping[str, str]

    def value(self, number: int) -> str:
        """A class by its name in the model; one that rules made, by its operator."""
        if self.explored.classes[number].values:
            return f"`{self.explored.problem.names[number]}`"
        made = self.makers(number)
        return f"a rewritten {made[0]}" if made else "a computed constant"

    def name(self, number: int) -> str:
        return self.explored.problem.names[number]

    def makers(self, number: int) -> list[str]:
        """The operators that compute a class."""
        graph = self.explored.graph
        assert graph is not None
        return list(dict.fromkeys(graph.operators[k].op for k in graph.makers.get(number, ())))

    def users(self, number: int) -> list[str]:
        """The operators that read a class."""
        graph = self.explored.graph
        assert graph is not None
        return list(dict.fromkeys(graph.operators[k].op for k in graph.users.get(number, ())))

    def origin(self, number: int) -> str:
        """Where a class comes from, as a predicate."""
        if self.explored.classes[number].constant is not None:
            return "is a constant"
        made = self.makers(number)
        return f"comes from {' or '.join(made)}" if made else "is an input of the model"

    def quote(self, span: Span | None, otherwise: str) -> str:
        """What stands in a rule file, on one line."""
        lines = self.sources.get(span.file, "").splitlines() if span is not None else []
        if span is None or not 1 <= span.line <= span.end_line <= len(lines):
            return otherwise
        part = lines[span.line - 1 : span.end_line]
        part[-1] = part[-1][: span.end_column - 1]
        part[0] = part[0][span.column - 1 :]
        text = " ".join(" ".join(part).split())
        return text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"


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
    text, hint = _SAYINGS[failure.kind](words, attempt, failure)
    kind = "unknown" if failure.refusal is not None and _UNKNOWN.search(failure.refusal.reason) else failure.kind
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


def _operator(words: Words, attempt: Attempt, failure: Failure) -> str:
    graph = words.explored.graph
    assert graph is not None and failure.applied is not None
    applied = graph.operators[failure.applied]
    result = next((words.value(value) for value in applied.outputs if value != ABSENT), "")
    return f"{applied.op} {result}" if applied.names else result


def _input(words: Words, failure: Failure) -> str:
    """An operand by its name in the operator's schema, or counted."""
    graph = words.explored.graph
    assert graph is not None and failure.applied is not None
    facts = find(graph.operators[failure.applied].op)
    formal = facts.input(failure.position) if facts is not None else None
    return f"input {formal.name if formal is not None else failure.position + 1}"


def _wanted(attempt: Attempt, failure: Failure) -> str:
    pattern = attempt.variant.nodes[failure.node]
    return " or ".join(pattern.choices or (pattern.op,))


def _spelled(words: Words, attempt: Attempt, node: int) -> str:
    pattern = attempt.variant.nodes[node]
    return f"`{words.quote(pattern.span, pattern.op)}`"


def _capture(attempt: Attempt, slot: int) -> str:
    name = attempt.variant.slots[slot].name
    return "the literal" if name.startswith("$literal") else f"`{name.lstrip('$')}`"


def _wrong_operator(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    value = words.value(failure.value)
    return f"{value} must come from {_wanted(attempt, failure)}, but {words.origin(failure.value)}", ""


def _wrong_reader(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    users = words.users(failure.value)
    found = f"is read by {' and '.join(users)}" if users else "nothing reads it"
    return f"{words.value(failure.value)} must be read by {_wanted(attempt, failure)}, but {found}", ""


def _extra_input(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    graph = words.explored.graph
    assert graph is not None and failure.applied is not None
    op, which = graph.operators[failure.applied].op, _input(words, failure)
    pattern, nodes = _spelled(words, attempt, failure.node), attempt.variant.nodes
    text = f"{_operator(words, attempt, failure)} has {which} here ({words.value(failure.value)}), {pattern} has none"
    results = set(nodes[failure.node].outputs) - {ABSENT}
    adds = (j for j, node in enumerate(nodes) if node.op in ("Add", "Sum") and results & set(node.inputs))
    added = next((_spelled(words, attempt, j) for j in adds), None)
    mend = f"an optional {which} (`b?` in its place) matches {op} with and without it"
    hint = f"{added} spells it as an operator of its own, so every {op} with {which} is missed; " if added else ""
    return text, hint + mend


def _missing_input(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    which, pattern = _input(words, failure), _spelled(words, attempt, failure.node)
    text = f"{_operator(words, attempt, failure)} has no {which} here, {pattern} wants one"
    return text, "a `?` after it lets it be absent"


def _other_value(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    capture = _capture(attempt, failure.slot)
    found, known = words.value(failure.value), words.value(failure.other)
    pattern = attempt.variant.nodes[failure.node]
    where = "a result" if failure.slot in pattern.outputs else _input(words, failure)
    return f"{where} of {_operator(words, attempt, failure)} is {found}, but {capture} is {known}", ""


def _not_constant(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    found = words.value(failure.value)
    return f"{_capture(attempt, failure.slot)} must be a constant, but {found} {words.origin(failure.value)}", ""


def _no_result(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    return f"{_operator(words, attempt, failure)} has no result {failure.position + 1} that is read", ""


def _no_type(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    return f"{words.value(failure.value)} is no tensor of a known type", ""


def _guard(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    """The clause with what it saw; captures that it names, by their names in the model."""
    assert failure.refusal is not None
    reason = failure.refusal.reason
    spoken = set(re.findall(r"[^\W\d]\w*", reason))
    captures: list[str] = []
    for slot, value in sorted(attempt.slots.items()):
        name = attempt.variant.slots[slot].name
        if name in spoken and words.explored.classes[value].values and words.name(value) != name:
            captures.append(f"{name} is {words.value(value)}")
    unknown = _UNKNOWN.search(reason)
    hint = "" if unknown is None else f"--dim {unknown[1]}=SIZE binds it" if unknown[1] else _NOT_NAMED
    return reason + (f" ({', '.join(captures[:3])})" if captures else ""), hint


_SAYINGS = {
    "operator": _wrong_operator,
    "reader": _wrong_reader,
    "extra_input": _extra_input,
    "missing_input": _missing_input,
    "other_value": _other_value,
    "not_constant": _not_constant,
    "no_result": _no_result,
    "no_type": _no_type,
    "guard": _guard,
}
