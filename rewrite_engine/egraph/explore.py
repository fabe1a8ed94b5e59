"""Exploration: rules to saturation, then composites, then placement alternatives; all matching is egglog's.

In: terms, core rules, a machine. Out: `Explored`, the frozen e-graph as a placement problem with the way back to
operators.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rewrite_engine.egraph.compile import Compiler, Consumer, facts
from rewrite_engine.egraph.encode import ABSENT_TYPE, Encoding, load
from rewrite_engine.egraph.freeze import Explored, freeze
from rewrite_engine.egraph.fused import FusedKernel, kernel_inputs
from rewrite_engine.egraph.offers import Capabilities, program, questions
from rewrite_engine.egraph.session import Session
from rewrite_engine.graph.terms import Terms
from rewrite_engine.language.core import Answer, CoreRule, Variant
from rewrite_engine.machine import HOST, Machine, Offer
from rewrite_engine.operators.types import TensorType
from rewrite_engine.pause import collector_paused


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on exploration: e-nodes, the model's own included, rounds of the rules, seconds (None: no limit)."""

    nodes: int = 200_000
    rounds: int = 30
    seconds: float | None = None


DEFAULT_LIMITS = Limits()


@dataclass(slots=True, eq=False)
class _Progress:
    status: str = "complete"
    rounds: int = 0


@collector_paused()
def explore(
    terms: Terms,
    rules: Sequence[CoreRule],
    machine: Machine,
    *,
    allow: Sequence[str] = ("exact", "reassociates"),
    limits: Limits = DEFAULT_LIMITS,
    pins: Mapping[str, str] = {},
    clock: Callable[[str, float], None] = lambda stage, seconds: None,
    trace: bool = False,
) -> Explored:
    """The placement problem of `terms`: everything that the rules allow, on every target that can.

    `allow` names the kinds of rewrites used. `pins` maps value names to a target or device. `clock` is told the seconds
    of the stages "encode" and "saturate". With `trace` the result has what `egraph.trace` walks.
    """
    started = time.perf_counter()
    pins = {terms.values[i].name: place for i, place in terms.pins.items()} | dict(pins)
    targets = {target.name for target in machine.targets}
    machine = machine.reading(terms.values[i].type for i in terms.inputs)
    with Session() as session:
        encoding = load(session, terms)
        session.saturate("view")
        clock("encode", time.perf_counter() - started)
        started = time.perf_counter()
        rewrites = Compiler(encoding, "find")
        rewrites.add([rule for rule in rules if rule.kind == "rule" and (rule.label in allow or rule.defines)])
        progress = _saturate(encoding, rewrites, machine, limits)
        fusions = Compiler(encoding, "fuse", len(rewrites.consumers), len(rewrites.shapes))
        fusions.add([r for r in rules if r.kind == "pattern" or (r.kind == "composite" and r.target in targets)])
        session.run_once("fuse")
        _answer(encoding, fusions, machine)
        session.run_once("apply")
        offers = _place(encoding, rules, machine, pins)
        compilers, status = [rewrites, fusions], progress.status
        explored = freeze(encoding, compilers, machine, offers, pins, status, progress.rounds, trace)
        clock("saturate", time.perf_counter() - started)
        return explored


def _saturate(encoding: Encoding, compiler: Compiler, machine: Machine, limits: Limits) -> _Progress:
    """Rounds of find, answer, apply until nothing is new or a limit is reached."""
    progress = _Progress()
    session, started = encoding.session, time.perf_counter()
    before = 0
    while compiler.consumers:
        session.run_once("find")
        _answer(encoding, compiler, machine)
        progress.rounds += 1
        if not session.run_once("apply"):
            break
        session.saturate("view")
        sizes = session.sizes()
        nodes = sum(sizes[table.symbol] for table in encoding.tables)
        growth, before = nodes / before if before else 1, nodes  # sums in every order grow tenfold and more in a round,
        if nodes * growth > limits.nodes:  # so that to look only afterwards would be to look when memory is full
            progress.status = "nodes"
        elif progress.rounds >= limits.rounds:
            progress.status = "iterations"
        elif limits.seconds is not None and time.perf_counter() - started > limits.seconds:
            progress.status = "time"
        else:
            compiler.grow()
            continue
        break
    return progress


def _answer(encoding: Encoding, compiler: Compiler, machine: Machine) -> None:
    """Answers every new question of the compiler's shapes."""
    for shape in compiler.shapes.values():
        new = [row for row in encoding.session.rows(shape.ask) if row not in shape.asked]
        shape.asked.update(new)
        for consumer in shape.consumers:
            rows = []
            for question in new:
                known = facts(encoding, consumer, question)
                found = None if known is None else machine.ask(consumer.rule, consumer.variant, known)
                if known is not None and isinstance(found, Answer):
                    columns = _columns(encoding, consumer, question, found, machine)
                    consumer.accepted[question] = columns
                    rows.append((*question, *columns))
            if consumer.rule.kind != "pattern":
                encoding.session.facts(consumer.relation, rows)


