"""Binding expressions in loops: each shared or loop-invariant subexpression gets a name at its deepest iterator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite_engine.loops.compute import Buffer
from rewrite_engine.loops.emit_c.scalar import ELEMENT, declaration, node_text
from rewrite_engine.loops.expr import Expr, const, intern, maximum, minimum, postorder, substitute
from rewrite_engine.loops.index import flatten

_LEAVES = ("const", "var", "acc")


def flat(root: Expr, tensors: Mapping[str, Buffer]) -> Expr:
    """Loads as elements at row-major addresses. Indices that are not proven inside are clipped into the tensor."""

    def element(load: Expr) -> Expr:
        shape = tensors[load.name].shape
        if tensors[load.name].size == 0:
            return const(0, load.dtype)
        return intern(ELEMENT, (address(load.args, shape),), load.dtype, load.name)

    return substitute(root, {}, element)


def address(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major position of clipped indices."""
    return flatten([minimum(maximum(index, 0), n - 1) for index, n in zip(indices, shape, strict=True)], shape)


class Bindings:
    """Names of nodes by loop depth. `lines[d]` are the C statements inside of d loops, in order.

    `depth` gives the depth of each iterator (1 is the outermost loop) and of the accumulator; `names` their C names.
    """

    def __init__(self, depth: Mapping[Expr, int], names: Mapping[Expr, str], buffers: dict[str, str]) -> None:
        self.depth = dict(depth)
        self.names = dict(names)
        self.buffers = buffers
        self.lines: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
        self._count = 0

    def add(self, *roots: Expr) -> list[str]:
        """The C expressions of `roots`, what they share or what leaves a loop bound before."""
        nodes = list(postorder(*roots))
        uses = dict.fromkeys(roots, 1)
        outside: set[Expr] = set()
        for node in nodes:
            self.depth.setdefault(node, max((self.depth[arg] for arg in node.args), default=0))
            for arg in node.args:
                uses[arg] = uses.get(arg, 0) + 1
                if self.depth[arg] < self.depth[node]:
                    outside.add(arg)
        texts = self.names
        for node in nodes:
            if node in texts:
                continue
            if node.op == ELEMENT:
                self.buffer(str(node.value))
            text = node_text(node, [texts[arg] for arg in node.args], self.buffers)
            if node.op not in _LEAVES and (uses[node] > 1 or node in outside):
                name = f"v{self._count}"
                self._count += 1
                self.lines[self.depth[node]].append(declaration(name, node, text))
                text = name
            texts[node] = text
        return [texts[root] for root in roots]

    def buffer(self, tensor: str) -> str:
        """The C name of a tensor's pointer, numbered in the order of first use."""
        return self.buffers.setdefault(tensor, f"b{len(self.buffers)}")
