"""What a rule builds for one match: attributes, types, constants; its result has the type of what it replaces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rewrite_engine import operators
from rewrite_engine.diagnostics import RewriteError, Span
from rewrite_engine.language import values
from rewrite_engine.language.core import Template, TemplateNode
from rewrite_engine.language.literals import convert, likely_dtype, schema_dtypes, stated_dtype
from rewrite_engine.language.meaning import infer
from rewrite_engine.language.program import AttributeSource, ConstantSource, Match, TemplateProgram
from rewrite_engine.language.values import Array, EvaluationError, Unknown
from rewrite_engine.operators.dtypes import array_dtype, is_float
from rewrite_engine.operators.types import TensorType

Attributes = Mapping[str, object]
Reference = tuple[str | int, ...]


class BuildRefused(Exception):
    """The template cannot be built for this match, or would change a type; `span` is the part that says so."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span


class _State:
    def __init__(self, match: Match, template: Template, program: TemplateProgram) -> None:
        self.match, self.template, self.program = match, template, program
        self.types: list[tuple[TensorType, ...]] = []
        self.constants: dict[int, Array] = {}

    def type_of(self, reference: Reference) -> TensorType | None:
        """The type of a reference; None where it is absent, or a constant whose dtype is not settled yet."""
        match reference:
            case ("slot", int() as slot):
                return self.match.facts.types[slot]
            case ("node", int() as node, int() as output):
                return self.types[node][output]
            case ("constant", int() as index) if index in self.constants:
                array = self.constants[index]
                return TensorType(array_dtype(array), array.shape)
            case _:
                return None

    def constant_of(self, reference: Reference) -> Array | None:
        """The elements of a reference, where they are known."""
        match reference:
            case ("slot", int() as slot):
                return self.match.facts.constants[slot]
            case ("constant", int() as index):
                return self.constants[index]
            case _:
                return None


def build(
    match: Match, template: Template, program: TemplateProgram
) -> tuple[tuple[Attributes, ...], tuple[tuple[TensorType, ...], ...], tuple[Array, ...]]:
    """Effective attributes and output types per template node, and the constants. Raises `BuildRefused`."""
    state = _State(match, template, program)
    attributes: list[Attributes] = []
    for index, node in enumerate(template.nodes):
        span = program.spans[index]
        written = _attributes(match, node.op, program.operator(node.op), program.attributes[index])
        for position, reference in enumerate(node.inputs):
            if reference[0] == "constant":
                _settle(state, int(reference[1]), _schema_dtypes(state, node, position))
        types = [state.type_of(reference) for reference in node.inputs]
        known = [state.constant_of(reference) for reference in node.inputs]
        try:
            effective = operators.effective_attributes(node.op, written, types, known)
            if node.op in program.declared:
                state.types.append(infer(program.declared[node.op], effective, types, known, node.outputs))
            else:
                state.types.append(operators.infer_types(node.op, effective, types, known, node.outputs))
        except (RewriteError, ArithmeticError, ValueError, TypeError, LookupError) as error:
            raise BuildRefused(span, str(error)) from None
        attributes.append(effective)
    for root, reference in zip(match.variant.roots, template.roots, strict=True):
        old = match.facts.types[root]
        if reference[0] == "constant":
            _settle(state, int(reference[1]), (old.dtype,) if old.dtype != "?" else ())
        _same_type(match, old, state.type_of(reference))
    return tuple(attributes), tuple(state.types), tuple(state.constants[i] for i in range(template.constants))


# ---------------------------------------------------------------- attributes


def _attributes(
    match: Match, op: str, operator: operators.Operator | None, sources: tuple[AttributeSource, ...]
) -> dict[str, object]:
    found: dict[str, object] = {}
    for source in sources:
        if source.like is not None:
            carried = match.facts.attributes[source.like]
            found |= {k: v for k, v in carried.items() if operator is None or k in operator.attributes}
            continue
        assert source.run is not None
        kind = operator.attributes[source.name].type if operator is not None else "any"
        try:
            found[source.name] = attribute_value(source.run(match), kind)
        except (EvaluationError, ValueError, TypeError, OverflowError) as error:
            raise BuildRefused(source.span, f"`{source.name}` of {op}: {error}") from None
    return found


