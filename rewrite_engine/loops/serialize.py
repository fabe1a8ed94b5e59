"""Programs as JSON values and back, exactly: one shared list of expression nodes, floats in hex, elements in base64.

A bundle stores its kernels in this form and runs them from it, without the model they came from.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.arithmetic import Array
from rewrite_engine.loops.checks import Check
from rewrite_engine.loops.compute import Buffer, Carry, Compute, Host, Iter, Program, Scan, Slice, Statement, walk
from rewrite_engine.loops.dtypes import is_float, numpy_dtype
from rewrite_engine.loops.expr import Expr, intern, postorder

SCHEMA = "rewrite_engine/loops/1"

Json = dict[str, Any]


def to_json(program: Program) -> Json:
    """The program as JSON values (str, int, bool, None, lists, dicts); equal programs give equal values."""
    computes = [statement for statement in walk(program.statements) if isinstance(statement, Compute)]
    nodes = list(postorder(*(root for compute in computes for root in compute.roots)))
    number = {node: position for position, node in enumerate(nodes)}
    return {
        "schema": SCHEMA,
        "inputs": list(program.inputs),
        "outputs": list(program.outputs),
        "tensors": {name: [list(shape), dtype] for name, (shape, dtype) in program.tensors.items()},
        "constants": {name: _encode(array) for name, array in program.constants.items()},
        "nodes": [[n.op, n.dtype, [number[arg] for arg in n.args], _value_to_json(n)] for n in nodes],
        "statements": [_statement_to_json(statement, number) for statement in program.statements],
        **({"checks": [list(astuple(check)) for check in program.checks]} if program.checks else {}),
    }


def from_json(data: Mapping[str, Any]) -> Program:
    """The program that `to_json` wrote. Raises RewriteError when the data is not one."""
    if data.get("schema") != SCHEMA:
        raise RewriteError(f"expected a kernel of schema {SCHEMA}, found {data.get('schema')!r}")
    try:
        nodes: list[Expr] = []
        for op, dtype, args, value in data["nodes"]:
            nodes.append(intern(op, tuple(nodes[arg] for arg in args), dtype, _value_from_json(op, dtype, value)))
        tensors = {name: Buffer(tuple(shape), dtype) for name, (shape, dtype) in data["tensors"].items()}
        constants = {name: _decode(text, tensors[name]) for name, text in data["constants"].items()}
        statements = tuple(_statement_from_json(statement, nodes) for statement in data["statements"])
        checks = tuple(_check_from_json(*row) for row in data.get("checks", ()))
        return Program(tuple(data["inputs"]), tuple(data["outputs"]), tensors, constants, statements, checks)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise RewriteError(f"a kernel of schema {SCHEMA} is damaged: {error!r}; compile the model again") from error


def _statement_to_json(statement: Statement, number: Mapping[Expr, int]) -> Json:
    if isinstance(statement, Host):
        return {
            "host": statement.name,
            "inputs": list(statement.inputs),
            "outputs": list(statement.outputs),
            "attributes": dict(statement.attributes),
        }
    if isinstance(statement, Scan):
        return {
            "scan": [statement.step.name, statement.count],
            "sliced": [list(astuple(piece)) for piece in statement.sliced],
            "carried": [list(astuple(carry)) for carry in statement.carried],
            "statements": [_statement_to_json(inner, number) for inner in statement.statements],
            "stacked": [list(astuple(piece)) for piece in statement.stacked],
            "conditional": statement.conditional,
        }
    return {
        "out": statement.out,
        "iters": [[it.name, it.extent, it.kind] for it in statement.iters],
        "index": [number[index] for index in statement.index],
        "body": number[statement.body],
        "combine": statement.combine,
        "post": None if statement.post is None else number[statement.post],
        "init": statement.init,
    }


def _statement_from_json(data: Json, nodes: Sequence[Expr]) -> Statement:
    if "host" in data:
        return Host(data["host"], tuple(data["inputs"]), tuple(data["outputs"]), dict(data["attributes"]))
    if "scan" in data:
        name, count = data["scan"]
        return Scan(
            step=Iter(name, count, "scan"),
            sliced=tuple(Slice(*row) for row in data["sliced"]),
            carried=tuple(Carry(*row) for row in data["carried"]),
            statements=tuple(_statement_from_json(inner, nodes) for inner in data["statements"]),
            stacked=tuple(Slice(*row) for row in data["stacked"]),
            conditional=data["conditional"],
        )
    return Compute(
        out=data["out"],
        iters=tuple(Iter(name, extent, kind) for name, extent, kind in data["iters"]),
        index=tuple(nodes[index] for index in data["index"]),
        body=nodes[data["body"]],
        combine=data["combine"],
        post=None if data["post"] is None else nodes[data["post"]],
        init=data["init"],
    )


def _check_from_json(tensor: str, operator: str, operand: int, low: int, high: int) -> Check:
    return Check(str(tensor), str(operator), int(operand), int(low), int(high))


def _value_to_json(node: Expr) -> Any:
    if node.op == "const" and is_float(node.dtype):
        assert isinstance(node.value, float)
        return node.value.hex()
    if node.op == "lin":
        assert isinstance(node.value, tuple)
        constant, coefficients = node.value
        return [constant, list(coefficients)]
    return list(node.value) if isinstance(node.value, tuple) else node.value


def _value_from_json(op: str, dtype: str, value: Any) -> object:
    if op == "const":
        return float.fromhex(value) if is_float(dtype) else value
    if op == "lin":
        return value[0], tuple(value[1])
    return tuple(value) if isinstance(value, list) else value


def _encode(array: Array) -> str:
    """The elements, row-major and little-endian, in base64."""
    contiguous = np.ascontiguousarray(array)
    little = contiguous.astype(contiguous.dtype.newbyteorder("<")) if contiguous.dtype.isbuiltin == 1 else contiguous
    return base64.b64encode(little.tobytes()).decode("ascii")


def _decode(text: str, buffer: Buffer) -> Array:
    dtype = numpy_dtype(buffer.dtype)
    stored = dtype.newbyteorder("<") if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
    flat = np.frombuffer(base64.b64decode(text, validate=True), stored)
    elements = flat.astype(dtype) if dtype.isbuiltin == 1 else flat.view(dtype)
    return elements.reshape(buffer.shape)
