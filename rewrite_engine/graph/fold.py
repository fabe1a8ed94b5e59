"""Shapes, constants and shape arithmetic to a fixpoint.

A pass goes over the nodes in order: what has known inputs (or asks for a known shape) becomes a constant, and the
types of what reads it are inferred anew at once, so that a chain of shape arithmetic folds in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import defs, shape_inference

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.control import infer_loops, unroll
from rewrite_engine.graph.draft import Draft, captured, inner_graphs, is_small, replace
from rewrite_engine.graph.evaluate import QUANTIZERS, UNTRUSTED, evaluate
from rewrite_engine.graph.foreign import infer_foreign
from rewrite_engine.graph.markers import OPSET
from rewrite_engine.graph.onnx_types import Array, proto_type, tensor_proto
from rewrite_engine.graph.tidy import lift_constants, remove_unused
from rewrite_engine.operators import find
from rewrite_engine.operators.dtypes import array_dtype
from rewrite_engine.operators.types import TensorType

FOLD_CAP = 16 << 20
"""A folded constant has at most so many bytes, unless the caller says otherwise."""


MISJUDGED = frozenset({"MeanVarianceNormalization", "STFT"})
"""Operators that strict shape inference refuses though they are right."""


_NAMES_OF_BRANCHES = "already exists"
"""Of what data propagation says of two branches that have a value of the same name, which is right."""


def infer_types(draft: Draft) -> None:
    """The types of all values, as far as ONNX's shape inference (with data propagation) finds them."""
    _infer(draft, strict=False)


def check_types(draft: Draft) -> None:
    """Raises `RewriteError` where types or shapes do not fit together."""
    if not any(node.op_type in MISJUDGED for node in draft.graph.node):
        _infer(draft, strict=True)


def trust_declared_types(draft: Draft) -> None:
    """Shapes that the file declares are kept unless they contradict what its operators give; then all are forgotten."""
    try:
        check_types(draft)
    except RewriteError:
        computed = {name for node in draft.graph.node if not node.domain for name in node.output}
        replace(draft.graph.value_info, [v for v in draft.graph.value_info if v.name not in computed])
        for output in draft.graph.output:
            if output.name in computed and output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")


def _infer(draft: Draft, strict: bool) -> None:
    try:
        try:
            draft.through(lambda whole: shape_inference.infer_shapes(whole, strict, strict, data_prop=True))
        except Exception as error:  # the C++ raises several kinds
            if _NAMES_OF_BRANCHES not in str(error):
                raise
            draft.through(lambda whole: shape_inference.infer_shapes(whole, strict, strict, data_prop=False))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RewriteError(f"{draft.origin}: types or shapes do not fit together: {reason}") from None


def fold(draft: Draft, cap: int = FOLD_CAP) -> None:
    """Fold constants, shape arithmetic and what they decide (see `control`) until nothing changes, dropping what is no
    longer read.

    Never folded: random operators, anything that reads an initializer that is also an input, results of more than `cap`
    bytes, operators of other domains or with graphs inside, quantizers, what the evaluator is not trusted with.
    """
    declared = list(draft.graph.value_info)
    while True:
        infer_types(draft)
        folded = _Pass(draft, cap).run()
        unrolled = unroll(draft)
        if unrolled:
            lift_constants(draft)
        foreign = [] if folded or unrolled else [*infer_foreign(draft), *infer_loops(draft)]
        if not folded and not unrolled and not foreign:
            return
        known = {found.name: found for found in foreign}
        for output in draft.graph.output:
            if output.name in known:
                output.type.CopyFrom(known[output.name].type)
        declared = [value for value in declared if value.name not in known] + foreign
        remove_unused(draft)
        # types inferred so far are weaker than what the next round finds: only the model's own stay
        written = {name for node in draft.graph.node for name in node.output}
        replace(draft.graph.value_info, [v for v in declared if v.name in written])


