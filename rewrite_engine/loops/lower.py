"""From a kernel of a placed graph to a program: the computes of its body's operators, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import BodyNode, KernelCall
from rewrite_engine.loops.build import Builder, NeedsValue, Tensor, Unsupported
from rewrite_engine.loops.compute import Host, Program, walk
from rewrite_engine.loops.control import CONTROL
from rewrite_engine.loops.foreign import host_operator
from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.operators.effective import effective_attributes
from rewrite_engine.operators.infer import TypeMismatch, infer_types
from rewrite_engine.operators.types import TensorType

if TYPE_CHECKING:
    from rewrite_engine.graph.nodes import PlainGraph


class UnknownValue(RewriteError):
    """An operator decides shapes by the elements of a value that is not known at compile time; `value` is its name."""

    def __init__(self, message: str, value: str) -> None:
        super().__init__(message)
        self.value = value


def lower(call: KernelCall, types: Mapping[str, TensorType], constants: Mapping[str, np.ndarray]) -> Program:
    """The program of a kernel, its inputs and outputs in the order of the call's, not yet composed.

    `types` covers the kernel's inputs and outputs; `constants` holds what is known of its inputs at compile time, where
    shapes and axes are read. An operator without a compute becomes a host operator. Raises RewriteError for one that
    cannot be that, and for an unknown dimension,
    `UnknownValue` for a shape that is only known at run time.
    """
    builder = Builder()
    tensors: dict[str, Tensor] = {}
    names: dict[str, str] = {}  # of the builder's inputs, as the user knows them
    for name in call.inputs:
        if name not in types:
            raise RewriteError(f"kernel {call.name}: the type of its input {name} is not known")
        tensor = builder.input(_sizes(call, name, types[name]), types[name].dtype, constants.get(name))
        tensors[name] = tensor
        names[tensor.name] = name
    work = _Work(builder, f"kernel {call.name}", names, {**call.inner_types, **types})
    _operators(work, call.body, tensors)
    for name in call.outputs:
        if name not in tensors:
            raise RewriteError(f"kernel {call.name}: no operator of its body computes its output {name}")
        _check_output(call, name, types.get(name), tensors[name])
    return builder.program([tensors[name] for name in call.outputs])


@dataclass(frozen=True, slots=True)
class _Work:
    """A kernel that is being lowered; `names` are what its inputs are called outside, `types` what is stated."""

    builder: Builder
    kernel: str
    names: Mapping[str, str]
    types: Mapping[str, TensorType]


def _operators(work: _Work, nodes: Sequence[BodyNode], tensors: dict[str, Tensor]) -> None:
    """Operators in order; their results are added to `tensors`."""
    for node in nodes:
        for name, tensor in zip(node.outputs, _operator(work, node, tensors), strict=False):
            if name:
                tensors[name] = tensor


def _inner_graph(work: _Work, graph: PlainGraph, inputs: Sequence[Tensor], outer: Mapping[str, Tensor]) -> list[Tensor]:
    """The outputs of a graph inside an operator."""
    tensors = {**outer, **dict(zip(graph.inputs, inputs, strict=True))}
    tensors.update((name, work.builder.constant(array)) for name, array in graph.constants.items())
    inner = replace(work, types={**work.types, **graph.types})
    for node in graph.nodes:
        _operators(inner, [_effective(inner, node, tensors)], tensors)
    return [tensors[name] for name in graph.outputs]


def _effective(work: _Work, node: BodyNode, tensors: Mapping[str, Tensor]) -> BodyNode:
    """The operator with the attributes that it has by default."""
    inputs = [tensors.get(name) for name in node.inputs]
    types = [None if t is None else TensorType(t.dtype, t.shape) for t in inputs]
    known = [work.builder.known(t) for t in inputs]
    return replace(node, attributes=effective_attributes(node.op, node.attributes, types, known))


def _control(work: _Work, node: BodyNode, inputs: Sequence[Tensor | None], where: str) -> list[Tensor]:
    """An operator with graphs inside it; by ONNX Runtime where something in it has no loop nest or no size."""
    builder = work.builder
    before = builder.mark()
    try:
        results = CONTROL[node.op](builder, node, inputs, work.types, partial(_inner_graph, work))
        if not any(isinstance(statement, Host) for statement in walk(builder.statements[before[0] :])):
            return results
    except UnknownValue as error:
        if error.value in work.names.values():
            raise
    except (Unsupported, RewriteError):
        pass
    builder.undo(before)
    return host_operator(work.builder, node, inputs, work.types, where)


def _operator(work: _Work, node: BodyNode, tensors: Mapping[str, Tensor]) -> list[Tensor]:
    builder = work.builder
    where = f"{work.kernel}, operator {node.op} ({next((name for name in node.outputs if name), '?')})"
    compute = OPERATORS.get(node.op)
    missing = [name for name in node.inputs if name and name not in tensors]
    if missing:
        raise RewriteError(f"{where}: its input {missing[0]} is neither an input of the kernel nor computed before it")
    inputs = [tensors[name] if name else None for name in node.inputs]
    if node.op in CONTROL:
        return _control(work, node, inputs, where)
    if compute is None:
        return host_operator(builder, node, inputs, work.types, where)
    _check(builder, node, inputs, where)
    builder.enter(node.op, inputs)
    try:
        results = compute(builder, inputs, node.attributes)
    except NeedsValue as error:
        source = work.names.get(error.tensor.name, error.tensor.name)
        operand = next((i for i, t in enumerate(inputs) if t is not None and t.name == error.tensor.name), None)
        place = f"its input {operand} ({source})" if operand is not None else f"the value {source}"
        raise UnknownValue(
            f"{where}: {place} decides shapes and must be known at compile time; "
            "bind the model's dynamic dimensions with --dim NAME=SIZE",
            source,
        ) from error
    except Unsupported as error:
        raise RewriteError(f"{where}: {error}") from error
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError) as error:  # shapes that do not fit
        found = ", ".join("absent" if t is None else f"{t.dtype}{list(t.shape)}" for t in inputs)
        raise RewriteError(f"{where}: its operands {found} do not fit together: {error}") from error
    if sum(1 for name in node.outputs if name) and len(results) < _last_used(node):
        raise RewriteError(f"{where}: {_last_used(node)} outputs expected, its loop nest computes {len(results)}")
    return results


def _check(builder: Builder, node: BodyNode, inputs: Sequence[Tensor | None], where: str) -> None:
    """Raises RewriteError for shapes and attributes that the operator does not take.

    Dtypes that only a later opset allows pass: every compute says which it cannot do.
    """
    if node.op in _CONVERSIONS or _mismatch(builder, node, inputs, dtypes=False) is None:
        return
    error = _mismatch(builder, node, inputs, dtypes=True)
    raise RewriteError(f"{where}: {str(error).removeprefix(f'{node.op}: ')}")


_CONVERSIONS = frozenset({"Cast", "CastLike"})
"""Operators with nothing to check but dtypes."""


def _mismatch(builder: Builder, node: BodyNode, inputs: Sequence[Tensor | None], dtypes: bool) -> TypeMismatch | None:
    types = [None if t is None else TensorType(t.dtype if dtypes else "?", t.shape) for t in inputs]
    try:
        infer_types(node.op, node.attributes, types, [builder.known(t) for t in inputs], len(node.outputs))
    except TypeMismatch as error:
        return error
    return None


def _last_used(node: BodyNode) -> int:
    return max((number for number, name in enumerate(node.outputs, 1) if name), default=0)


def _sizes(call: KernelCall, name: str, type_: TensorType) -> tuple[int, ...]:
    sizes = [size for size in type_.shape or () if isinstance(size, int)]
    if type_.shape is None or len(sizes) != len(type_.shape):
        unknown = [size for size in type_.shape or () if isinstance(size, str)]
        step = f"bind it with --dim {unknown[0]}=SIZE" if unknown else "declare it in the model, or that of the inputs"
        raise RewriteError(f"kernel {call.name}: the shape of {name} is not known ({type_}); {step}")
    return tuple(sizes)


def _check_output(call: KernelCall, name: str, type_: TensorType | None, tensor: Tensor) -> None:
    if type_ is None or type_.shape is None:
        return
    same = len(type_.shape) == tensor.rank and all(
        size == known for size, known in zip(tensor.shape, type_.shape, strict=True) if isinstance(known, int)
    )
    if not same or type_.dtype not in ("?", tensor.dtype):
        found = f"{tensor.dtype}{list(tensor.shape)}"
        raise RewriteError(
            f"kernel {call.name}: its output {name} is {type_} in the model, its loop nest makes {found}"
        )
