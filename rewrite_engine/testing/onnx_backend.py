"""The engine as a backend of `onnx.backend.test`: a model is imported, lowered to one program, composed and run.

A model is specialised to the shapes of its inputs, and to the elements of those inputs that decide shapes, trip counts
or branches; each specialisation is made once.

    suite = onnx.backend.test.BackendTest(NumpyBackend, __name__)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.base import Backend, BackendRep

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.markers import OPSET
from rewrite_engine.graph.module import load
from rewrite_engine.graph.onnx_types import tensor_proto
from rewrite_engine.graph.placed import BodyNode, KernelCall
from rewrite_engine.graph.terms import ABSENT, Terms
from rewrite_engine.graph.terms_io import to_terms
from rewrite_engine.loops import execute
from rewrite_engine.loops.build_c import build, machine_lanes
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c import emit, host_operators
from rewrite_engine.loops.lower import UnknownValue, lower
from rewrite_engine.operators import find
from rewrite_engine.operators.types import TensorType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Specialised:
    """A model for inputs of certain shapes; `inputs` are the names of those it reads at run time, in order.

    `plain` has a compute per operator, `program` is composed. `decided` are the inputs whose elements it was
    specialised to.
    """

    plain: Program
    program: Program
    inputs: tuple[str, ...]
    decided: tuple[str, ...]


def specialise(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Specialised:
    """The program of a model on inputs of these shapes. Raises RewriteError where there is none, with the operator."""
    decided = {name for name in _deciders(model) if name in feeds}
    while True:
        terms = to_terms(load(_bound(model, feeds, decided)))
        control = _undecided(terms) & feeds.keys() - decided
        if control:
            decided |= control
            continue
        call, types, constants = _kernel(terms)
        try:
            program = lower(call, types, constants)
        except UnknownValue as error:
            if error.value not in feeds:
                raise
            decided.add(error.value)
            continue
        parameters = [name for name in call.inputs if name in constants]
        program = _with_constants(program, call.inputs, {name: constants[name] for name in parameters})
        read = tuple(name for name in call.inputs if name not in constants)
        return Specialised(program, compose(program), read, tuple(sorted(decided)))


def _bound(model: onnx.ModelProto, feeds: Mapping[str, Array], decided: set[str]) -> onnx.ModelProto:
    """The model with the shapes of its inputs, and with the elements of those `decided`, written into it."""
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    kept = []
    defaults = {tensor.name: tensor for tensor in bound.graph.initializer}
    for value in bound.graph.input:
        if value.name in decided:
            if value.name in defaults:
                bound.graph.initializer.remove(defaults[value.name])
            bound.graph.initializer.append(tensor_proto(feeds[value.name], value.name))
            continue
        if value.name in feeds and value.type.HasField("tensor_type"):
            shape = onnx.TensorShapeProto(dim=[{"dim_value": n} for n in feeds[value.name].shape])
            value.type.tensor_type.shape.CopyFrom(shape)
        kept.append(value)
    del bound.graph.input[:]
    bound.graph.input.extend(kept)
    return bound


def _deciders(model: onnx.ModelProto) -> set[str]:
    """Inputs of the model that operators read as shapes, axes, sizes or conditions."""
    found: set[str] = set()
    for node in model.graph.node:
        operator = find(node.op_type) if not node.domain else None
        positions = operator.host_inputs if operator is not None else _LATER.get(node.op_type, ())
        found.update(node.input[k] for k in positions if k < len(node.input))
    return found


_LATER: Mapping[str, tuple[int, ...]] = {"CumProd": (1,)}
"""Operators of opsets after the table's -> their operands that are read on the host."""


def _undecided(terms: Terms) -> set[str]:
    """Inputs that the conditions and trip counts of operators with graphs inside depend on."""
    writer = {index: node for node in terms.nodes for index in node.outputs}
    pending = [i for node in terms.nodes if node.op in ("If", "Loop") for i in node.inputs[: 1 + (node.op == "Loop")]]
    seen = set(pending)
    while pending:
        node = writer.get(pending.pop())
        more = [i for i in node.inputs if i not in seen] if node is not None else []
        pending += more
        seen.update(more)
    return {terms.values[i].name for i in terms.inputs if i in seen}