class _Pass:
    """One walk over the nodes of the main graph."""

    def __init__(self, draft: Draft, cap: int) -> None:
        self.draft = draft
        self.cap = cap
        graph = draft.graph
        self.types = {v.name: v.type for v in (*graph.value_info, *graph.input, *graph.output)}
        self.outputs = {o.name for o in graph.output}
        self.inside = {n for node in graph.node for inner in inner_graphs(node) for n in captured(inner)}
        self.improved: set[str] = set()  # values of which more is known than at the start
        self.aliases: dict[str, str] = {}  # result of Identity -> the constant itself
        self.partial: dict[str, Array] = {}  # shapes of which some sizes are known, as objects

    def run(self) -> bool:
        """Whether anything was folded."""
        kept = []
        for node in self.draft.graph.node:
            if any(name in self.aliases for name in node.input):
                replace(node.input, [self.aliases.get(name, name) for name in node.input])
            if not self.improved.isdisjoint(node.input):
                self.infer(node)
            if not self.fold(node):
                kept.append(node)
        changed = len(kept) != len(self.draft.graph.node)
        if changed:
            replace(self.draft.graph.node, kept)
        return changed

    def type(self, name: str) -> TensorType:
        if name in self.draft.constants:
            return self.draft.constant_type(name)
        return proto_type(self.types.get(name))

    def infer(self, node: onnx.NodeProto) -> None:
        """Types of the node's outputs from what is known of its inputs by now."""
        if node.domain or inner_graphs(node) or all(self.type(o).numel is not None for o in node.output if o):
            return
        constants = self.draft.constants
        types = {n: self.types[n] for n in node.input if n in self.types}
        data = {}
        for name in node.input:
            if name in constants:
                types[name] = constant_type_proto(constants[name])
                if is_small(constants[name]):
                    data[name] = constants[name]
        if any(n and n not in types for n in node.input):
            return
        schema = defs.get_schema(node.op_type, self.draft.opset or OPSET, "")
        try:
            found = shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=list(self.draft.model.opset_import)
            )
        except Exception:  # what is wrong with a node is said by the inference of the whole model
            return
        for name, type_ in found.items():
            if _precision(proto_type(type_)) > _precision(self.type(name)):
                self.types[name] = type_
                self.improved.add(name)

    def fold(self, node: onnx.NodeProto) -> bool:
        """Whether the node is gone: each of its outputs is a constant now."""
        if node.domain or inner_graphs(node) or node.op_type in UNTRUSTED | QUANTIZERS:
            return False
        operator = find(node.op_type)
        if operator is None or operator.random:
            return False
        constants = self.draft.constants
        again = node.op_type == "Identity" and node.input[0] in constants
        if again and node.output[0] not in self.outputs | self.inside:
            self.aliases[node.output[0]] = node.input[0]
            self.improved.add(node.input[0])
            return True
        if any(name in self.outputs for name in node.output) and node.op_type == "Identity":
            return False
        answers = self.known_shape(node)
        if answers is None and all(not name or name in constants for name in node.input):
            if not self.fits(node):
                return False
            answers = evaluate(node, [self.draft.array(name) if name else None for name in node.input])
        if answers is None or not self.agrees(node.output, answers):
            return False
        for name, answer in zip(node.output, answers, strict=True):
            if name:
                constants[name] = tensor_proto(np.ascontiguousarray(answer).reshape(answer.shape), name)
                self.improved.add(name)
        return True

    def known_shape(self, node: onnx.NodeProto) -> list[Array] | None:
        """Shape(x) and Size(x) where the part asked for is known, whatever x holds; so too their Gather and Slice."""
        part: Array | None = None
        if node.op_type == "Size":
            count = self.type(node.input[0]).numel
            return None if count is None else [np.array(count, np.int64)]
        if node.op_type == "Shape":
            shape = self.type(node.input[0]).shape
            if shape is None:
                return None
            ends = {a.name: a.i for a in node.attribute}
            start, end = (
                _clamp(ends.get(name, absent), len(shape)) for name, absent in (("start", 0), ("end", len(shape)))
            )
            part = np.array(shape[start:end], object)
        elif node.op_type in ("Gather", "Slice") and node.input[0] in self.partial:
            others = node.input[1:]
            if all(not name or name in self.draft.constants for name in others):
                known = [self.partial[node.input[0]], *(self.draft.array(n) if n else None for n in others)]
                answers = evaluate(node, known)
                part = answers[0] if answers else None
        if part is None:
            return None
        if all(isinstance(size, int) for size in part.reshape(-1)):
            return [part.astype(np.int64)]
        self.partial[node.output[0]] = part
        return None

    def fits(self, node: onnx.NodeProto) -> bool:
        """Whether the results are known to be within the cap, before anything is computed."""
        self.infer(node)
        sizes = [self.type(name).bytes for name in node.output if name]
        if node.op_type in _BOUNDED:
            sizes = [4 * (self.type(name).bytes or 0) for name in node.input if name]
        return all(size is not None and size <= self.cap for size in sizes)

    def agrees(self, names: Iterable[str], answers: list[Array]) -> bool:
        """Whether the answers have the types that inference promised, a guard against a wrong evaluator."""
        for name, answer in zip(names, answers, strict=True):
            promised = self.type(name) if name else TensorType("?", None)
            if promised.dtype not in ("?", array_dtype(answer)) or answer.nbytes > self.cap:
                return False
            if promised.numel is not None and promised.shape != answer.shape:
                return False
        return True


_BOUNDED = frozenset({"NonZero", "Unique", "Compress"})
"""Result sizes that depend on the elements, but not beyond those of the input (times its rank, or 8-byte indices)."""


def constant_type_proto(tensor: onnx.TensorProto) -> onnx.TypeProto:
    """The type of a tensor message."""
    shape = onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension(dim_value=d) for d in tensor.dims])
    return onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=tensor.data_type, shape=shape))


def _clamp(place: int, rank: int) -> int:
    return min(max(place + rank if place < 0 else place, 0), rank)


def _precision(type_: TensorType) -> tuple[bool, int, int]:
    """How much is known: the dtype, the rank, the number of sizes."""
    shape = type_.shape
    sizes = 0 if shape is None else sum(isinstance(d, int) for d in shape)
    return (type_.dtype != "?", -1 if shape is None else len(shape), sizes)
