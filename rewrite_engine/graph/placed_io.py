"""A placed graph as an ONNX model, and back.

Regions are functions that the main graph calls; inside them, composites are functions again and a kernel of one
operator is that operator. `DeviceCopy` nodes stand in the main graph. What else is known of a kernel is in metadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph import ir
from rewrite_engine.graph.facts import dump_facts, load_facts
from rewrite_engine.graph.markers import (
    COMPOSITES,
    COPY_FACTS,
    DEVICE_COPY,
    DOMAIN,
    GRAPH_FACTS,
    IR_VERSION,
    KERNEL_FACTS,
    REGIONS,
    opset_imports,
)
from rewrite_engine.graph.marks import define_marks
from rewrite_engine.graph.names import Names
from rewrite_engine.graph.nodes import attribute_values, input_names, make_node, operator_name
from rewrite_engine.graph.onnx_types import UNKNOWN, to_array, to_tensor, typed_value, value_type
from rewrite_engine.graph.placed import BodyNode, CopyCall, KernelCall, PlacedGraph, least_outputs
from rewrite_engine.operators.types import TensorType


class NotPlacedError(RewriteError, ValueError):
    """A model that is not (entirely) placed."""


# ---- writing --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Unit:
    """What the main graph runs as one node: a region's kernels, or one copy."""

    steps: list[KernelCall | CopyCall] = field(default_factory=list)

    @property
    def written(self) -> list[str]:
        return [name for step in self.steps for name in _outputs(step)]

    @property
    def read(self) -> list[str]:
        own = set(self.written)
        return list(dict.fromkeys(name for step in self.steps for name in _inputs(step) if name not in own))


def write_placed(placed: PlacedGraph) -> ir.Model:
    """The placed graph as a model. Raises `RewriteError` when its regions wait for each other in a cycle."""
    units = _in_order(_units(placed.steps))
    read_outside = {name for unit in units for name in unit.read} | set(placed.outputs)
    values = {name: typed_value(name, placed.types[name]) for name in placed.inputs}
    for name, array in placed.parameters.items():
        values[name] = typed_value(name, placed.types[name])
        values[name].const_value = to_tensor(array, name)
    names = Names()
    nodes: list[ir.Node] = []
    functions: list[ir.Function] = []
    for unit in units:
        exported = [name for name in unit.written if name in read_outside] or unit.written
        for name in exported:
            values[name] = typed_value(name, placed.types[name])
        first = unit.steps[0]
        if isinstance(first, CopyCall):
            nodes.append(copy_node(first, values, names.unique(first.output)))
            continue
        calls = [step for step in unit.steps if isinstance(step, KernelCall)]
        functions += [composite_function(call) for call in calls if not is_plain(call)]
        functions.append(_region(unit, exported, placed.types))
        inputs, outputs = [values[name] for name in unit.read], [values[name] for name in exported]
        domain = REGIONS + first.target
        nodes.append(ir.Node(domain, first.region, inputs, outputs=outputs, name=names.unique(first.region)))
    outputs = []
    for value_name, output in zip(placed.outputs, placed.output_names or placed.outputs, strict=True):
        if output != value_name:  # an output that is an input, a parameter or another output
            if output in values:
                raise RewriteError(f"`{output}` is the name of an output, and of another value too")
            values[output] = typed_value(output, placed.types[value_name])
            nodes.append(rename_node(values[value_name], values[output]))
        outputs.append(values[output])
    graph = ir.Graph(
        [values[name] for name in placed.inputs],
        outputs,
        nodes=nodes,
        initializers=[values[name] for name in placed.parameters],
        opset_imports=opset_imports(n.domain for n in [*nodes, *(n for f in functions for n in f)]),
        name=placed.name,
    )
    model = ir.Model(graph, ir_version=IR_VERSION, producer_name="rewrite_engine", functions=functions)
    model.metadata_props[GRAPH_FACTS] = dump_facts({"devices": _given_devices(placed)})
    if any(node.op_type == DEVICE_COPY for node in nodes):
        define_marks(model, (DEVICE_COPY,))
    return model


