"""A module between two passes, as an ONNX model and back: a graph in which some things are decided and others are not.

Operators and calls of composites stand in the main graph, what is decided of them in their metadata; regions are facts
of kernels until they become functions. Pins are `OnDevice` marks. A plain model is one in which nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ir
from rewrite_engine.graph.facts import dump_facts, load_facts
from rewrite_engine.graph.markers import (
    COPY_FACTS,
    DEVICE_COPY,
    DOMAIN,
    GRAPH_FACTS,
    IR_VERSION,
    KERNEL_FACTS,
    ON_DEVICE,
    REGIONS,
    opset_imports,
)
from rewrite_engine.graph.marks import add_marks, define_marks, names_of_marked_outputs
from rewrite_engine.graph.onnx_types import to_array, to_tensor, typed_value, value_type
from rewrite_engine.graph.placed import BodyNode, CopyCall, KernelCall, PlacedGraph
from rewrite_engine.graph.placed_io import (
    body_of,
    composite_function,
    copy_node,
    is_plain,
    kernel_facts,
    kernel_node,
    read_kernel,
    read_region,
    rename_node,
    write_placed,
)
from rewrite_engine.operators.types import TensorType

HOST = "host"


@dataclass(frozen=True, slots=True, eq=False)
class Annotated:
    """A graph and what is decided of it.

    A kernel's `target` is "" until one is chosen; its `rule` is then "" too, unless it is a composite. Its `region`
    is "" until kernels are gathered into regions. `pins` name the values that a mark wants on a target or device.
    `regions` says whether regions are functions already, `devices` whether copies are made; pins are used up then.
    """

    graph: PlacedGraph
    pins: Mapping[str, str] = field(default_factory=dict)
    regions: bool = False
    devices: bool = False

    @property
    def kernels(self) -> list[KernelCall]:
        return [step for step in self.graph.steps if isinstance(step, KernelCall)]

    @property
    def undecided(self) -> list[KernelCall]:
        """The kernels without a target."""
        return [call for call in self.kernels if not call.target]


# ---- writing --------------------------------------------------------------------------------------------------------


def write_annotated(annotated: Annotated) -> ir.Model:
    """The model of an annotated graph."""
    graph = annotated.graph
    if annotated.regions:
        model = write_placed(graph)
    else:
        model = _flat(annotated)
    if not annotated.devices:
        model.metadata_props.pop(GRAPH_FACTS, None)
    values = {str(value.name): value for value in _values(model.graph)}
    pins = {values[name]: place for name, place in sorted(annotated.pins.items()) if name in values}
    add_marks(model, pins)
    return model


def _flat(annotated: Annotated) -> ir.Model:
    """Every kernel as a node of the main graph."""
    graph = annotated.graph
    values = {name: typed_value(name, graph.types[name]) for name in graph.inputs}
    for name, array in graph.parameters.items():
        values.setdefault(name, typed_value(name, graph.types[name])).const_value = to_tensor(array, name)
    nodes: list[ir.Node] = []
    functions: list[ir.Function] = []
    for step in graph.steps:
        outputs = (step.output,) if isinstance(step, CopyCall) else step.outputs
        for name in outputs:
            values[name] = typed_value(name, graph.types[name])
        if isinstance(step, CopyCall):
            nodes.append(copy_node(step, values, step.output))
            continue
        nodes.append(kernel_node(step, values, _facts(step, graph.types)))
        if not is_plain(step):
            functions.append(composite_function(step))
    results = []
    for name, output in zip(graph.outputs, graph.output_names or graph.outputs, strict=True):
        if output != name:
            values[output] = typed_value(output, graph.types[name])
            nodes.append(rename_node(values[name], values[output]))
        results.append(values[output])
    domains = [node.domain for node in (*nodes, *(node for function in functions for node in function))]
    main = ir.Graph(
        [values[name] for name in graph.inputs],
        results,
        nodes=nodes,
        initializers=[values[name] for name in graph.parameters],
        opset_imports=opset_imports(domains),
        name=graph.name,
    )
    model = ir.Model(main, ir_version=IR_VERSION, producer_name="rewrite_engine", functions=functions)
    given = {name: graph.devices[name] for name in (*graph.inputs, *graph.parameters)}
    model.metadata_props[GRAPH_FACTS] = dump_facts({"devices": given})
    if any(isinstance(step, CopyCall) for step in graph.steps):
        define_marks(model, (DEVICE_COPY,))
    return model


def _facts(call: KernelCall, types: Mapping[str, TensorType]) -> Mapping[str, object]:
    if call.rule:
        return {**kernel_facts(call, types), "region": call.region, "target": call.target}
    return {} if call.covers == call.outputs[:1] else {"covers": call.covers}


def _values(graph: ir.Graph) -> Iterable[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


# ---- reading --------------------------------------------------------------------------------------------------------


def read_annotated(model: ir.Model) -> Annotated:
    """What a model says, whichever passes it has been through. Raises `RewriteError` where its facts contradict it."""
    return _Reading(model).annotated()


class _Reading:
    def __init__(self, model: ir.Model) -> None:
        self.model, self.graph = model, model.graph
        self.names = names_of_marked_outputs(model.graph)  # name in the model -> name of the value
        self.types: dict[str, TensorType] = {}
        self.devices: dict[str, str] = {}
        self.pins: dict[str, str] = {}
        self.steps: list[KernelCall | CopyCall] = []
        self.renamed: dict[str, str] = {}  # output -> the value that has its name
        self.outputs = [str(value.name) for value in model.graph.outputs]
        self.regions = False

    def annotated(self) -> Annotated:
        graph = self.graph
        placed = GRAPH_FACTS in self.model.metadata_props
        if placed:
            self.devices |= load_facts(self.model.metadata_props[GRAPH_FACTS])["devices"]
        for value in (*graph.inputs, *graph.initializers.values()):
            self.types[str(value.name)] = value_type(value)
            self.devices.setdefault(str(value.name), HOST)
        parameters = {}
        for name, value in graph.initializers.items():
            assert value.const_value is not None
            parameters[name] = to_array(value.const_value)
        for node in graph:
            self.node(node)
        outputs = tuple(self.names.get(name, name) for name in (self.renamed.get(n, n) for n in self.outputs))
        named = PlacedGraph(
            name=graph.name or "",
            inputs=tuple(str(value.name) for value in graph.inputs),
            outputs=outputs,
            parameters=parameters,
            steps=tuple(self.steps),
            types=self.types,
            devices=self.devices,
            output_names=() if list(outputs) == self.outputs else tuple(self.outputs),
        )
        return Annotated(named, dict(sorted(self.pins.items())), self.regions, placed)

    def node(self, node: ir.Node) -> None:
        names = [self.names.get(str(v.name), str(v.name)) if v else "" for v in node.inputs]
        results = [str(v.name or "") for v in node.outputs]
        if node.domain == DOMAIN and node.op_type == ON_DEVICE:
            self.mark(node, names[0], results[0])
        elif node.domain == DOMAIN and node.op_type == DEVICE_COPY and COPY_FACTS in node.metadata_props:
            facts = load_facts(node.metadata_props[COPY_FACTS])
            source, destination = (node.attributes[a].as_string() for a in ("source", "destination"))
            self.steps.append(CopyCall(names[0], results[0], source, destination, facts["bytes"], facts["cost"]))
            self.types[results[0]], self.devices[results[0]] = self.types[names[0]], destination
        elif COPY_FACTS in node.metadata_props and results[0] in self.outputs:
            self.renamed[results[0]] = names[0]
        elif node.domain.startswith(REGIONS):
            self.regions = True
            for call, facts in read_region(self.model, node, names, [self.names.get(r, r) for r in results]):
                self.decided(call, facts)
        elif (facts := load_facts(node.metadata_props.get(KERNEL_FACTS, "{}"))).keys() > {"covers"}:
            call, facts = read_kernel(self.model, node, self.names, facts["target"], facts["region"])
            self.decided(call, facts)
        else:
            self.operator(node, facts.get("covers"))

    def mark(self, node: ir.Node, marked: str, result: str) -> None:
        """A mark pins a value, and its result is that value; where that is an output by another name, an Identity."""
        device = node.attributes["device"].as_string()
        if result in self.outputs and marked != result:
            self.add(undecided(BodyNode("Identity", {}, (marked,), (result,))), {result: value_type(node.outputs[0])})
            marked = result
        self.names[result] = marked
        if self.pins.setdefault(marked, device) != device:
            raise RewriteError(
                f"value `{marked}` is marked for two devices, {self.pins[marked]} and {device}; keep one OnDevice mark"
            )

    def decided(self, call: KernelCall, facts: Mapping[str, object]) -> None:
        types = facts["types"]
        assert isinstance(types, tuple)
        self.add(call, dict(zip(call.outputs, types, strict=True)))

    def operator(self, node: ir.Node, covers: tuple[str, ...] | None) -> None:
        """An operator of which nothing is decided."""
        first = next((str(v.name) for v in node.outputs if v.name), "")
        own = self.names.get(first, first)
        body = body_of(node, self.names, f"{node.name or own}.unread.")
        types = {self.names.get(str(v.name), str(v.name)): value_type(v) for v in node.outputs if v.name}
        call = undecided(body)
        self.add(call if covers is None else replace(call, covers=covers), types)

    def add(self, call: KernelCall, types: Mapping[str, TensorType]) -> None:
        self.steps.append(call)
        self.types |= {name: types[name] for name in call.outputs}
        self.devices |= dict.fromkeys(call.outputs, call.device)


def undecided(body: BodyNode) -> KernelCall:
    """The kernel of an operator of which nothing is decided, called as its first result."""
    outputs = tuple(filter(None, body.outputs))
    return KernelCall(
        name=outputs[0],
        target="",
        device="",
        region="",
        rule="",
        inputs=tuple(dict.fromkeys(filter(None, body.inputs))),
        outputs=outputs,
        host_inputs=frozenset(),
        body=(body,),
        inner_types={},
        attributes={},
        cost=0,
        cost_source="",
        covers=(outputs[0],),
    )


# ---- changing -------------------------------------------------------------------------------------------------------


def renamed(call: KernelCall, names: Mapping[str, str]) -> KernelCall:
    """The kernel with other names for values of the graph; names that are not in `names` stay."""

    def new(values: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(value, value) for value in values)

    return replace(
        call,
        inputs=tuple(dict.fromkeys(new(call.inputs))),
        outputs=new(call.outputs),
        host_inputs=frozenset(new(call.host_inputs)),
        body=tuple(replace(node, inputs=new(node.inputs), outputs=new(node.outputs)) for node in call.body),
    )


def without_copies(graph: PlacedGraph, own: Iterable[str] = ()) -> PlacedGraph:
    """The graph with every value in one place only: where it is computed. Values take the names `own` where they can.

    DeviceCopy(x) => x
    """
    root: dict[str, str] = {}
    for step in graph.steps:
        if isinstance(step, CopyCall):
            root[step.output] = root.get(step.value, step.value)
    prefer = set(own) - set(graph.inputs)
    names = {value: value for value in root.values()}
    for copy, value in root.items():
        if copy in prefer and value not in {*prefer, *graph.inputs}:
            names[value] = copy
    names |= {copy: names[value] for copy, value in root.items()}
    kernels = [renamed(step, names) for step in graph.steps if isinstance(step, KernelCall)]
    back = {new: old for old, new in names.items() if old in root.values()}
    kept = [*graph.inputs, *graph.parameters, *(name for call in kernels for name in call.outputs)]
    outputs = tuple(names.get(name, name) for name in graph.outputs)
    called = graph.output_names or graph.outputs
    return replace(
        graph,
        steps=tuple(kernels),
        outputs=outputs,
        output_names=() if outputs == called else called,
        types={name: graph.types[back.get(name, name)] for name in kept},
        devices={name: graph.devices[back.get(name, name)] for name in kept},
    )
