"""Proofs about shared bytes: every view and every result in place is one that its kernel allows, and no read is late.

In: a read graph.json, a memory plan, the functions at hand. Out: problems, each with the node, the value and what was
expected. The graph is walked in its order, with the values that the bytes of each root hold at that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rewrite_engine.backend.functions import Function
from rewrite_engine.backend.graph_reader import Node, ReadGraph, where_is
from rewrite_engine.backend.memory import MemoryPlan, Storage


def roots_of(graph: ReadGraph, plan: MemoryPlan) -> list[int]:
    """Per entry, the entry that owns its bytes: itself, unless the plan names another one of the graph."""
    number = {entry.name: at for at, entry in enumerate(graph.entries)}
    storages = plan.by_value()
    return [
        number.get(storages[entry.name].root, at) if entry.name in storages else at
        for at, entry in enumerate(graph.entries)
    ]


def shared_roots(graph: ReadGraph, plan: MemoryPlan, functions: Mapping[str, Function]) -> Iterator[str]:
    """Every storage with a root of another value lies where that value does, and the graph fills and reads it right."""
    storages = plan.by_value()
    for storage in plan.storages:
        if storage.root != storage.value:
            yield from _owner(storage, storages.get(storage.root))
    root = roots_of(graph, plan)
    held: dict[int, set[int]] = {}  # what the bytes of a root hold now
    for index, node in enumerate(graph.nodes):
        where = where_is(graph, index)
        for entry in node.inputs:
            there = held.get(root[entry], set())
            if entry not in there and graph.entries[entry].node < index:
                name, now = graph.entries[entry].name, ", ".join(sorted(graph.entries[e].name for e in there))
                yield f"{where}: value `{name}`: expected it in its bytes, found them taken over by `{now}`"
        shared = [entry for entry in node.outputs if root[entry] != entry]
        if node.kind == "view" or shared:
            yield from _shares(graph, where, node, root, held, functions, storages)
        for entry in node.outputs:
            before = held.get(root[entry], set()) if node.kind == "view" else set()
            held[root[entry]] = {*before, entry}
    for entry in graph.heads:
        if root[entry] != entry:
            where = f"{where_is(graph, graph.entries[entry].node)}: value `{graph.entries[entry].name}`"
            owner = graph.entries[root[entry]].name
            yield f"{where}: expected bytes of its own for a graph output, found those of `{owner}`"


def _owner(storage: Storage, owner: Storage | None) -> Iterator[str]:
    """A root is in the plan, owns its bytes, and lies where what shares them does."""
    where = f"value `{storage.value}`"
    if owner is None or owner.root != owner.value:
        found = "no value of the plan" if owner is None else f"a value in the bytes of `{owner.root}`"
        yield f"{where}: expected a root that owns its bytes, found `{storage.root}`, {found}"
        return
    for fact in ("device", "offset", "size", "storage_id"):
        expected, found = getattr(owner, fact), getattr(storage, fact)
        if expected != found:
            spoken = fact.replace("_", " ")
            yield f"{where}: expected the {spoken} {expected!r} of its root `{owner.value}`, found {found!r}"


def _shares(
    graph: ReadGraph,
    where: str,
    node: Node,
    root: list[int],
    held: Mapping[int, set[int]],
    functions: Mapping[str, Function],
    storages: Mapping[str, Storage],
) -> Iterator[str]:
    """One node whose result has the bytes of another value."""
    function = functions.get(node.function)
    if len(node.outputs) != 1 or node.kind not in ("view", "kernel"):
        yield f"{where}: expected bytes of its own for each result, found those of other values"
        return
    if function is None:
        return  # said elsewhere
    (result,) = node.outputs
    name, owner = graph.entries[result].name, graph.entries[root[result]].name
    mine = [at for at, entry in enumerate(node.inputs) if root[entry] == root[result]]
    if node.kind == "view":
        if function.view is None or function.view not in mine or root[result] == result:
            yield (
                f"{where}: value `{name}`: expected it in the bytes of operand {function.view} of `{node.function}`, "
                f"found it in those of `{owner}`: its kernel would not run"
            )
        return
    if not mine or not set(mine) <= set(function.in_place):
        allowed = ", ".join(map(str, function.in_place)) or "none"
        yield (
            f"{where}: value `{name}`: expected it in the bytes of an operand that `{node.function}` may overwrite "
            f"({allowed}), found it in those of `{owner}`"
        )
    kinds = {graph.entries[entry].name for entry in held.get(root[result], set())} | {owner}
    for held_name in sorted(kinds):
        if held_name in storages and storages[held_name].kind != "intermediate":
            kind = storages[held_name].kind
            yield f"{where}: value `{name}`: expected to leave {kind} `{held_name}` as it is, found it overwritten"