def _units(steps: Iterable[KernelCall | CopyCall]) -> list[_Unit]:
    units: list[_Unit] = []
    regions: dict[str, _Unit] = {}
    for step in steps:
        unit = regions.get(step.region) if isinstance(step, KernelCall) else None
        if unit is None:
            unit = _Unit()
            units.append(unit)
            if isinstance(step, KernelCall):
                regions[step.region] = unit
        unit.steps.append(step)
    return units


def _in_order(units: Sequence[_Unit]) -> list[_Unit]:
    """The units so that each comes after those it reads from; otherwise in the order of their first steps."""
    writer = {name: index for index, unit in enumerate(units) for name in unit.written}
    readers: list[set[int]] = [set() for _ in units]
    missing = [0] * len(units)
    for index, unit in enumerate(units):
        for before in {writer[name] for name in unit.read if name in writer}:
            readers[before].add(index)
            missing[index] += 1
    ready = [index for index, count in enumerate(missing) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(units[index])
        for reader in sorted(readers[index]):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) != len(units):
        stuck = [units[index].steps[0] for index, count in enumerate(missing) if count]
        regions = [step.region for step in stuck if isinstance(step, KernelCall)]
        raise RewriteError(f"regions wait for each other in a cycle: {', '.join(regions)}")
    return order


def _region(unit: _Unit, exported: Sequence[str], types: Mapping[str, TensorType]) -> ir.Function:
    first = unit.steps[0]
    assert isinstance(first, KernelCall)
    local = {name: typed_value(name, types[name]) for name in (*unit.read, *unit.written)}
    nodes = []
    for step in unit.steps:
        assert isinstance(step, KernelCall)
        nodes.append(kernel_node(step, local, kernel_facts(step, types)))
    inputs, outputs = [local[name] for name in unit.read], [local[name] for name in exported]
    return _function(REGIONS + first.target, first.region, inputs, outputs, nodes)


def kernel_node(call: KernelCall, values: Mapping[str, ir.Value], facts: Mapping[str, object]) -> ir.Node:
    """The node of a kernel: its one operator, or the call of its composite; `facts` are kept when there are any."""
    if is_plain(call):
        node = _body_node(call.body[0], values, call.name, _unread(call))
    else:
        inputs, outputs = [values[name] for name in call.inputs], [values[name] for name in call.outputs]
        node = ir.Node(COMPOSITES, call.name, inputs, outputs=outputs, name=call.name)
    if facts:
        node.metadata_props[KERNEL_FACTS] = dump_facts(facts)
    return node


def composite_function(call: KernelCall) -> ir.Function:
    """The function behind the call of a composite."""
    local = {name: ir.Value(name=name) for name in call.inputs}
    nodes = []
    for body in call.body:
        for name in filter(None, body.outputs):
            local[name] = typed_value(name, call.inner_types.get(name, UNKNOWN))
        nodes.append(_body_node(body, local, "", _unread(call)))
    inputs, outputs = [local[name] for name in call.inputs], [local[name] for name in call.outputs]
    return _function(COMPOSITES, call.name, inputs, outputs, nodes)


def _function(
    domain: str, name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], nodes: Sequence[ir.Node]
) -> ir.Function:
    graph = ir.Graph(
        inputs, outputs, nodes=nodes, opset_imports=opset_imports(node.domain for node in nodes), name=name
    )
    return ir.Function(domain, name, graph=graph, attributes=[])


def _body_node(body: BodyNode, local: Mapping[str, ir.Value], name: str, unread: Iterator[str]) -> ir.Node:
    inputs = [local[i] if i else None for i in body.inputs]
    outputs = [local[o] if o else ir.Value(name="") for o in body.outputs]
    least = least_outputs(body.op, len(outputs))
    outputs = [v if v.name or k >= least else ir.Value(name=next(unread)) for k, v in enumerate(outputs)]
    while outputs and not outputs[-1].name:
        outputs.pop()
    return make_node(body.op, body.attributes, inputs, outputs, name)


