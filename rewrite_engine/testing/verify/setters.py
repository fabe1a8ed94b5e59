"""Changes to a candidate: a free slot directly, a result by what makes it, an attribute, or something drawn again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rewrite_engine import operators
from rewrite_engine.language import values
from rewrite_engine.language.core import ABSENT
from rewrite_engine.operators.dtypes import is_float
from rewrite_engine.testing.verify.candidate import Candidate, numbers
from rewrite_engine.testing.verify.draws import Source, chance, choice
from rewrite_engine.testing.verify.node_draft import limited


def upstream(c: Candidate, slots: Sequence[int]) -> list[int]:
    """The free slots that values are computed from."""
    makers = {out: node for node in c.plan.variant.nodes for out in node.outputs}
    found: dict[int, None] = {}
    pending, seen = list(slots), set()
    while pending:
        slot = pending.pop()
        if slot == ABSENT or slot in seen:
            continue
        seen.add(slot)
        if slot in makers:
            pending += makers[slot].inputs
        else:
            found[slot] = None
    return list(found)


def anything(c: Candidate, source: Source, slots: Sequence[int] = ()) -> None:
    """Draws something that a clause reads again."""
    pool = [slot for slot in upstream(c, slots or range(len(c.plan.variant.slots))) if slot not in c.plan.literals]
    if pool and source.integer(0, 3):
        slot = choice(source, pool)
        if (
            slots
            and slot in c.values
            and c.values[slot].size
            and is_float(c.values[slot].dtype.name)
            and chance(source, 3)
        ):
            _far(c, source, slot)
        else:
            c.forget(slot)
        return
    if c.plan.variant.nodes:
        index = source.integer(0, len(c.plan.variant.nodes) - 1)
        c.written[index] = dict(c.plan.attributes[index])
    if source.integer(0, 2) == 2:
        c.main = choice(source, c.plan.dtypes)
        c.dtypes.clear()
        for slot in list(c.values):
            if slot not in c.plan.literals:
                c.forget(slot)


def _far(c: Candidate, source: Source, slot: int) -> None:
    """Makes a constant one number that is larger than what is drawn elsewhere."""
    held = c.values[slot]
    number = choice(source, (10.0, 100.0, 1000.0, 60000.0)) * choice(source, (1, -1))
    c.values[slot] = np.full(held.shape, number).astype(held.dtype)


def set_dtype(c: Candidate, source: Source, slot: int, dtype: str) -> None:
    if slot in c.plan.free and source.integer(0, 1):
        c.forget(slot)
        c.dtypes[slot] = dtype
    elif dtype in c.plan.dtypes:
        c.main = dtype
        for free in c.plan.free:
            if c.plan.own.get(free) is None:
                c.forget(free)
    else:
        anything(c, source, (slot,))


def set_shape(c: Candidate, source: Source, slot: int, shape: Sequence[int]) -> None:
    if any(n < 0 for n in shape) or math.prod(shape) > 40000:
        anything(c, source, (slot,))
        return
    if slot in c.plan.free:
        kept = c.dtypes.get(slot)
        c.forget(slot)
        c.shapes[slot] = tuple(shape)
        if kept is not None:
            c.dtypes[slot] = kept
        if slot in c.plan.known and slot not in c.plan.literals:
            c.values[slot] = numbers(c.plan, source, tuple(shape), kept or c.main, False)
            c.dtypes.setdefault(slot, c.main)
        return
    index, node = next((k, n) for k, n in enumerate(c.plan.variant.nodes) if slot in n.outputs)
    inputs = node.inputs
    sized = node.op == "Expand" or (node.op == "Reshape" and math.prod(shape) == c.types[inputs[0]].numel)
    if sized and inputs[1] in c.plan.free and inputs[1] not in c.plan.literals:
        array = np.asarray(shape, np.int64)
        c.values[inputs[1]], c.shapes[inputs[1]] = array, array.shape
        return
    back = _back(c, index, slot, shape)
    if back and source.integer(0, 4):
        for operand, wanted in back:
            set_shape(c, source, operand, wanted)
        return
    anything(c, source, (slot,))


def _back(c: Candidate, index: int, slot: int, shape: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Shapes of operands that would give a result of this shape, by what the operator does; empty where unknown."""
    node = c.plan.variant.nodes[index]
    facts, first = operators.find(node.op), node.inputs[0] if node.inputs else ABSENT
    if facts is None or first == ABSENT or first not in c.types:
        return []
    perm = c.effective[index].get("perm") if index < len(c.effective) else None
    rank = c.types[first].rank
    if node.op == "Transpose" and isinstance(perm, tuple) and len(perm) == len(shape):
        moved = [0] * len(shape)
        for k, axis in enumerate(perm):
            moved[axis] = shape[k]
        return [(first, moved)]
    if node.op == "MatMul" and len(shape) >= 2 and rank is not None and rank >= 2:
        a = [int(n) for n in c.types[first].shape or ()]  # type: ignore[arg-type]
        b = [int(n) for n in c.types[node.inputs[1]].shape or ()]  # type: ignore[arg-type]
        if len(b) >= 2:
            return [(first, [*shape[:-1], a[-1]]), (node.inputs[1], [*shape[:-2][: len(b) - 2], a[-1], shape[-1]])]
    if facts.pointwise:
        whole = c.types[slot].shape
        like = [(s, list(shape)) for s in node.inputs if s != ABSENT and c.types[s].shape == whole]
        return like or [(first, list(shape))]
    if node.op == "Concat":
        axis = int(c.effective[index].get("axis", 0))  # type: ignore[call-overload]
        if shape and -len(shape) <= axis < len(shape):
            part = list(shape)
            part[axis] //= len(node.inputs)
            return [(s, part) for s in dict.fromkeys(node.inputs) if s != ABSENT]
    if node.op in ("DequantizeLinear", "QuantizeLinear"):
        return [(first, list(shape))]
    if node.op == "Unsqueeze" and node.inputs[1] in c.values:
        axes = {int(axis) % len(shape) for axis in c.values[node.inputs[1]].reshape(-1)} if shape else set()
        return [(first, [n for k, n in enumerate(shape) if k not in axes])]
    return [(first, list(limited(tuple(shape))))] if rank == len(shape) else []


def set_attribute(c: Candidate, source: Source, node: int, name: str, value: object) -> None:
    if source.integer(0, 4) == 4:
        anything(c, source, c.plan.variant.nodes[node].inputs)
    elif node >= 0:
        c.written[node][name] = value


def set_value(c: Candidate, source: Source, slot: int, value: object, symbol: str) -> None:
    """Makes a constant stand in a relation to a number or an array: exactly there, or a little beyond."""
    if slot not in c.plan.free or slot not in c.values:
        anything(c, source, (slot,))
        return
    held = c.values[slot]
    number = values.numpy_value(values.plain(value))
    wanted = np.asarray(number, np.float64)
    if held.dtype.kind == "b" or wanted.dtype.kind not in "fiu":
        anything(c, source, (slot,))
        return
    step = {"<": -1, ">": 1}.get(symbol[:1], 0) * choice(source, (0, 1, 0.5) if symbol[-1] == "=" else (1, 0.5))
    with np.errstate(all="ignore"):
        try:
            array = np.broadcast_to(wanted + step, held.shape if wanted.ndim <= held.ndim else wanted.shape)
        except ValueError:
            array = wanted + step
        c.values[slot] = np.asarray(array).astype(held.dtype)
    c.shapes[slot] = c.values[slot].shape
