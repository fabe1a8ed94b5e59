"""Row-wise chains as one nest: statements that share leading iterators run point by point, in memory that stays near.

In: statements in order. Out: the same, chains of them as a `Group`: softmax and layer normalisation by rows, attention
by head and rows. A group is a schedule: without it the statements mean the same, and no result differs by a bit where
sums are taken in the same order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from rewrite_engine.loops.compute import Buffer, Compute, Iter, Statement, readers
from rewrite_engine.loops.contraction import Contraction, contraction
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.expr import Expr, loads, substitute
from rewrite_engine.loops.index import address, flatten, terms

ROOM = 1 << 17
"""Bytes of its parts of tensors up to which a point is made larger: near memory."""

MOST_ROOM = 1 << 18
"""What needs more that only a point knows is not worth a group."""

LEAST_ROWS, MOST_RIGHT = 16, 1 << 18
"""A matrix product joins a group with so many rows a point, or all of them, and a right operand of so many bytes."""


@dataclass(frozen=True, slots=True)
class Group:
    """For each point of `shared` (parallel), `statements` in order; their expressions may mention the shared iterators.

    Only the group reads the tensors that `parts` names, each at the point that wrote it: a part of them, of these
    shapes, is enough.
    """

    shared: tuple[Iter, ...]
    statements: tuple[Compute, ...]
    parts: Mapping[str, tuple[int, ...]]

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(statement.out for statement in self.statements)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the tensors it reads from outside."""
        own = set(self.outputs)
        return tuple(dict.fromkeys(name for s in self.statements for name in s.reads if name not in own))


def flattened(group: Group) -> list[Compute]:
    """The statements without the group: each over the shared iterators and its own."""
    return [replace(s, iters=(*group.shared, *s.iters)) for s in group.statements]


Scheduled = TypeVar("Scheduled")


def grouped(
    statements: Sequence[Scheduled], tensors: Mapping[str, Buffer], kept: Collection[str], room: int | None = None
) -> list[Scheduled | Group]:
    """The statements with chains as groups; what is `kept` is read afterwards, too.

    A chain is a run of computes of which each reads one before it, at the same place in its leading iterators. `room`
    are the bytes that a point may need (by default `ROOM`).
    """
    work = _Work(tensors, readers(statements), frozenset(kept), ROOM if room is None else room)  # type: ignore[arg-type]
    done: list[Scheduled | Group] = []
    chain: _Chain | None = None
    written = Counter(s.out for s in statements if isinstance(s, Compute))
    for statement in (*statements, None):
        fits = isinstance(statement, Compute) and not statement.is_scatter and written[statement.out] == 1
        joined = chain.with_reader(statement) if chain is not None and isinstance(statement, Compute) and fits else None
        if joined is None and chain is not None:
            done += _finished(chain.members, work)  # type: ignore[arg-type]
        chain = joined or (_Chain.of(statement) if isinstance(statement, Compute) and fits else None)
        if chain is None and statement is not None:
            done.append(statement)
    return done


@dataclass(frozen=True, slots=True)
class _Work:
    tensors: Mapping[str, Buffer]
    reading: Mapping[str, Sequence[Statement]]
    kept: frozenset[str]
    room: int

    def local(self, members: Sequence[Compute]) -> set[str]:
        """What only the members read."""
        own = {id(member) for member in members}
        read = {m.out: self.reading.get(m.out, ()) for m in members if m.out not in self.kept}
        return {name for name, found in read.items() if found and all(id(reader) in own for reader in found)}


