"""Operators without a compute: one host operator each, run by ONNX Runtime on whole tensors; or a refusal by name."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from rewrite_engine.diagnostics import RewriteError, did_you_mean
from rewrite_engine.graph.placed import BodyNode
from rewrite_engine.loops.build import Builder, Tensor
from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.operators.facts import find
from rewrite_engine.operators.types import TensorType

_NOT_NUMBERS = ("?", "string", "complex64", "complex128")


def host_operator(
    builder: Builder,
    node: BodyNode,
    inputs: Sequence[Tensor | None],
    types: Mapping[str, TensorType],
    where: str,
) -> list[Tensor]:
    """Adds the operator as a host operator, its results of the `types` that the model states.

    Raises RewriteError, naming the operator, where a result has no known size or is no tensor of numbers, where its
    elements are random, and where ONNX Runtime is not installed or does not have the operator.
    """
    operator = find(node.op)
    if operator is not None and operator.random:
        raise _refused(where, node, "it draws random numbers")
    results = [types.get(name, TensorType("?", None)) if name else None for name in node.outputs]
    for name, result in zip(node.outputs, results, strict=True):
        if result is not None and (result.numel is None or result.dtype in _NOT_NUMBERS):
            raise _refused(where, node, f"ONNX Runtime needs results of known type, {name} is {result}")
    from rewrite_engine.graph.foreign import node_model, require_runtime

    given = [None if t is None else TensorType(t.dtype, t.shape) for t in inputs]
    try:
        content = node_model(node.op, node.attributes, given, results)
        require_runtime(content)
    except RewriteError as error:
        raise _refused(where, node, str(error)) from error
    present = [tensor for tensor in inputs if tensor is not None]
    wanted = [(_sizes(t), t.dtype) for t in results if t is not None]
    text = base64.b64encode(content).decode("ascii")
    made = iter(builder.host("onnx", present, wanted, operator=node.op, model=text))
    return [next(made) if t is not None else builder.constant(0) for t in results]


def _refused(where: str, node: BodyNode, why: str) -> RewriteError:
    """No loop nest, why not the host either, and what may help."""
    mend = _meaning_of(node) if "::" in node.op else did_you_mean(node.op, OPERATORS)
    return RewriteError(f"{where}: there is no loop nest for this operator, and {why}{'; ' + mend if mend else ''}")


def _meaning_of(node: BodyNode) -> str:
    """The mend for an operator outside the default domain: the declaration that a rule file needs."""
    operands = ", ".join(f"x{number}" if name else f"x{number}?" for number, name in enumerate(node.inputs, 1))
    return f"declare its meaning in a rule file, in operators that have one: operator {node.op}({operands}) = …"


def _sizes(type_: TensorType) -> tuple[int, ...]:
    return tuple(size for size in type_.shape or () if isinstance(size, int))
