"""Writes `facts.json`: the schemas of ai.onnx at opset 23 and the hand-written facts of `traits`, in one compact table.

Run `python -m rewrite_engine.operators.generate`. The only module of this room that imports onnx.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rewrite_engine.operators import traits
from rewrite_engine.operators.dtypes import DTYPE_CODES

OPSET = 23
TARGET = Path(__file__).with_name("facts.json")

_SCHEMA_DTYPES = {"float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn"} | {
    "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
    "float4e2m1": "float4_e2m1fn", "float8e8m0": "float8_e8m0fnu",
}  # fmt: skip


def facts() -> dict[str, Any]:
    """The table: `sets` of dtypes, and per operator its formals, type variables (as indices of `sets`) and facts."""
    import onnx.defs

    names = sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""})
    sets: list[list[str]] = []
    operators: dict[str, Any] = {}
    for name in names:
        try:
            schema = onnx.defs.get_schema(name, OPSET, "")
        except onnx.defs.SchemaError:  # introduced later
            continue
        if not schema.deprecated:
            operators[name] = _operator(schema, sets)
    return {"opset": OPSET, "sets": sets, "operators": operators}


def text() -> str:
    """The table as JSON, one operator a line, ending in a newline: the content of the committed file."""
    table = facts()
    rows = (f"{json.dumps(name)}:{_compact(row)}" for name, row in table["operators"].items())
    sets = (_compact(row) for row in table["sets"])
    return (
        f'{{"opset":{table["opset"]},\n"sets":[\n'
        + ",\n".join(sets)
        + '],\n"operators":{\n'
        + ",\n".join(rows)
        + "}}\n"
    )


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _operator(schema: Any, sets: list[list[str]]) -> dict[str, Any]:
    name = schema.name
    variables = {c.type_param_str: _set(c.allowed_type_strs, sets) for c in schema.type_constraints}
    formals = [_formal(f) for f in schema.inputs], [_formal(f) for f in schema.outputs]
    row: dict[str, Any] = {
        "inputs": formals[0],
        "outputs": formals[1],
        "types": variables,
        "arity": [schema.min_input, _bound(schema.max_input), schema.min_output, _bound(schema.max_output)],
        "attributes": {a: _attribute(v) for a, v in sorted(schema.attributes.items())},
    }
    for fact, members in (
        ("commutative", traits.COMMUTATIVE),
        ("pointwise", traits.POINTWISE),
        ("movement", traits.MOVEMENT),
        ("view", traits.VIEW),
        ("random", traits.RANDOM),
    ):
        if name in members:
            row[fact] = True
    if traits.HOST_INPUTS.get(name):
        row["host_inputs"] = list(traits.HOST_INPUTS[name])
    if traits.AXIS_ATTRIBUTES.get(name):
        row["axis_attributes"] = dict(traits.AXIS_ATTRIBUTES[name])
    return row


def _formal(formal: Any) -> list[Any]:
    kind = formal.option.name.lower()
    heterogeneous = kind == "variadic" and not formal.is_homogeneous
    return [formal.name, kind, _dtype(formal.type_str), *(["mixed"] if heterogeneous else [])]


def _attribute(attribute: Any) -> list[Any]:
    from onnx.helper import get_attribute_value

    row = [attribute.type.name.lower(), bool(attribute.required)]
    if attribute.default_value.name:
        value = get_attribute_value(attribute.default_value)
        row.append(_plain(value))
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (int, float, str)):
        return value
    return [_plain(item) for item in value]


def _dtype(text: str) -> str:
    """`tensor(float)` as the dtype name float32; variables and types that are not tensors stay as they are."""
    inner = text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else None
    return text if inner is None else _SCHEMA_DTYPES.get(inner, inner)


def _set(types: Any, sets: list[list[str]]) -> int:
    order = {name: i for i, name in enumerate(DTYPE_CODES)}
    members = sorted({_dtype(t) for t in types}, key=lambda t: (order.get(t, len(order)), t))
    if members not in sets:
        sets.append(members)
    return sets.index(members)


def _bound(count: int) -> int | None:
    return None if count >= 2**31 - 1 else int(count)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
