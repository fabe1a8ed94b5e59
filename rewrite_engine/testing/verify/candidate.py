"""A match in the making: types, constants and attributes of one variant, drawn operator by operator.

In: a plan and a source of choices. Out: a `Candidate` whose types fit together, whether or not the rule's checks hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.language.core import ABSENT, Facts
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.operators.dtypes import is_float
from rewrite_engine.operators.types import Dimension, TensorType
from rewrite_engine.testing.verify.declared import formal_in_body, infer_node
from rewrite_engine.testing.verify.draws import Source, choice
from rewrite_engine.testing.verify.node_draft import Array, NodeDraft, Shape
from rewrite_engine.testing.verify.plan import Plan
from rewrite_engine.testing.verify.samplers import sample

Types = Sequence[TensorType | None]
Constants = Sequence[Array | None]
POSITIVE = frozenset({"scale", "y_scale", "x_scale", "var", "input_var", "Scale"})
"""Operands that are meaningful as positive numbers only."""

SMALL = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.0, 4.0, -0.5, 0.25)
SIZES = ((2, 3, 1), (2, 3, 4), (1, 2, 2), (3, 1, 5), (2, 2, 2), (1, 1, 3), (4, 2, 1), (0, 2, 3))


class Unfit(Exception):
    """The operands of a node do not fit it; the message is that of type inference."""

    def __init__(self, node: int, message: str) -> None:
        super().__init__(message)
        self.node = node


@dataclass(slots=True, eq=False)
class Candidate:
    """Decisions (`shapes`, `dtypes`, `values` of free slots, `written` attributes), and what follows (`types`, …)."""

    plan: Plan
    main: str
    sizes: tuple[int, ...]
    shapes: dict[int, Shape] = field(default_factory=dict)
    dtypes: dict[int, str] = field(default_factory=dict)
    values: dict[int, Array] = field(default_factory=dict)
    written: list[dict[str, Any]] = field(default_factory=list)
    types: dict[int, TensorType] = field(default_factory=dict)
    effective: list[Mapping[str, object]] = field(default_factory=list)

    def facts(self) -> Facts:
        """What the rule's checks see."""
        slots = self.plan.variant.slots
        return Facts(
            tuple(self.types[k] for k in range(len(slots))),
            tuple(self.values.get(k) if slot.reads_value else None for k, slot in enumerate(slots)),
            tuple(k in self.values for k in range(len(slots))),
            tuple(self.effective),
            (1,) * len(slots),
            (False,) * len(slots),
        )

    def constants(self, slots: tuple[int, ...]) -> list[Array | None]:
        """The elements of operands where they are known."""
        return [self.values.get(slot) for slot in slots]

    def forget(self, slot: int) -> None:
        """Opens a free slot again."""
        for held in (self.shapes, self.dtypes, self.values):
            held.pop(slot, None)


def start(plan: Plan, source: Source) -> Candidate:
    """Nothing chosen yet but the main dtype and the sizes that dimensions are drawn from."""
    main = choice(source, plan.dtypes)
    named = sorted({int(n) for n in plan.numbers if 2 < n <= 64 and n == int(n)})
    pools = [*SIZES, *((n, 1, 2 * n) for n in named), *((n, 2, n) for n in named)]
    found = Candidate(plan, main, choice(source, pools))
    found.written = [dict(given) for given in plan.attributes]
    return found


