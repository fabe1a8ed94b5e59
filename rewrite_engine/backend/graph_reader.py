"""Reading graph.json back: every malformed part is a problem, a well-formed graph becomes nodes and entries.

In: the dictionary of graph.json, possibly edited by hand. Out: a `ReadGraph`, or what is wrong with it. An entry is one
result of a node; entries are numbered as `node_row_ptr` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite_engine.backend.graph_json import COPY, FACTS, METADATA, VIEW
from rewrite_engine.operators.types import TensorType


@dataclass(frozen=True, slots=True)
class Entry:
    """One value. `device` is the name of its device, or "device type N" when no device has that type."""

    name: str
    type: TensorType
    device: str
    storage_id: int
    offset: int
    node: int


@dataclass(frozen=True, slots=True)
class Node:
    """`kind` is "argument" (graph input or parameter), "copy", "view" or "kernel"; inputs and outputs index entries.

    `function` of a view is the kernel that it stands for.
    """

    name: str
    kind: str
    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """A well-formed graph.json. `devices` are DLPack types by device name.

    `outputs` are the values that the heads should be, `output_names` what the model calls them.
    """

    nodes: tuple[Node, ...]
    entries: tuple[Entry, ...]
    heads: tuple[int, ...]
    devices: Mapping[str, int]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    output_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Columns:
    """`attrs` of the graph: one item per entry in each."""

    dltype: list[str]
    storage_id: list[int]
    shape: list[tuple[int, ...]]
    device_index: list[int]


class _Malformed(Exception):
    """Part of the graph cannot be read; the message is the problem."""


def where_is(graph: ReadGraph, node: int) -> str:
    """A node in a message: its name and number."""
    return f"node `{graph.nodes[node].name}` ({node})"


_KEYS = ("nodes", "arg_nodes", "heads", "node_row_ptr", "attrs", METADATA)
_LISTS = {"dltype": "list_str", "storage_id": "list_int", "shape": "list_shape", "device_index": "list_int"}
_NODE_ATTRIBUTES = ("flatten_data", "func_name", "num_inputs", "num_outputs", FACTS)


def read_graph(graph: object) -> tuple[ReadGraph | None, list[str]]:
    """The graph, or None and the problems of its format."""
    problems: list[str] = []
    try:
        return _read(graph, problems), problems
    except _Malformed as error:
        return None, [*problems, str(error)]


def _read(graph: object, problems: list[str]) -> ReadGraph | None:
    top = _mapping(graph, "graph")
    if list(top) != list(_KEYS):
        raise _Malformed(f"graph: expected the keys {', '.join(_KEYS)} in this order, found {', '.join(map(str, top))}")
    rows = _sequence(top["nodes"], "nodes")
    pointers = _integers(top["node_row_ptr"], "node_row_ptr")
    facts = _mapping(_mapping(top[METADATA], METADATA).get(FACTS), f"{METADATA}.{FACTS}")
    device_rows = _mapping(facts.get("devices"), "devices")
    devices = {name: _integer(kind, "device type") for name, kind in device_rows.items()}
    if len(set(devices.values())) != len(devices):
        raise _Malformed(f"devices: expected a device type of its own for each device, found {devices}")
    if len(pointers) != len(rows) + 1 or pointers[0] != 0 or sorted(pointers) != pointers:
        raise _Malformed(f"node_row_ptr: expected {len(rows) + 1} increasing entry numbers from 0, found {pointers}")
    columns = _columns(_mapping(top["attrs"], "attrs"), pointers[-1])
    nodes = []
    for index, row in enumerate(rows):
        try:
            nodes.append(_node(index, row, pointers))
        except _Malformed as error:
            problems.append(str(error))
    if problems:
        return None
    names = _strings(facts.get("values"), f"{METADATA} values")
    offsets = _integers(facts.get("offsets"), f"{METADATA} offsets")
    if len(names) != pointers[-1] or len(offsets) != pointers[-1]:
        found = f"{len(names)} names and {len(offsets)} offsets"
        raise _Malformed(f"{METADATA}: expected a name and an offset for each of {pointers[-1]} entries, found {found}")
    by_type = {kind: name for name, kind in devices.items()}
    entries = tuple(
        Entry(
            name=names[entry],
            type=TensorType(columns.dltype[entry], columns.shape[entry]),
            device=by_type.get(columns.device_index[entry], f"device type {columns.device_index[entry]}"),
            storage_id=columns.storage_id[entry],
            offset=offsets[entry],
            node=node,
        )
        for node in range(len(rows))
        for entry in range(pointers[node], pointers[node + 1])
    )
    arguments = _integers(top["arg_nodes"], "arg_nodes")
    nulls = [index for index, node in enumerate(nodes) if node.kind == "argument"]
    if arguments != nulls:
        raise _Malformed(f"arg_nodes: expected the null nodes {nulls}, found {arguments}")
    heads = _references(top["heads"], "heads", pointers)
    output_names = _strings(facts.get("output_names"), f"{METADATA} output_names")
    if len(set(output_names)) != len(heads):
        raise _Malformed(f"{METADATA} output_names: expected {len(heads)} different names, found {output_names}")
    return ReadGraph(
        nodes=tuple(nodes),
        entries=entries,
        heads=heads,
        devices=devices,
        inputs=tuple(_strings(facts.get("inputs"), f"{METADATA} inputs")),
        parameters=tuple(_strings(facts.get("parameters"), f"{METADATA} parameters")),
        outputs=tuple(_strings(facts.get("outputs"), f"{METADATA} outputs")),
        output_names=tuple(output_names),
    )


def _node(index: int, data: object, pointers: Sequence[int]) -> Node:
    row = _mapping(data, f"node {index}")
    name = row.get("name")
    if not isinstance(name, str):
        raise _Malformed(f"node {index}: expected a string `name`, found {name!r}")
    where = f"node `{name}` ({index})"
    inputs = _references(row.get("inputs"), f"{where}, inputs", pointers)
    outputs = tuple(range(pointers[index], pointers[index + 1]))
    if row.get("op") == "null":
        if set(row) != {"op", "name", "inputs"} or inputs or len(outputs) != 1:
            raise _Malformed(f"{where}: expected no inputs, no attributes and one result for a null node")
        return Node(name, "argument", "", inputs, outputs, {})
    if row.get("op") != "tvm_op" or set(row) != {"op", "name", "attrs", "inputs"}:
        raise _Malformed(f"{where}: expected op `null`, or `tvm_op` with attrs and inputs, found {sorted(row)}")
    attributes = _mapping(row["attrs"], f"{where}, attrs")
    if sorted(attributes) != sorted(_NODE_ATTRIBUTES) or not all(isinstance(a, str) for a in attributes.values()):
        raise _Malformed(f"{where}: expected strings for {', '.join(_NODE_ATTRIBUTES)}, found {dict(attributes)}")
    for key, count in (("num_inputs", len(inputs)), ("num_outputs", len(outputs)), ("flatten_data", 0)):
        if attributes[key] != str(count):
            raise _Malformed(f"{where}: expected `{key}` to be {str(count)!r}, found {attributes[key]!r}")
    function = str(attributes["func_name"])
    try:
        facts = json.loads(str(attributes[FACTS]))
    except ValueError as error:
        raise _Malformed(f"{where}: expected JSON in `{FACTS}`: {error}") from error
    facts = _mapping(facts, where)
    if function == VIEW:
        function = _strings([facts.get("function")], f"{where}, function of a view")[0]
        return Node(name, "view", function, inputs, outputs, facts)
    return Node(name, "copy" if function == COPY else "kernel", function, inputs, outputs, facts)


def _columns(attrs: Mapping[str, object], entries: int) -> _Columns:
    if sorted(attrs) != sorted(_LISTS):
        raise _Malformed(f"attrs: expected {', '.join(_LISTS)}, found {', '.join(sorted(attrs))}")
    lists: dict[str, Sequence[object]] = {}
    for key, kind in _LISTS.items():
        pair = _sequence(attrs[key], f"attrs {key}")
        if len(pair) != 2 or pair[0] != kind:
            raise _Malformed(f'attrs {key}: expected ["{kind}", [...]]')
        lists[key] = _sequence(pair[1], f"attrs {key}")
        if len(lists[key]) != entries:
            raise _Malformed(f"attrs {key}: expected one item for each of {entries} entries, found {len(lists[key])}")
    return _Columns(
        dltype=_strings(lists["dltype"], "attrs dltype"),
        storage_id=_integers(lists["storage_id"], "attrs storage_id"),
        shape=[tuple(_integers(shape, f"attrs shape, entry {entry}")) for entry, shape in enumerate(lists["shape"])],
        device_index=_integers(lists["device_index"], "attrs device_index"),
    )


def _references(data: object, where: str, pointers: Sequence[int]) -> tuple[int, ...]:
    """Entry numbers of [node, result, version] triples."""
    entries = []
    for triple in _sequence(data, where):
        numbers = _integers(triple, where)
        if len(numbers) != 3 or numbers[2] != 0:
            raise _Malformed(f"{where}: expected [node, result, 0], found {triple}")
        node, result, _ = numbers
        if not 0 <= node < len(pointers) - 1 or not 0 <= result < pointers[node + 1] - pointers[node]:
            raise _Malformed(f"{where}: expected a result of a node of the graph, found {triple}")
        entries.append(pointers[node] + result)
    return tuple(entries)


def _mapping(data: object, where: str) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise _Malformed(f"{where}: expected an object, found {type(data).__name__}")
    return data


def _sequence(data: object, where: str) -> Sequence[object]:
    if not isinstance(data, list):
        raise _Malformed(f"{where}: expected a list, found {type(data).__name__}")
    return data


def _integer(data: object, where: str) -> int:
    if not isinstance(data, int) or isinstance(data, bool) or data < 0:
        raise _Malformed(f"{where}: expected a whole number, found {data!r}")
    return data


def _integers(data: object, where: str) -> list[int]:
    return [_integer(item, where) for item in _sequence(data, where)]


def _strings(data: object, where: str) -> list[str]:
    items = _sequence(data, where)
    for item in items:
        if not isinstance(item, str):
            raise _Malformed(f"{where}: expected a string, found {item!r}")
    return [str(item) for item in items]
