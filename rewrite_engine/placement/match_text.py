"""Matches as text: each with its operators and captures, then the rules without any, with their nearest misses."""

from __future__ import annotations

from collections.abc import Iterator

from rewrite_engine.diagnostics import Problem, render
from rewrite_engine.placement.match import Capture, Matched, MatchedOperator, Matches, Unmatched


def text_of(matches: Matches) -> str:
    """Everything that the matches hold, as `rewrite-engine match` prints it."""
    lines: list[str] = []
    for found in matches.matches:
        lines += _matched(found)
    rules = len({found.rule for found in matches.matches})
    lines += [f"{_plural(len(matches.matches), 'match', 'matches')} of {_plural(rules, 'rule', 'rules')}"]
    if matches.saturation != "complete":
        lines += [f"the search for rewrites stopped at its limit ({matches.saturation}): there may be more"]
    if matches.left_out:
        lines += [f"left out by --allow: {', '.join(matches.left_out)}"]
    if matches.unmatched:
        lines += ["", f"{_plural(len(matches.unmatched), 'rule', 'rules')} without a match"]
        for unmatched in matches.unmatched:
            lines += _unmatched(matches, unmatched)
    return "\n".join(lines)


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _matched(found: Matched) -> Iterator[str]:
    yield f"{found.kind} {found.rule} ({found.span})"
    yield f"  operators  {', '.join(map(_operator, found.nodes))}"
    width = max((len(capture.name) for capture in found.captures), default=0)
    for capture in found.captures:
        yield f"  {capture.name:<{width}}  {_capture(capture)}"


def _operator(node: MatchedOperator) -> str:
    return f"{node.op} `{node.name}`" if node.name else f"{node.op} (made by rules)"


def _capture(capture: Capture) -> str:
    parts = [f"`{capture.value}`" if capture.value else "", capture.type]
    if capture.elements is not None:
        parts.append(f"= {shown(capture.elements)}")
    elif capture.constant:
        parts.append("constant")
    return " ".join(part for part in parts if part)


def shown(value: object) -> str:
    """Elements of a constant or the value of an attribute, lists in brackets as rule files write them."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:.9g}" if isinstance(value, float) else str(value)


def _unmatched(matches: Matches, unmatched: Unmatched) -> Iterator[str]:
    miss = unmatched.miss
    if miss is None:
        ops = unmatched.wanted
        none = f"no {ops[0]}" if len(ops) == 1 else f"none of {', '.join(ops)}"
        yield f"{unmatched.kind} {unmatched.rule} ({unmatched.span}): the model has {none}"
        return
    fits = f", {miss.fitting} of {miss.operators} operators fit" if miss.operators > 1 else ""
    at = f"; nearest at `{miss.value}`" if miss.value else ""
    yield f"{unmatched.kind} {unmatched.rule} ({unmatched.span}){at}{fits}"
    text = render(Problem(miss.span, miss.text, miss.hint or None, severity="note"), matches.sources)
    yield from (f"  {line}" for line in text.splitlines())