def settle(c: Candidate, source: Source) -> None:
    """Chooses what is open, operands first, and works out the types of results. Raises `Unfit`."""
    variant = c.plan.variant
    c.types = {}
    c.effective = []
    for index, node in enumerate(variant.nodes):
        _choose(c, index, source)
        inputs = [None if slot == ABSENT else c.types[slot] for slot in node.inputs]
        constants = c.constants(node.inputs)
        try:
            effective, results = infer_node(
                c.plan.meanings, node.op, c.written[index], inputs, constants, len(node.outputs)
            )
        except (RewriteError, ArithmeticError, ValueError, TypeError, LookupError) as error:
            raise Unfit(index, str(error)) from None
        reason = _FITS[node.op](inputs, constants, effective) if node.op in _FITS else ""
        if reason:
            raise Unfit(index, reason)
        c.effective.append(effective)
        for slot, kind in zip(node.outputs, results, strict=True):
            if slot != ABSENT:
                if kind.numel is None or kind.dtype == "?":
                    raise Unfit(index, f"the type of {node.op} is {kind}")
                if kind.numel > 40000:
                    raise Unfit(index, "too large")
                c.types[slot] = kind


def _scalar_bounds(inputs: Types, constants: Constants, attributes: Mapping[str, Any]) -> str:
    return "bounds are scalars" if any(kind is not None and kind.shape != () for kind in inputs[1:]) else ""


def _scaled(inputs: Types, constants: Constants, attributes: Mapping[str, Any]) -> str:
    zero, scale = inputs[2] if len(inputs) > 2 else None, inputs[1]
    if zero is not None and scale is not None and zero.shape != scale.shape:
        return "a zero point has the shape of the scale"
    axis, rank = int(attributes.get("axis", 1)), len(inputs[0].shape or ()) if inputs[0] is not None else 0
    if scale is not None and scale.shape not in ((), (1,)) and not -rank <= axis < rank:
        return "there is no such axis"
    return _positive(constants, ((1, 2),))


def _linear(inputs: Types, constants: Constants, attributes: Mapping[str, Any]) -> str:
    if any(kind is not None and kind.dtype.startswith("float8") for kind in inputs):
        return "codes are whole numbers"
    filters = inputs[3].shape[0] if inputs[3] is not None and inputs[3].shape else 1
    return _steps(inputs, {1: 1, 4: filters, 6: 1}) or _positive(constants, ((1, 2), (4, 5), (6, 7)))


def _linear_matmul(inputs: Types, constants: Constants, attributes: Mapping[str, Any]) -> str:
    if any(kind is not None and kind.dtype.startswith("float8") for kind in inputs):
        return "codes are whole numbers"
    a, b = (inputs[k].shape or () if inputs[k] is not None else () for k in (0, 3))  # type: ignore[union-attr]
    rows, columns = a[-2] if len(a) == 2 else 1, b[-1] if b else 1
    return _steps(inputs, {1: rows, 4: columns, 6: 1}) or _positive(constants, ((1, 2), (4, 5), (6, 7)))


def _steps(inputs: Types, most: Mapping[int, Dimension]) -> str:
    """Of scales and their zero points: one for all, or a list of so many."""
    for k, count in most.items():
        scale, zero = inputs[k], inputs[k + 1]
        if scale is None or zero is None:
            continue
        if scale.shape != zero.shape or scale.shape not in ((), (1,), (count,)):
            return "one scale and zero point for all, or for each row, column or filter"
    return ""


def _positive(constants: Constants, pairs: Sequence[tuple[int, int]]) -> str:
    """Of scales and zero points: positive ones, and zeros where codes are floats."""
    for k, z in pairs:
        scale, zero = (constants[n] if n < len(constants) else None for n in (k, z))
        if scale is not None and not np.all(scale.astype(np.float64) > 0):
            return "a scale is positive"
        if zero is not None and zero.dtype.name.startswith("float") and np.any(zero.astype(np.float64) != 0):
            return "a zero point of floats is zero"
    return ""


def _root_of_scale(inputs: Types, constants: Constants, attributes: Mapping[str, Any]) -> str:
    return "the root of a negative scale is taken" if float(attributes.get("scale", 1)) < 0 else ""


def _whole_factors(inputs: Types, constants: Constants, attributes: Mapping[str, Any]) -> str:
    whole = all(float(attributes.get(name, 1)).is_integer() for name in ("alpha", "beta"))
    floats = inputs[0] is not None and is_float(inputs[0].dtype)
    return "" if whole or floats else "integers are multiplied by whole factors"