@dataclass(frozen=True, slots=True)
class _Chain:
    """Computes in order, and for each what the iterators that all share (those of the first one) are called there."""

    members: tuple[Compute, ...]
    names: tuple[dict[Expr, Expr], ...]

    @property
    def shared(self) -> tuple[Expr, ...]:
        """Outermost first."""
        return tuple(self.names[0])

    @staticmethod
    def of(first: Compute) -> _Chain:
        return _Chain((first,), ({it.expr: it.expr for it in first.parallel if it.extent > 1},))

    def with_reader(self, reader: Compute) -> _Chain | None:
        """The chain with one more, which reads a member at the same place; None where it does not."""
        made = {member.out: (member, names) for member, names in zip(self.members, self.names, strict=True)}
        reads = [node for node in loads(*reader.roots) if node.name in made]
        own = {it.expr for it in reader.parallel if it.extent > 1}
        found: dict[Expr, Expr] = {}
        for axis in self.shared:
            places = {_place(node, *made[node.name], axis) for node in reads}
            place = places.pop() if len(places) == 1 else None
            if place is not None and place in own and place.extent == axis.extent and place not in found.values():
                found[axis] = place
        if not found or (len(self.members) > 1 and len(found) < len(self.shared)):
            return None
        kept = tuple({axis: names[axis] for axis in found} for names in self.names)
        return _Chain((*self.members, reader), (*kept, found))


def _place(node: Expr, member: Compute, names: Mapping[Expr, Expr], axis: Expr) -> Expr | None:
    """The index of a read where the member writes with its name of the axis alone."""
    dims = [d for d, index in enumerate(member.index) if index is names[axis]]
    return node.args[dims[0]] if len(dims) == 1 else None


def _finished(members: Sequence[Compute], work: _Work) -> Sequence[Compute | Group]:
    """The members as a group; those that may not be in one stand between groups of the others."""
    chain, local = _chain_of(members), work.local(members)
    if chain is None or len(members) < 2 or not local:
        return members
    shared = [axis for axis in chain.shared if _moves_all(chain, axis, work.tensors)]
    sizes = _block(chain, shared, local, work)
    if sizes is None:
        return members
    group = _group(chain, sizes, _parts(chain, sizes, local, work.tensors))
    pairs = enumerate(zip(group.statements, members, strict=True))
    bad = next((k for k, (part, whole) in pairs if not _keeps_its_form(part, whole, work.tensors)), None)
    if bad is None:
        return [group]
    return [*_finished(members[:bad], work), members[bad], *_finished(members[bad + 1 :], work)]


def _chain_of(members: Sequence[Compute]) -> _Chain | None:
    chain = _Chain.of(members[0]) if members else None
    for member in members[1:]:
        chain = chain.with_reader(member) if chain is not None else None
    return chain


def _moves_all(chain: _Chain, axis: Expr, tensors: Mapping[str, Buffer]) -> bool:
    """Whether the axis does nothing in any member but move each tensor by a step of its own."""
    return all(
        steps(member, names[axis], tensors) is not None
        for member, names in zip(chain.members, chain.names, strict=True)
    )


def steps(compute: Compute, axis: Expr, tensors: Mapping[str, Buffer]) -> dict[str, int] | None:
    """How far (in elements) each tensor of a compute moves from one value of the axis to the next.

    None where the axis does anything else, or moves reads of one tensor differently.
    """
    found: dict[str, set[int]] = {}
    where = flatten(compute.index, tensors[compute.out].shape)
    roots = [compute.body] if compute.post is None else [compute.body, compute.post]
    reads = [(node.name, address(node.args, tensors[node.name].shape)) for node in loads(*roots)]
    for name, place in [(compute.out, where), *reads]:
        coefficients = terms(place)[1]
        if any(atom is not axis and axis in atom.variables for atom in coefficients):
            return None
        found.setdefault(name, set()).add(coefficients.get(axis, 0))
    if any(len(each) > 1 for each in found.values()) or _used_alone(roots, axis):
        return None
    return {name: each.pop() for name, each in found.items()}


def _used_alone(roots: Sequence[Expr], axis: Expr) -> bool:
    """Whether the axis is used other than in the indices of loads."""
    pending, seen = list(roots), set[Expr]()
    while pending:
        node = pending.pop()
        if node is axis:
            return True
        if node not in seen and node.op != "load" and axis in node.variables:
            seen.add(node)
            pending.extend(node.args)
    return False