def _kernel(terms: Terms) -> tuple[KernelCall, dict[str, TensorType], dict[str, Array]]:
    """The whole graph as one kernel, with its types and constants."""
    values = terms.values
    body = tuple(
        BodyNode(
            node.op,
            node.attributes,
            tuple("" if i == ABSENT else values[i].name for i in node.inputs),
            tuple(values[i].name for i in node.outputs),
        )
        for node in terms.nodes
    )
    made = {index for node in terms.nodes for index in node.outputs}
    sources = tuple(value.name for index, value in enumerate(values) if index not in made)
    constants = {v.name: v.constant for i, v in enumerate(values) if i not in made and v.constant is not None}
    call = KernelCall(
        name="model",
        target="host",
        device="host",
        region="",
        rule="host",
        inputs=sources,
        outputs=tuple(values[i].name for i in terms.outputs),
        host_inputs=frozenset(),
        body=body,
        inner_types={},
        attributes={},
        cost=0,
        cost_source="roofline",
        covers=(),
    )
    return call, {value.name: value.type for value in values}, constants


def _with_constants(program: Program, names: Sequence[str], constants: Mapping[str, Array]) -> Program:
    """The program with these inputs as constants of its own."""
    place = dict(zip(names, program.inputs, strict=True))
    own = {place[name]: array for name, array in constants.items()}
    return Program(
        tuple(name for name in program.inputs if name not in own),
        program.outputs,
        program.tensors,
        {**program.constants, **own},
        program.statements,
    )


class Prepared(BackendRep):
    """A model that is ready to run, in NumPy or in C."""

    def __init__(self, model: onnx.ModelProto, engine: str) -> None:
        self.model, self.engine = model, engine
        self.made: dict[object, Specialised] = {}

    def specialised(self, inputs: Sequence[object] | Mapping[str, object]) -> tuple[Specialised, dict[str, Array]]:
        """The program for these inputs and the arrays by name. Raises RewriteError for what is not a tensor."""
        feeds = self._feeds(inputs)
        key = tuple((name, array.dtype.name, array.shape) for name, array in sorted(feeds.items()))
        for made in (self.made.get((key, names, _content(feeds, names))) for names in self._decided(key)):
            if made is not None:
                return made, feeds
        made = specialise(self.model, feeds)
        self.made[(key, made.decided, _content(feeds, made.decided))] = made
        return made, feeds

    def _decided(self, key: object) -> list[tuple[str, ...]]:
        """By which inputs specialisations for these shapes differ."""
        return list(dict.fromkeys(made[1] for made in self.made if isinstance(made, tuple) and made[0] == key))

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """The outputs, in the model's order."""
        made, feeds = self.specialised(inputs)
        program = made.program
        arrays = [np.ascontiguousarray(feeds[name]).reshape(feeds[name].shape) for name in made.inputs]
        results = outputs_of(program)
        if self.engine == "c" and not host_operators(program):
            build([emit(program, "model", lanes=machine_lanes())]).kernel("model")(arrays, results)
        else:
            execute.run(program, arrays, results)
        return tuple(results)

    def _feeds(self, inputs: Sequence[object] | Mapping[str, object]) -> dict[str, Array]:
        weights = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input]
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        else:
            wanted = (
                names
                if len(inputs) > len(names) - len(weights & set(names))
                else [n for n in names if n not in weights]
            )
            given = dict(zip(wanted, inputs, strict=False))
        return {str(name): _tensor(str(name), value) for name, value in given.items()}


def outputs_of(program: Program) -> list[Array]:
    """Arrays for the outputs of a program."""
    buffers = [program.tensors[name] for name in program.outputs]
    return [np.empty(buffer.shape, numpy_dtype(buffer.dtype)) for buffer in buffers]


def _content(feeds: Mapping[str, Array], names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(feeds[name].tobytes() for name in names)


def _tensor(name: str, value: object) -> Array:
    if value is None or isinstance(value, (list, tuple, dict)):
        raise RewriteError(f"input {name}: sequences, maps and optionals are not lowered")
    array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    if array.dtype.kind in "OUST":
        raise RewriteError(f"input {name}: strings are not lowered")
    return array


class NumpyBackend(Backend):
    """Runs models in NumPy."""

    engine = "numpy"

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        return Prepared(model, cls.engine)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
        """One operator at `opset_version`, by default the project's, on arrays."""
        from onnx import helper

        names = [name for name in node.input if name]
        typed = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.shape(x))
            for name, x in zip(names, inputs, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output]
        version = int(kwargs.get("opset_version", OPSET))
        graph = helper.make_graph([node], "node", typed, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.prepare(model).run(dict(zip(names, inputs, strict=True)))


class CBackend(NumpyBackend):
    """Runs models in C; programs with host operators in NumPy."""

    engine = "c"
