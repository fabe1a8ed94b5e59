"""Patterns cut out of a graph, with some of it changed: they fit, almost fit or do not.

In: a graph, and the number that all choices are made of, 0 the simplest of each. Out: the text of a declaration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rewrite_engine import operators
from rewrite_engine.graph.terms import ABSENT, Term, Terms
from rewrite_engine.testing.strategies.growing import Choices

GUARDS = (
    "{a}.dtype == float32", "{a}.rank <= 2", "is_static({a})", "{a}.numel <= 8", "readers({a}) == 1",
    "not is_graph_output({a})", "is_const({a})", "{a}.shape == {b}.shape", "not is_const({b})", "readers({b}) <= 2",
)  # fmt: skip
MOST = 4
"""Operators of a pattern."""


def cut(graph: Terms, choices: Choices, name: str, kind: str = "pattern") -> str:
    """A `pattern`, or a `composite` with a cost, around some operator of the graph; "" where it has none to cut."""
    roots = [n for n, node in enumerate(graph.nodes) if _plain(node) and len(node.outputs) == 1]
    if not roots:
        return ""
    return _Cutting(graph, choices).declaration(choices.one_of(roots), name, kind)


def _plain(node: Term) -> bool:
    """Whether a pattern can say it: no bodies, some operand."""
    return node.op not in ("If", "Loop", "Scan") and any(i != ABSENT for i in node.inputs)


class _Cutting:
    def __init__(self, graph: Terms, choices: Choices) -> None:
        self.graph, self.choices = graph, choices
        self.makers = {o: n for n, node in enumerate(graph.nodes) for o in node.outputs if o != ABSENT}
        self.names: dict[int, str] = {}
        self.parameters: list[str] = []
        self.bindings: dict[str, str] = {}  # of `where`, by name
        self.left = 1 + choices.pick(MOST)

    def declaration(self, root: int, name: str, kind: str) -> str:
        text = self.call(root)
        where: dict[str, str] = {}
        for binding in reversed(self.bindings):  # those that are read: parts of a pattern may have been left out
            if _reads(binding, [text, *where.values()]):
                where[binding] = self.bindings[binding]
        parameters = [p for p in self.parameters if _reads(p.lstrip("*"), [text, *where.values()])]
        captures = [p for p in parameters if not p.startswith("*")]
        bound = "; ".join(f"{binding} = {where[binding]}" for binding in reversed(where))
        tail = f"\n  where {bound}" if bound else ""
        if captures and self.choices.chance(50):
            guard = self.choices.one_of(GUARDS)
            tail += "\n  if " + guard.format(a=self.choices.one_of(captures), b=self.choices.one_of(captures))
        cost = f"\n  cost {self.choices.pick(10)}us" if kind == "composite" else ""
        return f"{kind} {name}({', '.join(parameters)}) = {text}{tail}{cost}"

    def call(self, index: int) -> str:
        """The operator as a pattern; operands before it are cut while some of `left` is left."""
        node = self.graph.nodes[index]
        facts = operators.find(node.op)
        assert facts is not None
        self.left -= 1
        parts = [self.operand(i) for i in node.inputs]
        if facts.commutative and len(parts) == 2 and self.choices.chance(30):
            parts.reverse()
        least = max(facts.min_inputs, 1)
        if len(parts) > least and self.choices.chance(20):
            parts = parts[:least]
        elif facts.inputs[-1].kind == "variadic" and self.choices.chance(40):
            self.parameters.append(f"*rest{len(self.parameters)}")
            parts = [*parts[: len(facts.inputs) - 1], self.parameters[-1]]
        named = [f"{key}={value}" for key, value in self.attributes(node)]
        op = node.op
        if not named and self.choices.chance(8):  # another operator of as many operands
            op = self.choices.one_of(sorted({n.op for n in self.graph.nodes if _alike(n, node)}))
        optional = "?" if not named and len(parts) == 1 and self.choices.chance(10) else ""
        return f"{op}{optional}({', '.join([*parts, *named])})"

    def attributes(self, node: Term) -> list[tuple[str, str]]:
        """Some of the attributes that are numbers or lists of them, a few with another value."""
        found = []
        for key, value in sorted(node.attributes.items()):
            if self.choices.chance(25):
                if isinstance(value, int | float) and not isinstance(value, bool):
                    found.append((key, str(value + (1 if self.choices.chance(20) else 0))))
                elif isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
                    found.append((key, str(list(value))))
        return found

    def operand(self, index: int) -> str:
        """What the pattern has for a value: the operator that makes it, a constant, a name."""
        if index == ABSENT:
            return self.choices.one_of(("_", "none")) if self.choices.chance(80) else self.capture(index)
        if index in self.names and not self.choices.chance(10):
            return self.names[index]
        maker, constant = self.makers.get(index), self.graph.values[index].constant
        if maker is None or self.left <= 0 or self.choices.chance(15) or not _plain(self.graph.nodes[maker]):
            if constant is not None and constant.size == 1 and constant.dtype.kind in "fi" and self.choices.chance(30):
                return str(constant.reshape(-1)[0].item() + (1 if self.choices.chance(20) else 0))
            known = [name for name in self.parameters if not name.startswith("*")]
            if known and self.choices.chance(10):
                return self.choices.one_of(known)  # which is another value
            wanted = self.choices.chance(60 if constant is not None else 5)
            return ("const " if wanted else "") + self.capture(index)
        node = self.graph.nodes[maker]
        if len(node.outputs) > 1:
            return f"{self.call(maker)}[{node.outputs.index(index)}]"
        if self.choices.chance(50):
            return self.call(maker)
        name = self.names[index] = f"n{index}"
        self.bindings[name] = ""  # those inside come after it
        self.bindings[name] = self.call(maker)
        return name

    def capture(self, index: int) -> str:
        """A name of its own; mostly the same name where the value is read again."""
        self.parameters.append(f"c{len(self.parameters)}")
        if index != ABSENT and self.choices.chance(80):
            self.names[index] = self.parameters[-1]
        return self.parameters[-1]


def _alike(node: Term, other: Term) -> bool:
    """Whether both have as many operands, and results."""
    return _plain(node) and (len(node.inputs), len(node.outputs)) == (len(other.inputs), len(other.outputs))


def _reads(name: str, texts: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){name}(?!\w)", text) for text in texts)
