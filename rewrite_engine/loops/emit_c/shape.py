"""Nests put in shape before they are written: cut where conditions flip, iterators ordered and merged by strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite_engine.loops.boxes import boxes
from rewrite_engine.loops.compute import Buffer, Compute
from rewrite_engine.loops.emit_c.binding import flat
from rewrite_engine.loops.emit_c.scalar import ELEMENT
from rewrite_engine.loops.expr import Expr, postorder, substitute, var
from rewrite_engine.loops.index import flatten, terms


@dataclass(frozen=True, slots=True)
class Nest:
    """A compute over flat buffers: store post(combine over `inner` of body) at `where`, for all of `outer`."""

    out: str
    outer: tuple[Expr, ...]
    inner: tuple[Expr, ...]
    body: Expr
    post: Expr | None
    where: Expr
    combine: str | None
    is_empty: bool  # a reduction over no points at all


def nests(compute: Compute, tensors: Mapping[str, Buffer]) -> list[Nest]:
    """The nests of a compute that is no scatter: one per box, no iterators of extent 1, the others in a good order."""
    return [_merged(_ordered(_flat_nest(box, tensors))) for box in boxes(compute)]


def _flat_nest(compute: Compute, tensors: Mapping[str, Buffer]) -> Nest:
    return Nest(
        out=compute.out,
        outer=tuple(it.expr for it in compute.parallel if it.extent != 1),
        inner=tuple(it.expr for it in compute.reduction if it.extent != 1),
        body=flat(compute.body, tensors),
        post=None if compute.post is None else flat(compute.post, tensors),
        where=flatten(compute.index, tensors[compute.out].shape),
        combine=compute.combine,
        is_empty=any(it.extent == 0 for it in compute.reduction),
    )


def _ordered(nest: Nest) -> Nest:
    """Parallel iterators by the stride they write with, reduction iterators by the strides they read with."""
    strides = terms(nest.where)[1]
    outer = sorted(nest.outer, key=lambda axis: -strides.get(axis, 0))
    reading = dict.fromkeys(nest.inner, 0)
    for node in postorder(nest.body):
        if node.op == ELEMENT:
            for axis, k in terms(node.args[0])[1].items():
                if axis in reading:
                    reading[axis] = max(reading[axis], abs(k))
    return replace(nest, outer=tuple(outer), inner=tuple(sorted(nest.inner, key=lambda axis: -reading[axis])))


def _merged(nest: Nest) -> Nest:
    """Adjacent iterators that every address holds as one mixed-radix number become one."""
    for group in ("outer", "inner"):
        position = 0
        while position + 1 < len(axes := getattr(nest, group)):
            joined = _joined(nest, axes, position, group)
            if joined is None:
                position += 1
            else:
                nest, position = joined, max(position - 1, 0)
    return nest


def _joined(nest: Nest, axes: Sequence[Expr], position: int, group: str) -> Nest | None:
    slow, fast = axes[position], axes[position + 1]
    roots = [root for root in (nest.body, nest.post) if root is not None]
    if not _in_step(nest.where, slow, fast):
        return None
    addresses = {node.args[0] for node in postorder(*roots) if node.op == ELEMENT}
    if not all(_in_step(address, slow, fast) for address in addresses):
        return None
    stack, seen = list(roots), set[Expr]()
    while stack:  # no use outside of addresses
        node = stack.pop()
        if node is slow or node is fast:
            return None
        if node not in seen and node.op != ELEMENT:
            seen.add(node)
            stack.extend(node.args)
    merged = var(f"{slow.name}_{fast.name}", slow.extent * fast.extent)
    zero = {slow: merged * 0, fast: merged}
    renew = {
        "body": substitute(nest.body, zero),
        "post": None if nest.post is None else substitute(nest.post, zero),
        "where": substitute(nest.where, zero),
        group: (*axes[:position], merged, *axes[position + 2 :]),
    }
    return replace(nest, **renew)  # type: ignore[arg-type]


def _in_step(address: Expr, slow: Expr, fast: Expr) -> bool:
    """Whether an address holds slow and fast only as k * (slow * extent of fast + fast)."""
    coefficients = terms(address)[1]
    if coefficients.get(slow, 0) != coefficients.get(fast, 0) * fast.extent:
        return False
    return not any(
        atom is not slow and atom is not fast and not atom.variables.isdisjoint((slow, fast)) for atom in coefficients
    )
