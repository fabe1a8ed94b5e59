"""Computes cut into boxes of their iterators, where conditions on one of these change."""

from __future__ import annotations

from dataclasses import replace

from rewrite_engine.loops.compute import Compute, Iter
from rewrite_engine.loops.dtypes import INDEX
from rewrite_engine.loops.expr import loads, postorder, substitute
from rewrite_engine.loops.index import subtract, terms

MOST_BOXES = 32
"""Boxes that conditions may cut a compute into."""


def boxes(compute: Compute) -> list[Compute]:
    """The compute cut along parallel iterators where a condition on one of them changes."""
    done: list[Compute] = []
    pending = [compute]
    while pending:
        box = pending.pop()
        cut = _cut(box) if len(done) + len(pending) < MOST_BOXES else None
        if cut is None:
            done.append(box)
        else:
            pending += [_part(box, cut[0], cut[1], cut[0].extent), _part(box, cut[0], 0, cut[1])]
    return done


def _cut(compute: Compute) -> tuple[Iter, int] | None:
    by_expr = {it.expr: it for it in compute.parallel if it.extent != 1}
    for node in postorder(compute.body, *(() if compute.post is None else (compute.post,))):
        if node.op != "select" or not loads(*node.args[1:]):
            continue
        for condition in postorder(node.args[0]):
            if condition.op not in ("lt", "le", "eq") or condition.args[0].dtype != INDEX:
                continue
            constant, coefficients = terms(subtract(condition.args[1], condition.args[0]))
            if len(coefficients) != 1:
                continue
            ((axis, k),) = coefficients.items()
            if axis in by_expr:
                for at in flips(condition.op, constant, k):
                    if 0 < at < axis.extent:
                        return by_expr[axis], at
    return None


def flips(op: str, constant: int, k: int) -> tuple[int, ...]:
    """The values v from which on `0 op constant + k*v` has another truth than for v - 1."""
    if op == "eq":
        return (-constant // k, -constant // k + 1) if constant % k == 0 else ()
    least = 1 if op == "lt" else 0
    return (-(-(least - constant) // k),) if k > 0 else ((constant - least) // -k + 1,)


def _part(compute: Compute, it: Iter, start: int, stop: int) -> Compute:
    """The compute where an iterator goes from `start` to `stop` only."""
    narrow = Iter(it.name, stop - start, it.kind)
    moved = {it.expr: narrow.expr + start}
    return replace(
        compute,
        iters=tuple(narrow if other == it else other for other in compute.iters),
        index=tuple(substitute(index, moved) for index in compute.index),
        body=substitute(compute.body, moved),
        post=None if compute.post is None else substitute(compute.post, moved),
    )
