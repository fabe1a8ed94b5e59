"""The fast road from text to syntax tree, for files without a syntax error: tokens, then one run over the parse tables.

In: the text of a rule file. Out: its declarations, or None where it cannot be read so, and `parsing` goes the long way,
which finds every error. It gives what Lark would give, several times as fast: one regular expression, no tree in
between, and chains of rules that only rename their part are walked once for each place where they occur.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from rewrite_engine.diagnostics import Span
from rewrite_engine.language.syntax import Name
from rewrite_engine.language.tables import Tables, tables
from rewrite_engine.language.tree import Context, finish, handlers

WHOLE_WORD = "(?![A-Za-z0-9_])"
"""What ends the patterns of keywords."""
NO_TERMINAL = -1
"""The kind of a word that is reserved: it is no name, nor the end of the text."""
SEVERAL = {
    "ARROW": ("->", "<->"),
    "COMPARE": ("==", "!=", "<=", ">=", "<", ">"),
    "LABEL": ("reassociates", "approximates"),
    "LIMIT": ("launch", "flops", "bandwidth"),
}
"""Terminals with several spellings."""
TOKEN = re.compile(
    r"""[ \t]+ | (\n) | \#[^\n]*
    | ([A-Za-z_][A-Za-z0-9_]*) ((?:\.[A-Za-z0-9_.]*)?::[A-Za-z0-9_]+)?
    | ([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ((?![eE][+-]?[0-9])[A-Za-z_][A-Za-z0-9_]*)?
    | ("[^"\n]*")
    | (<->|<=>|=>|->|\.\.\.|==|!=|<=|>=|//|[-<>=(){}\[\],:;.|?*+/%])
    | (.)""",
    re.X | re.S,
)
_LINE, _WORD, _QUALIFIED, _NUMBER, _UNIT, _TEXT, _MARK, _OTHER = range(1, 9)


class Token(str):
    """A token as handlers see it."""

    __slots__ = ("column", "end_column", "end_line", "line", "type")

    type: str
    line: int
    column: int
    end_line: int
    end_column: int


class Tokens:
    """Tokens in columns. `words` is the keyword of each (0: none), `kinds` what it is otherwise (or NO_TERMINAL)."""

    __slots__ = ("columns", "kinds", "lines", "names", "texts", "words")

    def __init__(self, known: Tables) -> None:
        self.texts: list[str] = []
        self.kinds: list[int] = []
        self.words: list[int] = []
        self.lines: list[int] = []
        self.columns: list[int] = []
        self.names = list(known.terminals)

    def token(self, index: int, kind: int) -> Token:
        """One of them, read as a terminal."""
        text = self.texts[index]
        token = Token(text)
        token.type = self.names[kind]
        token.line = token.end_line = self.lines[index]
        column = token.column = self.columns[index]
        token.end_column = column + len(text)
        return token


def tokens(source: str, known: Tables) -> Tokens | None:
    """The tokens of a text and one for its end; None where something is no token."""
    found = Tokens(known)
    terminals, marks, keywords = known.terminals, known.marks, known.words
    name, operator, qualified = terminals["NAME"], terminals["OP"], terminals["QUALIFIED"]
    whole, decimal, quantity, text = (terminals[k] for k in ("INT", "FLOAT", "QUANTITY", "STRING"))
    seen: dict[str, tuple[int, int]] = {}
    add_text, add_kind, add_word = found.texts.append, found.kinds.append, found.words.append
    add_line, add_column = found.lines.append, found.columns.append
    line, before = 1, -1
    for match in TOKEN.finditer(source):
        group = match.lastindex
        if group is None:
            continue
        if group == _LINE:
            line += 1
            before = match.start()
            continue
        value = match[0]
        word = 0
        if group == _WORD:
            known_word = seen.get(value)
            if known_word is None:
                plain = operator if "A" <= value[0] <= "Z" else name if value != "_" else NO_TERMINAL
                known_word = (plain if value not in RESERVED else NO_TERMINAL, keywords.get(value, 0))
                seen[value] = known_word
            kind, word = known_word
        elif group == _MARK:
            kind = marks[value]
        elif group == _NUMBER:
            kind = whole if value.isdigit() else decimal
        elif group == _UNIT:
            kind = quantity
        elif group == _TEXT:
            kind = text
        elif group == _QUALIFIED:
            kind = qualified
        else:
            return None
        add_text(value)
        add_kind(kind)
        add_word(word)
        add_line(line)
        add_column(match.start() - before)
    add_text("")
    add_kind(terminals["$END"])
    add_word(0)
    add_line(line)
    add_column(len(source) - before)
    return found


RESERVED = frozenset({"const", "none", "if", "then", "else", "and", "or", "not", "in", "where", "with", "as"})


def read(source: str, context: Context, entry: str = "start", tests: bool = True) -> Any:
    """The value of an entry point, or None where the text does not fit the grammar; `tests` may be passed over."""
    known = tables()
    stream = tokens(source, known)
    if stream is None:
        return None
    if not tests:
        _leave_out_tests(stream)
    return _Run(known, stream, context, entry).result()


BEGINS = {
    "include": _TEXT, "test": _TEXT, "let": _WORD, "device": _WORD, "link": _WORD, "target": _WORD, "pattern": _WORD,
    "rule": _WORD, "operator": _QUALIFIED,
}  # fmt: skip
"""The words that begin a declaration, and what follows them there: two such tokens stand nowhere else in a row."""


def _leave_out_tests(stream: Tokens) -> None:
    """Takes the tokens of `test` declarations out: from that word to the beginning of the next declaration."""
    texts, begins = stream.texts, []
    for index, text in enumerate(texts):
        wanted = BEGINS.get(text)
        if wanted is not None and _kind(texts[index + 1], RESERVED) == wanted:
            begins.append(index)
    begins.append(len(texts) - 1)
    kept: list[int] = []
    last = 0
    for begin, end in itertools.pairwise(begins):
        kept += range(last, begin)
        last = end if texts[begin] == "test" else begin
    kept += range(last, len(texts))
    for column in ("texts", "kinds", "words", "lines", "columns"):
        values = getattr(stream, column)
        setattr(stream, column, [values[index] for index in kept])


def _kind(text: str, reserved: frozenset[str]) -> int:
    """What a token is, going by its text, as far as declarations tell."""
    if text[:1] == '"':
        return _TEXT
    if "::" in text:
        return _QUALIFIED
    return _WORD if text not in reserved and text[:1].isidentifier() else _OTHER


class _Run:
    """One run over the tables. A value on the stack is a node, a token's number, or the list of a helper rule."""

    def __init__(self, known: Tables, stream: Tokens, context: Context, entry: str) -> None:
        self.known, self.stream, self.context = known, stream, context
        self.first, self.last = known.starts[entry], known.ends[entry]
        self.handlers = [handlers().get(rule.name) for rule in known.rules]
        self.renamed: dict[tuple[int, int, int], int] = {}
        self.read_as: list[int] = []  # the terminal that each token was read as

    def result(self) -> Any:
        """The value of the entry point; None for a syntax error."""
        rules, actions, goto = self.known.rules, self.known.actions, self.known.goto
        kinds, words, last = self.stream.kinds, self.stream.words, self.last
        renamed, read_as, path = self.renamed, self.read_as, self.context.path
        texts, lines, columns = self.stream.texts, self.stream.lines, self.stream.columns
        states: list[int] = [self.first]
        values: list[Any] = []
        begins: list[int] = []  # the first token of each value, -1 where it has none
        ends: list[int] = []
        depths: list[int] = []
        index = 0
        row = actions[self.first]
        while True:
            terminal = words[index]
            if not terminal or terminal not in row:
                terminal = kinds[index]
            while True:
                action = row.get(terminal)
                if action is None:
                    return None
                if action > 0:
                    break
                rule = rules[-action]
                if rule.unit:
                    state = (states[-2], states[-1], terminal)
                    top = renamed.get(state)
                    if top is None:
                        top = renamed[state] = self._rename(*state)
                    states[-1] = top
                    row = actions[top]
                    continue
                if rule.plain:  # a name: most of all nodes
                    token = begins[-1]
                    line, column, text = lines[token], columns[token], texts[token]
                    values[-1] = Name(Span(path, line, column, line, column + len(text)), text)
                    depths[-1] = 1
                    states.pop()
                else:
                    size = rule.size
                    if size == 1:
                        begin, end = begins[-1], ends[-1]
                        value, depth = self._made(-action, values[-1:], depths[-1], begin, end)
                        values[-1], depths[-1] = value, depth
                        states.pop()
                    elif size:
                        begin, end = begins[-size], ends[-1]
                        if begin < 0 or end < 0:  # its first or last part has no token
                            begin = next((token for token in begins[-size:] if token >= 0), -1)
                            end = max(ends[-size:])
                        value, depth = self._made(-action, values[-size:], max(depths[-size:]), begin, end)
                        del values[-size:], begins[-size:], ends[-size:], depths[-size:], states[-size:]
                        values.append(value)
                        begins.append(begin)
                        ends.append(end)
                        depths.append(depth)
                    else:
                        value, depth = self._made(-action, [], 0, -1, -1)
                        values.append(value)
                        begins.append(-1)
                        ends.append(-1)
                        depths.append(depth)
                top = goto[states[-1]][rule.symbol]
                states.append(top)
                if top == last and not terminal:
                    return values[-1]
                row = actions[top]
            row = actions[action - 1]
            states.append(action - 1)
            values.append(index)
            begins.append(index)
            ends.append(index)
            depths.append(0)
            read_as.append(terminal)
            index += 1

    def _rename(self, below: int, top: int, terminal: int) -> int:
        """The state after all rules that only rename what is on the stack."""
        while True:
            action = self.known.actions[top].get(terminal, 1)
            if action > 0 or not self.known.rules[-action].unit:
                return top
            top = self.known.goto[below][self.known.rules[-action].symbol]

    def _made(self, number: int, values: list[Any], deepest: int, begin: int, end: int) -> tuple[Any, int]:
        """The value of a rule whose parts have these values, and how deep it nests."""
        rule = self.known.rules[number]
        children: list[Any] = []
        for position, is_token, spliced, absent in rule.parts:
            if absent:
                children += [None] * absent
            value = values[position]
            if is_token:
                children.append(self.stream.token(value, self.read_as[value]))
            elif not spliced:
                children.append(value)
            elif rule.spliced and not children:
                children = value  # a list that grows to the left is carried on
            else:
                children += value
        if rule.after:
            children += [None] * rule.after
        if rule.spliced:
            return children, deepest
        if rule.single and len(children) == 1:
            return children[0], deepest
        stream = self.stream
        if begin < 0:
            span = Span(self.context.path, 1, 1, 1, 1)
        else:
            line, column = stream.lines[begin], stream.columns[begin]
            end_column = stream.columns[end] + len(stream.texts[end])
            span = Span(self.context.path, line, column, stream.lines[end], end_column)
        function = self.handlers[number]
        assert function is not None, rule.name
        return finish(self.context, span, function(self.context, span, children), deepest + 1)