def _block(chain: _Chain, shared: Sequence[Expr], local: Collection[str], work: _Work) -> dict[Expr, int] | None:
    """How many values of each shared axis a point takes: as many as have room, inner axes first; None for one point."""
    sizes = dict.fromkeys(shared, 1)
    moving = _moving(chain, shared, work.tensors)

    def needed(sizes: Mapping[Expr, int], names: Collection[str]) -> int:
        """Bytes of a point's parts of these tensors."""
        points = {axis: axis.extent // size for axis, size in sizes.items()}
        parts = {name: math.prod(points[axis] for axis in moving[name]) for name in names}
        sizes_of = {name: work.tensors[name].size * numpy_dtype(work.tensors[name].dtype).itemsize for name in names}
        return sum(sizes_of[name] // parts[name] for name in names)

    if not shared or needed(sizes, local) > max(MOST_ROOM, work.room):
        return None
    for axis in reversed(shared):
        with_it = [name for name, axes in moving.items() if axis in axes]
        fitting = [d for d in _divisors(axis.extent) if needed({**sizes, axis: d}, with_it) <= work.room]
        sizes[axis] = max(fitting, default=1)
        if sizes[axis] != axis.extent:
            return sizes
    return None


def _moving(chain: _Chain, shared: Sequence[Expr], tensors: Mapping[str, Buffer]) -> dict[str, set[Expr]]:
    """The shared axes that move each tensor of a chain."""
    found: dict[str, set[Expr]] = {}
    for axis in shared:
        for member, names in zip(chain.members, chain.names, strict=True):
            for name, step in (steps(member, names[axis], tensors) or {}).items():
                found.setdefault(name, set()).update([axis] if step else [])
    return found


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _parts(
    chain: _Chain, sizes: Mapping[Expr, int], local: Collection[str], tensors: Mapping[str, Buffer]
) -> dict[str, tuple[int, ...]]:
    """The shape of what a point knows of each local tensor."""
    found = {}
    for member, names in zip(chain.members, chain.names, strict=True):
        if member.out in local:
            size = {names[axis]: n for axis, n in sizes.items()}
            shape = tensors[member.out].shape
            found[member.out] = tuple(size.get(i, n) for i, n in zip(member.index, shape, strict=True))
    return found


def _group(chain: _Chain, sizes: Mapping[Expr, int], parts: Mapping[str, tuple[int, ...]]) -> Group:
    """The members over points of `sizes` values of each shared axis."""
    shared = []
    places: dict[Expr, Expr] = {}  # the first value of a point
    for axis, size in sizes.items():
        if size == axis.extent:
            continue
        shared.append(Iter(axis.name if size == 1 else f"{axis.name}o", axis.extent // size))
        places[axis] = shared[-1].expr * size
    statements = []
    for member, names in zip(chain.members, chain.names, strict=True):
        iters, moved = [], {}
        for it in member.iters:
            point = next((axis for axis, own in names.items() if own is it.expr and axis in places), None)
            if point is None:
                iters.append(it)
                continue
            inner = Iter(f"{it.name}i", sizes[point])
            moved[it.expr] = places[point] + inner.expr
            iters += [inner] if sizes[point] > 1 else []
        statements.append(
            replace(
                member,
                iters=tuple(iters),
                index=tuple(substitute(index, moved) for index in member.index),
                body=substitute(member.body, moved),
                post=None if member.post is None else substitute(member.post, moved),
            )
        )
    return Group(tuple(shared), tuple(statements), parts)


def _keeps_its_form(part: Compute, whole: Compute, tensors: Mapping[str, Buffer]) -> bool:
    """Whether a matrix product is still a good one: enough rows, all columns, a right operand that stays near."""
    before, after = contraction(whole), contraction(part)
    if before is None or after is None:
        return before is after
    lane = next((a for a, k in terms(flatten(whole.index, tensors[whole.out].shape))[1].items() if k == 1), None)
    rows, columns = _counts(before, lane)
    part_rows, part_columns = _counts(after, lane)
    near = math.prod(axis.extent for axis in after.depth) * part_columns * 4 <= MOST_RIGHT
    return near and part_columns == columns and part_rows >= min(LEAST_ROWS, rows)


def _counts(spec: Contraction, lane: Expr | None) -> tuple[int, int]:
    """Rows, and the columns that the lanes go over."""
    rows, columns = (math.prod(axis.extent for axis in axes) for axes in (spec.rows, spec.columns))
    return (columns, rows) if lane in spec.rows else (rows, columns)
