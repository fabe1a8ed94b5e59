"""Groups in C: a loop over points that calls the functions of its statements, each on its part of every tensor.

In: a group. Out: one function whose tasks are points, the functions that it calls, and what packs operands of products
before it. What only a point knows is on the stack of the thread that is at it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite_engine.loops.compute import Buffer, Compute, Iter
from rewrite_engine.loops.dtypes import INDEX
from rewrite_engine.loops.emit_c.function import NestFunction, nest_function, task_loop
from rewrite_engine.loops.emit_c.matrix import product
from rewrite_engine.loops.emit_c.nests import compute_functions
from rewrite_engine.loops.emit_c.packing import Packed
from rewrite_engine.loops.emit_c.product import product_code
from rewrite_engine.loops.emit_c.steps import ALIGNMENT, size_of
from rewrite_engine.loops.expr import const, substitute
from rewrite_engine.loops.group import Group, steps

MOST_STACK = 3 << 17
"""Bytes of a point; a thread has more, but not everywhere much more."""

Moves = Mapping[str, Mapping[Iter, int]]
"""For each tensor, how far (in elements) it moves from one value of a shared iterator to the next."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function, all of its tasks, with its tensors moved to a point."""

    function: NestFunction
    moves: Moves


@dataclass(frozen=True, slots=True)
class GroupCode:
    """`shared` are functions and tables by name; `packed` run before `run`."""

    shared: tuple[tuple[str, str], ...]
    packed: tuple[Packed, ...]
    run: NestFunction


def group_code(group: Group, tensors: dict[str, Buffer], lanes: int, fixed: Collection[str]) -> GroupCode | None:
    """The C of a group, or None where a point needs too much; buffers of packed operands are added to `tensors`."""
    inside = {**tensors, **{name: Buffer(shape, tensors[name].dtype) for name, shape in group.parts.items()}}
    local = {name: size_of(inside[name]) for name in group.parts}
    shared: dict[str, str] = {}
    added: dict[str, Buffer] = {}
    packed: list[Packed] = []
    calls: list[Call] = []
    for statement in group.statements:
        moves = _moves(statement, group.shared, tensors, group.parts)
        part = _at_the_first_point(statement, group.shared)
        plan = product(part, inside, lanes, fixed)
        if plan is None:
            calls += [Call(function, moves) for function in compute_functions(part, inside)]
            continue
        code = product_code(plan, inside)
        shared.update(code.shared)
        for each in code.packed:
            if each.source in group.outputs:  # made at this point, packed at this point
                local[each.target] = size_of(each.buffer)
                calls.append(Call(each.function, {**moves, each.target: {}}))
                continue
            whole, moves = _packed_before(each, moves, inside, shared)
            added[each.target] = whole.buffer
            packed.append(whole)
        calls.append(Call(code.multiply, moves))
    if sum(local.values()) > MOST_STACK:
        return None
    tensors.update(added)
    shared.update((call.function.name, call.function.code) for call in calls)
    points = sum(math.prod(it.extent for it in s.iters) for s in group.statements) // 4
    note = f"{len(group.statements)} statements by {' x '.join(str(it.extent) for it in group.shared)} points"
    written = frozenset(group.outputs)
    run = _caller(calls, group.shared, {**inside, **added}, written, local, points, note)
    return GroupCode(tuple(shared.items()), tuple(packed), run)


def _at_the_first_point(compute: Compute, shared: Sequence[Iter]) -> Compute:
    zero = {it.expr: const(0, INDEX) for it in shared}
    return replace(
        compute,
        index=tuple(substitute(index, zero) for index in compute.index),
        body=substitute(compute.body, zero),
        post=None if compute.post is None else substitute(compute.post, zero),
    )


def _moves(
    compute: Compute, shared: Sequence[Iter], tensors: Mapping[str, Buffer], local: Collection[str]
) -> dict[str, dict[Iter, int]]:
    found: dict[str, dict[Iter, int]] = {}
    for it in shared:
        of_tensors = steps(compute, it.expr, tensors)
        assert of_tensors is not None, "a group shares iterators that only move tensors"
        for name, step in of_tensors.items():
            found.setdefault(name, {})
            if step and name not in local:
                found[name][it] = step
    return found


def _packed_before(
    part: Packed, moves: dict[str, dict[Iter, int]], tensors: Mapping[str, Buffer], shared: dict[str, str]
) -> tuple[Packed, dict[str, dict[Iter, int]]]:
    """The packing of an operand from outside for all points at once, and where each point finds its own."""
    over = list(moves[part.source])
    target_moves: dict[Iter, int] = {}
    step = part.buffer.size
    for it in reversed(over):
        target_moves[it] = step
        step *= it.extent
    after = {**moves, part.target: target_moves}
    if not over:
        return part, after
    buffer = Buffer((math.prod(it.extent for it in over), *part.buffer.shape), part.buffer.dtype)
    shared[part.function.name] = part.function.code
    call = Call(part.function, {part.source: moves[part.source], part.target: target_moves})
    every = _caller(
        [call], over, {**tensors, part.target: buffer}, frozenset((part.target,)), {}, buffer.size, "packed by point"
    )
    return Packed(part.source, part.target, buffer, every), after


def _caller(
    calls: Sequence[Call],
    shared: Sequence[Iter],
    tensors: Mapping[str, Buffer],
    written: frozenset[str],
    local: Mapping[str, int],
    points: int,
    note: str,
) -> NestFunction:
    """The function that makes the calls at each point; `local` are the bytes of what is on its stack."""
    buffers: dict[str, str] = {}
    offsets: dict[str, int] = {}
    for name in local:
        offsets[name] = sum(local[other] for other in offsets)
    names = {it: f"p{position}" for position, it in enumerate(shared)}
    lines = []
    for call in calls:
        pointers = []
        for tensor in call.function.buffers:
            if tensor in offsets:
                pointers.append(f"local + {offsets[tensor]}")
                continue
            start = buffers.setdefault(tensor, f"b{len(buffers)}")
            moved = [f"{names[it]} * {step}" for it, step in call.moves[tensor].items()]
            pointers.append(f"(char *)({' + '.join([start, *moved])})")
        lines.append("{")
        lines.append(f"char *const C[] = {{{', '.join(pointers)}}};")
        lines.append(f"{call.function.name}(C, 0, {call.function.tasks}, worker);")
        lines.append("}")
    stack = [f"char local[{sum(local.values())}] __attribute__((aligned({ALIGNMENT})));"] if local else []
    loop = task_loop(list(names.values()), [it.extent for it in shared], lines)
    tasks = math.prod(it.extent for it in shared)
    return nest_function([*stack, *loop], buffers, written, tensors, tasks, max(points * tasks, 1), note)
