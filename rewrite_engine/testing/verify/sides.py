"""The two sides of a match as programs: what the pattern computes, and what the rule builds or the kernel runs.

In: a candidate and the rule's answer. Out: `Sides`, whose programs take the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.graph.placed import BodyNode
from rewrite_engine.language import values
from rewrite_engine.language.core import ABSENT, Answer, CoreRule, Facts, Refusal, Variant
from rewrite_engine.language.evaluate import answer
from rewrite_engine.language.functions import numpy_dtype
from rewrite_engine.language.meaning import Meaning as Declared
from rewrite_engine.language.program import Match
from rewrite_engine.language.program import Program as Meaning
from rewrite_engine.loops.build import Builder, NeedsValue, Tensor, Unsupported
from rewrite_engine.loops.checks import OutOfRange
from rewrite_engine.loops.compose import compose
from rewrite_engine.loops.compute import Program
from rewrite_engine.loops.operators import OPERATORS
from rewrite_engine.operators.types import Dimension, TensorType
from rewrite_engine.testing.verify.candidate import Candidate, misfit
from rewrite_engine.testing.verify.declared import body, infer_node
from rewrite_engine.testing.verify.node_draft import Array
from rewrite_engine.testing.verify.plan import roomy


class NoProgram(Exception):
    """An operator has no loop nest in this form, so nothing can be computed; the message says which."""


class Misfit(NoProgram):
    """The operands of an operator do not fit it, though their types do not say so."""


class Fault(NoProgram):
    """The engine's own loop nests fail on operands that are allowed: nothing is decided, and it is always said."""


class Invalid(Exception):
    """What the rule builds is no graph; the message says why. `left` is the graph that it was to replace."""

    def __init__(self, message: str, left: Graph) -> None:
        super().__init__(message)
        self.left = left
        self.symbols: Mapping[str, tuple[Dimension, ...]] = {}
        self.hidden: frozenset[str] = frozenset()
        self.unranked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Operators over `inputs` (types) and `constants`; results by name."""

    inputs: Mapping[str, TensorType]
    constants: Mapping[str, Array]
    nodes: tuple[BodyNode, ...]
    outputs: tuple[str, ...]
    meanings: Mapping[str, Declared] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """`left` and `right` compute the same number of results; `facts` is what the rule saw.

    `precise` holds constants of the right side as computed in float64, by name.
    """

    rule: CoreRule
    variant: Variant
    left: Graph
    right: Graph
    composed: bool
    facts: Facts
    precise: Mapping[str, Array] = field(default_factory=dict)


def sides(rule: CoreRule, c: Candidate, facts: Facts | None = None) -> Sides | Refusal:
    """Both sides of a match; a `Refusal` where the rule does not hold for it (or for `facts`, that know less).

    Raises `Invalid` where the rule holds and yet what it builds is no graph of the right types.
    """
    variant = c.plan.variant
    seen = c.facts() if facts is None else facts
    left = left_side(c)
    if rule.kind == "composite":
        return Sides(rule, variant, left, left, True, seen)
    found = answer(rule, variant, seen)
    if isinstance(found, Refusal):
        return found
    right = _right(c, found, left)
    return Sides(rule, variant, left, right, False, seen, _precise(rule, variant, c, found))


def _names(variant: Variant) -> list[str]:
    """A name per slot that a rule file can hold."""
    taken: set[str] = set()
    found = []
    for slot in variant.slots:
        base = "".join(ch if ch.isalnum() or ch == "_" else "_" for ch in slot.name.lstrip("$")).strip("_") or "v"
        base = base if base[0].isalpha() else f"v{base}"
        name = base.lower() if slot.name.startswith("$") else base
        number = 1
        while name in taken:
            number += 1
            name = f"{base.lower() if slot.name.startswith('$') else base}{number}"
        taken.add(name)
        found.append(name)
    return found


def left_side(c: Candidate) -> Graph:
    """What a candidate's variant matches, as a graph."""
    variant = c.plan.variant
    names = _names(variant)
    label = {ABSENT: ""} | dict(enumerate(names))
    nodes = tuple(
        BodyNode(n.op, a, tuple(label[s] for s in n.inputs), tuple(label[s] for s in n.outputs))
        for n, a in zip(variant.nodes, c.effective, strict=True)
    )
    inputs = {names[s]: c.types[s] for s in c.plan.free if s in c.types}
    constants = {names[s]: c.values[s] for s in c.plan.free if s in c.values}
    return Graph(inputs, constants, nodes, tuple(names[s] for s in variant.roots), c.plan.meanings)


