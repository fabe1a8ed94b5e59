"""Who runs what: the explored e-graph asked for one kernel per value, within what a module has decided already.

All matching is the e-graph's, and the choice is that of the strategies; this only narrows what they may choose from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite_engine.egraph.encode import attribute_key
from rewrite_engine.egraph.explore import explore
from rewrite_engine.egraph.freeze import Explored
from rewrite_engine.egraph.problem import Kernel, Solution
from rewrite_engine.egraph.regions import merge_regions
from rewrite_engine.graph.annotated_io import HOST, Annotated, undecided, without_copies
from rewrite_engine.graph.placed import KernelCall
from rewrite_engine.graph.terms import ABSENT, Term, Terms, Value
from rewrite_engine.language.core import RuleSet
from rewrite_engine.machine import Machine
from rewrite_engine.operators import effective_attributes
from rewrite_engine.operators.types import TensorType
from rewrite_engine.passes.base import PassError
from rewrite_engine.placement.choosing import Rank, choose
from rewrite_engine.placement.rebuild import rebuild_kernels

UNKNOWN = TensorType("?", None)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A graph without copies and regions, its e-graph, and which kernels there are those that it has already.

    `kept` leads from e-nodes (payloads) to the kernels that stay; `composites` from those of composites that the module
    has, but has no target for.
    """

    annotated: Annotated
    explored: Explored
    kept: Mapping[int, KernelCall]
    composites: Mapping[int, KernelCall]
    origins: Mapping[str, tuple[str, ...]]  # first output of an operator -> the model's operators that it stands for

    def ask(self, name: str, rank: Rank, allowed: Callable[[Kernel], bool]) -> tuple[Annotated, list[int]]:
        """The best kernels among those kept and those allowed (see `choosing.choose`), and their e-nodes."""
        explored, problem = self.explored, self.explored.problem
        settled = self.values(self.kept)
        inner = {v for v in settled if v not in problem.solo}

        def narrowed(kernel: Kernel) -> int | None:
            node = explored.enodes[kernel.payload]
            if kernel.payload in self.kept:
                return 0
            if node.result is not None:
                whole = settled.get(node.inputs[0])
                return rank(kernel) if whole in (None, kernel.target) else None
            if kernel.value in settled or not allowed(kernel):
                return None
            if node.fused is not None and inner.intersection(node.fused.computed(node.slots)):
                return None
            return rank(kernel)

        chosen = choose(explored, narrowed)
        if chosen is None:
            raise PassError(
                f"{name}: some value would be where no link leads back from; allow another target, or declare a link"
            )
        choices = merge_regions(problem, chosen, mergeable=frozenset())
        graph = rebuild_kernels(explored, Solution(choices, (), 0, 0, "feasible"), self.annotated.graph.name)
        given = self.annotated.graph
        flat = without_copies(graph, (value.name for value in explored.terms.values))
        called = given.output_names or given.outputs
        payloads = [problem.kernels[choice.kernel].payload for choice in choices]
        payloads = [p for p in payloads if explored.enodes[p].result is None]
        steps = tuple(self._covering(call, p) for call, p in zip(_calls(flat.steps), payloads, strict=True))
        flat = replace(flat, steps=steps, output_names=() if called == flat.outputs else called)
        present = {*flat.inputs, *flat.parameters, *(output for call in steps for output in call.outputs)}
        pins = {value: place for value, place in self.annotated.pins.items() if value in present}
        return Annotated(flat, pins), payloads

    def values(self, kernels: Mapping[int, KernelCall]) -> dict[int, int]:
        """The values that these e-nodes compute, results of tuples included, and their targets."""
        found = {}
        for kernel in self.explored.problem.kernels:
            if kernel.payload in kernels:
                found[kernel.value] = kernel.target
        for kernel in self.explored.problem.kernels:
            node = self.explored.enodes[kernel.payload]
            if node.result is not None and found.get(node.inputs[0]) == kernel.target:
                found[kernel.value] = kernel.target
        return found

    def _covering(self, call: KernelCall, payload: int) -> KernelCall:
        before = self.kept.get(payload) or self.composites.get(payload)
        if before is not None:
            return replace(call, covers=before.covers)
        return replace(call, covers=tuple(o for name in call.covers for o in self.origins.get(name, (name,))))


def question(
    annotated: Annotated,
    rules: RuleSet,
    machine: Machine,
    name: str,
    targets: Sequence[str],
    allow: Sequence[str] = (),
) -> Question:
    """Explores a graph, whatever passes it has been through. What the host runs is asked anew, all else stays.

    A composite without a target is forgotten when its own target is not among `targets`. `allow` names
    the kinds of rewrites by which values are known to be equal. Raises PassError when
    the rules do not know a kernel that the graph has.
    """
    own = (value for call in annotated.kernels for value in (*call.covers, *call.outputs))
    annotated = replace(annotated, graph=without_copies(annotated.graph, own), regions=False, devices=False)
    terms, origins = terms_of(annotated)
    explored = explore(terms, rules.rules, machine, allow=allow)
    finder = _Finder(explored)
    kept, composites = {}, {}
    for call in annotated.kernels:
        if not call.rule or call.target == HOST:
            continue
        kernel = finder.kernel(call)
        if kernel is not None and call.target:
            kept[kernel.payload] = call
        elif kernel is not None and explored.problem.targets[kernel.target].name in targets:
            composites[kernel.payload] = call
        elif call.target:
            raise PassError(
                f"{name}: the rules have no `{call.rule}` on {call.target} for kernel {call.name}; "
                "give the rules that the module was annotated with"
            )
    return Question(annotated, explored, kept, composites, origins)


