"""Operators with graphs inside them, as the operators of these graphs, where constants decide which run how often.

In: a draft with constants folded and types inferred. Out: If by the branch that its condition chooses, Loop and Scan
unrolled. What is decided at run time, or would become more than `MOST_NODES` nodes, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper

from rewrite_engine.graph.draft import Draft, all_graphs, captured, inner_graphs, replace
from rewrite_engine.graph.evaluate import evaluate
from rewrite_engine.graph.inline import graph_body, inlined
from rewrite_engine.graph.names import Names
from rewrite_engine.graph.onnx_types import UNKNOWN, Array, proto_type, tensor_proto, value_info
from rewrite_engine.operators.types import TensorType

MOST_NODES = 1 << 14
"""An operator is unrolled to at most so many nodes."""


def unroll(draft: Draft) -> bool:
    """Replace what constants decide in the main graph, outer ones first; whether anything changed."""
    if all(node.domain or node.op_type not in _RULES for node in draft.graph.node):
        return False
    work = _Work(draft, Names(draft.names()), draft.types())
    nodes: list[onnx.NodeProto] = []
    changed = False
    for node in draft.graph.node:
        rule = _RULES.get(node.op_type) if not node.domain else None
        inside = rule(work, node) if rule is not None else None
        nodes += [node] if inside is None else inside
        changed = changed or inside is not None
    if changed:
        replace(draft.graph.node, nodes)
    return changed


def infer_loops(draft: Draft) -> list[onnx.ValueInfoProto]:
    """Types of what loops carry, where a step keeps them: ONNX's shape inference takes them for unknown."""
    loops = [node for node in draft.graph.node if node.op_type == "Loop" and not node.domain]
    types = draft.types() if loops else {}
    found: list[onnx.ValueInfoProto] = []
    for node in loops:
        results = [name for name in node.output if name and types.get(name, UNKNOWN).numel is None]
        carried = {name: types.get(name, UNKNOWN) for name in node.input[2:]}
        if not results or any(type_.numel is None for type_ in carried.values()):
            continue
        after = _after_a_step(_graph(node, "body"), [types.get(name, UNKNOWN) for name in node.input[2:]], types, draft)
        if after == [carried[name] for name in node.input[2:]]:
            pairs = zip(node.output, after, strict=False)
            found += [value_info(name, type_) for name, type_ in pairs if name in results]
    return found


def _after_a_step(
    body: onnx.GraphProto, carried: Sequence[TensorType], types: Mapping[str, TensorType], draft: Draft
) -> list[TensorType]:
    """The types that a loop's body gives what it carries; none where that cannot be found."""
    alone = onnx.GraphProto()
    alone.CopyFrom(body)
    if len(alone.input) != 2 + len(carried) or len(alone.output) < 1 + len(carried):
        return []
    given = [value_info(alone.input[0].name, TensorType("int64", ())), alone.input[1]]
    given += [value_info(value.name, type_) for value, type_ in zip(alone.input[2:], carried, strict=True)]
    outside = [name for name in captured(body) if types.get(name, UNKNOWN).dtype != "?" and name not in draft.constants]
    given += [value_info(name, types[name]) for name in outside]
    replace(alone.input, given)
    alone.initializer.extend(draft.constants[name] for name in captured(body) if name in draft.constants)
    model = onnx.ModelProto(graph=alone, ir_version=draft.model.ir_version, opset_import=draft.model.opset_import)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # what is wrong with a body is said by the inference of the whole model
        return []
    return [proto_type(value.type) for value in inferred.output[1 : 1 + len(carried)]]


@dataclass(frozen=True, slots=True)
class _Work:
    draft: Draft
    names: Names
    types: Mapping[str, TensorType]

    def known(self, name: str) -> Array | None:
        """The elements of a constant."""
        return self.draft.array(name) if name in self.draft.constants else None

    def constant(self, stem: str, value: Array) -> str:
        """The name of a new constant."""
        name = self.names.unique(stem)
        self.draft.constants[name] = tensor_proto(np.asarray(value), name)
        return name

    def fresh(self, stem: str, count: int) -> list[str]:
        return [self.names.unique(f"{stem}.{k}") for k in range(count)]


