"""Random graphs, and random rule files that fit them here and there: for tests of matching and of its explanations."""

from __future__ import annotations

import random
import re

import numpy as np

from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
from rewrite_engine.operators.types import TensorType

SQUARE = TensorType("float32", (4, 4))
HALF = TensorType("float32", (2, 4))
UNARY = ("Relu", "Neg", "Abs", "LeakyRelu", "Softmax")
BINARY = ("Add", "Mul", "Sub", "Div")
RULES = (
    "rule relu_twice: Relu(Relu(x)) => Relu(x)",
    "rule neg_twice: Neg(Neg(x)) => x",
    "rule minus: Sub(x, y) => Add(x, Neg(y))",
    "rule clip_twice: Clip(Clip(x, lo, hi), lo, hi) => Clip(x, lo, hi)",
)
GUARDS = (
    "{a}.shape == [4, 4]", "{a}.numel <= 8", "readers({a}) == 1", "not is_graph_output({a})", "{a}.dtype == float32",
    "is_const({a})", "{a}.shape == {b}.shape", "not is_const({b})", "readers({b}) <= 2",
)  # fmt: skip


class RandomGraph:
    """A graph of square tensors, halves of them, constants, absent inputs and lists of inputs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values: list[Value] = []
        self.nodes: list[Term] = []
        self.makers: dict[int, int] = {}
        inputs = [self.value(SQUARE) for _ in range(2)]
        self.constants = [self.value(SQUARE, np.full((4, 4), 0.5 + k, np.float32)) for k in range(2)]
        self.constants.append(self.value(TensorType("float32", ()), np.float32(6)))
        for _ in range(self.random.randint(4, 12)):
            self.grow()
        read = {i for node in self.nodes for i in node.inputs}
        made = [o for node in self.nodes for o in node.outputs if o != ABSENT]
        outputs = [o for o in made if o not in read] or made[-1:]
        self.terms = Terms(tuple(self.values), tuple(self.nodes), tuple(inputs), tuple(dict.fromkeys(outputs)))

    def value(self, kind: TensorType, constant: np.ndarray | None = None) -> int:
        self.values.append(Value(f"v{len(self.values)}", kind, constant))
        return len(self.values) - 1

    def pick(self, constants: bool = True) -> int:
        """A square tensor, rather a late one."""
        squares = [i for i, v in enumerate(self.values) if v.type == SQUARE and (constants or v.constant is None)]
        return self.random.choice(squares[-6:] if self.random.random() < 0.6 else squares)

    def add(self, op: str, inputs: tuple[int, ...], kinds: tuple[TensorType, ...], **attributes: object) -> None:
        outputs = tuple(self.value(kind) for kind in kinds)
        self.makers |= dict.fromkeys(outputs, len(self.nodes))
        self.nodes.append(Term(op, attributes, inputs, outputs))

    def grow(self) -> None:
        choice = self.random.random()
        x = self.pick(constants=False)
        if choice < 0.3:
            op = self.random.choice(UNARY)
            given = {"LeakyRelu": {"alpha": self.random.choice([0.5, 0.01])}, "Softmax": {"axis": 1}}.get(op, {})
            self.add(op, (x,), (SQUARE,), **given)
        elif choice < 0.6:
            pair = (x, self.pick())
            self.add(self.random.choice(BINARY), pair if self.random.random() < 0.5 else pair[::-1], (SQUARE,))
        elif choice < 0.75:
            limit = self.constants[2]
            self.add("Clip", self.random.choice([(x, ABSENT, limit), (x, limit, limit), (x, limit)]), (SQUARE,))
        elif choice < 0.9:
            self.add("Max", tuple(self.pick() for _ in range(self.random.randint(2, 3))), (SQUARE,))
        else:
            self.add("Split", (x,), (HALF, HALF), axis=0, num_outputs=2)
            low, high = self.nodes[-1].outputs
            self.add("Concat", (low, high) if self.random.random() < 0.7 else (high, low), (SQUARE,), axis=0)


class RandomPattern:
    """A pattern cut out of a graph, with some of it changed: it fits, almost fits or does not."""

    def __init__(self, graph: RandomGraph, seed: int) -> None:
        self.graph, self.random = graph, random.Random(seed)
        self.names: dict[int, str] = {}
        self.parameters: dict[str, None] = {}
        self.where: list[str] = []
        self.budget = self.random.randint(1, 4)
        root = self.random.randrange(len(graph.nodes))
        while graph.nodes[root].op == "Split":
            root -= 1
        self.text = self.call(root)

    def declaration(self, name: str, kind: str = "pattern") -> str:
        """The declaration; a composite embeds what is no parameter."""
        where: list[str] = []
        for binding in self.where:  # those that are read: parts of a pattern may have been dropped
            if self.reads(binding.partition(" ")[0], [self.text, *(b.partition("=")[2] for b in self.where)]):
                where.append(binding)
        tail = "\n  where " + "; ".join(where) if where else ""
        parameters = [name for name in self.parameters if self.reads(name, [self.text, *where])]
        captures = [name for name in parameters if not name.startswith("*")]
        if captures and self.random.random() < 0.5:
            guard = self.random.choice(GUARDS)
            tail += "\n  if " + guard.format(a=self.random.choice(captures), b=self.random.choice(captures))
        listed = ", ".join(parameters)
        return f"{kind} {name}({listed}) = {self.text}{tail}" + ("\n  cost 1us" if kind == "composite" else "")

    @staticmethod
    def reads(name: str, texts: list[str]) -> bool:
        return any(re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text) for text in texts)

    def call(self, index: int) -> str:
        node = self.graph.nodes[index]
        self.budget -= 1
        op = node.op
        if self.random.random() < 0.08 and op in UNARY + BINARY:
            op = self.random.choice(UNARY if op in UNARY else BINARY)
        parts = [self.operand(i) for i in node.inputs]
        if op in BINARY and self.random.random() < 0.3:
            parts.reverse()
        if op == "Clip" and self.random.random() < 0.3:
            parts = parts[: self.random.randint(1, len(parts))]
        if op in ("Max", "Concat") and self.random.random() < 0.3:
            name = f"rest{len(self.parameters)}"
            self.parameters[f"*{name}"] = None
            parts = [*parts[: self.random.randint(0, 1)], f"*{name}"]
        if op == "LeakyRelu" and self.random.random() < 0.5:
            parts.append(f"alpha={self.random.choice(['0.5', '0.01'])}")
        if op in ("Softmax", "Split") and self.random.random() < 0.3:
            parts.append(f"axis={self.random.choice(['-1', '1', '0'])}")
        optional = "?" if op in ("Relu", "Neg", "Abs") and self.random.random() < 0.15 else ""
        return f"{op}{optional}({', '.join(parts)})"

    def operand(self, index: int) -> str:
        if index == ABSENT:
            return self.random.choice(["none", "_", "none", ""]) or self.capture(ABSENT)
        maker = self.graph.makers.get(index)
        chance = self.random.random()
        if index in self.names and chance < 0.9:
            return self.names[index]
        if maker is None or self.budget <= 0 or chance < 0.15:
            constant = self.graph.values[index].constant
            if constant is not None and chance < 0.3:
                return str(float(constant.flat[0]) + self.random.choice([0, 0, 0, 1]))
            if self.parameters and self.random.random() < 0.1:
                named = [name for name in self.parameters if name[0] not in "*" and not name.endswith("?")]
                return self.random.choice(named) if named else self.capture(index)
            wanted = self.random.random() < (0.6 if constant is not None else 0.05)
            return ("const " if wanted else "") + self.capture(index)
        node = self.graph.nodes[maker]
        if node.op == "Split":
            text = f"{self.call(maker)}[{node.outputs.index(index)}]"
            return text
        if self.random.random() < 0.5:
            return self.call(maker)
        name = f"n{len(self.where)}x{index}"
        self.names[index] = name
        at = len(self.where)
        self.where.append("")
        self.where[at] = f"{name} = {self.call(maker)}"
        return name

    def capture(self, index: int) -> str:
        name = f"c{len(self.parameters)}"
        self.parameters[name] = None
        if index != ABSENT and self.random.random() < 0.8:
            self.names[index] = name
        return name


def rule_file(graph: RandomGraph, seed: int, patterns: int = 4) -> str:
    """Patterns and composites cut out of a graph, in half of the files with rules that change the graph."""
    choice = random.Random(seed)
    found = [RandomPattern(graph, seed * 100 + k) for k in range(patterns)]
    made = [p.declaration(f"p{k}") for k, p in enumerate(found)]
    made += list(RULES) if choice.random() < 0.5 else []
    capabilities = [RandomPattern(graph, seed * 100 + 50 + k).declaration(f"f{k}", "composite") for k in range(2)]
    body = "\n".join("  " + text.replace("\n", "\n  ") for text in capabilities)
    return "\n".join(made) + f"\ntarget t on host {{\n  bandwidth 1GBps  flops 1GFLOPS\n{body}\n}}\n"
