"""Splitting iterators: a quotient of an iterator becomes an iterator of its own, so index maps are affine again."""

from __future__ import annotations

import math
from dataclasses import replace

from rewrite_engine.loops.compute import Compute, Iter
from rewrite_engine.loops.expr import Expr, postorder, substitute
from rewrite_engine.loops.index import terms


def split_iterators(compute: Compute) -> Compute:
    """v used as v // q and v - q*(v // q) => two iterators, v = q*outer + inner; what it computes stays."""
    while (found := _splittable(compute)) is not None:
        split, inner_extent = found
        outer = Iter(f"{split.name}o", split.extent // inner_extent, split.kind)
        inner = Iter(f"{split.name}i", inner_extent, split.kind)
        moved = {split.expr: outer.expr * inner_extent + inner.expr}
        compute = replace(
            compute,
            iters=tuple(part for it in compute.iters for part in ((outer, inner) if it == split else (it,))),
            index=tuple(substitute(index, moved) for index in compute.index),
            body=substitute(compute.body, moved),
            post=None if compute.post is None else substitute(compute.post, moved),
        )
    return compute


def _splittable(compute: Compute) -> tuple[Iter, int] | None:
    """An iterator inside a quotient and the extent of its inner part, where that divides evenly."""
    by_expr: dict[Expr, Iter] = {it.expr: it for it in compute.iters if it.extent > 1}
    for node in postorder(*compute.roots):
        if node.op != "fdiv":
            continue
        assert isinstance(node.value, int)
        for atom, k in terms(node.args[0])[1].items():
            it = by_expr.get(atom)
            inner = node.value // math.gcd(node.value, k)
            if it is not None and 1 < inner < it.extent and it.extent % inner == 0:
                return it, inner
    return None
