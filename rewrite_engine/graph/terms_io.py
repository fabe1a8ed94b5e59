"""Between modules and terms: a module's main graph as flat, frozen terms, and a module of given terms."""

from __future__ import annotations

from collections.abc import Sequence

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ir
from rewrite_engine.graph.markers import DOMAIN, IR_VERSION, ON_DEVICE, opset_imports
from rewrite_engine.graph.marks import names_of_marked_outputs
from rewrite_engine.graph.module import Module, module_of
from rewrite_engine.graph.nodes import attribute_values, input_names, make_node, operator_name
from rewrite_engine.graph.onnx_types import Array, array_type, to_array, to_tensor, typed_value, value_type
from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
from rewrite_engine.operators import TensorType, effective_attributes
from rewrite_engine.pause import collector_paused


@collector_paused()
def to_terms(module: Module) -> Terms:
    """The main graph as terms: effective attributes, types, constants as arrays, trailing absent inputs trimmed.

    `OnDevice` marks leave the graph and become pins of the values they mark. Raises `RewriteError` for a value that two
    marks want on different devices.
    """
    graph = module.model.graph
    build = _Build()
    for value in graph.inputs:
        build.add(str(value.name), value_type(value))
    for name, value in graph.initializers.items():
        if not value.is_graph_input():
            assert value.const_value is not None
            array = to_array(value.const_value)
            build.add(name, array_type(array), array)
    outputs = [str(value.name) for value in graph.outputs]
    renamed = names_of_marked_outputs(graph)
    for node in graph:
        if node.domain == DOMAIN and node.op_type == ON_DEVICE and build.pin(node, outputs, renamed):
            continue
        build.node(node, renamed)
    return Terms(
        values=tuple(build.values),
        nodes=tuple(build.nodes),
        inputs=tuple(build.index[str(value.name)] for value in graph.inputs),
        outputs=tuple(build.index[name] for name in outputs),
        pins=dict(sorted(build.pins.items())),
    )


class _Build:
    """Terms while they are collected; `index` leads from a name to its value, marks included."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.nodes: list[Term] = []
        self.index: dict[str, int] = {}
        self.pins: dict[int, str] = {}

    def add(self, name: str, type_: TensorType, constant: Array | None = None) -> int:
        self.index[name] = len(self.values)
        self.values.append(Value(name, type_, constant))
        return self.index[name]

    def node(self, node: ir.Node, renamed: dict[str, str]) -> None:
        written = attribute_values(node)
        names = input_names(node, written)
        inputs = tuple(self.index[name] if name else ABSENT for name in names)
        values = [self.values[i] if i != ABSENT else None for i in inputs]
        op = operator_name(node)
        attributes = effective_attributes(
            op,
            written,
            [None if value is None else value.type for value in values],
            [None if value is None else value.constant for value in values],
        )
        outputs = []
        for value in node.outputs:
            name = str(value.name or "")
            index = self.add(renamed.get(name, name), value_type(value))
            self.index[name] = index
            outputs.append(index)
        self.nodes.append(Term(op, attributes, inputs, tuple(outputs)))

    def pin(self, mark: ir.Node, outputs: Sequence[str], renamed: dict[str, str]) -> bool:
        """Record a mark. False when it has to stay as an operator, because its result is an output by another name."""
        marked, result = str(mark.inputs[0].name), str(mark.outputs[0].name)  # type: ignore[union-attr]
        device = mark.attributes["device"].as_string()
        index = self.index[marked]
        stays = result in outputs and renamed.get(marked) != result and self.values[index].name != result
        if stays:
            self.nodes.append(Term("Identity", {}, (index,), (self.add(result, value_type(mark.outputs[0])),)))
            index = self.index[result]
        self.index[result] = index
        if self.pins.setdefault(index, device) != device:
            raise RewriteError(
                f"value `{self.values[index].name}` is marked for two devices, {self.pins[index]} and {device}; "
                "keep one OnDevice mark"
            )
        return True


def from_terms(terms: Terms, name: str = "graph") -> Module:
    """A module of these terms; pins become `OnDevice` marks. Constants become initializers."""
    from rewrite_engine.graph.marks import add_marks

    produced = {index for node in terms.nodes for index in node.outputs}
    values: dict[int, ir.Value] = {}
    for index, value in enumerate(terms.values):
        values[index] = typed_value(value.name, value.type)
        if value.constant is not None and index not in produced and index not in terms.inputs:
            values[index].const_value = to_tensor(value.constant, value.name)
    nodes = []
    for term in terms.nodes:
        inputs = [None if i == ABSENT else values[i] for i in term.inputs]
        nodes.append(make_node(term.op, term.attributes, inputs, [values[i] for i in term.outputs]))
    graph = ir.Graph(
        [values[i] for i in terms.inputs],
        [values[i] for i in terms.outputs],
        nodes=nodes,
        initializers=[v for v in values.values() if v.const_value is not None],
        opset_imports=opset_imports(node.domain for node in nodes),
        name=name,
    )
    model = ir.Model(graph, ir_version=IR_VERSION, producer_name="rewrite_engine")
    add_marks(model, {values[i]: device for i, device in sorted(terms.pins.items())})
    return module_of(model)
