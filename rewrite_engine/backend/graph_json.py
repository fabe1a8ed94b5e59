"""graph.json: a placed graph in the format of the TVM 0.19 graph executor, which runs it unchanged.

In: a placed graph, its memory plan and the symbol of each kernel. Out: a dictionary of plain JSON values.

Nodes are "null" (graph inputs and parameters) or "tvm_op"; a copy is a "tvm_op" whose function is `__copy`, and the
function of a kernel whose result is a view of its operand is `__nop`, for there is nothing to run. Attributes of nodes
are strings. `device_index` holds DLPack device types, so every device has a type of its own (see
`memory.DEVICE_TYPES`). What the executor has no word for is in `rewrite_engine` (an attribute of a node, JSON in a
string: region, target, rule, names of operands and results) and in `metadata` (devices, names and offsets of the
entries), which must be the last key: the executor stops reading there. That executor's own `__copy` needs the host at
one end; a copy straight from one device to another is legal here, but it runs only where the executor is taught to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rewrite_engine.backend.functions import host_positions
from rewrite_engine.backend.memory import MemoryPlan, Storage
from rewrite_engine.backend.sharing import NO_SHARING, NOTHING, Sharing
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import CopyCall, KernelCall, PlacedGraph

COPY = "__copy"
VIEW = "__nop"
FACTS = "rewrite_engine"
METADATA = "metadata"

Graph = dict[str, object]


def graph_json(
    placed: PlacedGraph, plan: MemoryPlan, symbols: Mapping[str, str], sharing: Mapping[str, Sharing] = NO_SHARING
) -> Graph:
    """The graph executor's form of `placed`. `symbols` are by kernel name, and so is the `sharing` that the plan was
    made with. The order of the keys is part of the format: write it without sorting.

    Raises RewriteError for a kernel without a symbol.
    """
    storages = plan.by_value()
    parameters = sorted(placed.parameters)
    arguments = [*placed.inputs, *parameters]
    nodes: list[dict[str, object]] = [{"op": "null", "name": name, "inputs": []} for name in arguments]
    position = {name: (index, 0) for index, name in enumerate(arguments)}
    values = list(arguments)
    first_entries = list(range(len(arguments)))
    for call in placed.steps:
        reads, writes = ((call.value,), (call.output,)) if isinstance(call, CopyCall) else (call.inputs, call.outputs)
        if isinstance(call, CopyCall):
            attributes = _copy_attributes(call)
        else:
            view = is_view(call, sharing.get(call.name, NOTHING), storages)
            attributes = _attributes(placed, call, symbols, view)
        inputs = [[*position[name], 0] for name in reads]
        name = call.output if isinstance(call, CopyCall) else call.name
        position.update({output: (len(nodes), index) for index, output in enumerate(writes)})
        nodes.append({"op": "tvm_op", "name": name, "attrs": attributes, "inputs": inputs})
        first_entries.append(len(values))
        values += writes
    types = {use.device: use.device_type for use in plan.devices}
    attrs = {
        "dltype": ["list_str", [placed.types[name].dtype for name in values]],
        "storage_id": ["list_int", [storages[name].storage_id for name in values]],
        "shape": ["list_shape", [list(placed.types[name].shape or ()) for name in values]],
        "device_index": ["list_int", [types[storages[name].device] for name in values]],
    }
    facts = {
        "name": placed.name,
        "devices": types,
        "inputs": list(placed.inputs),
        "parameters": parameters,
        "outputs": list(placed.outputs),
        "output_names": list(placed.output_names or placed.outputs),
        "values": values,
        "offsets": [storages[name].offset for name in values],
    }
    return {
        "nodes": nodes,
        "arg_nodes": list(range(len(arguments))),
        "heads": [[*position[name], 0] for name in placed.outputs],
        "node_row_ptr": [*first_entries, len(values)],
        "attrs": attrs,
        METADATA: {FACTS: facts},
    }


def is_view(call: KernelCall, sharing: Sharing, storages: Mapping[str, Storage]) -> bool:
    """Whether the result of a kernel is a view in this plan: it holds its operand's bytes, and nothing runs."""
    return sharing.view is not None and storages[call.outputs[0]].root != call.outputs[0]


def _copy_attributes(call: CopyCall) -> dict[str, str]:
    facts = {
        "inputs": [call.value],
        "outputs": [call.output],
        "from": call.source,
        "to": call.destination,
        "bytes": call.bytes,
    }
    return _node_attributes(COPY, 1, 1, facts)


def _attributes(placed: PlacedGraph, call: KernelCall, symbols: Mapping[str, str], view: bool) -> dict[str, str]:
    if call.name not in symbols:
        raise RewriteError(f"graph.json: kernel `{call.name}` has no symbol; lower it before writing the graph")
    facts = {
        "inputs": list(call.inputs),
        "outputs": list(call.outputs),
        "target": call.target,
        "device": call.device,
        "region": call.region,
        "rule": call.rule,
        "host_inputs": list(host_positions(placed, call)),
        "covers": list(call.covers),
        **({"function": symbols[call.name]} if view else {}),
    }
    return _node_attributes(VIEW if view else symbols[call.name], len(call.inputs), len(call.outputs), facts)


def _node_attributes(function: str, inputs: int, outputs: int, facts: Mapping[str, object]) -> dict[str, str]:
    return {
        "func_name": function,
        "num_inputs": str(inputs),
        "num_outputs": str(outputs),
        "flatten_data": "0",
        FACTS: json.dumps(facts, sort_keys=True),
    }