_FITS = {
    "Attention": _root_of_scale,
    "Clip": _scalar_bounds,
    "QuantizeLinear": _scaled,
    "DequantizeLinear": _scaled,
    "Gemm": _whole_factors,
    "QLinearConv": _linear,
    "QLinearMatMul": _linear_matmul,
}
"""What operators ask of their operands and type inference does not look at; the reason where it does not hold."""


def misfit(op: str, inputs: Types, attributes: Mapping[str, Any]) -> str:
    """What an operator asks of the types of its operands beyond type inference, where it does not hold."""
    return _FITS[op](inputs, (None,) * len(inputs), attributes) if op in _FITS else ""


def _choose(c: Candidate, index: int, source: Source) -> None:
    """Draws the open operands and attributes of one node."""
    plan, node = c.plan, c.plan.variant.nodes[index]
    slots = node.inputs
    open_ = [slot for slot in slots if slot != ABSENT and slot not in c.types]
    dtypes: list[str] = []
    for k, slot in enumerate(slots):
        dtypes.append(_dtype(c, index, k, slot, source, dtypes))
    draft = NodeDraft(
        node.op,
        source,
        c.sizes,
        [slot != ABSENT for slot in slots],
        dtypes,
        [None if slot == ABSENT else _shape(c, slot) for slot in slots],
        [None if slot == ABSENT else c.values.get(slot) for slot in slots],
        c.written[index],
        [plan.ranks.get(slot) for slot in slots],
        frozenset(plan.attributes[index]),
        len(node.outputs),
        plan.ranks.get(node.outputs[0]) if node.outputs else None,
        _formals(c, index),
    )
    for k, slot in enumerate(slots):
        if slot in open_ and slot in plan.literals and slot not in c.shapes:
            draft.values[k] = _literal(plan.literals[slot], dtypes[k])
            draft.shapes[k] = draft.values[k].shape  # type: ignore[union-attr]
    try:
        sample(draft)
    except (IndexError, ValueError, ZeroDivisionError) as error:  # operands that were settled before, and do not fit
        raise Unfit(index, str(error)) from None
    for k, slot in enumerate(slots):
        if slot == ABSENT or slot in c.types:
            continue
        shape = draft.shapes[k]
        assert shape is not None
        c.shapes[slot], c.dtypes[slot] = shape, dtypes[k]
        c.types[slot] = TensorType(dtypes[k], shape)
        held = draft.values[k]
        if held is not None:
            with np.errstate(all="ignore"):
                c.values[slot] = held.astype(numpy_dtype(dtypes[k]))
        elif slot in plan.known and slot not in c.values:
            name = draft.formals[min(k, len(draft.formals) - 1)] if draft.formals else ""
            zero = name.endswith("zero_point") and dtypes[k].startswith("float8")  # codes that are floats have no other
            c.values[slot] = (
                _zeros(shape, dtypes[k]) if zero else numbers(plan, source, shape, dtypes[k], name in POSITIVE)
            )


def _formals(c: Candidate, index: int) -> list[str]:
    """The names of a node's operands; of a declared operator, those of the operators that read them."""
    node = c.plan.variant.nodes[index]
    facts = operators.find(node.op)
    if facts is not None:
        return [formal.name for formal in facts.inputs]
    if node.op not in c.plan.meanings:
        return []
    found = [formal_in_body(c.plan.meanings, node.op, k) for k in range(len(node.inputs))]
    return ["" if pair is None else pair[1].name for pair in found]


def _shape(c: Candidate, slot: int) -> Shape | None:
    if slot in c.types:
        return c.types[slot].shape  # type: ignore[return-value]
    return c.shapes.get(slot)


