"""Operands of a kernel: which of them it reads on the host, as shapes, axes or sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.operators import find


def host_reads(call: KernelCall) -> list[tuple[str, bool]]:
    """What a kernel reads, in order, and whether it is read on the host. One value may be read in both ways."""
    if len(call.body) > 1:
        return [(name, name in call.host_inputs) for name in call.inputs]
    facts = find(call.body[0].op)
    on_host = frozenset() if facts is None else facts.host_inputs
    return [(name, place in on_host) for place, name in enumerate(call.body[0].inputs) if name]


def reading(call: KernelCall, new_name: Callable[[str, bool], str]) -> KernelCall:
    """The kernel with other names for what it reads; `new_name` is told the name and whether it is read on the host."""
    pairs = list(dict.fromkeys(host_reads(call)))
    names = {pair: new_name(*pair) for pair in pairs}
    host = frozenset(names[pair] for pair in pairs if pair[1])
    inputs = tuple(dict.fromkeys(names.values()))
    if len(call.body) > 1:
        by_name = {name: new for (name, _), new in names.items()}
        body = tuple(replace(node, inputs=tuple(by_name.get(i, i) for i in node.inputs)) for node in call.body)
    else:
        node = call.body[0]
        facts = find(node.op)
        on_host = frozenset() if facts is None else facts.host_inputs
        body = (replace(node, inputs=tuple(names[i, k in on_host] if i else "" for k, i in enumerate(node.inputs))),)
    return replace(call, inputs=inputs, host_inputs=host, body=body)