def attribute_value(value: object, kind: str) -> object:
    """A value as an attribute of the schema's `kind`: "int", "ints", "float", "floats", "string", "tensor", …"""
    value = values.plain(value)
    if isinstance(value, Unknown):
        raise EvaluationError(value.reason)
    if kind in ("string", "strings", "tensor"):
        return np.asarray(values.numpy_value(value)) if kind == "tensor" else value
    if kind == "any":
        return _any_attribute(value)
    if kind in ("ints", "floats"):
        items = tuple(value.ravel().tolist()) if isinstance(value, np.ndarray) else value
        if not isinstance(items, tuple):
            raise EvaluationError(f"expected a list, found {values.show(value)}")
        return tuple(attribute_value(item, kind[:-1]) for item in items)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = values.plain(value.reshape(())[()])
    number = values.numpy_value(values.dtype_code(value))
    if isinstance(number, np.ndarray):
        raise EvaluationError(f"expected one number, found {values.show(value)}")
    if kind == "float":
        return float(number)
    if number != int(number):
        raise EvaluationError(f"expected a whole number, found {values.show(value)}")
    return int(number)


def _any_attribute(value: object) -> object:
    """An attribute of an operator without a schema: as it is."""
    if isinstance(value, tuple):
        return tuple(_any_attribute(item) for item in value)
    return value if isinstance(value, (str, np.ndarray)) else values.numpy_value(value)


# ---------------------------------------------------------------- constants


def _schema_dtypes(state: _State, node: TemplateNode, position: int) -> tuple[str, ...]:
    """The dtypes that the schema leaves for an input, the likeliest first; empty where it says nothing."""
    types = [state.type_of(reference) for reference in node.inputs]
    return schema_dtypes(state.program.operator(node.op), position, types)


def _settle(state: _State, index: int, allowed: tuple[str, ...]) -> None:
    """Compute a constant in the dtype that is asked for; where several are allowed, in that of what it is made from."""
    source = state.program.constants[index]
    if index in state.constants:
        return
    try:
        value = source.run(state.match)
        if isinstance(value, Unknown):
            raise EvaluationError(value.reason)
        array = np.asarray(value if isinstance(value, np.ndarray) else values.numpy_value(value))
        state.constants[index] = convert(array, _dtype(state, source, array, allowed))
    except (EvaluationError, ValueError, TypeError, OverflowError) as error:
        raise BuildRefused(source.span, str(error)) from None


def _dtype(state: _State, source: ConstantSource, array: Array, allowed: tuple[str, ...]) -> str:
    if source.typed:
        return stated_dtype(array, allowed)
    if len(allowed) == 1:
        return allowed[0]
    floating = array.dtype.kind == "f" or is_float(array.dtype.name)
    for slot in source.reads:
        dtype = state.match.facts.types[slot].dtype
        if dtype != "?" and is_float(dtype) == floating and (not allowed or dtype in allowed):
            return dtype
    return likely_dtype(array, allowed)


# ---------------------------------------------------------------- the types before and after


def _same_type(match: Match, old: TensorType, new: TensorType | None) -> None:
    """The rule must not change the type of what it replaces; what is unknown on one side is not held against it."""
    span = match.program.span
    if new is None:
        return
    if "?" not in (old.dtype, new.dtype) and old.dtype != new.dtype:
        raise BuildRefused(span, f"the result would be {new.dtype}, it was {old.dtype}")
    if old.shape is None or new.shape is None:
        return
    same = len(old.shape) == len(new.shape)
    same = same and all(None in pair or pair[0] == pair[1] for pair in zip(old.shape, new.shape, strict=True))
    if not same:
        raise BuildRefused(span, f"the result would be {new}, it was {old}")
