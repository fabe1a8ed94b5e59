"""Type inference: the dtypes and shapes of an operator's results, and the refusal of inputs that it does not take.

Dtypes follow from the schema's type variables, shapes from the table `SHAPE_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rewrite_engine.operators.calls import Array, Call, Shape, TypeMismatch
from rewrite_engine.operators.dtypes import DTYPE_CODES, array_dtype, dtype_name
from rewrite_engine.operators.effective import effective_attributes
from rewrite_engine.operators.facts import find
from rewrite_engine.operators.shapes import SHAPE_RULES
from rewrite_engine.operators.types import TensorType

__all__ = ["TypeMismatch", "infer_types"]

UNKNOWN = TensorType("?", None)


def infer_types(
    op: str,
    attributes: Mapping[str, object],
    inputs: Sequence[TensorType | None],
    constants: Sequence[Array | None],
    n_outputs: int,
) -> tuple[TensorType, ...]:
    """The types of the first `n_outputs` results of `op`; what cannot be known is "?" or None in them.

    `inputs` has None for an optional operand that is absent, `constants` the elements of those known at compile time
    (it may be shorter). Attributes are effective ones or as written. Raises `TypeMismatch`, with the operator, what was
    expected and what was found, for inputs that the operator does not take. Operators outside the table give unknown
    types.

    >>> f32 = lambda *shape: TensorType("float32", shape)
    >>> str(infer_types("Conv", {"strides": (2, 2)}, [f32("N", 3, 9, 9), f32(8, 3, 3, 3)], [], 1)[0])
    'float32[N, 8, 4, 4]'
    """
    operator = find(op)
    if operator is None:
        return (UNKNOWN,) * n_outputs
    call = Call(operator, attributes, inputs, constants, n_outputs)
    for name, attribute in operator.attributes.items():
        value = attributes.get(name)
        if attribute.required and value is None:
            raise call.fail(f"attribute `{name}` is missing")
        if value is not None and not attribute.fits(value):
            raise call.fail(f"attribute `{name}` is {value!r}, expected {attribute.type}")
    call = Call(operator, effective_attributes(op, attributes, inputs, constants), inputs, constants, n_outputs)
    variables = _bind_variables(call)
    dtypes = [_result_dtype(call, position, variables) for position in range(n_outputs)]
    shapes = _result_shapes(call)
    shapes += [None] * (n_outputs - len(shapes))
    for position, shape in enumerate(shapes[:n_outputs]):
        if shape is not None and any(isinstance(d, int) and d < 0 for d in shape):
            raise call.fail(f"output {position} would have the shape {list(shape)}")
    return tuple(TensorType(d, s) for d, s in zip(dtypes, shapes[:n_outputs], strict=True))


def _result_shapes(call: Call) -> list[Shape | None]:
    name = call.operator.name
    rule = SHAPE_RULES.get(name)
    if rule is not None:
        return list(rule(call))
    if call.operator.pointwise:
        return [call.broadcast(t.shape for t in call.inputs if t is not None)]
    return []


def _bind_variables(call: Call) -> dict[str, tuple[str, int]]:
    """Type variable -> (dtype, the operand that fixed it). Raises for a wrong number of operands or a wrong dtype."""
    operator, variables = call.operator, dict[str, tuple[str, int]]()
    if operator.max_inputs is not None and len(call.inputs) > operator.max_inputs:
        raise call.fail(f"takes at most {operator.max_inputs} inputs, found {len(call.inputs)}")
    for position in range(max(len(call.inputs), operator.min_inputs)):
        formal = operator.input(position)
        if formal is None:
            continue
        if not call.given(position):
            if formal.kind == "single" or (formal.kind == "variadic" and position < operator.min_inputs):
                raise call.fail(f"{call.label(position)} is missing")
            continue
        dtype = call.inputs[position].dtype  # type: ignore[union-attr]
        if not formal.allows(dtype):
            allowed = ", ".join(formal.dtypes)
            raise call.fail(
                f"{call.label(position)} is {dtype}, expected {'' if ',' not in allowed else 'one of '}{allowed}"
            )
        if dtype == "?" or formal.mixed:
            continue
        known, where = variables.setdefault(formal.type, (dtype, position))
        if known != dtype:
            raise call.fail(f"{call.label(position)} is {dtype}, expected {known} as {call.label(where)}")
    return variables


def _result_dtype(call: Call, position: int, variables: Mapping[str, tuple[str, int]]) -> str:
    formal = call.operator.output(position)
    if formal is None:
        raise call.fail(f"has no output {position}")
    rule = _DTYPES.get(call.operator.name)
    dtype = rule(call, position) if rule is not None else None
    if dtype is None and formal.type in variables and not formal.mixed:
        dtype = variables[formal.type][0]
    if dtype is None and len(formal.dtypes) == 1 and formal.dtypes[0] in DTYPE_CODES:
        dtype = formal.dtypes[0]
    if dtype is not None and not formal.allows(dtype):
        raise call.fail(f"output {position} ({formal.name}) would be {dtype}, which the operator does not give")
    return dtype if dtype in DTYPE_CODES else "?"


# ---- dtypes that attributes decide ----------------------------------------------------------------------------------

_DtypeRule = Callable[[Call, int], "str | None"]


def _by_attribute(name: str) -> _DtypeRule:
    """The dtype that an attribute names by its ONNX code; not decided when it is absent or 0."""

    def dtype(call: Call, position: int) -> str | None:
        code = call.attributes.get(name)
        return dtype_name(code) if code else None

    return dtype


def _quantized(call: Call, position: int) -> str | None:
    return _by_attribute("output_dtype")(call, position) or (None if call.given(2) else "uint8")


def _dequantized(call: Call, position: int) -> str | None:
    scale = call.inputs[1]
    return _by_attribute("output_dtype")(call, position) or (scale.dtype if scale is not None else None)


def _statistics(call: Call, position: int) -> str | None:
    return _by_attribute("stash_type")(call, position) if position > 0 else None


def _of_value(call: Call, position: int) -> str | None:
    value: Any = call.attributes.get("value")
    return array_dtype(np.asarray(value)) if value is not None else None


def _constant(call: Call, position: int) -> str | None:
    for kind, dtype in (("int", "int64"), ("float", "float32"), ("string", "string")):
        if f"value_{kind}" in call.attributes or f"value_{kind}s" in call.attributes:
            return dtype
    return _of_value(call, position)


_DTYPES: Mapping[str, _DtypeRule] = {
    "Bernoulli": _by_attribute("dtype"),
    "BlackmanWindow": _by_attribute("output_datatype"),
    "Cast": _by_attribute("to"),
    "Constant": _constant,
    "ConstantOfShape": _of_value,
    "DequantizeLinear": _dequantized,
    "EyeLike": _by_attribute("dtype"),
    "HammingWindow": _by_attribute("output_datatype"),
    "HannWindow": _by_attribute("output_datatype"),
    "LayerNormalization": _statistics,
    "MelWeightMatrix": _by_attribute("output_datatype"),
    "Multinomial": _by_attribute("dtype"),
    "QuantizeLinear": _quantized,
    "RandomNormal": _by_attribute("dtype"),
    "RandomNormalLike": _by_attribute("dtype"),
    "RandomUniform": _by_attribute("dtype"),
    "RandomUniformLike": _by_attribute("dtype"),
}
