"""The numbers that a rule's text names: literals, bounds and sizes, which matches and inputs are drawn near."""

from __future__ import annotations

import re

from rewrite_engine.language.core import CoreRule, RuleSet

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e-?\d+)?)(?![\w.])")


def numbers_in(rules: RuleSet, rule: CoreRule) -> tuple[float, ...]:
    """The numbers in the declaration's own lines and in the file's `let`s, in order of size; each once."""
    text, _ = rules.sources[rule.span.file]
    lines = text.splitlines()[rule.span.line - 1 :]
    found: set[float] = set()
    for line in text.splitlines():
        if line.startswith("let "):  # guards read them
            found.update(float(number) for number in _NUMBER.findall(line.split("#")[0].partition("=")[2]))
    for offset, line in enumerate(lines):
        if offset and re.match(r"(rule|pattern|composite|test|let|target|supports|include|operator)\b", line.strip()):
            break
        if line.startswith("##"):
            break
        found.update(float(number) for number in _NUMBER.findall(line.split("#")[0]))
    return tuple(sorted(found)[:12])
