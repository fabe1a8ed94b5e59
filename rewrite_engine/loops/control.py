"""If, Loop and Scan as scans of the program that their graphs are, where sizes are known.

In: the operator, and how to lower a graph inside it. Out: its results; `Unsupported` for what has no size beforehand.
A branch is a scan of one step under a condition, so that only the one that is chosen runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rewrite_engine.graph.placed import BodyNode
from rewrite_engine.loops.build import Builder, Tensor, Unsupported
from rewrite_engine.loops.build_scan import scan
from rewrite_engine.loops.expr import const, land
from rewrite_engine.operators.types import TensorType

if TYPE_CHECKING:
    from rewrite_engine.graph.nodes import PlainGraph

Lower = Callable[["PlainGraph", Sequence[Tensor], Mapping[str, Tensor]], list[Tensor]]
"""A graph, its inputs, and what it captures by name -> its outputs."""

Operands = Sequence[Tensor | None]
Types = Mapping[str, TensorType]

ENDLESS = (1 << 63) - 1
"""Steps of a loop that only its condition ends."""


def _if(b: Builder, node: BodyNode, inputs: Operands, types: Types, lower: Lower) -> list[Tensor]:
    condition = b.map(lambda v: v, _scalar(b, inputs[0], "its condition"))
    results = [_known(types, name) for name in node.outputs if name]
    values = [_zeros(b, type_) for type_ in results]
    for name, runs in (("then_branch", condition), ("else_branch", b.map(lambda v: ~v, condition))):
        graph, captured = _graph(node, name, inputs, 1)
        step = partial(_branch, lower, graph, captured, [bool(output) for output in node.outputs])
        (_, *values), _ = scan(b, 1, step, [runs, *values], conditional=True)
    made = iter(values)
    return [next(made) if name else b.constant(0) for name in node.outputs]


def _branch(
    lower: Lower,
    graph: PlainGraph,
    captured: Mapping[str, Tensor],
    kept: Sequence[bool],
    _: list[Tensor],
    now: list[Tensor],
) -> tuple[list[Tensor], list[Tensor]]:
    """The one step of a branch: its outputs that somebody reads."""
    return [now[0], *itertools.compress(lower(graph, [], captured), kept)], []


def _loop(b: Builder, node: BodyNode, inputs: Operands, types: Types, lower: Lower) -> list[Tensor]:
    own = len(inputs) - len(_captured(node))
    given = [*inputs[:own], None, None][: max(own, 2)]
    carried = [_required(tensor) for tensor in given[2:]]
    body, captured = _graph(node, "body", inputs, own)
    stacked = len(body.outputs) - 1 - len(carried)
    if stacked < 0 or len(body.inputs) != 2 + len(carried):
        raise Unsupported(f"its body takes {len(body.inputs)} values and gives {len(body.outputs)}")
    trips, first = (b.known(tensor) for tensor in given[:2])
    always = (given[1] is None or (first is not None and bool(first.reshape(-1)[0]))) and _goes_on(body)
    if always and trips is not None:
        count = max(int(trips.reshape(-1)[0]), 0)
        numbers = b.constant(np.arange(count, dtype=np.int64))

        def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            _, *results = lower(body, [parts[0], b.constant(np.array(True)), *now], captured)
            return results[: len(now)], results[len(now) :]

        finals, wholes = scan(b, count, step, carried, [numbers])
        return [*finals, *wholes]
    if stacked:
        raise Unsupported("how many steps it has, and so the size of what they stack, is known at run time only")
    limit = None if given[0] is None else _scalar(b, given[0], "its trip count")
    start = b.constant(np.array(True)) if given[1] is None else _scalar(b, given[1], "its condition")
    zero = b.constant(np.array(0, np.int64))

    def runs(condition: Tensor, number: Tensor) -> Tensor:
        if limit is None:
            return b.map(lambda v: v, condition)
        return b.map(lambda v, n, most: land(v, n < most), condition, number, limit)

    def checked(_: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        condition, *results = lower(body, [now[1], now[0], *now[2:]], captured)
        number = b.map(lambda v: v + 1, now[1])
        return [runs(_scalar(b, condition, "its condition"), number), number, *results], []

    finals, _ = scan(b, ENDLESS, checked, [runs(start, zero), zero, *carried], conditional=True)
    return finals[2:]


def _scan(b: Builder, node: BodyNode, inputs: Operands, types: Types, lower: Lower) -> list[Tensor]:
    own = len(inputs) - len(_captured(node))
    body, captured = _graph(node, "body", inputs, own)
    sources = int(node.attributes["num_scan_inputs"])  # type: ignore[call-overload]
    operands = [_required(tensor) for tensor in inputs[:own]]
    states, scanned = operands[: own - sources], operands[own - sources :]
    results = len(body.outputs) - len(states)
    if not 0 < sources <= own or results < 0 or len(body.inputs) != own:
        raise Unsupported(f"its body takes {len(body.inputs)} values and gives {len(body.outputs)}")
    axes, backwards = (_listed(node, f"scan_input_{what}", sources) for what in ("axes", "directions"))
    out_axes, out_backwards = (_listed(node, f"scan_output_{what}", results) for what in ("axes", "directions"))
    first = [_moved(b, x, axis, 0) for x, axis in zip(scanned, axes, strict=True)]
    lengths = {x.shape[0] for x in first}
    if len(lengths) != 1:
        raise Unsupported(f"its scanned axes have different sizes: {', '.join(map(str, sorted(lengths)))}")

    def step(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        made = lower(body, [*now, *parts], captured)
        return made[: len(now)], made[len(now) :]

    reverse, reverse_out = ([bool(flag) for flag in flags] for flags in (backwards, out_backwards))
    finals, wholes = scan(b, lengths.pop(), step, states, first, reverse, reverse_out)
    return [*finals, *(_moved(b, x, 0, axis % x.rank) for x, axis in zip(wholes, out_axes, strict=True))]


CONTROL: Mapping[str, Callable[[Builder, BodyNode, Operands, Types, Lower], list[Tensor]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
"""Operator -> its results, as many as it has outputs."""


def _captured(node: BodyNode) -> tuple[str, ...]:
    from rewrite_engine.graph.subgraphs import captured_names

    return captured_names(node.attributes)


def _graph(node: BodyNode, name: str, inputs: Operands, own: int) -> tuple[PlainGraph, dict[str, Tensor]]:
    """A graph of the operator, and what it may capture: the operands after its `own`."""
    from rewrite_engine.graph.nodes import plain_graph
    from rewrite_engine.graph.subgraphs import Subgraph

    held = node.attributes[name]
    assert isinstance(held, Subgraph)
    captured = zip(_captured(node), inputs[own:], strict=True)
    return plain_graph(held.graph), {name: tensor for name, tensor in captured if tensor is not None}


def _goes_on(body: PlainGraph) -> bool:
    """Whether the condition that a body gives is the one it was given, or true."""
    writer = {name: node for node in body.nodes for name in node.outputs}
    name = body.outputs[0]
    while name in writer and writer[name].op == "Identity":
        name = writer[name].inputs[0]
    if name in writer and writer[name].op == "Constant":
        value = writer[name].attributes.get("value")
        return isinstance(value, np.ndarray) and bool(value.reshape(-1)[0])
    return name == body.inputs[1] or (name in body.constants and bool(body.constants[name].reshape(-1)[0]))


def _required(tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise Unsupported("one of its operands is absent")
    return tensor


def _scalar(b: Builder, tensor: Tensor | None, what: str) -> Tensor:
    """An operand of one element, without axes."""
    tensor = _required(tensor)
    if tensor.size != 1:
        raise Unsupported(f"{what} has the shape {list(tensor.shape)}, expected one element")
    return tensor if not tensor.shape else b.reshape(tensor, ())


def _zeros(b: Builder, type_: TensorType) -> Tensor:
    sizes = [size for size in type_.shape or () if isinstance(size, int)]
    return b.compute(sizes, lambda *_: const(0, type_.dtype))


def _known(types: Types, name: str) -> TensorType:
    type_ = types.get(name)
    if type_ is None or type_.numel is None or type_.dtype == "?":
        raise Unsupported(f"the size of its result {name} is not known beforehand")
    return type_


def _listed(node: BodyNode, name: str, count: int) -> list[int]:
    values = node.attributes.get(name) or (0,) * count
    assert isinstance(values, tuple)
    if len(values) != count:
        raise Unsupported(f"attribute `{name}` has {len(values)} elements, expected {count}")
    return [int(v) for v in values]


def _moved(b: Builder, x: Tensor, source: int, target: int) -> Tensor:
    """The axis `source` as axis `target`, the others in their order."""
    order = [axis for axis in range(x.rank) if axis != source % x.rank]
    order.insert(target, source % x.rank)
    return x if order == list(range(x.rank)) else b.transpose(x, order)
