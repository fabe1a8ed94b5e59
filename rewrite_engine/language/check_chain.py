"""`chain(…)` in patterns: its parts, its operators, and where it may stand."""

from __future__ import annotations

from rewrite_engine.diagnostics import did_you_mean
from rewrite_engine.language import syntax
from rewrite_engine.language.check_expressions import Reader
from rewrite_engine.language.check_templates import find_operator
from rewrite_engine.language.expand_chain import LONGEST, WRITTEN, parts

_KEYWORDS = ("most", "others")


def check_chain(call: syntax.CallPattern, reader: Reader) -> None:
    """One `chain(…)`."""
    if len(call.args) != 2 or not isinstance(call.args[1], syntax.SetExpr):
        reader.problem(call.span, "a chain needs where it starts and a set of operators", f"write `{WRITTEN}`")
        return
    for item in call.args[1].items:
        if not isinstance(item, syntax.Name) or not (item.name[:1].isupper() or "::" in item.name):
            reader.problem(item.span, "expected the name of an operator in the set")
            continue
        operator = find_operator(item.name, item.span, reader.problems, reader.scope.declared)
        if operator is not None and operator.max_inputs == 0:
            reader.problem(item.span, f"{item.name} reads no input, so it cannot be a step of a chain")
    seen = set()
    for keyword in call.keywords:
        if keyword.name not in _KEYWORDS:
            hint = did_you_mean(keyword.name, _KEYWORDS) or f"write `{WRITTEN}`"
            reader.problem(keyword.span, f"a chain has no `{keyword.name}`", hint)
        elif keyword.name in seen:
            reader.problem(keyword.span, f"`{keyword.name}` is given twice")
        elif keyword.optional or (keyword.name == "others" and not isinstance(keyword.value, syntax.Name)):
            reader.problem(keyword.span, f"`{keyword.name}` of a chain is one {_KINDS[keyword.name]}")
        seen.add(keyword.name)
    chain = parts(call, reader.scope)
    most = next((keyword for keyword in call.keywords if keyword.name == "most"), None)
    if most is None:
        reader.problem(call.span, "a chain needs `most`, the number of its steps", f"write `{WRITTEN}`")
    else:
        if isinstance(most.value, syntax.Name):
            reader.let(most.value.name, most.value.span)
        if chain is None or chain.most is None:
            reader.problem(most.value.span, f"expected a whole number from 1 to {LONGEST}")


_KINDS = {"most": "number", "others": "name, of a list of values"}