def _dtype(c: Candidate, index: int, position: int, slot: int, source: Source, before: Sequence[str]) -> str:
    if slot == ABSENT:
        return "?"
    if slot in c.types:
        return c.types[slot].dtype
    if slot in c.dtypes:
        return c.dtypes[slot]
    own = c.plan.own.get(slot)
    node = c.plan.variant.nodes[index]
    facts = operators.find(node.op)
    formal = facts.input(position) if facts is not None else None
    if facts is not None and formal is not None:
        for other, known in enumerate(node.inputs):
            same = facts.input(other)
            if known == ABSENT or same is None or same.type != formal.type or same.mixed:
                continue
            dtype = c.types[known].dtype if known in c.types else before[other] if other < position else None
            if dtype is not None and (not own or dtype in own):
                return dtype
    if own:
        return c.main if c.main in own else choice(source, own)
    if node.op in c.plan.meanings:
        return _declared_dtype(c, node.op, position, source, before)
    if facts is None or formal is None:
        return c.main
    if c.main in formal.dtypes and position not in facts.host_inputs:
        return c.main
    likely = [name for name in ("int64", "float32", "int8", "uint8", "bool", "int32") if name in formal.dtypes]
    if position in facts.host_inputs or not likely or likely[0] == "int64":
        return likely[0] if likely else formal.dtypes[0]
    rare = [name for name in ("float8_e5m2", "uint16", "int16", "float8_e4m3fn") if name in formal.dtypes]
    return choice(source, [*likely, *likely, *rare])


def _zeros(shape: Shape, dtype: str) -> Array:
    return np.zeros(shape, numpy_dtype(dtype))


def _declared_dtype(c: Candidate, op: str, position: int, source: Source, before: Sequence[str]) -> str:
    """Of an operand of a declared operator: what the operator of its body asks that reads it."""
    found = formal_in_body(c.plan.meanings, op, position)
    if found is None:
        return c.main
    number, formal = found
    for other, dtype in enumerate(before):
        same = formal_in_body(c.plan.meanings, op, other)
        if same is not None and same[0] == number and same[1].type == formal.type and not formal.mixed:
            return dtype
    if c.main in formal.dtypes:
        return c.main
    likely = [name for name in ("int8", "uint8", "float32", "int64", "bool", "int32") if name in formal.dtypes]
    return choice(source, likely or formal.dtypes)


def _literal(value: object, dtype: str) -> Array:
    """A literal as the operand that the pattern means."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(numpy_dtype(dtype))


def numbers(plan: Plan, source: Source, shape: Shape, dtype: str, positive: bool) -> Array:
    """Elements of a constant: one number everywhere, those that guards name, small ones, or random ones.

    Of an even last axis both halves may be alike.
    """
    target = numpy_dtype(dtype)
    pool = [*plan.numbers, *SMALL]
    kind = source.integer(0, 5)
    count = int(np.prod(shape)) if shape else 1
    if dtype == "bool":
        array = np.array([source.integer(0, 1) for _ in range(min(count, 4))] or [0])
        array = np.resize(array, count)
    elif kind == 0:
        array = np.full(count, choice(source, pool))
    elif kind <= 2 or not is_float(dtype):
        array = np.resize([choice(source, pool) for _ in range(min(count, 6))] or [0.0], count)
    else:
        generator = np.random.default_rng(source.integer(0, 999))
        array = generator.standard_normal(count) if kind == 4 else np.round(generator.standard_normal(count) * 8) / 4
        if kind == 5 and shape and shape[-1] % 2 == 0:
            half = array.reshape(shape)[..., : shape[-1] // 2]
            array = np.concatenate((half, half), -1).reshape(-1)
    if positive:
        array = np.where(array == 0, 1, np.abs(array))
    with np.errstate(all="ignore"):
        if not is_float(dtype):
            array = np.clip(array, 0 if dtype.startswith("u") else -(2**7), 2**7 - 1)
        return np.asarray(array).reshape(shape).astype(target)