UNREAD = ".unread."  # and a number: names of outputs that nobody reads, where they cannot be left out


def _unread(call: KernelCall) -> Iterator[str]:
    return (f"{call.name}{UNREAD}{number}" for number in count(1))


def rename_node(value: ir.Value, output: ir.Value) -> ir.Node:
    """An Identity that gives a value the name of a graph output: nothing that any target computes."""
    node = ir.Node("", "Identity", [value], outputs=[output])
    node.metadata_props[COPY_FACTS] = dump_facts({"bytes": 0, "cost": 0})
    return node


def copy_node(copy: CopyCall, values: Mapping[str, ir.Value], name: str) -> ir.Node:
    """The DeviceCopy of a copy."""
    attributes = [ir.AttrString("source", copy.source), ir.AttrString("destination", copy.destination)]
    inputs, outputs = [values[copy.value]], [values[copy.output]]
    node = ir.Node(DOMAIN, DEVICE_COPY, inputs, attributes, outputs=outputs, name=name)
    node.metadata_props[COPY_FACTS] = dump_facts({"bytes": copy.bytes, "cost": copy.cost})
    return node


def is_plain(call: KernelCall) -> bool:
    """Whether the kernel is one operator with nothing local to it, and needs no function of its own."""
    return len(call.body) == 1 and tuple(filter(None, call.body[0].outputs)) == call.outputs


def kernel_facts(call: KernelCall, types: Mapping[str, TensorType]) -> dict[str, object]:
    """What is known of a kernel beside its operators, its place in the graph, and its target."""
    return {
        "attributes": call.attributes,
        "cost": call.cost,
        "cost_source": call.cost_source,
        "covers": call.covers,
        "device": call.device,
        "host_inputs": call.host_inputs,
        "inner_types": call.inner_types,
        "inputs": call.inputs,
        "rewrites": call.rewrites,
        "rule": call.rule,
        "types": [types[name] for name in call.outputs],
    }


def _given_devices(placed: PlacedGraph) -> dict[str, str]:
    return {name: placed.devices[name] for name in (*placed.inputs, *placed.parameters)}


def _inputs(step: KernelCall | CopyCall) -> tuple[str, ...]:
    return (step.value,) if isinstance(step, CopyCall) else step.inputs


def _outputs(step: KernelCall | CopyCall) -> tuple[str, ...]:
    return (step.output,) if isinstance(step, CopyCall) else step.outputs


# ---- reading --------------------------------------------------------------------------------------------------------


def read_placed(model: ir.Model) -> PlacedGraph:
    """The placed graph that a model says; steps come region by region. Raises `NotPlacedError` for any other model."""
    graph = model.graph
    if GRAPH_FACTS not in model.metadata_props:
        raise NotPlacedError(f"{graph.name or 'the model'} is not a placed model: nothing says where its values are")
    devices: dict[str, str] = dict(load_facts(model.metadata_props[GRAPH_FACTS])["devices"])
    types: dict[str, TensorType] = {}
    parameters = {}
    for name, value in graph.initializers.items():
        assert value.const_value is not None
        parameters[name] = to_array(value.const_value)
        types[name] = value_type(value)
    for value in graph.inputs:
        types[str(value.name)] = value_type(value)
    steps: list[KernelCall | CopyCall] = []
    same: dict[str, str] = {}
    for node in graph:
        names, results = [str(v.name) if v else "" for v in node.inputs], [str(v.name) for v in node.outputs]
        if node.domain.startswith(REGIONS):
            for call, facts in read_region(model, node, names, results):
                types.update(zip(call.outputs, facts["types"], strict=True))
                devices.update(dict.fromkeys(call.outputs, call.device))
                steps.append(call)
        elif node.domain == DOMAIN and node.op_type == DEVICE_COPY:
            facts = load_facts(node.metadata_props[COPY_FACTS])
            source, target = (node.attributes[a].as_string() for a in ("source", "destination"))
            steps.append(CopyCall(names[0], results[0], source, target, facts["bytes"], facts["cost"]))
            types[results[0]] = types[names[0]]
            devices[results[0]] = target
        elif operator_name(node) == "Identity" and node.outputs[0].is_graph_output():
            same[results[0]] = names[0]
        else:
            raise NotPlacedError(f"{operator_name(node)} (`{results[0]}`) is not in any region")
    output_names = tuple(str(value.name) for value in graph.outputs)
    outputs = tuple(same.get(name, name) for name in output_names)
    return PlacedGraph(
        name=graph.name or "",
        inputs=tuple(str(value.name) for value in graph.inputs),
        outputs=outputs,
        parameters=parameters,
        steps=tuple(steps),
        types=types,
        devices=devices,
        output_names=() if outputs == output_names else output_names,
    )


