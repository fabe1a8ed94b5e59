"""Expressions as text, for errors, printed nests and debugging: infix, with the fewest parentheses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite_engine.loops.expr import Expr, postorder

_INFIX = {
    "or": ("or", 1), "and": ("and", 2), "lt": ("<", 3), "le": ("<=", 3), "eq": ("==", 3), "add": ("+", 4),
    "sub": ("-", 4), "mul": ("*", 5), "imul": ("*", 5), "div": ("/", 5),
}  # fmt: skip
_SUM, _PRODUCT, _ATOM = 4, 5, 9

Piece = tuple[str, int]
"""Text and how tightly its outermost operator binds."""


def text(root: Expr, names: Mapping[Expr, str] | None = None) -> str:
    """The expression as text; nodes in `names` (other than `root`) are written by name."""
    done: dict[Expr, Piece] = {}
    for node in postorder(root):
        named = names.get(node) if names and node is not root else None
        done[node] = (named, _ATOM) if named else _piece(node, [done[arg] for arg in node.args])
    return done[root][0]


def _piece(node: Expr, args: list[Piece]) -> Piece:
    listed = ", ".join(arg for arg, _ in args)
    if node.op == "const":
        shown = str(node.value).lower() if node.dtype == "bool" else str(node.value)
        return shown, _PRODUCT if shown.startswith("-") else _ATOM
    if node.op == "var":
        return node.name, _ATOM
    if node.op == "load":
        return f"{node.name}[{listed}]", _ATOM
    if node.op == "lin":
        return _linear(node, args)
    if node.op == "fdiv":
        return f"{_inside(args[0], _PRODUCT)} // {node.value}", _PRODUCT
    if node.op in _INFIX:
        sign, level = _INFIX[node.op]
        rest = [_inside(arg, level + 1) for arg in args[1:]]
        return f" {sign} ".join([_inside(args[0], level if level != 3 else 4), *rest]), level
    if node.op == "cast":
        wrapped = ", saturate=false" if node.dtype.startswith(("float8", "float4")) and not node.value else ""
        return f"{node.dtype}({listed}{wrapped})", _ATOM
    if node.op == "bitcast":
        return f"bitcast({listed}, {node.dtype})", _ATOM
    return (f"{node.op}({listed})" if args else node.op), _ATOM


def _inside(piece: Piece, level: int) -> str:
    """The text, in parentheses where it binds less tightly than `level`."""
    return piece[0] if piece[1] >= level else f"({piece[0]})"


def _linear(node: Expr, args: Sequence[Piece]) -> Piece:
    """A linear form: 4*i0 + i1 - 2."""
    assert isinstance(node.value, tuple)
    constant, coefficients = node.value
    parts = [
        (k, _inside(arg, _SUM + 1) if abs(k) == 1 else f"{abs(k)}*{_inside(arg, _PRODUCT + 1)}")
        for k, arg in zip(coefficients, args, strict=True)
    ]
    if constant:
        parts.append((constant, str(abs(constant))))
    parts.sort(key=lambda part: part[0] < 0)
    head = ("-" if parts[0][0] < 0 else "") + parts[0][1]
    shown = head + "".join((" - " if k < 0 else " + ") + part for k, part in parts[1:])
    return shown, _SUM if len(parts) > 1 else _PRODUCT
