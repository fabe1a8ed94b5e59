"""What stands in the way of a match, in words: a saying per kind of failure, with the likely mend.

In: an attempt of `egraph.trace` and one of its failures. Out: a sentence and a hint, in the names of the model and in
the spelling of the rule file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rewrite_engine.diagnostics import Span
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.operator_graph import Applied
from rewrite_engine.egraph.trace import Attempt, Failure
from rewrite_engine.language.core import ABSENT
from rewrite_engine.operators import find

UNKNOWN = re.compile(r"(?:dimension (?:`([^`]+)`|\d+)|the rank|the dtype) of `[^`]+` is unknown")
"""What a guard says of what it does not know; the group is the dimension's name, where it has one."""
QUOTED = 72  # characters of a rule file that a message quotes


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


def saying(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    """What is wrong, and the likely mend or ""."""
    return _SAYINGS[failure.kind](words, attempt, failure)


def _applied(words: Words, failure: Failure) -> Applied:
    """The operator at hand."""
    graph = words.explored.graph
    assert graph is not None and failure.applied is not None
    return graph.operators[failure.applied]


def _operator(words: Words, failure: Failure) -> str:
    applied = _applied(words, failure)
    result = next((words.value(value) for value in applied.outputs if value != ABSENT), "")
    return f"{applied.op} {result}" if applied.names else f"{result} as a {applied.op}" if "`" in result else result


def _input(words: Words, failure: Failure) -> str:
    """An operand by its name in the operator's schema, or counted."""
    return _input_of(_applied(words, failure).op, failure.position)


def _input_of(op: str, position: int) -> str:
    facts = find(op)
    formal = facts.input(position) if facts is not None else None
    return f"input {position + 1}" if formal is None or formal.kind == "variadic" else f"input {formal.name}"


def _wanted(attempt: Attempt, failure: Failure) -> str:
    pattern = attempt.variant.nodes[failure.node]
    return " or ".join(pattern.choices or (pattern.op,))


def _spelled(words: Words, attempt: Attempt, node: int) -> str:
    pattern = attempt.variant.nodes[node]
    return f"`{words.quote(pattern.span, pattern.op)}`"


def _wrong_operator(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    value = words.value(failure.value)
    text = f"{value} must come from {_wanted(attempt, failure)}, but {words.origin(failure.value)}"
    return text, _left_out(words, attempt, failure)


def _left_out(words: Words, attempt: Attempt, failure: Failure) -> str:
    """The hint where the missing operator's own operand is there in its place: a step that the model does not take."""
    graph, nodes = words.explored.graph, attempt.variant.nodes
    assert graph is not None
    wanted = nodes[failure.node]
    made = {slot: j for j, node in enumerate(nodes) for slot in node.outputs if slot != ABSENT}
    for slot in wanted.inputs:
        step = nodes[made[slot]] if slot in made else None
        for number in graph.makers.get(failure.value, ()) if step is not None else ():
            applied = graph.operators[number]
            if step is None or applied.op not in (step.choices or (step.op,)):
                continue
            if step.rest is None and len(applied.inputs) > len(step.inputs) and wanted.op in ("Add", "Sum"):
                return _bias_hint(words, attempt, failure.node, applied.op, _input_of(applied.op, len(step.inputs)))
            return f"`{wanted.op}?(…)` would let the step be left out" if not wanted.choices else ""
    return ""


def _bias_hint(words: Words, attempt: Attempt, added: int, op: str, which: str) -> str:
    return (
        f"{_spelled(words, attempt, added)} spells it as an operator of its own, so every {op} with {which} is missed; "
        f"{_optional_hint(op, which)}"
    )


def _optional_hint(op: str, which: str) -> str:
    return f"an optional {which} (`b?` in its place) matches {op} with and without it"


def _wrong_reader(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    users = words.users(failure.value)
    found = f"is read by {' and '.join(users)}" if users else "nothing reads it"
    return f"{words.value(failure.value)} must be read by {_wanted(attempt, failure)}, but {found}", ""


def _extra_input(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    op, which, nodes = _applied(words, failure).op, _input(words, failure), attempt.variant.nodes
    pattern = _spelled(words, attempt, failure.node)
    text = f"{_operator(words, failure)} has {which} here ({words.value(failure.value)}), {pattern} has none"
    results = set(nodes[failure.node].outputs) - {ABSENT}
    added = next((j for j, node in enumerate(nodes) if node.op in ("Add", "Sum") and results & set(node.inputs)), None)
    if added is not None:
        return text, _bias_hint(words, attempt, added, op, which)
    return text, "a list (`*rest`) matches any number" if _is_variadic(op, failure) else _optional_hint(op, which)


def _is_variadic(op: str, failure: Failure) -> bool:
    facts = find(op)
    formal = facts.input(failure.position) if facts is not None else None
    return formal is not None and formal.kind == "variadic"


def _missing_input(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    which, pattern = _input(words, failure), _spelled(words, attempt, failure.node)
    name = "" if failure.slot == ABSENT else attempt.variant.slots[failure.slot].name
    text = f"{_operator(words, failure)} has no {which} here, {pattern} wants one"
    if _is_variadic(_applied(words, failure).op, failure):
        return text, "a list (`*rest`) matches any number"
    return text, f"`{name}?` in its place lets it be absent" if name and not name.startswith("$") else ""


def _other_value(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    found, known = words.value(failure.value), words.value(failure.other)
    name, applied = attempt.variant.slots[failure.slot].name, _applied(words, failure)
    if failure.slot not in attempt.variant.nodes[failure.node].outputs:
        before = f"`{name}` stands for" if not name.startswith("$") else "the pattern wants"
        return f"{_input(words, failure)} of {_operator(words, failure)} is {found}, but {before} {known}", ""
    if failure.other in applied.outputs:
        here = f"{known}, its result [{applied.outputs.index(failure.other)}], stands in its place"
        return f"the pattern wants result [{failure.position}] of {applied.op}, {found}, but {here}", ""
    return f"the result of {_operator(words, failure)} is {found}, but the pattern wants {known}", ""


def _not_constant(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    name = attempt.variant.slots[failure.slot].name
    what = _input(words, failure) if name.startswith("$") and failure.applied is not None else f"`{name}`"
    return f"{what} must be a constant, but {words.value(failure.value)} {words.origin(failure.value)}", ""


def _no_result(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    return f"{_operator(words, failure)} has no result [{failure.position}] that is read", ""


def _no_type(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    return f"{words.value(failure.value)} is no tensor of a known type", ""


def _guard(words: Words, attempt: Attempt, failure: Failure) -> tuple[str, str]:
    """The clause with what it saw; captures that it names, by their names in the model."""
    assert failure.refusal is not None
    reason = failure.refusal.reason
    spoken = set(re.findall(r"[^\W\d]\w*", reason))
    counted = set(re.findall(r"readers\((\w+)\)", reason))
    captures: list[str] = []
    for slot, value in sorted(attempt.slots.items()):
        name = attempt.variant.slots[slot].name
        if name in spoken and words.explored.classes[value].values and words.name(value) != name:
            captures.append(f"{name} is {words.value(value)}")
        if name in counted and words.users(value):
            captures.append(f"{name} is read by {' and '.join(words.users(value))}")
    unknown = UNKNOWN.search(reason)
    hint = "" if unknown is None else _binding(words, unknown[1])
    return reason + (f" ({', '.join(captures[:4])})" if captures else ""), hint


def _binding(words: Words, dimension: str | None) -> str:
    """How what is not known becomes known: the dimensions of the model's inputs can be bound, and nothing else."""
    terms = words.explored.terms
    shapes = [terms.values[i].type.shape or () for i in terms.inputs]
    names = dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, str))
    if dimension in names:
        return f"--dim {dimension}=SIZE binds it"
    if names:
        return f"it follows from others or from the data: bind those of the inputs, --dim {next(iter(names))}=SIZE"
    if any(terms.values[i].type.shape is None for i in terms.inputs):
        return "declare the shapes of all inputs in the model; sizes that are names can be bound"
    return "it follows from the data, so that no --dim binds it"


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
