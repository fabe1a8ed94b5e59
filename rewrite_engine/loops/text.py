"""Expressions as text, for errors, printed nests and debugging."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.loops.expr import Expr, postorder
from rewrite_engine.loops.index import linear_text

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "imul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==",
    "and": "&", "or": "|",
}  # fmt: skip


def text(root: Expr, names: Mapping[Expr, str] | None = None) -> str:
    """The expression as text; nodes in `names` (other than `root`) are written by name."""
    done: dict[Expr, str] = {}
    for node in postorder(root):
        named = names.get(node) if names and node is not root else None
        done[node] = named or _node_text(node, [done[arg] for arg in node.args])
    return done[root]


def _node_text(node: Expr, args: list[str]) -> str:
    if node.op == "const":
        return str(node.value).lower() if node.dtype == "bool" else str(node.value)
    if node.op == "var":
        return node.name
    if node.op == "load":
        return f"{node.name}[{', '.join(args)}]"
    if node.op == "lin":
        return linear_text(node, args)
    if node.op == "fdiv":
        return f"({args[0]} // {node.value})"
    if node.op in _INFIX:
        return f"({f' {_INFIX[node.op]} '.join(args)})"
    if node.op == "cast":
        return f"{node.dtype}({args[0]})"
    return f"{node.op}({', '.join(args)})" if args else node.op