def _right(c: Candidate, found: Answer, left: Graph) -> Graph:
    """What the template builds, its types worked out from the sizes at hand."""
    template = c.plan.variant.template
    assert template is not None
    names = _names(c.plan.variant)
    constants = dict(left.constants)
    for k, array in enumerate(found.constants):
        constants[f"constant{k}"] = np.asarray(array)
    types: dict[str, TensorType] = {names[s]: kind for s, kind in c.types.items()}
    types |= {name: TensorType(array.dtype.name, array.shape) for name, array in constants.items()}

    def label(reference: tuple[Any, ...]) -> str:
        match reference:
            case ("slot", int() as slot):
                return names[slot]
            case ("node", node, output):
                return f"built{node}_{output}" if output else f"built{node}"
            case ("constant", k):
                return f"constant{k}"
            case _:
                return ""

    nodes: list[BodyNode] = []
    for index, node in enumerate(template.nodes):
        inputs = tuple(label(reference) for reference in node.inputs)
        outputs = tuple(label(("node", index, k)) for k in range(node.outputs))
        kinds = [types.get(name) for name in inputs]
        known = [constants.get(name) for name in inputs]
        try:
            attributes, results = infer_node(
                left.meanings, node.op, found.attributes[index], kinds, known, node.outputs
            )
        except (RewriteError, ArithmeticError, ValueError, TypeError, LookupError) as error:
            raise Invalid(f"the right side is no graph: {error}", left) from None
        reason = misfit(node.op, kinds, attributes)
        if reason:
            raise Invalid(f"the right side is no graph: {node.op}: {reason}", left)
        types.update(zip(outputs, results, strict=True))
        nodes.append(BodyNode(node.op, attributes, inputs, outputs))
    roots = tuple(label(reference) for reference in template.roots)
    for root, wanted in zip(roots, left.outputs, strict=True):
        if types[root] != types[wanted]:
            raise Invalid(f"the left side is {types[wanted]}, the right side {types[root]}", left)
    reached = _reached(nodes, roots)
    makers = {name for node in left.nodes for name in node.outputs}
    needs = {name for node in nodes for name in node.inputs} | set(roots)
    kept = _left_nodes(left, needs & makers)
    return Graph(left.inputs, constants, (*kept, *reached), roots, left.meanings)


def _reached(nodes: Sequence[BodyNode], roots: Sequence[str]) -> list[BodyNode]:
    wanted, kept = set(roots), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]


def _left_nodes(left: Graph, names: set[str]) -> list[BodyNode]:
    """The operators of the left side that the right side still reads."""
    return _reached(left.nodes, sorted(names)) if names else []


def _precise(rule: CoreRule, variant: Variant, c: Candidate, found: Answer) -> dict[str, Array]:
    """The floating constants that the rule computes, computed again from its constants in float64."""
    program = variant.program
    assert isinstance(program, Meaning) and program.template is not None
    seen = c.facts()
    wide = tuple(
        array.astype(np.float64) if array is not None and _floating(array) else array for array in seen.constants
    )
    match = roomy(Match(variant, replace(seen, constants=wide)))
    for check in program.checks:
        check.run(match)
    precise = {}
    for k, (source, array) in enumerate(zip(program.template.constants, found.constants, strict=True)):
        if not _floating(np.asarray(array)):
            continue
        try:
            value = np.asarray(values.numpy_value(source.run(match)), np.float64)
        except (values.EvaluationError, ArithmeticError, ValueError, TypeError, LookupError):
            continue
        if value.shape == np.asarray(array).shape:
            precise[f"constant{k}"] = value
    return precise