def terms_of(annotated: Annotated) -> tuple[Terms, dict[str, tuple[str, ...]]]:
    """The graph's operators, those inside composites included, and what each (by first output) stands for in the model.

    Where a composite computes what an operator outside it computes as well, it is one term.
    """
    graph = annotated.graph
    values: list[Value] = []
    index: dict[str, int] = {}
    nodes: list[Term] = []
    origins: dict[str, tuple[str, ...]] = {}
    known: dict[object, Term] = {}

    def add(name: str, kind: TensorType, constant: object = None) -> int:
        index[name] = len(values)
        values.append(Value(name, kind, constant))  # type: ignore[arg-type]
        return index[name]

    for name in graph.inputs:
        add(name, graph.types[name])
    for name, array in graph.parameters.items():
        if name not in index:
            add(name, graph.types[name], array)
    for call in annotated.kernels:
        local = dict(index) if len(call.body) > 1 else index
        for body in call.body:
            inputs = tuple(local[i] if i else ABSENT for i in body.inputs)
            operands = [None if i == ABSENT else values[i] for i in inputs]
            attributes = effective_attributes(
                body.op,
                body.attributes,
                [None if v is None else v.type for v in operands],
                [None if v is None else v.constant for v in operands],
            )
            key = (body.op, inputs, attribute_key(attributes), len(body.outputs))
            same = None if set(body.outputs) & set(call.outputs) else known.get(key)
            if same is not None and all(i != ABSENT for o, i in zip(body.outputs, same.outputs, strict=True) if o):
                local.update(zip(body.outputs, same.outputs, strict=True))
                continue
            outputs = []
            for output in body.outputs:
                if not output:
                    outputs.append(ABSENT)
                    continue
                kind = graph.types.get(output) if output in call.outputs else call.inner_types.get(output, UNKNOWN)
                local[output] = add(output, kind or UNKNOWN)
                outputs.append(local[output])
            known[key] = term = Term(body.op, attributes, inputs, tuple(outputs))
            nodes.append(term)
            if len(call.body) == 1:
                origins[next(filter(None, body.outputs))] = call.covers
    terms = Terms(
        values=tuple(values),
        nodes=tuple(nodes),
        inputs=tuple(index[name] for name in graph.inputs),
        outputs=tuple(index[name] for name in graph.outputs),
        pins={index[name]: place for name, place in annotated.pins.items()},
    )
    return terms, origins


def own_names(call: KernelCall, payload: int, explored: Explored, taken: set[str]) -> KernelCall:
    """The composite with the model's own names for the values inside it, as far as nothing else has them."""
    node = explored.enodes[payload]
    assert node.fused is not None
    names: dict[str, str] = {}
    for body, inner in zip(call.body, node.fused.variant.nodes, strict=True):
        for output, slot in zip(body.outputs, inner.outputs, strict=False):
            if output in call.inner_types:
                own = (explored.terms.values[i].name for i in explored.classes[node.slots[slot]].values)
                name = next((name for name in own if name and name not in taken), output)
                taken.add(name)
                names[output] = name
    return replace(
        call,
        body=tuple(
            replace(
                body,
                inputs=tuple(names.get(i, i) for i in body.inputs),
                outputs=tuple(names.get(o, o) for o in body.outputs),
            )
            for body in call.body
        ),
        inner_types={names.get(name, name): kind for name, kind in call.inner_types.items()},
    )


def open_again(call: KernelCall) -> KernelCall:
    """The operator of a kernel, with nothing decided of it."""
    return replace(undecided(call.body[0]), covers=call.covers)


def _calls(steps: Sequence[object]) -> list[KernelCall]:
    return [step for step in steps if isinstance(step, KernelCall)]


class _Finder:
    """E-nodes by what a kernel of a graph says of itself: its capability and its operands."""

    def __init__(self, explored: Explored) -> None:
        problem = explored.problem
        self.explored = explored
        self.results: dict[int, set[int]] = defaultdict(set)
        self.found: dict[tuple[str, tuple[int, ...]], list[Kernel]] = defaultdict(list)
        for kernel in problem.kernels:
            node = explored.enodes[kernel.payload]
            if node.result is not None:
                self.results[node.inputs[0]].add(kernel.value)
            else:
                operands = tuple(dict.fromkeys(i for i in node.inputs if i != ABSENT))
                self.found[node.offer.rule, operands].append(kernel)
        self.value = dict(zip((v.name for v in explored.terms.values), explored.class_of, strict=True))

    def kernel(self, call: KernelCall) -> Kernel | None:
        """The kernel of the problem of the same capability, on the same operands, with the same results."""
        operands = tuple(dict.fromkeys(self.value[name] for name in call.inputs))
        outputs = {self.value[name] for name in call.outputs}
        for kernel in self.found[call.rule, operands]:
            made = {kernel.value} if kernel.value not in self.explored.problem.solo else self.results[kernel.value]
            if outputs <= made and call.target in ("", self.explored.problem.targets[kernel.target].name):
                return kernel
        return None