def _columns(
    encoding: Encoding, consumer: Consumer, question: tuple[int, ...], found: Answer, machine: Machine
) -> tuple[int, ...]:
    """The answer as interned integers, in the order that the apply rule expects."""
    kind, variant = consumer.rule.kind, consumer.variant
    if kind == "pattern":
        return ()
    if kind == "composite":
        return _fused(encoding, consumer, question, found, machine)
    columns = []
    for array in found.constants:
        constant = encoding.constant_id(array)
        columns += [constant, encoding.type_id(TensorType(str(array.dtype), array.shape))]
    assert variant.template is not None
    for node, attributes, types in zip(variant.template.nodes, found.attributes, found.types, strict=True):
        columns.append(encoding.attribute_id(attributes))
        if node.outputs == 1:
            columns.append(encoding.type_id(types[0]))
        else:
            columns.append(encoding.type_id(tuple(types)))
            columns += [encoding.type_id(kind) for kind in types]
    return tuple(columns)


def _fused(
    encoding: Encoding, consumer: Consumer, question: tuple[int, ...], found: Answer, machine: Machine
) -> tuple[int, ...]:
    known = facts(encoding, consumer, question)
    assert known is not None
    variant = consumer.variant
    inputs = [known.types[slot] for slot in kernel_inputs(variant)]
    outputs = [known.types[slot] for slot in variant.roots]
    index = next(k for k, target in enumerate(machine.targets) if target.name == consumer.rule.target)
    nodes = applications(variant, known.attributes, known.types)
    offer = machine.offer(index, consumer.rule.name, found, nodes, inputs, outputs)
    attributes = found.attributes[0] if found.attributes else {}
    kernel = FusedKernel(
        consumer.rule, variant, consumer.shape.index, question, known.attributes, known.types, attributes, offer
    )
    number = encoding.attributes(("fused", consumer.index, question), kernel)
    return (number,) if len(variant.roots) == 1 else (number, encoding.type_id(tuple(outputs)))


def applications(
    variant: Variant, attributes: Sequence[Mapping[str, object]], types: Sequence[TensorType]
) -> list[tuple[str, Mapping[str, object], list[TensorType | None], list[TensorType]]]:
    """The operators that a match computes, with their attributes and types."""
    return [
        (
            node.op,
            given,
            [None if slot < 0 else types[slot] for slot in node.inputs],
            [ABSENT_TYPE if slot < 0 else types[slot] for slot in node.outputs],
        )
        for node, given in zip(variant.nodes, attributes, strict=True)
    ]


def _place(encoding: Encoding, rules: Sequence[CoreRule], machine: Machine, pins: Mapping[str, str]) -> list[Offer]:
    """Asks who can run what, answers, and saturates the placement rules; the offers, by number."""
    session = encoding.session
    asked = questions(encoding, rules)
    session.run(program(encoding, asked))
    session.run_once("ask")
    capabilities = Capabilities(encoding, machine, [])
    for question in asked:
        _tell(session, question.relation, partial(capabilities.answer, question))
    for table in sorted(t for t in encoding.tables if t.fused):
        _tell(session, table.symbol, capabilities.fused)
    device = {d.name: k for k, d in enumerate(machine.devices)}
    session.facts("target", [(k, device[target.device]) for k, target in enumerate(machine.targets)])
    tensors = [(k, kind) for k, kind in enumerate(encoding.types.items) if isinstance(kind, TensorType)]
    session.facts("tensor", [(k,) for k, kind in tensors if kind != ABSENT_TYPE])
    pairs = machine.pairs
    session.facts("link", [(k, device[a], device[b]) for k, _ in tensors for a, b in pairs])
    terms = encoding.terms
    where = {name: device_of(machine, place) for name, place in pins.items()}
    session.facts("given", [(i, device[where.get(terms.values[i].name, HOST)]) for i in terms.inputs])
    session.facts("wanted", [(i, device[where.get(terms.values[i].name, HOST)]) for i in dict.fromkeys(terms.outputs)])
    session.saturate("place")
    return capabilities.offers


def _tell(session: Session, relation: str, answer_row: Callable[[tuple[int, ...]], list[tuple[int, int]]]) -> None:
    rows = session.rows(f"ask.{relation}")
    session.facts(f"can.{relation}", [(*row, *found) for row in rows for found in answer_row(row)])


def device_of(machine: Machine, place: str) -> str:
    """The device that a pin names, directly or by a target on it."""
    for target in machine.targets:
        if target.name == place:
            return target.device
    return machine.device(place).name
