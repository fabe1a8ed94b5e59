"""What is changed where operands do not fit their operator: one to the other, by what the operator asks for."""

from __future__ import annotations

from rewrite_engine import operators
from rewrite_engine.language.core import ABSENT
from rewrite_engine.testing.verify.candidate import Candidate, numbers
from rewrite_engine.testing.verify.draws import Source, choice
from rewrite_engine.testing.verify.setters import set_shape, upstream


def reopen(c: Candidate, source: Source, index: int) -> None:
    """Draws a node's operands and open attributes again; where they are results, something before it."""
    node = c.plan.variant.nodes[index]
    if source.integer(0, 3) and _fit(c, source, index):
        return
    c.written[index] = dict(c.plan.attributes[index])
    free = [slot for slot in node.inputs if slot in c.plan.free and slot not in c.plan.literals]
    if not free or source.integer(0, 2) == 2:
        free = free + [slot for slot in upstream(c, node.inputs) if slot not in c.plan.literals]
    if free:
        c.forget(choice(source, free))
    for other in range(index):
        if source.integer(0, 3) == 3:
            c.written[other] = dict(c.plan.attributes[other])


def _fit(c: Candidate, source: Source, index: int) -> bool:
    """Makes one operand fit the other, where the operator says how; whether something was changed."""
    node = c.plan.variant.nodes[index]
    facts = operators.find(node.op)
    present = [slot for slot in node.inputs if slot != ABSENT]
    if len(present) < 2 or any(slot not in c.types for slot in present[:2]) or facts is None:
        return False
    if node.op in ("QuantizeLinear", "DequantizeLinear"):
        return _fit_codes(c, source, index)
    if node.op in ("Conv", "Gemm", "ConvTranspose") and source.integer(0, 3):
        return _fit_weights(c, source, index)
    a, b = (present[0], present[1]) if source.integer(0, 2) else (present[1], present[0])
    shape = [int(n) for n in c.types[a].shape or ()]  # type: ignore[arg-type]
    other = [int(n) for n in c.types[b].shape or ()]  # type: ignore[arg-type]
    if node.op == "MatMul" and len(shape) >= 2 and len(other) >= 2:
        left = a == node.inputs[0]
        other[-2 if left else -1] = shape[-1 if left else -2]
        other[:-2] = shape[:-2] if len(other) == len(shape) else other[:-2]
        set_shape(c, source, b, other)
        return True
    if (facts.pointwise and node.op not in _FIXED) or node.op == "Concat":
        set_shape(c, source, b, shape)
        return True
    return False


def _fit_codes(c: Candidate, source: Source, index: int) -> bool:
    """One scale and zero point for the whole tensor, or as many zero points as scales; codes of one dtype."""
    inputs = c.plan.variant.nodes[index].inputs
    codes = c.types[inputs[0]].dtype if c.plan.variant.nodes[index].op == "DequantizeLinear" else None
    free = [slot for slot in inputs[1:3] if slot in c.plan.free and slot not in c.plan.literals]
    scale = c.types[inputs[1]].shape or ()
    wanted: tuple[int, ...] = () if source.integer(0, 2) else tuple(int(n) for n in scale)  # type: ignore[arg-type]
    for slot in free:
        dtype = c.dtypes.get(slot, c.main)
        is_zero = slot != inputs[1]
        if is_zero and codes is not None:
            dtype = codes
        c.forget(slot)
        c.shapes[slot], c.dtypes[slot] = wanted, dtype
        if slot in c.plan.known:
            c.values[slot] = numbers(c.plan, source, wanted, dtype, not is_zero)
    return bool(free)


def _fit_weights(c: Candidate, source: Source, index: int) -> bool:
    """Weights and a bias of as many channels as the input has."""
    node = c.plan.variant.nodes[index]
    x, w = ([int(n) for n in c.types[slot].shape or ()] for slot in node.inputs[:2])  # type: ignore[arg-type]
    written = c.written[index]
    if node.op == "Gemm":
        if len(x) == len(w) == 2:
            w[int(written.get("transB", 0))] = x[1 - int(written.get("transA", 0))]
            set_shape(c, source, node.inputs[1], w)
        return True
    if len(x) != len(w) or len(x) < 3:
        return False
    if "group" not in c.plan.attributes[index]:
        written["group"] = 1
    w[0 if node.op == "ConvTranspose" else 1] = x[1] // int(written.get("group", 1)) or 1
    w[2:] = [min(k, n) for k, n in zip(w[2:], x[2:], strict=True)]
    set_shape(c, source, node.inputs[1], w)
    if len(node.inputs) > 2 and node.inputs[2] != ABSENT:
        set_shape(c, source, node.inputs[2], [w[1 if node.op == "ConvTranspose" else 0]])
    return True


_FIXED = frozenset({"Clip", "Cast"})