def read_region(
    model: ir.Model, region: ir.Node, inputs: Sequence[str], outputs: Sequence[str]
) -> list[tuple[KernelCall, dict[str, Any]]]:
    """The kernels of a region, in order, with their facts; names are those of the main graph where it has the value."""
    function = _find(model, region)
    outer = dict(zip((str(value.name) for value in function.inputs), inputs, strict=True))
    outer.update(zip((str(value.name) for value in function.outputs), outputs, strict=True))
    calls = []
    for node in function:
        if KERNEL_FACTS not in node.metadata_props:
            raise NotPlacedError(f"{operator_name(node)} in region {region.op_type} has no facts of a kernel")
        calls.append(read_kernel(model, node, outer, region.domain.removeprefix(REGIONS), region.op_type))
    return calls


def read_kernel(
    model: ir.Model, node: ir.Node, names: Mapping[str, str], target: str, region: str
) -> tuple[KernelCall, dict[str, Any]]:
    """The kernel that a node with facts says, and the facts. `names` leads from names written to those wanted."""
    facts = load_facts(node.metadata_props[KERNEL_FACTS])
    unread = f"{node.name}{UNREAD}"
    results = tuple(names.get(n, n) for n in (str(v.name or "") for v in node.outputs) if _is_read(n, unread))
    passed = tuple(names.get(name, name) for name in facts["inputs"])
    if node.domain == COMPOSITES:
        inner = _find(model, node)
        within = dict(zip((str(value.name) for value in inner.inputs), passed, strict=True))
        within.update(zip((str(value.name) for value in inner.outputs), results, strict=True))
        body = tuple(body_of(child, within, unread) for child in inner)
    else:
        body = (body_of(node, names, unread),)
    call = KernelCall(
        name=str(node.name),
        target=target,
        device=facts["device"],
        region=region,
        rule=facts["rule"],
        inputs=passed,
        outputs=results,
        host_inputs=frozenset(names.get(name, name) for name in facts["host_inputs"]),
        body=body,
        inner_types=facts["inner_types"],
        attributes=facts["attributes"],
        cost=facts["cost"],
        cost_source=facts["cost_source"],
        covers=facts["covers"],
        rewrites=facts["rewrites"],
    )
    return call, facts


def _find(model: ir.Model, call: ir.Node) -> ir.Function:
    function = model.functions.get(call.op_identifier())
    if function is None:
        raise NotPlacedError(f"the function {operator_name(call)} is not in the model")
    return function


def body_of(node: ir.Node, names: Mapping[str, str], unread: str = UNREAD) -> BodyNode:
    """The operator that a node is; outputs whose names start with `unread` are read by nobody."""
    attributes = attribute_values(node)
    inputs = tuple(names.get(name, name) for name in input_names(node, attributes))
    written = (str(v.name or "") for v in node.outputs)
    outputs = tuple(names.get(name, name) if _is_read(name, unread) else "" for name in written)
    return BodyNode(operator_name(node), attributes, inputs, outputs)


def _is_read(name: str, unread: str) -> bool:
    return bool(name) and not name.startswith(unread)
