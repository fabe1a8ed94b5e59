"""Binding expressions in loops: each shared or loop-invariant subexpression gets a name at its deepest iterator."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.emit_c.scalar import ELEMENT, declaration, node_text
from rewrite_engine.loops.expr import Expr, const, intern, substitute
from rewrite_engine.loops.index import address

_LEAVES = ("const", "var", "acc")


def flat(root: Expr, tensors: Mapping[str, Buffer]) -> Expr:
    """Loads as elements at row-major addresses. Indices that are not proven inside are clipped into the tensor."""

    def element(load: Expr) -> Expr:
        shape = tensors[load.name].shape
        if tensors[load.name].size == 0:
            return const(0, load.dtype)
        return intern(ELEMENT, (address(load.args, shape),), load.dtype, load.name)

    return substitute(root, {}, element)


def unknown(roots: Sequence[Expr], known: Container[Expr]) -> list[Expr]:
    """The nodes below `roots` that are not known, operands first; the walk ends at those that are."""
    order: dict[Expr, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if node in order or node in known:
            continue
        if expanded or not node.args:
            order[node] = None
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return list(order)


class Numbers:
    """Fresh C names, numbered in the order of their use: one for all bindings of a function."""

    def __init__(self) -> None:
        self._count = 0

    def fresh(self, prefix: str) -> str:
        """The next name."""
        self._count += 1
        return f"{prefix}{self._count - 1}"


class Bindings:
    """Names of nodes by loop depth. `lines[d]` are the C statements inside of d loops, in order.

    `depth` gives the depth of each iterator (1 is the outermost loop) and of the accumulator; `names` their C names.
    """

    def __init__(
        self, depth: Mapping[Expr, int], names: Mapping[Expr, str], buffers: dict[str, str], numbers: Numbers
    ) -> None:
        self.depth = dict(depth)
        self.names = dict(names)
        self.buffers = buffers
        self.lines: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
        self.numbers = numbers

    def add(self, *roots: Expr) -> list[str]:
        """The C expressions of `roots`, what they share or what leaves a loop bound before."""
        nodes = unknown(roots, self.names)
        uses = dict.fromkeys(roots, 1)
        outside: set[Expr] = set()
        for node in nodes:
            if node not in self.depth:
                self.depth[node] = max((self.depth[arg] for arg in node.args), default=0)
            for arg in node.args:
                uses[arg] = uses.get(arg, 0) + 1
                if self.depth[arg] < self.depth[node]:
                    outside.add(arg)
        texts = self.names
        for node in nodes:
            if node.op == ELEMENT:
                self.buffer(str(node.value))
            text = node_text(node, [texts[arg] for arg in node.args], self.buffers)
            if node.op not in _LEAVES and (uses[node] > 1 or node in outside):
                name = self.numbers.fresh("v")
                self.lines[self.depth[node]].append(declaration(name, node, text))
                text = name
            texts[node] = text
        return [texts[root] for root in roots]

    def buffer(self, tensor: str) -> str:
        """The C name of a tensor's pointer, numbered in the order of first use."""
        return self.buffers.setdefault(tensor, f"b{len(self.buffers)}")
