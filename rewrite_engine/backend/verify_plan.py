"""Prove that a bundle is consistent before anything of it runs: graph executors do not check.

In: graph.json, the memory plan, the functions and the parameters at hand. Out: every problem found, each saying the
node, the value and what was expected; an empty list means that the bundle holds. Nothing is taken from the placed
graph, so an edited graph.json is judged as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.graph_reader import Entry, Node, ReadGraph, read_graph, where_is
from rewrite_engine.backend.memory import MemoryPlan, storage_bytes
from rewrite_engine.backend.verify_sharing import shared_roots
from rewrite_engine.backend.verify_storage import (
    device_limits,
    lifetimes_of,
    pinned_values,
    shared_bytes,
    shared_storage_ids,
)
from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.operators.types import TensorType


def verify(
    graph: object,
    plan: MemoryPlan | Mapping[str, object],
    functions: Mapping[str, Function],
    parameters: Mapping[str, TensorType],
) -> list[str]:
    """Problems of the bundle, in the order of the graph.

    `graph` is the content of graph.json, `plan` a memory plan or the content of memory.json, `functions` are the
    kernels at hand by symbol, `parameters` the types of the stored parameters by name.
    """
    read, problems = read_graph(graph)
    if read is None:
        return problems
    if not isinstance(plan, MemoryPlan):
        try:
            plan = MemoryPlan.from_json(plan)
        except RewriteError as error:
            return [str(error)]
    return [
        *_names(read, plan),
        *_order(read),
        *_arguments(read, parameters),
        *_steps(read, functions),
        *_heads(read),
        *_against_plan(read, plan),
        *shared_roots(read, plan, functions),
        *shared_storage_ids(read, plan),
        *shared_bytes(read, plan),
        *device_limits(plan),
    ]


def _names(graph: ReadGraph, plan: MemoryPlan) -> Iterator[str]:
    """One entry per value, one storage per entry."""
    seen: dict[str, int] = {}
    for entry in graph.entries:
        if entry.name in seen:
            where = where_is(graph, entry.node)
            yield f"{where}: value `{entry.name}`: expected one result of that name, found a second one"
        seen[entry.name] = entry.node
    storages = [storage.value for storage in plan.storages]
    for name in sorted(set(storages) - set(seen)):
        yield f"value `{name}`: expected a result of that name in the graph, found it in the memory plan only"
    for name, count in sorted(Counter(storages).items()):
        if count > 1:
            yield f"value `{name}`: expected one storage in the memory plan, found {count}"
    for node in graph.nodes:
        if node.kind == "argument":
            continue
        for fact, side, entries in (("inputs", "operands", node.inputs), ("outputs", "results", node.outputs)):
            names = [graph.entries[entry].name for entry in entries]
            if node.facts.get(fact) != names:
                yield f"node `{node.name}`: expected the {side} {node.facts.get(fact)}, found {names}"


def _order(graph: ReadGraph) -> Iterator[str]:
    """Every read comes after its write."""
    for index, node in enumerate(graph.nodes):
        for entry in node.inputs:
            producer = graph.entries[entry].node
            if producer >= index:
                name = graph.entries[entry].name
                yield (
                    f"{where_is(graph, index)}: value `{name}`: expected it to be written before it is read, "
                    f"found its producer {where_is(graph, producer)} at or after the reader"
                )


def _arguments(graph: ReadGraph, parameters: Mapping[str, TensorType]) -> Iterator[str]:
    """Null nodes are the inputs, then the parameters, each with the type of what is stored."""
    expected = [*graph.inputs, *graph.parameters]
    found = [node.name for node in graph.nodes if node.kind == "argument"]
    if expected != found:
        yield f"graph: expected null nodes for {', '.join(expected)} in this order, found {', '.join(found)}"
    for name in sorted(set(parameters) ^ set(graph.parameters)):
        missing = "among the stored parameters" if name in graph.parameters else "in the graph"
        yield f"parameter `{name}`: expected it {missing}, found it missing there"
    for index, node in enumerate(graph.nodes):
        if node.kind != "argument":
            continue
        entry = graph.entries[node.outputs[0]]
        if entry.name != node.name:
            yield f"{where_is(graph, index)}: expected a value of the node's name, found `{entry.name}`"
        stored = parameters.get(node.name)
        if stored is not None and stored != entry.type:
            where = f"{where_is(graph, index)}: parameter `{node.name}`"
            yield f"{where}: expected {stored} as stored, found {entry.type}"


def _steps(graph: ReadGraph, functions: Mapping[str, Function]) -> Iterator[str]:
    for index, node in enumerate(graph.nodes):
        if node.kind == "copy":
            yield from _copy(graph, index, node)
        elif node.kind in ("kernel", "view"):
            yield from _kernel(graph, index, node, functions)


def _copy(graph: ReadGraph, index: int, node: Node) -> Iterator[str]:
    """A copy has one operand and one result of the same type, on two devices: those it says."""
    where = f"{where_is(graph, index)}: copy"
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        yield f"{where}: expected one operand and one result, found {len(node.inputs)} and {len(node.outputs)}"
        return
    source, result = graph.entries[node.inputs[0]], graph.entries[node.outputs[0]]
    if source.type != result.type:
        yield f"{where} of `{source.name}` to `{result.name}`: expected {source.type}, found {result.type}"
    if source.device == result.device:
        yield f"{where} of `{source.name}`: expected two devices, found both ends on `{source.device}`"
    for end, entry in (("from", source), ("to", result)):
        if node.facts.get(end) != entry.device:
            expected = node.facts.get(end)
            yield f"{where}: value `{entry.name}`: expected {end} device `{expected}`, found `{entry.device}`"


def _kernel(graph: ReadGraph, index: int, node: Node, functions: Mapping[str, Function]) -> Iterator[str]:
    """A kernel is at hand and gets operands of its types on its device (those it reads on the host: there)."""
    where = where_is(graph, index)
    function = functions.get(node.function)
    if function is None:
        yield f"{where}: expected a kernel `{node.function}`, found none of that symbol"
        return
    for fact, expected in (
        ("device", function.device),
        ("target", function.target),
        ("host_inputs", list(function.host_inputs)),
    ):
        if node.facts.get(fact) != expected:
            found = node.facts.get(fact)
            yield f"{where}: expected {fact} {expected!r} as kernel `{node.function}` has, found {found!r}"
    sides = (("operand", node.inputs, function.inputs), ("result", node.outputs, function.outputs))
    for side, entries, types in sides:
        if len(entries) != len(types):
            yield f"{where}: expected {len(types)} {side}s as kernel `{node.function}` has, found {len(entries)}"
        for position, (number, expected_type) in enumerate(zip(entries, types, strict=False)):
            entry = graph.entries[number]
            place = f"{where}: {side} {position}, value `{entry.name}`"
            if entry.type != expected_type:
                yield f"{place}: expected {expected_type}, found {entry.type}"
            device = function.input_device(position) if side == "operand" else function.device
            if entry.device != device:
                yield f"{place}: expected it on device `{device}`, found it on `{entry.device}`; a copy is missing"


def _heads(graph: ReadGraph) -> Iterator[str]:
    found = [graph.entries[entry].name for entry in graph.heads]
    if found != list(graph.outputs):
        yield f"heads: expected the graph outputs {', '.join(graph.outputs)}, found {', '.join(found)}"


def _against_plan(graph: ReadGraph, plan: MemoryPlan) -> Iterator[str]:
    """The graph and the plan agree on each value's kind, device, size, offset, storage id and lifetime."""
    pinned = pinned_values(plan)
    storages, lives, kinds = plan.by_value(), lifetimes_of(graph, pinned), _kinds(graph, pinned)
    types = {use.device: use.device_type for use in plan.devices}
    if types != dict(graph.devices):
        yield f"devices: expected {types} as in the memory plan, found {dict(graph.devices)}"
    steps = sum(node.kind != "argument" for node in graph.nodes)
    if steps != plan.steps:
        yield f"graph: expected {plan.steps} steps as in the memory plan, found {steps}"
    for number, entry in enumerate(graph.entries):
        where = f"{where_is(graph, entry.node)}: value `{entry.name}`"
        storage = storages.get(entry.name)
        if storage is None:
            yield f"{where}: expected a storage in the memory plan, found none"
            continue
        facts: tuple[tuple[str, object, object], ...] = (
            ("kind", storage.kind, kinds[number]),
            ("device", storage.device, entry.device),
            ("storage id", storage.storage_id, entry.storage_id),
            ("offset", storage.offset, entry.offset),
            ("live steps", (storage.first, storage.last), lives[number]),
            ("size", storage.size, _bytes(entry)),
        )
        for fact, expected, found in facts:
            if expected != found:
                yield f"{where}: expected {fact} {expected!r} as in the memory plan, found {found!r}"


def _bytes(entry: Entry) -> int | str:
    try:
        return storage_bytes(entry.name, entry.type)
    except RewriteError as error:
        return str(error)


def _kinds(graph: ReadGraph, pinned: Collection[str]) -> list[str]:
    kinds = ["pinned" if entry.name in pinned else "intermediate" for entry in graph.entries]
    for entry in graph.heads:
        kinds[entry] = "output"
    for node in graph.nodes:
        if node.kind == "argument":
            kinds[node.outputs[0]] = "parameter" if node.name in graph.parameters else "input"
    return kinds