def _if(work: _Work, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    condition = work.known(node.input[0])
    if condition is None or condition.size != 1:
        return None
    chosen = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    return inlined(graph_body(_graph(node, chosen)), [], list(node.output), work.names)


def _loop(work: _Work, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """One copy of the body per iteration; what is carried goes from one to the next, scan outputs are stacked."""
    body = _graph(node, "body")
    given = [*node.input, "", ""][: max(len(node.input), 2)]
    carried = given[2:]
    count = _iterations(work, node, body, given)
    scans = len(body.output) - 1 - len(carried)
    if scans < 0 or len(body.input) != 2 + len(carried):
        return None
    if count is None or not _affordable(body, count) or "" in carried or (scans and not count):
        return None
    stem = next((name for name in node.output if name), "loop")
    wanted = [*node.output, *[""] * (len(carried) + scans - len(node.output))]
    condition = work.constant(f"{stem}.runs", np.array(True))
    rows: list[list[str]] = [[] for _ in range(scans)]
    nodes: list[onnx.NodeProto] = []
    for step in range(count):
        number = work.constant(f"{stem}.iteration.{step}", np.array(step, np.int64))
        results = work.fresh(f"{stem}.{step}", len(carried) + scans)
        inputs = [number, condition, *carried]
        nodes += inlined(graph_body(body), inputs, ["", *results], work.names)
        carried = results[: len(carried)]
        for row, result in zip(rows, results[len(carried) :], strict=True):
            row.append(result)
    nodes += [helper.make_node("Identity", [c], [w]) for c, w in zip(carried, wanted, strict=False) if w]
    for row, result in zip(rows, wanted[len(carried) :], strict=True):
        nodes += _stacked(work, row, result, 0) if result else []
    return nodes


def _iterations(work: _Work, node: onnx.NodeProto, body: onnx.GraphProto, given: Sequence[str]) -> int | None:
    """How often a loop runs: its trip count, or before that when a condition that constants decide ends it."""
    trips: int | None = None
    if given[0]:
        count = work.known(given[0])
        if count is None:
            return None
        trips = max(int(count.reshape(-1)[0]), 0)
    running = np.array(True)
    if given[1]:
        first = work.known(given[1])
        if first is None:
            return None
        running = first.reshape(())
    if not bool(running):
        return 0
    part = _condition(body)
    if part is None:
        return None
    state = {body.input[2 + k].name: work.known(given[2 + k]) for k in part.carried}
    outer = {name: work.known(name) for name in part.captured}
    if any(value is None for value in (*state.values(), *outer.values())):
        return None
    step = 0
    while bool(running) and (trips is None or step < trips):
        if not _affordable(body, step):
            return None
        values: dict[str, Array | None] = {
            **outer,
            **state,
            body.input[0].name: np.array(step, np.int64),
            body.input[1].name: running,
        }
        for inner in part.nodes:
            answers = evaluate(inner, [values[name] if name else None for name in inner.input])
            if answers is None:
                return None
            values.update(zip(inner.output, answers, strict=True))
        state = {body.input[2 + k].name: values[body.output[1 + k].name] for k in part.carried}
        after = values[body.output[0].name]
        assert after is not None
        if bool(after) and part.repeats:
            return trips
        running = after.reshape(())
        step += 1
    return step


@dataclass(frozen=True, slots=True)
class _Condition:
    """What computes a loop's condition: nodes, carried values by position, captured names.

    `repeats`: it depends on nothing but the condition before it, so that once true it stays so.
    """

    nodes: tuple[onnx.NodeProto, ...]
    carried: tuple[int, ...]
    captured: tuple[str, ...]
    repeats: bool


def _condition(body: onnx.GraphProto) -> _Condition | None:
    """None where an operator of it has graphs inside or is of another domain."""
    writer = {name: position for position, node in enumerate(body.node) for name in node.output if name}
    place = {value.name: k for k, value in enumerate(body.input[2:])}
    constants = {t.name: helper.make_node("Constant", [], [t.name], value=t) for t in body.initializer}
    pending = [body.output[0].name]
    seen = dict.fromkeys(pending)
    while pending:
        name = pending.pop()
        more: list[str] = []
        if name in writer:
            more = [n for n in body.node[writer[name]].input if n]
        elif name in place:
            more = [body.output[1 + place[name]].name]
        pending += [n for n in more if n not in seen]
        seen.update(dict.fromkeys(more))
    nodes = [body.node[k] for k in sorted({writer[name] for name in seen if name in writer})]
    if any(node.domain or inner_graphs(node) for node in nodes):
        return None
    carried = tuple(place[name] for name in seen if name in place)
    own = {body.input[0].name, body.input[1].name, *constants, *writer, *place}
    captured = tuple(name for name in seen if name not in own)
    repeats = not carried and not captured and body.input[0].name not in seen
    return _Condition((*(constants[n] for n in seen if n in constants), *nodes), carried, captured, repeats)


def _scan(work: _Work, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """One copy of the body per element of the scanned axes."""
    body = _graph(node, "body")
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name != "body"}
    sources = int(attributes["num_scan_inputs"])
    states = list(node.input[: len(node.input) - sources])
    scanned = list(node.input[len(states) :])
    results = len(body.output) - len(states)
    axes = _filled(attributes.get("scan_input_axes"), sources)
    backwards = _filled(attributes.get("scan_input_directions"), sources)
    out_axes = _filled(attributes.get("scan_output_axes"), results)
    out_backwards = _filled(attributes.get("scan_output_directions"), results)
    listed = ((axes, sources), (backwards, sources), (out_axes, results), (out_backwards, results))
    if not 0 < sources <= len(node.input) or results < 0 or any(len(each) != count for each, count in listed):
        return None
    if len(body.input) != len(node.input):
        return None
    shape = work.types[scanned[0]].shape if scanned[0] in work.types else None
    count = shape[axes[0]] if shape and -len(shape) <= axes[0] < len(shape) else None
    if not isinstance(count, int) or not count or not _affordable(body, count + sources):
        return None
    stem = next((name for name in node.output if name), "scan")
    wanted = [*node.output, *[""] * (len(body.output) - len(node.output))]
    rows: list[list[str]] = [[] for _ in range(results)]
    nodes: list[onnx.NodeProto] = []
    for step in range(count):
        elements = work.fresh(f"{stem}.{step}.of", sources)
        for source, axis, reverse, element in zip(scanned, axes, backwards, elements, strict=True):
            at = work.constant(f"{element}.at", np.array(count - 1 - step if reverse else step, np.int64))
            nodes.append(helper.make_node("Gather", [source, at], [element], axis=axis))
        made = work.fresh(f"{stem}.{step}", len(body.output))
        nodes += inlined(graph_body(body), [*states, *elements], made, work.names)
        states = made[: len(states)]
        for row, result in zip(rows, made[len(states) :], strict=True):
            row.append(result)
    nodes += [helper.make_node("Identity", [s], [w]) for s, w in zip(states, wanted, strict=False) if w]
    for row, result, axis, reverse in zip(rows, wanted[len(states) :], out_axes, out_backwards, strict=True):
        nodes += _stacked(work, row[::-1] if reverse else row, result, axis) if result else []
    return nodes


def _stacked(work: _Work, row: Sequence[str], result: str, axis: int) -> list[onnx.NodeProto]:
    """The values of a row one after the other along a new axis."""
    axes = work.constant(f"{result}.axis", np.array([axis], np.int64))
    pieces = work.fresh(f"{result}.piece", len(row))
    nodes = [helper.make_node("Unsqueeze", [v, axes], [piece]) for v, piece in zip(row, pieces, strict=True)]
    return [*nodes, helper.make_node("Concat", pieces, [result], axis=axis)]


def _graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    """The graph that is the attribute `name`."""
    found: onnx.GraphProto = next(attribute.g for attribute in node.attribute if attribute.name == name)
    return found


def _affordable(body: onnx.GraphProto, count: int) -> bool:
    return count * max(sum(len(graph.node) for graph in all_graphs(body)), 1) <= MOST_NODES


def _filled(values: Sequence[int] | None, count: int) -> list[int]:
    return list(values) if values else [0] * count


_RULES = {"If": _if, "Loop": _loop, "Scan": _scan}
