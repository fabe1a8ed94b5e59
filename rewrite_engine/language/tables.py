"""The parse tables of `grammar/pat.lark`, as `reader` runs them: built by Lark once, kept beside this file.

Run `python -m rewrite_engine.language.tables` after a change of the grammar. Tables of another grammar are not used:
they are built again for the process, which takes a second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rewrite_engine.resources import grammar_text

STORED = Path(__file__).with_name("tables.json")


@dataclass(frozen=True, slots=True)
class Rule:
    """A grammar rule. `parts` are the children kept: (position, is a token, is spliced, absent ones before it)."""

    symbol: int  # what it makes, as a column of `goto`
    size: int
    name: str  # of its handler
    parts: tuple[tuple[int, bool, bool, int], ...]
    after: int  # absent ones at the end
    spliced: bool  # a helper: its children go to the rule that uses it
    single: bool  # with one child, it is that child
    unit: bool  # it only renames its one part
    plain: bool  # it makes a name of its one token


@dataclass(frozen=True, slots=True)
class Tables:
    """`actions[state][terminal]`: s > 0 shifts to state s - 1, r <= 0 reduces rule -r. `goto[state][symbol]`: a state.

    `starts` and `ends` are the first and last states of the grammar's entry points.
    """

    terminals: Mapping[str, int]
    words: Mapping[str, int]  # keywords
    marks: Mapping[str, int]  # punctuation
    rules: tuple[Rule, ...]
    actions: tuple[Mapping[int, int], ...]
    goto: tuple[Mapping[int, int], ...]
    starts: Mapping[str, int]
    ends: Mapping[str, int]


@cache
def tables() -> Tables:
    """The tables of the grammar at hand."""
    text = grammar_text()
    try:
        stored = json.loads(STORED.read_bytes())
    except (OSError, ValueError):
        stored = {}
    return _tables(stored if stored.get("grammar") == _digest(text) else generate())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _tables(stored: Mapping[str, Any]) -> Tables:
    return Tables(
        {name: index for index, name in enumerate(stored["terminals"])},
        stored["words"],
        stored["marks"],
        tuple(Rule(s, n, name, tuple(map(tuple, parts)), *rest) for s, n, name, parts, *rest in stored["rules"]),
        tuple(dict(row) for row in stored["actions"]),
        tuple(dict(row) for row in stored["goto"]),
        stored["starts"],
        stored["ends"],
    )


# ---------------------------------------------------------------- from Lark


def generate() -> dict[str, Any]:
    """The tables as they are stored. States are numbered from the entry points on, so that every run gives the same."""
    from rewrite_engine.language.grammar import parser

    lark: Any = parser()
    table = lark.parser.parser._parse_table
    numbers = _numbers(table)
    terminals = sorted(terminal.name for terminal in lark.terminals)
    terminals = ["$END", *terminals]
    column = {name: index for index, name in enumerate(terminals)}
    reduced = {
        str(rule): rule for row in table.states.values() for _, rule in row.values() if hasattr(rule, "expansion")
    }
    rules = [reduced[key] for key in sorted(reduced)]
    symbols = sorted({rule.origin.name for rule in rules})
    position = {key: index for index, key in enumerate(sorted(reduced))}
    actions: list[list[list[int]]] = [[] for _ in numbers]
    goto: list[list[list[int]]] = [[] for _ in numbers]
    for state, row in table.states.items():
        for name, (_, argument) in sorted(row.items()):
            if name not in column:
                goto[numbers[state]].append([symbols.index(name), numbers[argument]])
            elif hasattr(argument, "expansion"):
                actions[numbers[state]].append([column[name], -position[str(argument)]])
            else:
                actions[numbers[state]].append([column[name], numbers[argument] + 1])
    words, marks = _spelt(lark.terminals, column)
    return {
        "grammar": _digest(grammar_text()),
        "terminals": terminals,
        "words": words,
        "marks": marks,
        "rules": [_rule(rule, symbols) for rule in rules],
        "actions": actions,
        "goto": goto,
        "starts": {entry: numbers[state] for entry, state in sorted(table.start_states.items())},
        "ends": {entry: numbers[state] for entry, state in sorted(table.end_states.items())},
    }


def _numbers(table: Any) -> dict[Any, int]:
    numbers: dict[Any, int] = {}
    pending = [state for _, state in sorted(table.start_states.items(), reverse=True)]
    while pending:
        state = pending.pop()
        if state not in numbers:
            numbers[state] = len(numbers)
            following = [a for _, (_, a) in sorted(table.states[state].items()) if not hasattr(a, "expansion")]
            pending += reversed(following)
    return numbers


def _spelt(terminals: Any, column: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Keywords and punctuation by their text."""
    from rewrite_engine.language.reader import SEVERAL, WHOLE_WORD

    words: dict[str, int] = {}
    marks: dict[str, int] = {}
    for terminal in terminals:
        text = terminal.pattern.value
        for spelling in SEVERAL.get(terminal.name, (text.removesuffix(WHOLE_WORD),)):
            if spelling.isidentifier():
                words[spelling] = column[terminal.name]
            elif terminal.pattern.type == "str" or terminal.name in SEVERAL:
                marks[spelling] = column[terminal.name]
    return dict(sorted(words.items())), dict(sorted(marks.items()))


def _rule(rule: Any, symbols: list[str]) -> list[Any]:
    """What Lark's tree builder does for a rule."""
    expansion, options = rule.expansion, rule.options
    flags = "".join(str(int(empty)) for empty in options.empty_indices) or "0" * len(expansion)
    absent = [len(ones) for ones in flags.split("0")]
    parts, nones = [], 0
    for index, symbol in enumerate(expansion):
        nones += absent[index]
        if not (symbol.is_term and symbol.filter_out):
            parts.append([index, symbol.is_term, not symbol.is_term and symbol.name.startswith("_"), nones])
            nones = 0
    nones += absent[len(expansion)]
    name = rule.alias or rule.origin.name
    single = bool(options.expand1 and not rule.alias)
    unit = single and len(expansion) == 1 and parts == [[0, False, False, 0]] and not nones
    spliced = rule.origin.name.startswith("_")
    plain = name in ("name", "operator_name") and len(expansion) == 1
    return [symbols.index(rule.origin.name), len(expansion), str(name), parts, nones, spliced, single, unit, plain]


def main() -> None:
    """Writes the stored tables."""
    STORED.write_text(json.dumps(generate(), separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