def _floating(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name in ("bfloat16",) or array.dtype.name.startswith("float")


def program_of(graph: Graph, composed: bool = False) -> Program:
    """The computes of a graph, its inputs in order. Raises `NoProgram`."""
    builder = Builder()
    tensors: dict[str, Tensor] = {}
    for name in _sources(graph):
        array = graph.constants.get(name)
        kind = graph.inputs.get(name) or TensorType(array.dtype.name, array.shape)  # type: ignore[union-attr]
        tensors[name] = builder.input([int(n) for n in kind.shape or ()], kind.dtype, array)  # type: ignore[arg-type]
    for node in _with_bodies(graph, builder, tensors):
        compute = OPERATORS.get(node.op)
        if compute is None:
            raise NoProgram(f"there is no loop nest for {node.op}")
        try:
            results = compute(builder, [tensors[name] if name else None for name in node.inputs], node.attributes)
        except IndexError as error:
            raise Misfit(f"{node.op}: {error}") from None
        except (Unsupported, NeedsValue, ValueError, ArithmeticError) as error:
            raise NoProgram(f"{node.op}: {error}") from None
        for name, tensor in zip(node.outputs, results, strict=False):
            if name:
                tensors[name] = tensor
    missing = [name for name in graph.outputs if name not in tensors]
    if missing:
        raise NoProgram(f"no loop nest computes {missing[0]}")
    found = builder.program([tensors[name] for name in graph.outputs])
    return compose(found) if composed else found


def _with_bodies(graph: Graph, builder: Builder, tensors: dict[str, Tensor]) -> Iterator[BodyNode]:
    """The operators in order, declared ones as the operators of their bodies; `tensors` grows as they are computed."""
    known = dict(graph.constants)
    pending = list(reversed(graph.nodes))
    while pending:
        node = pending.pop()
        if node.op not in graph.meanings:
            yield node
            continue
        kinds = [TensorType(tensors[name].dtype, tensors[name].shape) if name else None for name in node.inputs]
        try:
            found = body(graph.meanings, node.op, node.attributes, kinds, [known.get(name) for name in node.inputs],
                         len(node.outputs))  # fmt: skip
        except RewriteError as error:
            raise NoProgram(str(error)) from None
        own = f"{node.outputs[0]}."
        for k, array in enumerate(found.constants):
            known[f"{own}constant{k}"] = np.asarray(array)
            tensors[f"{own}constant{k}"] = builder.constant(array)

        parts = [
            BodyNode(
                inner.op,
                given,
                tuple(_name(r, node, own) for r in inner.inputs),
                tuple(f"{own}{j}.{k}" for k in range(inner.outputs)),
            )
            for j, (inner, given) in enumerate(zip(found.nodes, found.attributes, strict=True))
        ]
        parts += [
            BodyNode("Identity", {}, (_name(root, node, own),), (out,))
            for root, out in zip(found.roots, node.outputs, strict=True)
            if out
        ]
        pending.extend(reversed(parts))


def _name(reference: tuple[str | int, ...], node: BodyNode, own: str) -> str:
    """What a reference of a body is called in the graph that holds it; `own` begins the names of the body's values."""
    match reference:
        case ("input", int() as k):
            return node.inputs[k]
        case ("node", j, k):
            return f"{own}{j}.{k}"
        case ("constant", k):
            return f"{own}constant{k}"
        case _:
            return ""


def _sources(graph: Graph) -> tuple[str, ...]:
    """The inputs and constants of a graph, in a fixed order."""
    return (*graph.inputs, *(name for name in graph.constants if name not in graph.inputs))


def arguments(graph: Graph, drawn: Mapping[str, Any]) -> list[Any]:
    """Values for a program's inputs, in order: `drawn` by name."""
    return [drawn[name] for name in _sources(graph)]


def execute(graph: Graph, program: Program, drawn: Mapping[str, Array]) -> list[Array]:
    """The results in the types of the graph, by the loop nests. Raises `Fault` where these fail."""
    from rewrite_engine.loops.execute import run

    outputs = [np.empty(program.tensors[n].shape, numpy_dtype(program.tensors[n].dtype)) for n in program.outputs]
    try:
        with np.errstate(all="ignore"):
            run(program, arguments(graph, drawn), outputs)
    except OutOfRange as error:
        raise NoProgram(f"the data is refused: {error}") from None
    except (ValueError, IndexError, ArithmeticError) as error:
        raise Fault(f"the loop nests of {', '.join(node.op for node in graph.nodes)} fail: {error}") from None
    return outputs
